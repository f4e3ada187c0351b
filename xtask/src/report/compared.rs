//! A workload and the program that it is modelled on, side by side.

use std::collections::BTreeMap;

use model::Message;
use model::record::{Compared, Line};

use crate::ui::Table;

/// One turn: a figure of one and the same of the other.
pub type Turn = (f64, f64);

/// What the two gave, turn by turn.
#[derive(Default)]
struct Both {
    program: String,
    /// By phase, in the order in which they came.
    phases: Vec<(String, Vec<Turn>)>,
    /// Client CPU microseconds an operation, ours and theirs.
    cpu_us: Vec<Turn>,
}

/// The comparison of a record; `None` where it holds none.
pub fn table(record: &[Line]) -> Option<Table> {
    let both = read(record)?;
    let theirs = format!("{} ops/s", both.program);
    let mut table = Table::new(&["phase", "ops/s", &theirs, "ratio", "least", "most", "turns"]);
    let mut row = |name: &str, turns: &[Turn], digits: usize| {
        table.row([name.to_string()].into_iter().chain(ratios(turns, digits)));
    };
    both.phases.iter().for_each(|(name, turns)| row(name, turns, 0));
    if !both.cpu_us.is_empty() {
        row("client us/op", &both.cpu_us, 2);
    }
    Some(table)
}

/// Cells of two that ran in turn: their medians, and the median, least and most of their ratios; how many turns.
pub fn ratios(turns: &[Turn], digits: usize) -> [String; 6] {
    let ratios: Vec<f64> = turns.iter().map(|(one, other)| one / other).collect();
    let number = |value: f64| format!("{value:.digits$}");
    let ratio = |value: f64| format!("{value:.2}");
    [
        number(median(turns.iter().map(|turn| turn.0))),
        number(median(turns.iter().map(|turn| turn.1))),
        ratio(median(ratios.iter().copied())),
        ratio(ratios.iter().copied().fold(f64::INFINITY, f64::min)),
        ratio(ratios.iter().copied().fold(0.0, f64::max)),
        turns.len().to_string(),
    ]
}

fn read(record: &[Line]) -> Option<Both> {
    let mut theirs: BTreeMap<u32, &Compared> = BTreeMap::new();
    for line in record {
        if let Line::Compared { index, ran } = line {
            theirs.insert(*index, ran);
        }
    }
    let mut both = Both { program: theirs.values().next()?.program.clone(), ..Both::default() };
    for line in record {
        let Line::Message { index, said } = line else { continue };
        let Some(ran) = theirs.get(index) else { continue };
        match said {
            Message::Part { part, measured } => {
                let phase = ran.phases.iter().find(|phase| phase.phase == *part && phase.elapsed_s > 0.0);
                if let (Some(ours), Some(phase)) = (measured.throughput_per_s, phase) {
                    both.phase(part).push((ours, phase.operations as f64 / phase.elapsed_s));
                }
            }
            Message::Finished(measured) => {
                let operations: u64 = ran.phases.iter().map(|phase| phase.operations).sum();
                let cpu = measured.client_cpu;
                let us = |seconds: f64, operations: u64| seconds * 1e6 / operations as f64;
                if let Some(cpu_s) = ran.cpu_s.filter(|_| operations > 0 && measured.operations > 0) {
                    let ours = us(cpu.user_s + cpu.system_s, measured.operations);
                    both.cpu_us.push((ours, us(cpu_s, operations)));
                }
            }
            _ => {}
        }
    }
    Some(both)
}

impl Both {
    fn phase(&mut self, name: &str) -> &mut Vec<Turn> {
        let at = self.phases.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            self.phases.push((name.to_string(), Vec::new()));
            self.phases.len() - 1
        });
        &mut self.phases[at].1
    }
}

/// The middle value, or the mean of the two in the middle; not a number where there is none.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_an_even_number_is_between_two() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
        assert!(median(std::iter::empty()).is_nan());
    }
}
