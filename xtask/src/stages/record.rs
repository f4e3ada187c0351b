//! The record's file: appended line by line, each handed to the kernel before the next thing happens.
//!
//! So whatever ends portbench, what was said is kept; only a power cut may take lines that are not on disk yet.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use model::record::{Header, Line, Outcome, RecordedError};

use crate::failure::{Failure, Kind};

/// A record that is being written.
pub struct Writer {
    path: PathBuf,
    file: File,
    ended: bool,
}

impl Writer {
    /// Begins a record; its file must not exist yet.
    pub fn create(folder: &Path, header: Header) -> Result<Self> {
        let path = folder.join(format!("{}.jsonl", header.id));
        let open = |()| OpenOptions::new().create_new(true).append(true).open(&path);
        let file = fs::create_dir_all(folder).and_then(open).map_err(|error| {
            let full = error.kind() == std::io::ErrorKind::StorageFull;
            let kind = if full { Kind::DiskFull } else { Kind::Usage };
            Failure::new(kind, format!("cannot make the record {}: {error}", path.display()))
                .next("choose a folder with space that you may write to: --records FOLDER")
        })?;
        let mut writer = Writer { path, file, ended: false };
        writer.append(&Line::Header(Box::new(header)))?;
        Ok(writer)
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a line.
    pub fn append(&mut self, line: &Line) -> Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.file.write_all(&text).with_context(|| format!("cannot write to {}", self.path.display()))
    }

    /// Appends the last line.
    pub fn end(&mut self, outcome: Outcome, error: Option<RecordedError>) -> Result<()> {
        if !std::mem::replace(&mut self.ended, true) {
            self.append(&Line::End { outcome, error, ended_at: now() })?;
        }
        self.file.sync_all().with_context(|| format!("cannot write to {}", self.path.display()))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // A bug on the way (a panic) still leaves a record that says that it failed.
        let _ = self.end(Outcome::Failed, None);
    }
}

/// The time now, RFC 3339 in UTC, to the second.
pub fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A name for a record made now: sorts by time, says what it is of, is never used twice.
pub fn new_id(parts: &[&str]) -> String {
    let time = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S%3fZ").to_string();
    let rest: Vec<String> = parts.iter().map(|part| plain(part)).collect();
    format!("{time}-{}-{}", rest.join("-"), std::process::id())
}

fn plain(part: &str) -> String {
    part.replace(|c: char| !(c.is_ascii_alphanumeric() || ".-+_".contains(c)), "_")
}

/// Reads a record's file.
///
/// # Errors
/// A line that does not follow the schema, by file and line. A last line without its end is what a killed writer
/// leaves: it is left out.
pub fn read(path: &Path) -> Result<Vec<Line>> {
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::new(Kind::Usage, format!("cannot read {}: {error}", path.display()))
            .next("name a record's file; `ls records` shows them")
    })?;
    let whole = text.ends_with('\n');
    let count = text.lines().count();
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if index + 1 == count && !whole {
            break;
        }
        lines.push(
            serde_json::from_str(line).map_err(|error| bad(path, &format!("line {}: {error}", index + 1)))?,
        );
    }
    Ok(lines)
}

/// Reads a record and checks all that its schema and its meaning demand.
pub fn read_checked(path: &Path) -> Result<Vec<Line>> {
    let lines = read(path)?;
    let wrong = model::record::check(&lines);
    if wrong.is_empty() { Ok(lines) } else { Err(bad(path, &wrong.join("\n  ")).into()) }
}

fn bad(path: &Path, what: &str) -> Failure {
    Failure::new(Kind::BadRecord, format!("{} is not a valid record: {what}", path.display()))
        .next("a record is never edited; make a new one with `cargo xtask bench`")
}
