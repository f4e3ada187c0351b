//! Standard output: one message a line, flushed one by one. Standard error: lines for people.

use std::io::Write;

use model::Message;
use model::message::{Caveat, CaveatKind, Phase};

/// A line for people, to standard error. Whoever reads it may have gone: no reason to end.
pub fn for_people(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Where messages go.
pub struct Output {
    to: Box<dyn Write>,
    phase: Option<Phase>,
}

impl Output {
    /// Writes messages to `to`.
    pub fn new(to: Box<dyn Write>) -> Self {
        Output { to, phase: None }
    }

    /// Writes a message. Without a reader there is nothing left to do: the program ends.
    pub fn say(&mut self, message: &Message) {
        let line = serde_json::to_string(message).unwrap_or_else(|error| {
            for_people(&format!("bench-suite: cannot write a message: {error}"));
            std::process::exit(3)
        });
        if let Err(error) = writeln!(self.to, "{line}").and_then(|()| self.to.flush()) {
            for_people(&format!("bench-suite: nobody reads standard output ({error}); giving up"));
            std::process::exit(3);
        }
    }

    /// A phase begins.
    pub fn phase(&mut self, phase: Phase) {
        self.phase = Some(phase);
        self.say(&Message::Phase { phase });
    }

    /// The current phase.
    pub fn current_phase(&self) -> Option<Phase> {
        self.phase
    }

    /// Something a reader of the result must know.
    pub fn caveat(&mut self, kind: CaveatKind, detail: impl Into<String>) {
        self.say(&Message::Caveat(Caveat { kind, detail: detail.into() }));
    }
}
