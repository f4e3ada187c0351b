//! What a person sees: one line a step, progress of long work, tables. All on standard error but results.
//!
//! Colours and bars only on a terminal; elsewhere a line now and then, so that a CI log shows that work goes on.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use console::{Alignment, Style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A line for people, to standard error. Whoever reads it may have gone (`2>&1 | head`): no reason to fail.
pub fn say(line: &str) {
    // What a test says is captured only where the macro says it.
    #[cfg(test)]
    eprintln!("{line}");
    #[cfg(not(test))]
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// One line that says what begins, e.g. `    fetch  mariadb 10.11.18`.
pub fn step(verb: &str, what: &str) {
    let bold = Style::new().for_stderr().green().bold();
    say(&format!("{} {what}", bold.apply_to(format!("{verb:>10}"))));
}

/// One line that a person should not miss.
pub fn warn(what: &str) {
    let bold = Style::new().for_stderr().yellow().bold();
    say(&format!("{} {what}", bold.apply_to(format!("{:>10}", "warning"))));
}

/// A result, to standard output. Whoever reads us may have gone (`| head`): no reason to fail.
pub fn print(text: &str) {
    let _ = std::io::stdout().write_all(format!("{text}\n").as_bytes());
}

/// `1 connection`, `8 connections`.
pub fn counted(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// How far a long piece of work is.
pub struct Progress {
    bar: ProgressBar,
    verb: &'static str,
    begun: Instant,
    last_said: Instant,
    first: u64,
    bytes: bool,
}

/// Seconds between two progress lines where no terminal shows a bar.
const LINE_EVERY: Duration = Duration::from_secs(20);

impl Progress {
    /// Progress over steps: `[n/total]` with the time left.
    pub fn steps(verb: &'static str, total: u64) -> Self {
        Self::new(verb, total, "{prefix:>10} [{pos}/{len}] {wide_bar} {eta} left", false)
    }

    /// Progress over seconds whose number is known.
    pub fn seconds(verb: &'static str, total: u64) -> Self {
        Self::new(verb, total, "{prefix:>10} {pos} of {len} s {wide_bar}", false)
    }

    /// Progress over bytes.
    pub fn bytes(verb: &'static str, total: u64) -> Self {
        Self::new(
            verb,
            total,
            "{prefix:>10} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta} left",
            true,
        )
    }

    fn new(verb: &'static str, total: u64, template: &str, bytes: bool) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(verb);
        let now = Instant::now();
        Progress { bar, verb, begun: now, last_said: now, first: 0, bytes }
    }

    /// Where the work began, when it continues an earlier attempt: the time left is computed from there.
    pub fn begin_at(&mut self, position: u64) {
        self.first = position;
        self.bar.set_position(position);
        self.bar.reset_eta();
    }

    /// The work has come to `position` of `total`.
    pub fn at(&mut self, position: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(position);
        if self.bar.is_hidden() && self.last_said.elapsed() >= LINE_EVERY {
            self.last_said = Instant::now();
            say(&format!("{:>10} {}", self.verb, self.line(position, total)));
        }
    }

    fn line(&self, position: u64, total: u64) -> String {
        let done = position.saturating_sub(self.first);
        let left = total.saturating_sub(position);
        let eta = self.begun.elapsed().as_secs_f64() / done.max(1) as f64 * left as f64;
        let left = duration(Duration::from_secs_f64(eta));
        if self.bytes {
            format!("{} of {} MiB, {left} left", position >> 20, total >> 20)
        } else {
            format!("[{position}/{total}] {left} left")
        }
    }

    /// Removes the bar.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}

/// `1 h 02 min`, `3 min 20 s`, `4.2 s`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Whether standard output is a terminal: people read it, not programs.
pub fn on_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// A table: aligned on a terminal, tab-separated elsewhere.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these column names.
    pub fn new(columns: &[&str]) -> Self {
        Table { rows: vec![columns.iter().map(|c| c.to_string()).collect()] }
    }

    /// Adds a row. Tabs and line ends in it become spaces, so that a row stays a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| cell.replace(['\t', '\n', '\r'], " ")).collect());
    }

    /// Prints it to standard output.
    pub fn print(&self) {
        print(self.render(on_terminal()).trim_end());
    }

    /// The table as text; `aligned` for people, else one tab between cells.
    pub fn render(&self, aligned: bool) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| console::measure_text_width(cell))
                .max()
        };
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        let aligns: Vec<Alignment> = (0..columns).map(|column| self.alignment(column)).collect();
        let mut text = String::new();
        for row in &self.rows {
            let pad =
                |(i, cell): (usize, &String)| console::pad_str(cell, widths[i], aligns[i], None).into_owned();
            let line = if aligned {
                row.iter().enumerate().map(pad).collect::<Vec<_>>().join("  ")
            } else {
                row.join("\t")
            };
            text.push_str(line.trim_end_matches(' '));
            text.push('\n');
        }
        text
    }

    /// Columns of numbers to the right, of words to the left; the name stands where its column does.
    fn alignment(&self, column: usize) -> Alignment {
        let number = |cell: &String| cell == "-" || cell.parse::<f64>().is_ok();
        let numbers = self.rows[1..].iter().filter_map(|row| row.get(column)).all(number);
        if numbers && self.rows.len() > 1 { Alignment::Right } else { Alignment::Left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["workload", "per second"]);
        table.row(["do0".into(), "120".into()]);
        table.row(["point\tselect".into(), "9".into()]);
        table
    }

    #[test]
    fn columns_line_up_on_a_terminal() {
        assert_eq!(
            table().render(true),
            "workload      per second\ndo0                  120\npoint select           9\n"
        );
    }

    #[test]
    fn elsewhere_a_tab_separates_cells_and_no_cell_holds_one() {
        assert_eq!(table().render(false), "workload\tper second\ndo0\t120\npoint select\t9\n");
    }

    #[test]
    fn durations_read_as_people_say_them() {
        assert_eq!(duration(Duration::from_millis(4200)), "4.2 s");
        assert_eq!(duration(Duration::from_secs(200)), "3 min 20 s");
        assert_eq!(duration(Duration::from_secs(3720)), "1 h 02 min");
    }
}
