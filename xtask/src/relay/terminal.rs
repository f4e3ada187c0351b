//! The relay's terminal, if it has one: the program gets one as well, and every key goes there.

use std::io::IsTerminal;

use model::agent::{Run, Terminal};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// A terminal that passes on every key. Dropped, it is as it was.
pub struct Raw {
    before: Termios,
}

impl Raw {
    /// Where a person sits at standard input and output, asks for a terminal for the program.
    pub fn begin(run: &mut Run) -> Option<Self> {
        if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
            return None;
        }
        let (rows, columns) = size()?;
        let before = tcgetattr(std::io::stdin()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(std::io::stdin(), OptionalActions::Drain, &raw).ok()?;
        let kind = std::env::var("TERM").unwrap_or_else(|_| "dumb".into());
        run.terminal = Some(Terminal { rows, columns, kind });
        Some(Raw { before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Drain, &self.before);
    }
}

/// Rows and columns of the terminal at standard output.
pub fn size() -> Option<(u16, u16)> {
    let size = tcgetwinsize(std::io::stdout()).ok()?;
    Some((size.ws_row, size.ws_col))
}
