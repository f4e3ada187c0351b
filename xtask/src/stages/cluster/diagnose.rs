//! The first root error among the logs of all nodes, in plain words.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::node::Node;
use super::{Folders, Plan, tail};
use crate::failure::{Failure, Kind};
use crate::process;

/// When a node ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// While the cluster started.
    Starting,
    /// In mid-run.
    Running,
}

/// Where the nodes' error logs are.
pub struct ErrorLogs {
    _log: PathBuf,
}

impl ErrorLogs {
    /// Of a plan.
    pub fn of(_plan: &Plan, _folders: &Folders, log: &Path) -> Self {
        ErrorLogs { _log: log.to_path_buf() }
    }
}

/// Why nodes have ended.
pub fn failure(nodes: &mut [Node], _errors: &ErrorLogs, when: When) -> Result<Failure> {
    let mut what = String::new();
    for node in nodes.iter() {
        if let Some((status, _)) = node.end {
            what += &format!("{} ended: {}\n{}\n", node.name(), process::ending(status), tail(&node.log, 12));
        }
    }
    let kind = if when == When::Starting { Kind::ServerDied } else { Kind::ServerLost };
    let log = nodes.first().map(|node| node.log.clone()).unwrap_or_default();
    Ok(Failure::new(kind, what.trim_end()).log(log).next("read the logs"))
}
