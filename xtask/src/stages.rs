//! The pipeline: one stage, one module. Each takes values and returns a receipt that only it can make.

pub mod bench_binary;
pub mod build;
pub mod bundle;
pub mod cluster;
pub mod deployment;
pub mod distro;
pub mod emulator;
pub mod fetch;
pub mod guest;
pub mod install_tree;
pub mod original;
pub mod record;
pub mod run;
pub mod rust_std;
pub mod server;
pub mod source;
pub mod sysroot;
pub mod toolchain;
