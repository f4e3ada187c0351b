//! `place`: how portbench binds other programs to CPUs and memory (see `placement`); not for people.

use std::ffi::OsString;
use std::process::Command;

use anyhow::Result;
use model::CpuList;

use crate::placement::{self, Placement};
use crate::{process, ui};

/// Become a program that runs on some CPUs, with memory of one NUMA node.
#[derive(clap::Args)]
pub struct Args {
    /// The CPUs, like 0-3,8.
    #[arg(long)]
    cpus: Option<CpuList>,
    /// The NUMA node; needs numactl.
    #[arg(long)]
    numa_node: Option<u32>,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    program: Vec<OsString>,
}

/// Becomes the program.
pub fn run(args: Args) -> Result<()> {
    let mut words = args.program.into_iter();
    let mut program = Command::new(words.next().unwrap_or_default());
    program.args(words);
    let placement = Placement { cpus: args.cpus, numa_node: args.numa_node };
    let Err(error) = placement::become_placed(&placement, program) else { return Ok(()) };
    ui::say(&format!("{error:#}"));
    std::process::exit(process::NOT_STARTED);
}
