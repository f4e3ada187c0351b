//! What the NDB API answers where it does not do what it was asked.

use std::ffi::CStr;

use ndbapi_sys::{pbndb_done, pbndb_error};

/// What becomes of an operation that failed: `NdbError::Status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// No error.
    Success,
    /// May succeed if it is tried again.
    Temporary,
    /// Will fail again.
    Permanent,
    /// It may have been done, or not.
    Unknown,
}

impl Status {
    fn of(status: i32) -> Self {
        match status {
            0 => Status::Success,
            1 => Status::Temporary,
            2 => Status::Permanent,
            _ => Status::Unknown,
        }
    }
}

/// The names of `NdbError::Classification`, in its order.
const CLASSES: [&str; 19] = [
    "no error",
    "application error",
    "no data found",
    "constraint violation",
    "schema error",
    "user defined error",
    "insufficient space",
    "temporary resource error",
    "node recovery error",
    "overload error",
    "timeout expired",
    "unknown result error",
    "internal error",
    "function not implemented",
    "unknown error code",
    "node shutdown",
    "configuration",
    "schema object already exists",
    "internal temporary",
];

/// A `NdbError`: its code with its class, status and text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("NDB error {code} ({class}): {message}", class = self.class())]
pub struct Error {
    /// NDB's error code, e.g. 630; -1 where it has none.
    pub code: i32,
    /// Whether trying again helps.
    pub status: Status,
    classification: i32,
    /// NDB's own text; empty where only the code is known.
    pub message: String,
}

impl Error {
    pub(crate) fn of(error: &pbndb_error) -> Self {
        if error.code == 0 {
            // It failed and names no error of its own: memory, as a rule.
            return Error::own("the NDB API failed and gave no reason; the client may be out of memory");
        }
        let text = CStr::from_bytes_until_nul(&error.message).map(|text| text.to_string_lossy().into_owned());
        Error {
            code: error.code,
            status: Status::of(error.status),
            classification: error.classification,
            message: text.unwrap_or_default(),
        }
    }

    pub(crate) fn own(message: impl Into<String>) -> Self {
        Error { code: -1, status: Status::Permanent, classification: 12, message: message.into() }
    }

    /// NDB's class of the error, e.g. `constraint violation`.
    pub fn class(&self) -> &'static str {
        CLASSES.get(self.classification as usize).copied().unwrap_or("unknown class")
    }

    /// Whether it says that data nodes are gone, stopping, or not yet there.
    pub fn is_of_nodes(&self) -> bool {
        matches!(self.class(), "node recovery error" | "node shutdown") || [4009, 4035].contains(&self.code)
    }

    /// Whether it says that there is no room: memory for data, index or transactions, or disk.
    pub fn is_of_space(&self) -> bool {
        self.class() == "insufficient space"
    }
}

/// A transaction that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// The slot that it was prepared for.
    pub slot: u32,
    inner: pbndb_done,
}

impl Done {
    pub(crate) fn of(inner: pbndb_done) -> Self {
        Done { slot: inner.slot, inner }
    }

    /// Whether it was committed.
    #[inline]
    pub fn committed(&self) -> bool {
        self.inner.code == 0
    }

    /// NDB's code of why it was not; 0 where it was.
    pub fn code(&self) -> i32 {
        self.inner.code
    }
}
