//! The bench binary: one request in, messages out, an exit code that says how it went.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bench_suite::failure::Failure;
use bench_suite::output::Output;
use bench_suite::{agent, facts, output, place, request, run, signals};
use clap::{Parser, Subcommand};
use model::Message;
use model::message::{EndedBy, Failed, FailedKind, Measurement};

const HELP: &str = "\
portbench's load generator. It reads one request, a JSON document, from standard input and writes one JSON \
message a line to standard output: hello, phases with what belongs to them, and last finished or failed. \
What it has to say to people goes to standard error.

The first SIGINT or SIGTERM ends the timed part early and keeps its result; the second ends the program at once.";

const AFTER_HELP: &str = "\
Exit codes: 0 finished, 2 bad request, 3 failed, 4 wrong data, 130 interrupted.

Examples:
  bench-suite --example | bench-suite
  bench-suite facts
  bench-suite probe-io --in /var/lib/mysql
  echo '{\"protocol_version\":4,\"backend\":{\"kind\":\"null\"},\"workload\":{\"name\":\"do0\"},\"load\":{
    \"connections\":1,\"threads\":1,\"warmup_s\":0,\"duration_s\":1,\"operations\":null,\"seed\":1,
    \"interval_s\":1,\"reply_timeout_s\":30}}' | bench-suite";

#[derive(Parser)]
#[command(version, about = "portbench's load generator", long_about = HELP, after_help = AFTER_HELP)]
struct Flags {
    /// Print a request that can be run anywhere, and exit
    #[arg(long)]
    example: bool,
    #[command(subcommand)]
    mode: Option<Mode>,
}

/// What this program is besides a load generator.
#[derive(Subcommand)]
enum Mode {
    Agent(agent::Args),
    Place(place::Args),
    #[command(hide = true)]
    Guard(agent::GuardArgs),
    #[cfg(feature = "micro")]
    Micro(bench_suite::micro::Args),
    /// Print the facts of this machine and of this process's place on it, as one JSON line
    Facts,
    /// Try out what I/O a folder bears, and print it as one JSON line
    ProbeIo {
        /// The folder; it must be writable
        #[arg(long = "in", value_name = "FOLDER")]
        folder: PathBuf,
    },
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    if flags.example {
        return answer(serde_json::to_string_pretty(&request::example()));
    }
    match flags.mode {
        Some(Mode::Agent(args)) => agent::run(&args),
        Some(Mode::Place(args)) => place::run(&args),
        Some(Mode::Guard(args)) => agent::guard(&args),
        #[cfg(feature = "micro")]
        Some(Mode::Micro(args)) => bench_suite::micro::run(&args),
        Some(Mode::Facts) => answer(serde_json::to_string(&facts::read())),
        Some(Mode::ProbeIo { folder }) => match facts::folder::probe(&folder) {
            Ok(found) => answer(serde_json::to_string(&found)),
            Err(error) => refuse(&format!("cannot try out {}: {error}", folder.display())),
        },
        None => load(),
    }
}

/// Prints one answer.
fn answer(text: serde_json::Result<String>) -> ExitCode {
    let written = text.map_err(io::Error::from).and_then(|text| writeln!(io::stdout(), "{text}"));
    written.map_or_else(|error| refuse(&format!("cannot answer: {error}")), |()| ExitCode::SUCCESS)
}

fn refuse(why: &str) -> ExitCode {
    output::for_people(&format!("bench-suite: {why}"));
    ExitCode::from(3)
}

/// Standard output, which from now on is ours alone: libraries write lines of their own there, libndbclient among them.
/// They go to standard error.
fn messages_only() -> io::Result<File> {
    let ours = rustix::io::dup(io::stdout())?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok(File::from(ours))
}

/// Reads a request and does what it asks for.
fn load() -> ExitCode {
    let mut output = match messages_only() {
        Ok(to) => Output::new(Box::new(to)),
        Err(error) => return refuse(&format!("cannot keep standard output for messages: {error}")),
    };
    output.say(&Message::Hello {
        protocol_version: model::PROTOCOL_VERSION,
        version: env!("CARGO_PKG_VERSION").into(),
        facts: Box::new(facts::read()),
    });
    let outcome = watch_signals().and_then(|interrupted| {
        let request = request::read(io::stdin().lock().by_ref())?;
        run::run(&request, &mut output, &interrupted)
    });
    ExitCode::from(report(&mut output, outcome))
}

fn watch_signals() -> Result<Arc<AtomicBool>, Failure> {
    signals::watch()
        .map_err(|error| Failure::new(FailedKind::Internal, format!("cannot watch for signals: {error}")))
}

/// Writes the last message; the exit code.
fn report(output: &mut Output, outcome: Result<Measurement, Failure>) -> u8 {
    match outcome {
        Ok(measurement) => {
            let interrupted = measurement.ended_by == EndedBy::Interrupted;
            output.say(&Message::Finished(Box::new(measurement)));
            if interrupted { signals::EXIT_INTERRUPTED } else { 0 }
        }
        Err(failure) => {
            output::for_people(&format!("bench-suite: {failure}"));
            let code = failure.exit_code();
            let phase = output.current_phase();
            let Failure { kind, detail, partial } = failure;
            output.say(&Message::Failed(Failed { kind, detail, phase, partial }));
            code
        }
    }
}
