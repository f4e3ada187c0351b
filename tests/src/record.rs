//! Records as the tests look at them.

use std::path::Path;

use model::Message;
use model::message::{CaveatKind, Facts, Measurement};
use model::record::{Header, Line, MachineUp, Outcome, ServerFacts};

use crate::{Ended, call, read_record, record_files, records};

/// A record, read and checked.
pub struct Record {
    /// Its lines.
    pub lines: Vec<Line>,
}

impl Record {
    /// Reads a record's file.
    pub fn read(file: &Path) -> Self {
        Record { lines: read_record(file) }
    }

    /// Its header.
    pub fn header(&self) -> &Header {
        match &self.lines[0] {
            Line::Header(header) => header,
            other => panic!("the first line is {other:?}"),
        }
    }

    /// The server's machine.
    pub fn machine(&self) -> &MachineUp {
        let found = self.lines.iter().find_map(|line| match line {
            Line::Machine(up) if up.role == "server" => Some(&**up),
            _ => None,
        });
        found.expect("the server's machine")
    }

    /// What the load generator said of its machine.
    pub fn hello(&self) -> &Facts {
        let found = self.lines.iter().find_map(|line| match line {
            Line::Message { said: Message::Hello { facts, .. }, .. } => Some(facts),
            _ => None,
        });
        found.expect("the load generator's facts")
    }

    /// What the server said of itself.
    pub fn server(&self) -> &ServerFacts {
        let found = self.lines.iter().find_map(|line| match line {
            Line::Server(facts) => Some(facts),
            _ => None,
        });
        found.expect("the server's facts")
    }

    /// What was measured, a workload each.
    pub fn measurements(&self) -> Vec<&Measurement> {
        let finished = self.lines.iter().filter_map(|line| match line {
            Line::Message { said: Message::Finished(measured), .. } => Some(&**measured),
            _ => None,
        });
        finished.collect()
    }

    /// Whether it warns of that.
    pub fn has_caveat(&self, kind: CaveatKind) -> bool {
        self.lines.iter().any(|line| match line {
            Line::Caveat(caveat) | Line::Message { said: Message::Caveat(caveat), .. } => caveat.kind == kind,
            _ => false,
        })
    }

    /// What every record of a real server must hold.
    pub fn expect_sound(&self, workloads: usize) {
        assert!(matches!(self.lines.last(), Some(Line::End { outcome: Outcome::Complete, .. })));
        assert_eq!(self.measurements().len(), workloads);
        for measured in self.measurements() {
            assert!(measured.operations > 0 && measured.errors.is_empty(), "{measured:?}");
            assert_eq!(
                measured.server_questions,
                Some(measured.client_questions),
                "the server counted otherwise"
            );
            assert_eq!(measured.connections_up_at_end, measured.connections);
            assert!(measured.server_cpu.is_some_and(|cpu| cpu.user_s + cpu.system_s > 0.0), "{measured:?}");
        }
        let verified = self.lines.iter().filter_map(|line| match line {
            Line::Message { said: Message::Verified { checks, .. }, .. } => Some(checks),
            _ => None,
        });
        let verified: Vec<_> = verified.collect();
        assert_eq!(verified.len(), 2 * workloads, "data is verified before and after each workload");
        assert!(
            verified.iter().all(|checks| !checks.is_empty() && checks.iter().all(|check| check.passed()))
        );
    }
}

/// A bench that must succeed: how it ended, and its records in their order.
pub fn bench(arguments: &[&str]) -> (Ended, Vec<Record>) {
    let folder = records();
    let path = folder.path().display().to_string();
    let mut all = vec!["bench", "--records", &path];
    all.extend(arguments);
    let ended = call(&all).run().expect_code(0);
    let records = record_files(folder.path()).iter().map(|file| Record::read(file)).collect();
    (ended, records)
}
