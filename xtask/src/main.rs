//! portbench's orchestrator: a table of contents.

// Results go through `ui::print`, lines for people through `ui::say`: both survive a reader that has gone.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod debian;
mod elf;
mod failure;
mod home;
mod host;
mod interrupt;
mod machines;
mod patches;
mod pipeline;
mod placement;
mod process;
mod relay;
mod report;
mod setup;
mod stage;
mod stages;
mod tables;
mod ui;
mod verbs;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = verbs::Cli::parse();
    verbs::report(verbs::run(cli))
}
