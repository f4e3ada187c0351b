//! The verbs of `cargo xtask`: one file each, with its flags and its `run`.

mod bench;
mod build;
mod ci;
mod cluster;
mod common;
mod deploy;
mod doctor;
mod fetch;
mod guard;
mod patch;
mod place;
mod products;
mod record;
mod relay;
mod serve;
mod setup;
mod shell;
mod show;
mod stand;
mod sysroot;
mod targets;
mod toolchain;
mod topology;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::failure::{Kind, kind_of};
use crate::{interrupt, ui};

/// Builds, deploys and benches database servers for POWER8 and x86: what a porter and a performance engineer need.
///
/// Heavy results live in one cache for all checkouts: $PORTBENCH_HOME, else ~/.cache/portbench.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version, after_help = AFTER_HELP)]
pub struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

const AFTER_HELP: &str = "\
Examples:
  cargo xtask bench --target ppc64le                 build, run and bench MariaDB on emulated POWER8
  cargo xtask bench --target ppc64le --from distro   the same with the distribution's own build, in minutes
  cargo xtask bench --target ppc64 --on qemu-system  in a guest with a kernel of the target
  cargo xtask shell --target ppc64le --on ssh:NAME   a shell beside a server, on a machine of machines.toml
  cargo xtask doctor --target ppc64le                what works here, and how to mend what does not

Exit codes:
  0 ok   1 bug   2 usage   3 a stage failed (31 disk full, 32 emulator broken, 33 port in use, 34 server died at start,
  35 server lost in mid-run, 36 server not ready in time, 37 machine unreachable, 38 guest failed, 39 wrong machine)
  4 a verification failed (41 corrupt download, 42 incomplete sysroot, 43 wrong data, 44 bad record)   130 interrupted";

#[derive(Subcommand)]
enum Verb {
    Bench(Box<bench::Args>),
    Build(build::Args),
    Deploy(deploy::Args),
    Serve(Box<serve::Args>),
    Shell(Box<shell::Args>),
    Fetch(fetch::Args),
    Sysroot(sysroot::Args),
    Toolchain(toolchain::Args),
    Setup(setup::Args),
    Doctor(doctor::Args),
    Targets(targets::Args),
    Topology(topology::Args),
    Products(products::Args),
    Patch(patch::Args),
    Show(show::Args),
    Record(record::Args),
    Ci(ci::Args),
    #[command(hide = true)]
    Guard(guard::Args),
    #[command(hide = true)]
    Place(place::Args),
    #[command(hide = true)]
    Relay(relay::Args),
}

/// Runs the verb.
pub fn run(cli: Cli) -> Result<()> {
    // These stand for other programs, which listen for signals themselves.
    let verb = match cli.verb {
        Verb::Guard(args) => return guard::run(args),
        Verb::Place(args) => return place::run(args),
        Verb::Relay(args) => return relay::run(args),
        verb => verb,
    };
    interrupt::install()?;
    match verb {
        Verb::Bench(args) => bench::run(*args),
        Verb::Build(args) => build::run(args),
        Verb::Ci(args) => ci::run(args),
        Verb::Deploy(args) => deploy::run(args),
        Verb::Serve(args) => serve::run(*args),
        Verb::Shell(args) => shell::run(*args),
        Verb::Doctor(args) => doctor::run(args),
        Verb::Fetch(args) => fetch::run(args),
        Verb::Show(args) => show::run(args),
        Verb::Record(args) => record::run(args),
        Verb::Targets(args) => targets::run(args),
        Verb::Topology(args) => topology::run(args),
        Verb::Products(args) => products::run(args),
        Verb::Patch(args) => patch::run(args),
        Verb::Setup(args) => setup::run(args),
        Verb::Sysroot(args) => sysroot::run(args),
        Verb::Toolchain(args) => toolchain::run(args),
        Verb::Guard(_) | Verb::Place(_) | Verb::Relay(_) => Ok(()),
    }
}

/// Says what went wrong and turns it into the exit code.
pub fn report(result: Result<()>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    let red = console::Style::new().for_stderr().red().bold();
    ui::say(&format!("{} {error:#}", red.apply_to("error:")));
    match kind_of(&error) {
        Some(kind) => {
            if kind == Kind::DiskFull && !format!("{error:#}").contains("next:") {
                ui::say("  next: free some space, or export PORTBENCH_HOME=/a/folder/on/a/larger/disk");
            }
            ExitCode::from(kind.exit_code())
        }
        None => ExitCode::from(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_every_exit_code() {
        for kind in Kind::ALL {
            let code = kind.exit_code();
            let words = AFTER_HELP.split(|c: char| !c.is_ascii_alphanumeric());
            assert!(
                words.into_iter().any(|word| word == code.to_string()),
                "{kind:?} ({code}) is not in --help"
            );
        }
    }
}
