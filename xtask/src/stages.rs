//! The pipeline: one stage, one module. Each takes values and returns a receipt that only it can make.

pub mod emulator;
pub mod fetch;
pub mod rust_std;
pub mod source;
pub mod sysroot;
pub mod toolchain;
