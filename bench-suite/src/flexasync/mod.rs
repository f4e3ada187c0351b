//! flexasync: keyed operations through the NDB API, in the phases of NDB's own flexAsynch.
//!
//! A loop is insert, read, update, read, delete of the same keys. A small loop that is not timed checks that everything is
//! answered rightly; then come loops to warm up, then loops that are timed. Every row that is read is compared with what was
//! written, and after each delete every key is read once more, beside the clock, to see that it is gone.

#[cfg(feature = "ndb")]
mod parts;
#[cfg(any(feature = "ndb", test))]
mod rows;
#[cfg(feature = "ndb")]
mod run;
#[cfg(feature = "ndb")]
mod worker;

#[cfg(feature = "ndb")]
pub use run::run;

#[cfg(not(feature = "ndb"))]
use std::sync::{Arc, atomic::AtomicBool};

#[cfg(not(feature = "ndb"))]
use model::{message::FailedKind, message::Measurement, request::Flexasync};

/// Without the NDB API there is nothing to run.
#[cfg(not(feature = "ndb"))]
pub fn run(
    _: &model::Request,
    _: &Flexasync,
    _: &mut crate::output::Output,
    _: &Arc<AtomicBool>,
) -> Result<Measurement, crate::failure::Failure> {
    let detail =
        "this load generator was built without the NDB API; one of a bundle of the product ndb has it";
    Err(crate::failure::Failure::new(FailedKind::BadRequest, detail))
}
