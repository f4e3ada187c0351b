//! portbench's load generator: what is cross-compiled and runs on the target.
//!
//! One request comes in as JSON, messages go out a line each; see `model`. From the outside in: [`run`]
//! does the phases in their order; [`engine`] drives the connections; [`workloads`] know what is asked and
//! what must be answered; [`client`] speaks the MySQL protocol and touches no socket.

// Lines for people go through `output::for_people`, which survives a reader that has gone.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

pub mod agent;
pub mod client;
pub mod control;
pub mod cpu;
pub mod engine;
pub mod facts;
pub mod failure;
pub mod flexasync;
pub mod measure;
#[cfg(feature = "micro")]
pub mod micro;
pub mod monitor;
pub mod output;
pub mod place;
pub mod preflight;
pub mod request;
pub mod run;
pub mod signals;
pub mod transport;
pub mod workloads;
