//! The relay: a process of this host that stands for a program on a machine. Its streams are the program's, signals
//! that it gets reach the program, its exit code is the program's, and when it ends in any way the program ends.
//!
//! It speaks with an agent (`bench-suite agent`) over a transport; what they say is in `model::agent`. To whoever
//! starts it, it is a command like any other: see [`command`].

mod streams;
mod terminal;

use std::io::PipeReader;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::{Context, Result};
use model::agent::{EXIT_RELAY_FAILED, Exit, Run, ToAgent};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::iterator::Signals;

use crate::failure::{Failure, Kind};
use crate::process::{self, Guarded, OnOurDeath};
use crate::ui;
use streams::{Hearing, Window};

/// Where the relay finds what it is to do: it holds secrets, which arguments must not.
pub const VARIABLE: &str = "PORTBENCH_RELAY";

/// How long a transport may take to connect.
const CONNECTED: Duration = Duration::from_secs(10);
/// How often silence is looked for.
const TICK: Duration = Duration::from_millis(100);
/// How long a transport that broke may take to say why.
const ENDED: Duration = Duration::from_secs(2);

/// What a relay is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Relay {
    /// How it gets to an agent.
    pub transport: Transport,
    /// How the program is run; its own words are the relay's arguments.
    pub run: Run,
}

/// How a relay gets to an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// A command whose standard input and output are an agent's.
    Command(Vec<String>),
    /// An agent that listens.
    Tcp(SocketAddr),
}

/// The command of this host that stands for `program` on a machine.
pub fn command(relay: &Relay, program: &[String]) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg("relay").arg("--").args(program);
    command.env(VARIABLE, serde_json::to_string(relay).expect("plain values are always JSON"));
    command
}

/// The failure of a relay that lost its link, by its exit code and the log of its standard error; `None` where the
/// program itself ended so.
pub fn failure(status: ExitStatus, log: &Path) -> Option<Failure> {
    if status.code() != Some(EXIT_RELAY_FAILED.into()) {
        return None;
    }
    let tail = process::tail(log, 12);
    let said =
        tail.lines().rev().find_map(|line| line.split_once("relay: ").map(|(_, said)| said.to_string()))?;
    let what = format!("the link to the machine broke: {said}");
    Some(
        Failure::new(Kind::MachineUnreachable, what)
            .log(log)
            .next("check the machine and the network; then run it again"),
    )
}

/// What the relay's main thread is told.
enum Event {
    /// The program has ended, and all that it wrote was passed on.
    Exit(Exit),
    /// The agent said no.
    Refused(String),
    /// The stream is over, or holds what is no frame.
    Ended(Option<String>),
}

/// `xtask relay -- PROGRAM …`: the exit code is the program's.
pub fn run(program: Vec<String>) -> u8 {
    match relay(program) {
        Ok(code) => code,
        Err(error) => {
            ui::say(&format!("relay: {error:#}"));
            EXIT_RELAY_FAILED
        }
    }
}

fn relay(program: Vec<String>) -> Result<u8> {
    let text = std::env::var(VARIABLE).with_context(|| format!("{VARIABLE} is not set"))?;
    let Relay { transport, mut run } =
        serde_json::from_str(&text).with_context(|| format!("{VARIABLE} cannot be read"))?;
    run.program = program;
    // Before anything is printed or read.
    let terminal = terminal::Raw::begin(&mut run);
    let link = Link::open(&transport)?;
    let silence = Duration::from_secs(run.silence_s.max(1));
    let (say, to_say) = channel();
    let (events, heard) = channel();
    let (window, hearing) = (Window::default(), Hearing::new());
    // The first word, before whatever else comes.
    say.send(ToAgent::Run(Box::new(run)))?;
    let Link { read, write, transport: mut child } = link;
    streams::write_frames(write, to_say);
    streams::read_frames(read, events, say.clone(), window.clone(), hearing.clone());
    streams::read_input(say.clone(), window);
    forward_signals(say)?;
    let outcome = follow(&heard, &hearing, silence);
    if let Some(child) = &mut child {
        // A transport that broke may still say why. Else all was said, and the agent ends when nobody listens any more.
        if outcome.is_err() {
            child.wait(ENDED)?;
        }
        child.stop(Duration::ZERO)?;
    }
    drop(terminal);
    outcome
}

/// Waits for the program's end, or for the reason why it is not known.
fn follow(heard: &Receiver<Event>, hearing: &Hearing, silence: Duration) -> Result<u8> {
    loop {
        match heard.recv_timeout(TICK) {
            Ok(Event::Exit(Exit { code: Some(code), .. })) => return Ok(code as u8),
            Ok(Event::Exit(Exit { signal: Some(signal), .. })) => return Ok(128 + signal as u8),
            Ok(Event::Exit(_)) => anyhow::bail!("the agent does not know how the program ended"),
            Ok(Event::Refused(why)) => anyhow::bail!("{why}"),
            Ok(Event::Ended(None)) => anyhow::bail!("the link ended before the program did"),
            Ok(Event::Ended(Some(bad))) => anyhow::bail!("this is no agent: {bad}"),
            Err(RecvTimeoutError::Timeout) if hearing.silent_for() > silence => {
                anyhow::bail!("the link is lost: nothing was heard for {} s", silence.as_secs());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => anyhow::bail!("the link ended before the program did"),
        }
    }
}

/// Signals go to the program: this process stands for it.
fn forward_signals(say: Sender<ToAgent>) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH])?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let frame = match (signal, terminal::size()) {
                (SIGWINCH, Some((rows, columns))) => ToAgent::Resize(rows, columns),
                (SIGWINCH, None) => continue,
                (signal, _) => ToAgent::Signal(signal as u8),
            };
            if say.send(frame).is_err() {
                return;
            }
        }
    });
    Ok(())
}

/// Both directions of a transport.
struct Link {
    read: Box<dyn std::io::Read + Send>,
    write: Box<dyn std::io::Write + Send>,
    transport: Option<Guarded>,
}

impl Link {
    fn open(transport: &Transport) -> Result<Self> {
        match transport {
            Transport::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, CONNECTED)
                    .with_context(|| format!("cannot connect to the agent at {address}"))?;
                stream.set_nodelay(true)?;
                Ok(Link { read: Box::new(stream.try_clone()?), write: Box::new(stream), transport: None })
            }
            Transport::Command(words) => {
                let (name, arguments) = words.split_first().context("the transport has no command")?;
                let mut command = Command::new(name);
                command.args(arguments).env_remove(VARIABLE);
                let (read, write): (PipeReader, _) = std::io::pipe()?;
                // A group of its own: what is sent to ours is for the program alone.
                let stdio = [Stdio::piped(), write.into(), Stdio::inherit()];
                let mut child = process::spawn_with(name, command, OnOurDeath::Kill, stdio)?;
                let stdin = child.take_stdin().context("the transport has no standard input")?;
                Ok(Link { read: Box::new(read), write: Box::new(stdin), transport: Some(child) })
            }
        }
    }
}
