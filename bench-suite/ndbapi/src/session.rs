//! One thread's way to the cluster: slots of rows, and the transactions that are made of them.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::time::Duration;

use ndbapi_sys::{self as sys, pbndb_done};

use crate::error::{Done, Error};
use crate::{Connection, Table, no_error, text};

/// What the operations of a transaction do with their rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `insertTuple`: a row with this key is error 630.
    Insert,
    /// `readTuple`, all attributes: of the last commit by NdbRecord, with a shared lock otherwise.
    Read,
    /// `updateTuple`, all attributes but the key: no row with this key is error 626.
    Update,
    /// `deleteTuple`: no row with this key is error 626.
    Delete,
}

/// Where the coordinator of a transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coordinator<'a> {
    /// On a node that has the transaction's rows: their partitions, one for each slot that is prepared.
    InPartition(&'a [u32]),
    /// Where the API thinks fit.
    Anywhere,
    /// On this data node.
    OnNode(u32),
}

/// When what was prepared is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Send {
    /// When the API thinks fit, by how full its buffers are.
    Adaptive,
    /// At once.
    Forced,
    /// When its sender comes round.
    NotAdaptive,
}

/// How a session makes its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct How {
    /// Transactions in flight at most, 1 to 1024.
    pub slots: u32,
    /// Operations in each, 1 or more.
    pub operations: u32,
    /// By NdbRecord, whole rows at once; otherwise attribute by attribute.
    pub ndb_record: bool,
}

/// An `Ndb` object, its table, and the rows of its slots. It may move to another thread, but two cannot share it.
pub struct Session<'c> {
    raw: NonNull<sys::pbndb_session>,
    // The API writes into it while a slot is in flight: read and written through this pointer alone.
    rows: NonNull<u64>,
    words: usize,
    row_words: usize,
    how: How,
    in_flight: Vec<bool>,
    done: Vec<pbndb_done>,
    connection: PhantomData<&'c Connection>,
}

// SAFETY: an Ndb object may be used by any one thread at a time; `&mut self` sees to that.
unsafe impl std::marker::Send for Session<'_> {}

impl<'c> Session<'c> {
    /// Opens a session on a table that is there.
    pub fn open(connection: &'c Connection, table: &Table, how: How) -> Result<Self, Error> {
        if !(1..=1024).contains(&how.slots) || how.operations == 0 {
            return Err(Error::own("a session has 1 to 1024 slots of an operation at least"));
        }
        table.check()?;
        let row_words = table.row_words();
        let words = how.slots as usize * how.operations as usize * row_words;
        // Of 64-bit words, for the API's alignment.
        let rows = Box::leak(vec![0_u64; words.div_ceil(2)].into_boxed_slice());
        let rows = NonNull::from(rows).cast::<u64>();
        let (database, mut error) = (text(&table.database)?, no_error());
        let raw_how = sys::pbndb_how {
            slots: how.slots,
            operations: how.operations,
            ndb_record: how.ndb_record.into(),
        };
        let raw = table.with(|table| {
            // SAFETY: the rows are as large as the shim wants them and are freed after the session; everything else
            // outlives the call.
            unsafe {
                sys::pbndb_open(
                    connection.raw.as_ptr(),
                    database.as_ptr(),
                    table,
                    &raw const raw_how,
                    rows.as_ptr().cast(),
                    &raw mut error,
                )
            }
        })?;
        let Some(raw) = NonNull::new(raw) else {
            // SAFETY: leaked above with this length, and nobody else has it.
            drop(unsafe { boxed(rows, words) });
            return Err(Error::of(&error));
        };
        let done = pbndb_done { slot: 0, code: 0, status: 0, classification: 0 };
        Ok(Session {
            raw,
            rows,
            words,
            row_words,
            how,
            in_flight: vec![false; how.slots as usize],
            done: vec![done; how.slots as usize],
            connection: PhantomData,
        })
    }

    /// Ids of the data nodes that hold the table, ascending.
    pub fn nodes(&self) -> Vec<u32> {
        let mut nodes = vec![0; 256];
        // SAFETY: the session lives; no more is written than there is room for.
        let count = unsafe { sys::pbndb_nodes(self.raw.as_ptr(), nodes.as_mut_ptr(), 256) };
        nodes.truncate(count as usize);
        nodes
    }

    /// The partition of the rows whose `DISTKEY` is `key`; `None` where NDB cannot say. It takes hashing and does
    /// not change while the table is there: to be asked beforehand.
    pub fn partition(&self, key: u32) -> Option<u32> {
        // SAFETY: the session lives, and only its table is read.
        let partition = unsafe { sys::pbndb_partition(self.raw.as_ptr(), key) };
        (partition != sys::PBNDB_NO_PARTITION).then_some(partition)
    }

    /// The row of a slot's operation.
    ///
    /// # Panics
    /// Where there is no such slot or operation, or the slot is in flight.
    #[inline]
    pub fn row(&self, slot: u32, operation: u32) -> &[u32] {
        let at = self.place(slot, operation);
        // SAFETY: `place` saw to it that the row is within the allocation and that the API does not write to it.
        unsafe { std::slice::from_raw_parts(self.rows.as_ptr().cast::<u32>().add(at), self.row_words) }
    }

    /// The same, to be written.
    ///
    /// # Panics
    /// Where there is no such slot or operation, or the slot is in flight.
    #[inline]
    pub fn row_mut(&mut self, slot: u32, operation: u32) -> &mut [u32] {
        let at = self.place(slot, operation);
        // SAFETY: as above, and `&mut self` keeps others away.
        unsafe { std::slice::from_raw_parts_mut(self.rows.as_ptr().cast::<u32>().add(at), self.row_words) }
    }

    #[inline]
    fn place(&self, slot: u32, operation: u32) -> usize {
        assert!(!self.in_flight[slot as usize], "slot {slot} is in flight");
        assert!(operation < self.how.operations, "a transaction has {} operations", self.how.operations);
        (slot as usize * self.how.operations as usize + operation as usize) * self.row_words
    }

    /// Starts a transaction for each of these slots and prepares its operations. Returns for how many; fewer than were
    /// given come with the error of the next one, the rest were not tried.
    ///
    /// # Panics
    /// Where there is no such slot, or one is in flight, or there are partitions for others than these.
    pub fn prepare(&mut self, kind: Kind, at: Coordinator<'_>, slots: &[u32]) -> (usize, Option<Error>) {
        for slot in slots {
            assert!(
                !std::mem::replace(&mut self.in_flight[*slot as usize], true),
                "slot {slot} is in flight"
            );
        }
        let (at, places): (u32, &[u32]) = match at {
            Coordinator::InPartition(partitions) => {
                assert_eq!(partitions.len(), slots.len(), "a partition for each slot");
                (sys::PBNDB_IN_PARTITION, partitions)
            }
            Coordinator::Anywhere => (sys::PBNDB_ANYWHERE, &[]),
            Coordinator::OnNode(node) => (sys::PBNDB_ON_NODE, &[node]),
        };
        let kind = match kind {
            Kind::Insert => sys::PBNDB_INSERT,
            Kind::Read => sys::PBNDB_READ,
            Kind::Update => sys::PBNDB_UPDATE,
            Kind::Delete => sys::PBNDB_DELETE,
        };
        let mut error = no_error();
        let count = slots.len() as u32;
        // SAFETY: the slots exist, are this session's and were not in flight; all pointers outlive the call.
        let prepared = unsafe {
            sys::pbndb_prepare(
                self.raw.as_ptr(),
                kind,
                at,
                places.as_ptr(),
                slots.as_ptr(),
                count,
                &raw mut error,
            )
        } as usize;
        for slot in &slots[prepared..] {
            self.in_flight[*slot as usize] = false;
        }
        (prepared, (prepared < slots.len()).then(|| Error::of(&error)))
    }

    /// Sends what was prepared, waits until `least` transactions are done or the time is over, and names those that
    /// are.
    ///
    /// `done` is cleared first; to give the same one each time saves allocations.
    pub fn send_poll(&mut self, wait: Duration, least: u32, send: Send, done: &mut Vec<Done>) {
        let wait_ms = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX);
        let force = match send {
            Send::Adaptive => 0,
            Send::Forced => 1,
            Send::NotAdaptive => 2,
        };
        // SAFETY: `done` has room for every slot.
        let count = unsafe {
            sys::pbndb_send_poll(
                self.raw.as_ptr(),
                wait_ms,
                least.cast_signed(),
                force,
                self.done.as_mut_ptr(),
            )
        } as usize;
        done.clear();
        for ended in &self.done[..count] {
            self.in_flight[ended.slot as usize] = false;
            done.push(Done::of(*ended));
        }
    }

    /// NDB's error of this code.
    pub fn explain(&self, code: i32) -> Error {
        let mut error = no_error();
        // SAFETY: the session lives; `error` outlives the call.
        unsafe { sys::pbndb_explain(self.raw.as_ptr(), code, &raw mut error) }
        Error::of(&error)
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // SAFETY: closing ends all that is in flight; only then the rows go, which were leaked with this length.
        unsafe {
            sys::pbndb_close(self.raw.as_ptr());
            drop(boxed(self.rows, self.words));
        }
    }
}

/// The rows of a session, to be freed.
///
/// # Safety
/// `rows` must come from `Session::open` with this number of words, and nobody may use it any more.
unsafe fn boxed(rows: NonNull<u64>, words: usize) -> Box<[u64]> {
    // SAFETY: by the contract above, this is the slice that was leaked.
    unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(rows.as_ptr(), words.div_ceil(2))) }
}
