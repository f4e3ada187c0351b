//! A C shim over libndbclient, which is C++: the header in `shim/` is all that these bindings know.
//!
//! The bindings are committed, so that nobody needs libclang to build; a test makes them anew and compares. The
//! functions can be linked only where the build script was told where libndbclient is (`PORTBENCH_NDB`).

#[allow(missing_docs, non_camel_case_types)]
#[rustfmt::skip]
mod bindings;

pub use bindings::*;
