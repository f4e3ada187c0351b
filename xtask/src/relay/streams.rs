//! The relay's threads: one reads the transport, one writes it, one reads standard input. Each may wait for its
//! stream as long as it has to; the main thread never does.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use model::agent::{CHUNK_BYTES, Decoder, Frame, FromAgent, PING_S, STDIN_WINDOW_BYTES, ToAgent};
use signal_hook::consts::SIGPIPE;

use super::Event;

/// How much of standard input is on its way to the program.
#[derive(Clone, Default)]
pub struct Window(Arc<(Mutex<usize>, Condvar)>);

impl Window {
    /// Waits until something may be sent; how much.
    fn wait(&self) -> usize {
        let (inside, changed) = &*self.0;
        let inside = inside.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |inside: &mut usize| *inside >= STDIN_WINDOW_BYTES;
        let inside = changed.wait_while(inside, full).unwrap_or_else(PoisonError::into_inner);
        (STDIN_WINDOW_BYTES - *inside).min(CHUNK_BYTES)
    }

    fn change(&self, by: impl FnOnce(usize) -> usize) {
        let (inside, changed) = &*self.0;
        let mut inside = inside.lock().unwrap_or_else(PoisonError::into_inner);
        *inside = by(*inside);
        changed.notify_all();
    }
}

/// Since when nothing was heard. Time spent passing on what was heard does not count: it is not the link's.
#[derive(Clone)]
pub struct Hearing {
    begun: Instant,
    since_ms: Arc<AtomicU64>,
}

const PASSING_ON: u64 = u64::MAX;

impl Hearing {
    /// Begins to listen.
    pub fn new() -> Self {
        Hearing { begun: Instant::now(), since_ms: Arc::default() }
    }

    fn listen(&self) {
        self.since_ms.store(self.begun.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    fn pass_on(&self) {
        self.since_ms.store(PASSING_ON, Ordering::Relaxed);
    }

    /// For how long nothing was heard.
    pub fn silent_for(&self) -> Duration {
        match self.since_ms.load(Ordering::Relaxed) {
            PASSING_ON => Duration::ZERO,
            since => self.begun.elapsed().saturating_sub(Duration::from_millis(since)),
        }
    }
}

/// Writes what is to be said, and now and then that we live.
pub fn write_frames(mut to: impl Write + Send + 'static, frames: Receiver<ToAgent>) {
    std::thread::spawn(move || {
        let every = Duration::from_secs(PING_S);
        let mut next = Instant::now() + every;
        loop {
            let frame = match frames.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(frame) => frame,
                Err(RecvTimeoutError::Timeout) => {
                    next = Instant::now() + every;
                    ToAgent::Ping
                }
                Err(RecvTimeoutError::Disconnected) => return,
            };
            // Whoever reads the transport finds out, and why.
            if to.write_all(&frame.encode()).and_then(|()| to.flush()).is_err() {
                return;
            }
        }
    });
}

/// Reads the transport, passes on what the program wrote, and tells the rest.
pub fn read_frames(
    mut from: impl Read + Send + 'static,
    events: Sender<Event>,
    say: Sender<ToAgent>,
    window: Window,
    hearing: Hearing,
) {
    std::thread::spawn(move || {
        let (mut decoder, mut bytes) = (Decoder::default(), vec![0; CHUNK_BYTES]);
        let stdout = Output::of(std::io::stdout().as_fd().try_clone_to_owned());
        let stderr = Output::of(std::io::stderr().as_fd().try_clone_to_owned());
        let mut outputs = [stdout, stderr];
        loop {
            hearing.listen();
            match from.read(&mut bytes) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Ok(0) | Err(_) => return drop(events.send(Event::Ended(None))),
                Ok(n) => decoder.push(&bytes[..n]),
            }
            hearing.pass_on();
            loop {
                let event = match decoder.frame() {
                    Ok(None) => break,
                    Err(bad) => Event::Ended(Some(bad.to_string())),
                    Ok(Some(FromAgent::Exit(exit))) => Event::Exit(exit),
                    Ok(Some(FromAgent::Refused(refused))) => Event::Refused(refused.why),
                    Ok(Some(frame)) => {
                        pass_on(frame, &mut outputs, &say, &window);
                        continue;
                    }
                };
                return drop(events.send(event));
            }
        }
    });
}

fn pass_on(frame: FromAgent, outputs: &mut [Output; 2], say: &Sender<ToAgent>, window: &Window) {
    match frame {
        FromAgent::Stdout(bytes) => outputs[0].write(&bytes, say),
        FromAgent::Stderr(bytes) => outputs[1].write(&bytes, say),
        FromAgent::Taken(bytes) => window.change(|inside| inside.saturating_sub(bytes as usize)),
        _ => {}
    }
}

/// A stream of ours that stands for one of the program's.
struct Output(Option<File>);

impl Output {
    fn of(copy: std::io::Result<std::os::fd::OwnedFd>) -> Self {
        Output(copy.ok().map(File::from))
    }

    /// Where nobody reads any more, the program is told as the kernel would.
    fn write(&mut self, bytes: &[u8], say: &Sender<ToAgent>) {
        if let Some(file) = &mut self.0
            && file.write_all(bytes).is_err()
        {
            self.0 = None;
            let _ = say.send(ToAgent::Signal(SIGPIPE as u8));
        }
    }
}

/// Passes on standard input, no more at a time than the program takes.
pub fn read_input(say: Sender<ToAgent>, window: Window) {
    std::thread::spawn(move || {
        let mut input = Output::of(std::io::stdin().as_fd().try_clone_to_owned()).0;
        let mut bytes = vec![0; CHUNK_BYTES];
        while let Some(file) = &mut input {
            let room = window.wait();
            match file.read(&mut bytes[..room]) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
                Ok(n) => {
                    window.change(|inside| inside + n);
                    if say.send(ToAgent::Stdin(bytes[..n].to_vec())).is_err() {
                        return;
                    }
                }
            }
        }
        let _ = say.send(ToAgent::StdinEnd);
    });
}
