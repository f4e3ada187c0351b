//! One connection of a thread: a socket, a conversation, and what it is doing.

use std::io::{self, Read, Write};

use mio::{Interest, Registry, Token};
use model::request::Endpoint;

use super::ErrorCode;
use crate::client::{Channel, ClientError, Session};
use crate::transport::{self, Socket};

const FIRST_BACKOFF_NS: u64 = 10_000_000;
const LAST_BACKOFF_NS: u64 = 1_000_000_000;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Nothing; it is to be connected again.
    Down,
    /// Connecting or logging in.
    LoggingIn,
    /// Asking for its TLS cipher.
    Inspecting,
    /// Preparing the statement.
    Preparing,
    /// Waiting for work.
    Idle,
    /// An operation is in flight.
    Busy,
    /// Taking back what a failed operation has done.
    RollingBack,
}

/// Why a connection is not up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Not tried yet.
    New,
    /// Nobody listens.
    Refused,
    /// The queue of the socket is full, or nobody answers.
    Timeout,
    /// The server closed it.
    Closed,
    /// Another error of the socket.
    Socket(io::ErrorKind),
    /// The conversation ended.
    Client(ClientError),
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cause::New => f.write_str("not tried"),
            Cause::Refused => f.write_str("nobody listens there"),
            Cause::Timeout => f.write_str("no reply in time"),
            Cause::Closed => f.write_str("closed by the server"),
            Cause::Socket(kind) => kind.fmt(f),
            Cause::Client(error) => error.fmt(f),
        }
    }
}

impl Cause {
    /// As an operation's error, if one was in flight.
    pub fn code(&self) -> ErrorCode {
        match self {
            Cause::Timeout => ErrorCode::ReplyTimeout,
            Cause::Client(ClientError::Protocol(_)) => ErrorCode::Protocol,
            _ => ErrorCode::ConnectionLost,
        }
    }
}

impl From<io::Error> for Cause {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof, WouldBlock};
        match error.kind() {
            _ if transport::nobody_listens(&error) => Cause::Refused,
            BrokenPipe | ConnectionReset | UnexpectedEof => Cause::Closed,
            WouldBlock => Cause::Timeout,
            kind => Cause::Socket(kind),
        }
    }
}

impl From<ClientError> for Cause {
    fn from(error: ClientError) -> Self {
        Cause::Client(error)
    }
}

/// A connection.
pub struct Connection {
    socket: Option<Socket>,
    /// The conversation on the socket.
    pub session: Session,
    /// What it is doing.
    pub doing: Doing,
    /// Since when it waits for a reply.
    pub since_ns: u64,
    /// When the operation in flight was due.
    pub due_ns: u64,
    /// When it was sent.
    pub sent_ns: u64,
    /// Whether it is among those that wait for an operation to be due.
    pub waits_for_due: bool,
    /// The operation in flight.
    pub number: u64,
    /// Which of its commands.
    pub step: u32,
    /// How often it was begun again.
    pub retries: u32,
    /// Whether it is to be begun again.
    pub again: bool,
    /// The prepared statements, as far as there are any.
    pub statements: Vec<u32>,
    /// Why it is down, if it is.
    pub cause: Cause,
    /// When to connect again.
    pub retry_at_ns: u64,
    backoff_ns: u64,
    /// Whether the socket was full and we asked to be told when it is not.
    waits_to_write: bool,
}

impl Connection {
    /// A connection that is down.
    pub fn new() -> Self {
        Connection {
            socket: None,
            session: Session::new("", "", Channel::Open),
            doing: Doing::Down,
            since_ns: 0,
            due_ns: 0,
            sent_ns: 0,
            waits_for_due: false,
            number: 0,
            step: 0,
            retries: 0,
            again: false,
            statements: Vec::new(),
            cause: Cause::New,
            retry_at_ns: 0,
            backoff_ns: FIRST_BACKOFF_NS,
            waits_to_write: false,
        }
    }

    /// Whether it is logged in.
    pub fn is_up(&self) -> bool {
        !matches!(self.doing, Doing::Down | Doing::LoggingIn)
    }

    /// Begins to connect.
    pub fn open(
        &mut self,
        endpoint: &Endpoint,
        session: Session,
        registry: &Registry,
        token: Token,
    ) -> Result<(), Cause> {
        let mut socket = Socket::connect(endpoint)?;
        registry.register(&mut socket, token, Interest::READABLE)?;
        self.socket = Some(socket);
        self.session = session;
        self.statements.clear();
        self.again = false;
        self.waits_to_write = false;
        self.doing = Doing::LoggingIn;
        Ok(())
    }

    /// Logged in: a loss from now on is a new one.
    pub fn came_up(&mut self) {
        self.backoff_ns = FIRST_BACKOFF_NS;
    }

    /// Drops the socket, to be connected again after a while that doubles each time.
    pub fn close(&mut self, cause: Cause, now_ns: u64) {
        self.socket = None;
        self.statements.clear();
        self.again = false;
        self.doing = Doing::Down;
        self.cause = cause;
        self.retry_at_ns = now_ns + self.backoff_ns;
        self.backoff_ns = (self.backoff_ns * 2).min(LAST_BACKOFF_NS);
    }

    /// Leaves politely, as far as that goes without waiting.
    pub fn leave(&mut self) {
        if let (Some(socket), Ok(())) = (&mut self.socket, self.session.quit()) {
            let _ = socket.write(self.session.outgoing());
        }
    }

    /// Reads once. Whether there may be more to read.
    #[inline]
    pub fn read(&mut self) -> Result<bool, Cause> {
        let Some(socket) = &mut self.socket else { return Ok(false) };
        let space = self.session.space();
        let room = space.len();
        match socket.read(space) {
            Ok(0) => Err(Cause::Closed),
            Ok(count) => {
                self.session.received(count);
                Ok(count == room)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes what is to be written, as far as it goes.
    #[inline]
    pub fn write(&mut self, registry: &Registry, token: Token) -> Result<(), Cause> {
        let Some(socket) = &mut self.socket else { return Ok(()) };
        while !self.session.outgoing().is_empty() {
            match socket.write(self.session.outgoing()) {
                Ok(count) => self.session.sent(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // Only now: a socket that is watched for writing wakes us each time the server reads.
                    if !self.waits_to_write {
                        let both = Interest::READABLE | Interest::WRITABLE;
                        registry.reregister(socket, token, both)?;
                        self.waits_to_write = true;
                    }
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
        if self.waits_to_write {
            registry.reregister(socket, token, Interest::READABLE)?;
            self.waits_to_write = false;
        }
        Ok(())
    }
}
