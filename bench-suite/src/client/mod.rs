//! A MySQL client without sockets: bytes in, events out; the caller moves the bytes.
//!
//! [`Session`] is one connection's state, from the server's greeting to replies. Whatever arrives, it never
//! panics and never waits for nothing: what does not follow the protocol is a [`ClientError`], after which
//! the connection is to be dropped, because nothing that follows can be trusted.

mod auth;
mod handshake;
mod login;
mod packet;
mod reply;
mod session;
mod value;
mod wire;

#[cfg(test)]
pub(crate) mod script;
#[cfg(test)]
mod tests;

pub use auth::SUPPORTED as SUPPORTED_PLUGINS;
pub use login::{Authentication, Channel};
pub use reply::{Expect, OkReply, Prepared, Reply, Rows, ServerError};
pub use session::{Event, Session};
pub use value::{Column, ColumnType, Row, Value};
pub use wire::{Reader, put_lenenc, put_lenenc_bytes};

/// Command bytes of the commands that are used.
pub mod command {
    /// Take leave.
    pub const QUIT: u8 = 0x01;
    /// Run a statement sent as text.
    pub const QUERY: u8 = 0x03;
    /// Prepare a statement.
    pub const STMT_PREPARE: u8 = 0x16;
    /// Execute a prepared statement.
    pub const STMT_EXECUTE: u8 = 0x17;
    /// Forget a prepared statement.
    pub const STMT_CLOSE: u8 = 0x19;
}

/// Bytes that do not follow the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// A packet ended within a value.
    #[error("a packet ended within a value")]
    Short,
    /// A value that cannot be.
    #[error("malformed: {0}")]
    Malformed(&'static str),
    /// A packet out of order.
    #[error("packet number {found} came where {expected} was due")]
    Sequence {
        /// The number that was due.
        expected: u8,
        /// The number that came.
        found: u8,
    },
    /// A reply of unreasonable length.
    #[error("a reply of more than 64 MiB")]
    TooLong,
    /// Something that was not asked for.
    #[error("unexpected: {0}")]
    Unexpected(&'static str),
    /// A server of before version 4.1, or no MySQL server at all.
    #[error("not a MySQL protocol 10 server (its first byte is {0})")]
    NotMySql(u8),
}

/// Why a session is over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The server does not follow the protocol.
    #[error("the server's reply does not follow the protocol: {0}")]
    Protocol(#[from] ProtocolError),
    /// The server said no before or while logging in.
    #[error("{0}")]
    Refused(ServerError),
    /// The account needs a plugin that this client does not have.
    #[error("the account asks for authentication plugin {0}")]
    Plugin(String),
    /// The account's plugin cannot be answered, and why.
    #[error("{0}")]
    Authentication(String),
}
