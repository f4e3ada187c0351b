//! An operation: its commands one after the other, and what becomes of one that fails.

use mio::Token;

use super::super::ErrorCode;
use super::super::connection::{Cause, Doing};
use super::ServerWorker;

/// Server errors after which an operation is begun again: a deadlock, and a lock that was not got in time.
const RETRIED: [u16; 2] = [1213, 1205];
/// How often at most.
const MAX_RETRIES: u32 = 10;

impl ServerWorker {
    /// Counts what the server refused, unless it is to be tried again.
    pub(super) fn refused(&mut self, index: usize, code: u16) {
        let connection = &mut self.connections[index];
        connection.again = RETRIED.contains(&code) && connection.retries < MAX_RETRIES;
        if connection.again {
            connection.retries += 1;
            self.context.recorder.retried(code);
        } else {
            self.context.failed(ErrorCode::Server(code));
        }
    }

    /// A failed transaction's work is undone before anything else is done on its connection.
    pub(super) fn take_back(&mut self, index: usize, now: u64) -> Result<(), Cause> {
        if self.context.commands == 1 {
            self.ended_operation(index, Doing::Busy, now);
            return Ok(());
        }
        let connection = &mut self.connections[index];
        connection.session.query("ROLLBACK")?;
        connection.doing = Doing::RollingBack;
        connection.since_ns = now;
        self.context.questions += 1;
        connection.write(&self.registry, Token(index))
    }

    /// The connection is free: for the same operation once more, or the next.
    #[inline]
    pub(super) fn ended_operation(&mut self, index: usize, doing: Doing, now: u64) {
        self.in_flight -= u32::from(matches!(doing, Doing::Busy | Doing::RollingBack));
        self.connections[index].doing = Doing::Idle;
        self.advance(index, now);
    }

    /// From here on a loss is this operation's failure.
    #[inline]
    pub(super) fn begin_operation(&mut self, index: usize, now: u64) -> Result<(), Cause> {
        let connection = &mut self.connections[index];
        connection.doing = Doing::Busy;
        connection.step = 0;
        self.in_flight += 1;
        self.ask(index, now)
    }

    /// Sends the operation's next command.
    #[inline]
    pub(super) fn ask(&mut self, index: usize, now: u64) -> Result<(), Cause> {
        let connection = &mut self.connections[index];
        let workload = &self.context.workload;
        connection.since_ns = now;
        let out = connection.session.begin_command()?;
        workload.encode(connection.number, connection.step, &connection.statements, out);
        connection.session.end_command(workload.expect(connection.step));
        self.context.questions += 1;
        connection.write(&self.registry, Token(index))
    }
}
