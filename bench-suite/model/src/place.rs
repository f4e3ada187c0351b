//! The folders of one running server, as `bench-suite place` makes them on the machine itself.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The one line that `bench-suite place` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The folder for data, nobody else's.
    pub data: PathBuf,
    /// Where the server's UNIX socket may stand: at most 107 bytes.
    pub socket: PathBuf,
    /// A TCP port that was free on 127.0.0.1.
    pub port: u16,
}
