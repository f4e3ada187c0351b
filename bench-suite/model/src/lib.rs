//! What the host (`xtask`) and the target (the bench binary) say to each other, and the record that is kept of it.
//!
//! This crate is the only code that both sides share: plain values with serde, no I/O. The host writes one [`Request`]
//! as JSON to the bench binary's standard input; the binary writes one [`Message`] a line to standard output. A
//! [`record::Line`] is what the host keeps.
//!
//! Names put the unit last: `_s` seconds, `_us` microseconds, `_per_s` a second, `_bytes` bytes, `_hz` hertz.

pub mod agent;
pub mod check;
pub mod cpus;
pub mod facts;
pub mod message;
pub mod record;
pub mod request;

pub use cpus::CpuList;
pub use message::Message;
pub use request::Request;

/// Version of the request and message format. Host and bench binary must agree on it exactly.
pub const PROTOCOL_VERSION: u32 = 4;
