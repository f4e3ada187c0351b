//! `relay`: stands for a program on another machine (see `relay`); not for people.

use anyhow::Result;

use crate::relay;

/// Stand for a program on a machine.
#[derive(clap::Args)]
pub struct Args {
    /// The program and its arguments, as the machine names them.
    #[arg(last = true, required = true)]
    program: Vec<String>,
}

/// Ends as the program does.
pub fn run(args: Args) -> Result<()> {
    std::process::exit(relay::run(args.program).into())
}
