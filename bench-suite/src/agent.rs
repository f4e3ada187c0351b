//! `agent`: runs programs of this machine for relays of another, one program a connection.
//!
//! Without `--listen` the one connection is standard input and output, and ends the agent with it. What may come over a
//! connection is in `model::agent`. Whatever ends a connection ends its program and all that this one started.

mod program;
mod session;

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::output::for_people;

pub use program::{GuardArgs, guard};

/// Most connections at a time.
const MOST_CONNECTIONS: usize = 256;
/// How often the listener looks whether it should end.
const TICK: Duration = Duration::from_millis(50);
const FAILED: u8 = 3;
/// A token shorter than this could be guessed.
const TOKEN_LEAST_BYTES: usize = 16;

/// Run programs for portbench on another host
///
/// Speaks a protocol of its own with `xtask relay`. When the connection ends, so does the program.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  bench-suite agent --listen 0.0.0.0:7000 --token-file /run/token")]
pub struct Args {
    /// Accept connections at this address, each for a program; without it: standard input and output are the only one
    #[arg(long, value_name = "ADDRESS:PORT", requires = "token_file")]
    listen: Option<SocketAddr>,
    /// File with the word that every connection must begin with
    #[arg(long, value_name = "FILE", requires = "listen")]
    token_file: Option<PathBuf>,
}

/// A connection to a relay.
struct Connection {
    read: Box<dyn Read + Send>,
    write: Box<dyn Write + Send>,
    /// Ends both directions at once, so that whoever waits on them goes on.
    close: Box<dyn Fn() + Send>,
}

/// Serves until the connection ends, or SIGTERM, SIGINT or SIGHUP.
pub fn run(args: &Args) -> ExitCode {
    let outcome = stop_flag().and_then(|stop| match (&args.listen, &args.token_file) {
        (Some(address), Some(file)) => listen(*address, token(file)?, &stop).map(|()| ExitCode::SUCCESS),
        // What went wrong with the only connection was told over it.
        _ => {
            Ok(session::serve(standard_streams()?, None, &stop).map_or(FAILED.into(), |()| ExitCode::SUCCESS))
        }
    });
    outcome.unwrap_or_else(|error| {
        for_people(&format!("bench-suite agent: {error}"));
        FAILED.into()
    })
}

fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

fn standard_streams() -> io::Result<Connection> {
    // Copies without the standard library's buffers and locks.
    let read = std::fs::File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let write = std::fs::File::from(io::stdout().as_fd().try_clone_to_owned()?);
    // They end with the process, which is about to end.
    Ok(Connection { read: Box::new(read), write: Box::new(write), close: Box::new(|| ()) })
}

fn token(file: &Path) -> io::Result<String> {
    let about = |what: &dyn std::fmt::Display| io::Error::other(format!("{}: {what}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| about(&error))?;
    let token = text.trim().to_string();
    if token.len() < TOKEN_LEAST_BYTES {
        return Err(about(&format!("the token has fewer than {TOKEN_LEAST_BYTES} characters")));
    }
    Ok(token)
}

fn listen(address: SocketAddr, token: String, stop: &Arc<AtomicBool>) -> io::Result<()> {
    let listener = TcpListener::bind(address)
        .map_err(|error| io::Error::other(format!("cannot listen at {address}: {error}")))?;
    listener.set_nonblocking(true)?;
    // For whoever asked for port 0, and for whoever waits for readiness.
    writeln!(io::stdout(), "listening at {}", listener.local_addr()?)?;
    let (open, token) = (Arc::new(AtomicUsize::new(0)), Arc::new(token));
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, _)) if open.load(Ordering::Relaxed) < MOST_CONNECTIONS => {
                let (open, token, stop) = (open.clone(), token.clone(), stop.clone());
                open.fetch_add(1, Ordering::Relaxed);
                std::thread::spawn(move || {
                    let served = tcp(&stream)
                        .map_err(|error| error.to_string())
                        .and_then(|connection| session::serve(connection, Some(&token), &stop));
                    if let Err(why) = served {
                        for_people(&format!("bench-suite agent: {why}"));
                    }
                    open.fetch_sub(1, Ordering::Relaxed);
                });
            }
            // Dropped: its relay sees the end.
            Ok(_) => for_people(&format!("bench-suite agent: more than {MOST_CONNECTIONS} connections")),
            // No connection yet, or one that was gone before it was accepted, or no descriptors left for a while.
            Err(_) => std::thread::sleep(TICK),
        }
    }
    // Sessions see the flag as well, and end their programs.
    while open.load(Ordering::Relaxed) > 0 {
        std::thread::sleep(TICK);
    }
    Ok(())
}

fn tcp(stream: &TcpStream) -> io::Result<Connection> {
    stream.set_nonblocking(false)?;
    // Pings and signals are small and must not wait for each other.
    stream.set_nodelay(true)?;
    let (read, write, closer) = (stream.try_clone()?, stream.try_clone()?, stream.try_clone()?);
    let close = Box::new(move || {
        let _ = closer.shutdown(Shutdown::Both);
    });
    Ok(Connection { read: Box::new(read), write: Box::new(write), close })
}
