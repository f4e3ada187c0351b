//! A node's process.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::SystemTime;

use anyhow::Result;

use crate::process::Guarded;
use crate::tables::topology::Role;

/// A node that was started.
pub struct Node {
    /// Its node id.
    pub id: u32,
    /// What it is.
    pub role: Role,
    /// Its machine: an index into the plan's.
    pub machine: usize,
    /// Its process, or what stands for it here.
    pub process: Guarded,
    /// What it writes, on this host.
    pub log: PathBuf,
    /// How it ended, and when that was seen.
    pub end: Option<(ExitStatus, SystemTime)>,
}

impl Node {
    /// Its end, if it has ended.
    pub fn look(&mut self) -> Result<Option<ExitStatus>> {
        if self.end.is_none() {
            self.end = self.process.ended()?.map(|status| (status, SystemTime::now()));
        }
        Ok(self.end.map(|(status, _)| status))
    }

    /// As messages call it.
    pub fn name(&self) -> String {
        format!("{} node {}", self.role.name(), self.id)
    }
}
