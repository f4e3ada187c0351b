//! The control connection: one blocking conversation for loading, checking and asking for status.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};
use model::message::FailedKind;
use model::request::{Account, Endpoint};

use crate::client::{ClientError, Event, Expect, Reply, ServerError, Session, command};
use crate::failure::Failure;
use crate::transport::{self, Socket};

/// How often a wait looks at the interrupt flag.
const TICK: Duration = Duration::from_millis(100);

/// A server and how to reach it.
#[derive(Clone, Debug)]
pub struct Server {
    /// Where it listens.
    pub endpoint: Endpoint,
    /// Who logs in.
    pub account: Account,
    /// Longest time to wait for a reply.
    pub reply_timeout: Duration,
}

/// A blocking connection.
pub struct Control {
    server: Server,
    socket: Socket,
    session: Session,
    poll: Poll,
    interrupted: Arc<AtomicBool>,
    patience: Duration,
    questions: u64,
}

/// Why a query has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The server answered with an error.
    #[error("{0}")]
    Server(ServerError),
    /// The conversation is over.
    #[error("{0}")]
    Client(#[from] ClientError),
    /// The socket is.
    #[error("connection lost: {0}")]
    Io(#[from] io::Error),
    /// No answer in time.
    #[error("no reply within {0} s (reply_timeout_s bounds it)")]
    Timeout(f64),
    /// The user ended the run.
    #[error("interrupted")]
    Interrupted,
}

impl ControlError {
    /// As a failure: `if_refused` where the server said no.
    pub fn into_failure(self, doing: &str, if_refused: FailedKind) -> Failure {
        let kind = match &self {
            ControlError::Server(_) => if_refused,
            ControlError::Client(ClientError::Protocol(_)) => FailedKind::Protocol,
            ControlError::Client(_) | ControlError::Io(_) | ControlError::Timeout(_) => {
                FailedKind::ServerLost
            }
            ControlError::Interrupted => return Failure::interrupted(),
        };
        Failure::new(kind, format!("{doing}: {self}"))
    }
}

/// Rows as text; NULL is `NULL`.
pub type Table = Vec<Vec<String>>;

impl Control {
    /// Connects and logs in.
    pub fn connect(server: &Server, interrupted: &Arc<AtomicBool>) -> Result<Self, Failure> {
        let place = transport::describe(&server.endpoint);
        let cannot = |error: &dyn std::fmt::Display| {
            let detail = format!("cannot connect to {place}: {error}; is the server running?");
            Failure::new(FailedKind::CannotConnect, detail)
        };
        let deadline = Instant::now() + server.reply_timeout;
        let mut socket = loop {
            match Socket::connect(&server.endpoint) {
                // The queue of a UNIX socket is full: the server is busy or stopped.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if interrupted.load(Ordering::Relaxed) {
                        return Err(Failure::interrupted());
                    }
                    if Instant::now() > deadline {
                        return Err(cannot(&"the server accepts no connections"));
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
                other => break other.map_err(|error| cannot(&error))?,
            }
        };
        let poll = Poll::new().map_err(|error| cannot(&error))?;
        poll.registry()
            .register(&mut socket, Token(0), Interest::READABLE | Interest::WRITABLE)
            .map_err(|error| cannot(&error))?;
        let mut control = Control {
            session: Session::new(
                &server.account.user,
                &server.account.password,
                transport::channel(&server.endpoint),
            ),
            server: server.clone(),
            socket,
            poll,
            interrupted: interrupted.clone(),
            patience: server.reply_timeout,
            questions: 0,
        };
        match control.exchange(|_| ()) {
            Ok(()) => Ok(control),
            Err(ControlError::Client(error)) => {
                Err(Failure::login(&server.account.user, control.session.plugin(), &error))
            }
            Err(ControlError::Interrupted) => Err(Failure::interrupted()),
            Err(error) => Err(cannot(&error)),
        }
    }

    /// A new connection to the same server, in place of this one.
    pub fn reconnect(&mut self) -> Result<(), Failure> {
        *self = Control::connect(&self.server, &self.interrupted)?;
        Ok(())
    }

    /// Statements sent so far that the server's `Questions` counter counts.
    pub fn questions(&self) -> u64 {
        self.questions
    }

    /// The server's version, as it greeted us.
    pub fn server_version(&self) -> &str {
        self.session.version()
    }

    /// Waits at least this long for each reply: for statements that do bulk work.
    pub fn set_patience(&mut self, least: Duration) {
        self.patience = self.server.reply_timeout.max(least);
    }

    /// From now on an interrupt does not end a wait, which lasts `most` at the most.
    pub fn ignore_interrupts(&mut self, most: Duration) {
        self.interrupted = Arc::default();
        self.patience = self.server.reply_timeout.min(most);
    }

    /// Runs a statement; its rows as text.
    pub fn query(&mut self, sql: &str) -> Result<Table, ControlError> {
        self.session.query(sql)?;
        self.questions += 1;
        self.exchange(table)?
    }

    /// Runs a statement; the first value of its first row.
    pub fn value(&mut self, sql: &str) -> Result<Option<String>, ControlError> {
        let table = self.query(sql)?;
        Ok(table.into_iter().next().and_then(|row| row.into_iter().next()))
    }

    /// Prepares a statement without parameters and executes it: rows come in binary.
    pub fn query_prepared(&mut self, sql: &str) -> Result<Table, ControlError> {
        self.session.prepare(sql)?;
        let statement = self.exchange(|event| match event {
            Event::Reply(Reply::Prepared(prepared)) => prepared.statement,
            _ => 0,
        })?;
        let out = self.session.begin_command()?;
        out.push(command::STMT_EXECUTE);
        out.extend_from_slice(&statement.to_le_bytes());
        out.extend_from_slice(&[0, 1, 0, 0, 0]);
        self.session.end_command(Expect::Binary);
        self.questions += 1;
        let rows = self.exchange(table)?;
        self.session.close_statement(statement)?;
        self.move_bytes()?;
        rows
    }

    /// Sends what is to be sent and waits for the login or the reply.
    fn exchange<T>(&mut self, take: impl FnOnce(Event<'_>) -> T) -> Result<T, ControlError> {
        let deadline = Instant::now() + self.patience;
        let mut events = Events::with_capacity(4);
        loop {
            // A server that refuses a login says why and closes: what it said comes first.
            let moved = self.move_bytes();
            match self.session.next_event()? {
                Some(Event::Reply(Reply::Error(error))) => return Err(ControlError::Server(error)),
                Some(event) => return Ok(take(event)),
                None => moved?,
            }
            // What came may have to be answered: the greeting, a change of plugin.
            if !self.session.outgoing().is_empty() {
                self.move_bytes()?;
            }
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(ControlError::Interrupted);
            }
            if Instant::now() > deadline {
                return Err(ControlError::Timeout(self.patience.as_secs_f64()));
            }
            match self.poll.poll(&mut events, Some(TICK)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error.into()),
                _ => {}
            }
        }
    }

    /// Writes and reads as much as goes without waiting.
    fn move_bytes(&mut self) -> Result<(), ControlError> {
        while !self.session.outgoing().is_empty() {
            match self.socket.write(self.session.outgoing()) {
                Ok(count) => self.session.sent(count),
                Err(error) if waits(&error) => break,
                Err(error) => return Err(error.into()),
            }
        }
        loop {
            match self.socket.read(self.session.space()) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(count) => self.session.received(count),
                Err(error) if waits(&error) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Control {
    /// Leaves politely: a server counts and logs clients that just vanish.
    fn drop(&mut self) {
        if self.session.quit().is_ok() {
            let _ = self.socket.write(self.session.outgoing());
        }
    }
}

fn waits(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, NotConnected, WouldBlock};
    matches!(error.kind(), Interrupted | NotConnected | WouldBlock)
}

fn table(event: Event<'_>) -> Result<Table, ControlError> {
    let Event::Reply(Reply::Rows(rows)) = event else { return Ok(Table::new()) };
    let decoded = rows.decode().map_err(ClientError::from)?;
    Ok(decoded.iter().map(|row| row.0.iter().map(ToString::to_string).collect()).collect())
}
