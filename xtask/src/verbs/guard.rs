//! `guard`: how portbench starts other programs (see `process`); not for people.

use std::ffi::OsString;

use anyhow::Result;

use crate::process;

/// Become a program that ends when its parent does.
#[derive(clap::Args)]
pub struct Args {
    /// Process id of the parent.
    parent: i32,
    /// `kill` or `terminate`.
    signal: String,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    program: Vec<OsString>,
}

/// Becomes the program.
pub fn run(args: Args) -> Result<()> {
    process::guard(args.parent, args.signal == "kill", &args.program)
}
