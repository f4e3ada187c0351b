//! The NDB API, as far as a bench of keyed operations needs it, without `unsafe`.
//!
//! A [`Connection`] is a `Ndb_cluster_connection`: this process as a node of the cluster, shared by threads. A
//! [`Session`] is an `Ndb` object with a table and its rows, one a thread. It has *slots*: each is room for one
//! transaction in flight and for the rows of its operations. The way of an operation is that of `executeAsynchPrepare`
//! and `sendPollNdb`:
//!
//! 1. write the keys, and for insert and update the values, into the slot's rows ([`Session::row_mut`]);
//! 2. [`Session::prepare`] starts a transaction for each slot, defines its operations and prepares it;
//! 3. [`Session::send_poll`] sends and waits, and names the slots that are done;
//! 4. of a read, the values are in the slot's rows now ([`Session::row`]).
//!
//! Rows are arrays of 32-bit words in the machine's byte order: `DISTKEY`, `COL0`, then the words of `COL1`, `COL2`, ….
//!
//! The crate can be linked only where `ndbapi-sys` was built with libndbclient.

mod error;
mod session;

use std::ffi::CString;
use std::ptr::NonNull;
use std::time::Duration;

use ndbapi_sys::{self as sys, pbndb_error};

pub use error::{Done, Error, Status};
pub use session::{Coordinator, How, Kind, Send, Session};

/// A table of fixed-size rows, as NDB's own flexAsynch makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its database.
    pub database: String,
    /// Its name.
    pub name: String,
    /// Attributes, `COL0` of the key among them: 1 to 500.
    pub attributes: u32,
    /// 32-bit words of each attribute but `COL0`, 1 or more.
    pub attribute_words: u32,
    /// Load factor of the hash index in per cent, 40 to 99.
    pub load_factor: u32,
    /// Whether it is logged and checkpointed.
    pub logging: bool,
}

impl Table {
    /// 32-bit words of a row.
    pub fn row_words(&self) -> usize {
        2 + (self.attributes as usize).saturating_sub(1) * self.attribute_words as usize
    }

    /// Refuses what the documentation of the fields rules out.
    fn check(&self) -> Result<(), Error> {
        if (1..=500).contains(&self.attributes) && (1..=0x1000).contains(&self.attribute_words) {
            return Ok(());
        }
        Err(Error::own("a table has 1 to 500 attributes of a word at least"))
    }

    fn with<T>(&self, then: impl FnOnce(&sys::pbndb_table) -> T) -> Result<T, Error> {
        self.check()?;
        let name = text(&self.name)?;
        Ok(then(&sys::pbndb_table {
            name: name.as_ptr(),
            attributes: self.attributes,
            attribute_words: self.attribute_words,
            load_factor: self.load_factor,
            logging: self.logging.into(),
        }))
    }
}

/// This process as a node of a cluster.
#[derive(Debug)]
pub struct Connection {
    raw: NonNull<sys::pbndb_connection>,
}

// SAFETY: a Ndb_cluster_connection may be used by any thread; NDB guards what it shares.
unsafe impl std::marker::Send for Connection {}
// SAFETY: as above; sessions are opened from several threads at once.
unsafe impl Sync for Connection {}

impl Connection {
    /// Joins the cluster: asks the management server at `connect_string` for its configuration and a node id.
    ///
    /// Fails with NDB's own words where no management server answers within `wait`, or where it has no free node id.
    pub fn connect(connect_string: &str, wait: Duration) -> Result<Self, Error> {
        let connect_string = text(connect_string)?;
        // SAFETY: may be called by any thread, and again.
        if unsafe { sys::pbndb_init() } != 0 {
            return Err(Error::own("ndb_init failed"));
        }
        let mut error = no_error();
        // SAFETY: the string is terminated and outlives the call; `error` is written to only within it.
        let raw = unsafe { sys::pbndb_connect(connect_string.as_ptr(), seconds(wait), &raw mut error) };
        NonNull::new(raw).map(|raw| Connection { raw }).ok_or_else(|| Error::of(&error))
    }

    /// Waits until all data nodes are seen and started.
    pub fn wait_until_ready(&self, wait: Duration) -> Result<(), Error> {
        // SAFETY: the connection lives.
        match unsafe { sys::pbndb_wait_until_ready(self.raw.as_ptr(), seconds(wait)) } {
            0 => Ok(()),
            some if some > 0 => Err(Error::own("not all data nodes are up")),
            _ => Err(Error::own("no data node is up")),
        }
    }

    /// The node id that the management server gave this process.
    pub fn node_id(&self) -> u32 {
        // SAFETY: the connection lives.
        unsafe { sys::pbndb_node_id(self.raw.as_ptr()) }
    }

    /// Data nodes of the cluster's configuration.
    pub fn data_nodes(&self) -> u32 {
        // SAFETY: the connection lives.
        unsafe { sys::pbndb_data_nodes(self.raw.as_ptr()) }
    }

    /// Creates a table; one of that name is error 721.
    pub fn create_table(&self, table: &Table) -> Result<(), Error> {
        let (database, mut error) = (text(&table.database)?, no_error());
        let done = table.with(|raw| {
            // SAFETY: all pointers are to values that outlive the call.
            unsafe { sys::pbndb_create_table(self.raw.as_ptr(), database.as_ptr(), raw, &raw mut error) }
        })?;
        if done == 0 { Ok(()) } else { Err(Error::of(&error)) }
    }

    /// Drops a table; none of that name is error 723.
    pub fn drop_table(&self, table: &Table) -> Result<(), Error> {
        let (database, name, mut error) = (text(&table.database)?, text(&table.name)?, no_error());
        // SAFETY: all pointers are to values that outlive the call.
        let done = unsafe {
            sys::pbndb_drop_table(self.raw.as_ptr(), database.as_ptr(), name.as_ptr(), &raw mut error)
        };
        if done == 0 { Ok(()) } else { Err(Error::of(&error)) }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: sessions borrow the connection, so none is left.
        unsafe { sys::pbndb_disconnect(self.raw.as_ptr()) }
    }
}

fn no_error() -> pbndb_error {
    pbndb_error { code: 0, status: 0, classification: 0, message: [0; sys::PBNDB_MESSAGE_BYTES as usize] }
}

fn text(text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| Error::own("a name must not hold a zero byte"))
}

fn seconds(wait: Duration) -> i32 {
    i32::try_from(wait.as_secs_f64().ceil() as u64).unwrap_or(i32::MAX)
}
