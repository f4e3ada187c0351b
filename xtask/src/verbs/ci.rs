//! `ci`: what is checked on every change, as named jobs. A workflow file says `cargo xtask ci JOB` and nothing else.

mod changed;

use std::process::Command;
use std::time::Instant;

use anyhow::Result;
use xshell::{Shell, cmd};

use crate::failure::{Failure, Kind};
use crate::home::{Home, repository};
use crate::process::{self, OnOurDeath};
use crate::tables::product::Product;
use crate::tables::target::Target;
use crate::ui::{self, Table};
use crate::{interrupt, setup};

/// Run the checks of a change: those that fit in an hour, or the jobs that are named.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask ci              what every change must pass, set-up included\n  cargo xtask ci unit lint    only these\n  cargo xtask ci cross matrix every target from source, on every machine: hours\n\nA failing command is printed as it can be pasted."
)]
pub struct Args {
    /// The jobs, in the order in which they are given.
    #[arg(value_enum, default_values = ["lint", "unit", "end-to-end", "cluster"])]
    jobs: Vec<Job>,
}

/// A named job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Job {
    /// rustfmt and clippy, both without mercy.
    Lint,
    /// Unit tests and tidy: seconds, no server, no network.
    Unit,
    /// The built programs against real servers, guests and an sshd; compiles the server of one target from source: the
    /// one whose file alone changed since $PORTBENCH_CI_BASE (left out: the commit before), else the hardest one.
    EndToEnd,
    /// NDB Cluster, compiled for this host's own target: topologies, failures, flexasync beside flexAsynch.
    Cluster,
    /// MySQL, compiled for this host's own target; not part of the default: its server compiles for three
    /// quarters of an hour.
    Mysql,
    /// NDB's own tests on the hardest target, emulated; not part of the default.
    Port,
    /// Whole builds and servers with a patch and without it; not part of the default.
    Patched,
    /// Every product for every target from source; not part of the default: hours.
    Cross,
    /// Every target on every machine, from source, and what takes as long; not part of the default.
    Matrix,
    /// criterion's benches of primitives; not part of the default.
    Bench,
}

/// The files of `tests/tests`, by the job that runs them; those of `matrix` run with `--ignored`.
const END_TO_END: [&str; 10] = [
    "bench",
    "cli",
    "failures",
    "processes",
    "interchange",
    "guest",
    "ssh",
    "ssh_refused",
    "relay",
    "patches",
];
const CLUSTER: [&str; 2] = ["cluster", "flexasync"];
const MYSQL: [&str; 1] = ["mysql"];
const PORT: [&str; 1] = ["ndb_port"];
const PATCHED: [&str; 1] = ["patched"];
#[cfg(test)]
const MATRIX: [&str; 1] = ["matrix"];

/// Runs the jobs; the first that fails ends the run.
pub fn run(args: Args) -> Result<()> {
    let mut table = Table::new(&["job", "status", "time"]);
    let mut failed = None;
    for job in args.jobs {
        if failed.is_some() {
            table.row([name(job), "not run".into(), "-".into()]);
            continue;
        }
        let begun = Instant::now();
        let result = steps(job).and_then(|steps| steps.into_iter().try_for_each(step));
        let status = if result.is_ok() { "passed" } else { "FAILED" };
        table.row([name(job), status.into(), ui::duration(begun.elapsed())]);
        failed = result.err();
    }
    table.print();
    failed.map_or(Ok(()), Err)
}

fn name(job: Job) -> String {
    use clap::ValueEnum;
    job.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default()
}

fn steps(job: Job) -> Result<Vec<Command>> {
    let cargo = |words: &str| {
        let mut command = Command::new(process::cargo());
        command.args(words.split(' ')).current_dir(repository());
        command
    };
    Ok(match job {
        Job::Lint => {
            component("fmt", "rustfmt")?;
            component("clippy", "clippy")?;
            // With what links products' code and without: neither needs it, as nothing is linked.
            let clippy = |words: &str| {
                let mut clippy = cargo(&format!("clippy --locked {words} --all-targets"));
                clippy.args(["--", "-D", "warnings"]);
                clippy
            };
            let with_ndb = clippy("--package bench-suite --features ndb,micro");
            vec![cargo("fmt --all --check"), clippy("--workspace"), with_ndb]
        }
        Job::Unit => {
            prepare()?;
            packages(&setup::FOR_UNIT_TESTS)?;
            vec![cargo("test --locked --workspace --exclude portbench-tests")]
        }
        Job::EndToEnd => {
            let target = changed::built_target()?;
            ui::step("ci", &format!("the server that is compiled here is {target}'s"));
            let mut test = end_to_end(&cargo, &END_TO_END)?;
            test.env("PORTBENCH_TEST_BUILT", target);
            vec![test]
        }
        Job::Cluster => vec![end_to_end(&cargo, &CLUSTER)?],
        Job::Mysql => vec![end_to_end(&cargo, &MYSQL)?],
        Job::Port => vec![end_to_end(&cargo, &PORT)?],
        Job::Patched => vec![end_to_end(&cargo, &PATCHED)?],
        Job::Cross => {
            prepare()?;
            let (products, targets) = (Product::names()?.join(","), Target::names()?.join(","));
            vec![cargo(&format!("xtask build --product {products} --target {targets}"))]
        }
        Job::Matrix => {
            prepare()?;
            vec![cargo("test --locked --package portbench-tests -- --test-threads 1 --ignored")]
        }
        Job::Bench => vec![cargo("bench --locked --package bench-suite")],
    })
}

/// The end-to-end tests of these files.
fn end_to_end(cargo: &impl Fn(&str) -> Command, files: &[&str]) -> Result<Command> {
    prepare()?;
    packages(&setup::FOR_TESTS)?;
    let files: Vec<String> = files.iter().map(|file| format!("--test {file}")).collect();
    Ok(cargo(&format!("test --locked --package portbench-tests {} -- --test-threads 1", files.join(" "))))
}

/// Packages that tests need.
fn packages(with_why: &[(&str, &str)]) -> Result<()> {
    let names: Vec<String> = with_why.iter().map(|(name, _)| name.to_string()).collect();
    setup::ensure_packages(&Home::open()?, &names)
}

/// Packages for every target and product, so that no test finds one missing.
fn prepare() -> Result<()> {
    let home = Home::open()?;
    for target in Target::names()? {
        for product in Product::names()? {
            setup::ensure(&home, &Target::load(&target)?, Some(&Product::load(&product)?))?;
        }
    }
    Ok(())
}

/// A component of the Rust toolchain that may not have come with cargo.
fn component(subcommand: &str, component: &str) -> Result<()> {
    let (sh, cargo) = (Shell::new()?, process::cargo());
    let present = process::output(cmd!(sh, "{cargo} {subcommand} --version")).is_ok();
    if present || process::output(cmd!(sh, "rustup component add {component}")).is_ok() {
        return Ok(());
    }
    let what =
        format!("`cargo {subcommand}` is missing and rustup could not add it: nothing was checked by it");
    Err(Failure::new(Kind::MissingPackages, what).next(format!("rustup component add {component}")).into())
}

fn step(command: Command) -> Result<()> {
    let pasted = process::shown(&command);
    ui::step("ci", &pasted);
    let mut child = process::spawn(&pasted, command, OnOurDeath::Terminate)?;
    loop {
        if let Err(interrupted) = interrupt::check() {
            child.stop(std::time::Duration::from_secs(10))?;
            return Err(interrupted);
        }
        match child.ended()? {
            None => std::thread::sleep(process::TICK),
            Some(status) if status.success() => return Ok(()),
            Some(status) => {
                let what = format!("{}\n  $ {pasted}", process::ending(status));
                return Err(Failure::new(Kind::StageFailed, what)
                    .next("the output above; the command can be pasted")
                    .into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_end_to_end_tests_belongs_to_one_job() {
        let mut named: Vec<&str> = [&END_TO_END[..], &CLUSTER, &MYSQL, &PORT, &PATCHED, &MATRIX].concat();
        named.sort_unstable();
        let entries = std::fs::read_dir(repository().join("tests/tests")).unwrap();
        let stem = |path: std::path::PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
        let mut there: Vec<String> = entries.map(|entry| stem(entry.unwrap().path())).collect();
        there.sort_unstable();
        assert_eq!(named, there);
    }
}
