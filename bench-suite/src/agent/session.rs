//! One connection: a program started, its streams relayed, its end told. This thread decides and never waits for a
//! stream; threads that read and write for it may wait as long as they have to.
//!
//! Every queue is bounded. A relay that does not read slows its program down; it does not fill the agent's memory, and
//! does not keep signals from the program.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, channel, sync_channel};
use std::time::{Duration, Instant};

use model::agent::{
    Bad, CHUNK_BYTES, Decoder, Exit, Frame, FromAgent, Refused, Run, STDIN_WINDOW_BYTES, Started, ToAgent,
};
use rustix::process::Signal;

use super::Connection;
use super::program::{self, Program, Streams, resize};

/// How long a new connection may take to say what it wants.
const FIRST_WORD: Duration = Duration::from_secs(10);
/// How long a program may take to end after SIGTERM before SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
/// How long streams may stay open after the program's end, and the relay after ours.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How often time limits are looked at.
const TICK: Duration = Duration::from_millis(50);
/// How long to wait for room in a full queue.
const FULL: Duration = Duration::from_millis(2);
/// Frames that may wait to be written.
const QUEUE: usize = 8;

/// What the session's thread is told.
enum Event {
    Frame(ToAgent),
    StreamEnded,
    StreamBad(Bad),
    Taken(u32),
    OutputEnded,
    ProgramEnded(std::io::Result<ExitStatus>),
    AllWritten,
}

/// Why a session is over.
enum Over {
    /// The program ended, and the relay was told.
    Told,
    /// The relay is gone or silent: nobody is left to tell.
    Gone(&'static str),
    /// The relay was, or shall be, told why not.
    Refused(String),
}

/// Serves one connection to its end. The error is for the agent's own log.
pub fn serve(connection: Connection, token: Option<&str>, stop: &Arc<AtomicBool>) -> Result<(), String> {
    let Connection { read, write, close } = connection;
    let (events, heard) = sync_channel(QUEUE);
    let (output, frames) = sync_channel::<FromAgent>(QUEUE);
    let own = events.clone();
    std::thread::spawn(move || read_frames(read, &own));
    let own = events.clone();
    std::thread::spawn(move || {
        write_frames(write, &frames);
        // Closed for whoever still waits for room in it.
        drop(frames);
        let _ = own.send(Event::AllWritten);
    });
    let mut session = Session {
        heard,
        events,
        output: Some(output),
        stop: stop.clone(),
        last_word: Instant::now(),
        silence: FIRST_WORD,
        due_taken: 0,
        due_pong: false,
        stream_ended: false,
    };
    let told = match session.whole(token) {
        Over::Told => Ok(()),
        Over::Gone(why) => Err(why.to_string()),
        Over::Refused(why) => {
            session.tell(FromAgent::Refused(Refused { why: why.clone() }));
            Err(why)
        }
    };
    session.flush();
    close();
    told
}

fn read_frames(mut read: impl Read, events: &SyncSender<Event>) {
    let (mut decoder, mut bytes) = (Decoder::default(), vec![0; CHUNK_BYTES]);
    loop {
        match read.read(&mut bytes) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => break,
            Ok(n) => decoder.push(&bytes[..n]),
        }
        loop {
            match decoder.frame::<ToAgent>() {
                Ok(None) => break,
                Ok(Some(frame)) => {
                    if events.send(Event::Frame(frame)).is_err() {
                        return;
                    }
                }
                Err(bad) => {
                    let _ = events.send(Event::StreamBad(bad));
                    // Read on to the end: closing before it would take our last words with it.
                    while matches!(read.read(&mut bytes), Ok(n) if n > 0) {}
                    let _ = events.send(Event::StreamEnded);
                    return;
                }
            }
        }
    }
    let _ = events.send(Event::StreamEnded);
}

fn write_frames(mut write: impl Write, frames: &Receiver<FromAgent>) {
    for frame in frames {
        if write.write_all(&frame.encode()).and_then(|()| write.flush()).is_err() {
            return;
        }
    }
}

/// A stream of the program on its way to the relay.
struct Pump {
    make: fn(Vec<u8>) -> FromAgent,
    begun: Instant,
    /// When it last moved something, in ms since it began; [`MOVING`] while it does.
    moved_ms: AtomicU64,
}

const MOVING: u64 = u64::MAX;

impl Pump {
    fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    /// Whether nothing has come for so long that nothing will.
    fn is_quiet(&self) -> bool {
        let moved = self.moved_ms.load(Ordering::Relaxed);
        moved != MOVING && self.now_ms().saturating_sub(moved) > LAST_WORDS.as_millis() as u64
    }
}

/// Sends what a stream of the program says. What nobody reads is dropped, so that the program can end.
fn pump(mut from: File, pump: &Pump, to: &SyncSender<FromAgent>, gone: &AtomicBool) {
    let mut bytes = vec![0; CHUNK_BYTES];
    loop {
        pump.moved_ms.store(pump.now_ms(), Ordering::Relaxed);
        // A terminal says EIO when its program has gone.
        let n = match from.read(&mut bytes) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => return,
            Ok(n) => n,
        };
        pump.moved_ms.store(MOVING, Ordering::Relaxed);
        let mut frame = (pump.make)(bytes[..n].to_vec());
        while !gone.load(Ordering::Relaxed) {
            match to.try_send(frame) {
                Err(TrySendError::Full(back)) => frame = back,
                Ok(()) | Err(TrySendError::Disconnected(_)) => break,
            }
            std::thread::sleep(FULL);
        }
    }
}

/// Writes what comes for the program. What it does not want is taken all the same.
fn feed(to: File, terminal: bool, from: &Receiver<Vec<u8>>, events: &SyncSender<Event>) {
    let mut to = Some(to);
    for bytes in from {
        if let Some(file) = &mut to
            && file.write_all(&bytes).is_err()
        {
            to = None;
        }
        if events.send(Event::Taken(bytes.len() as u32)).is_err() {
            return;
        }
    }
    // On a terminal, closing our end would hang it up.
    if terminal && let Some(file) = &mut to {
        let _ = file.write_all(&[4]);
    }
}

struct Session {
    heard: Receiver<Event>,
    events: SyncSender<Event>,
    output: Option<SyncSender<FromAgent>>,
    stop: Arc<AtomicBool>,
    last_word: Instant,
    silence: Duration,
    /// What could not be sent yet: the queue was full.
    due_taken: u32,
    due_pong: bool,
    stream_ended: bool,
}

/// A program and what is known of it.
struct Running {
    program: Program,
    stdin: Option<std::sync::mpsc::Sender<Vec<u8>>>,
    /// Bytes on their way to its standard input.
    inside: usize,
    terminal: Option<File>,
    gone: Arc<AtomicBool>,
    pumps: Vec<Arc<Pump>>,
    open_pumps: usize,
    ended: Option<(Instant, Exit)>,
}

impl Session {
    fn whole(&mut self, token: Option<&str>) -> Over {
        let run = match self.first(token) {
            Ok(run) => run,
            Err(over) => return over,
        };
        self.silence = Duration::from_secs(run.silence_s.max(1));
        let ended = self.events.clone();
        let started = program::start(&run, move |status| drop(ended.send(Event::ProgramEnded(status))));
        let mut running = match started {
            Ok((program, streams)) => {
                // Before anything that it says.
                self.tell(FromAgent::Started(Started { pid: program.id() }));
                self.attach(program, streams)
            }
            Err(why) => return Over::Refused(why),
        };
        let over = self.until_over(&mut running);
        running.gone.store(true, Ordering::Relaxed);
        self.end(&mut running);
        over
    }

    /// The first frame says what to start.
    fn first(&mut self, token: Option<&str>) -> Result<Run, Over> {
        loop {
            match self.next()? {
                Some(Event::Frame(ToAgent::Run(run))) => {
                    return match token {
                        Some(token) if !same(token, &run.token) => {
                            Err(Over::Refused("the token is not the one of this agent".into()))
                        }
                        _ => Ok(*run),
                    };
                }
                Some(Event::Frame(ToAgent::Ping)) => self.due_pong = true,
                Some(Event::Frame(_)) => {
                    return Err(Over::Refused("the first frame must say what to run".into()));
                }
                _ => {}
            }
        }
    }

    /// The next event, `None` when it was time to look around; what ends every session.
    fn next(&mut self) -> Result<Option<Event>, Over> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Over::Refused("the agent was told to end".into()));
        }
        self.send_due();
        let patience = if self.due_pong || self.due_taken > 0 { FULL } else { TICK };
        let event = match self.heard.recv_timeout(patience) {
            Ok(event) => event,
            // Never disconnected: this thread holds a sender itself.
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                let silent = self.last_word.elapsed() > self.silence;
                return if silent { Err(Over::Gone("nothing was heard of the relay")) } else { Ok(None) };
            }
        };
        match event {
            Event::StreamEnded => {
                self.stream_ended = true;
                Err(Over::Gone("the relay has gone"))
            }
            Event::StreamBad(bad) => Err(Over::Refused(bad.to_string())),
            Event::Frame(frame) => {
                self.last_word = Instant::now();
                Ok(Some(Event::Frame(frame)))
            }
            other => Ok(Some(other)),
        }
    }

    fn send_due(&mut self) {
        let Some(output) = &self.output else { return };
        if self.due_pong {
            self.due_pong = matches!(output.try_send(FromAgent::Pong), Err(TrySendError::Full(_)));
        }
        if self.due_taken > 0
            && !matches!(output.try_send(FromAgent::Taken(self.due_taken)), Err(TrySendError::Full(_)))
        {
            self.due_taken = 0;
        }
    }

    fn attach(&self, program: Program, streams: Streams) -> Running {
        let gone = Arc::new(AtomicBool::new(false));
        let mut pumps = Vec::new();
        let stdout = Some((streams.stdout, FromAgent::Stdout as fn(Vec<u8>) -> FromAgent));
        let stderr = streams.stderr.map(|file| (file, FromAgent::Stderr as fn(Vec<u8>) -> FromAgent));
        for (file, make) in stdout.into_iter().chain(stderr) {
            let pumped = Arc::new(Pump { make, begun: Instant::now(), moved_ms: AtomicU64::new(0) });
            pumps.push(pumped.clone());
            let (output, events, gone) = (self.output.clone(), self.events.clone(), gone.clone());
            std::thread::spawn(move || {
                if let Some(output) = output {
                    pump(file, &pumped, &output, &gone);
                }
                let _ = events.send(Event::OutputEnded);
            });
        }
        // Bounded by the window, which is checked.
        let (stdin, bytes) = channel();
        let (events, terminal) = (self.events.clone(), streams.terminal.is_some());
        std::thread::spawn(move || feed(streams.stdin, terminal, &bytes, &events));
        let (stdin, terminal, open_pumps) = (Some(stdin), streams.terminal, pumps.len());
        Running { program, stdin, inside: 0, terminal, gone, pumps, open_pumps, ended: None }
    }

    fn until_over(&mut self, running: &mut Running) -> Over {
        loop {
            match self.next() {
                Err(over) => return over,
                Ok(Some(Event::Frame(frame))) => {
                    if let Err(why) = self.obey(frame, running) {
                        return Over::Refused(why);
                    }
                }
                Ok(Some(Event::AllWritten)) => return Over::Gone("the relay does not listen any more"),
                Ok(Some(event)) => self.note(event, running),
                Ok(None) => {}
            }
            // Who holds the streams open after the program's end has left its group: it is not waited for.
            if let Some((at, exit)) = &running.ended
                && (running.open_pumps == 0
                    || at.elapsed() > LAST_WORDS && running.pumps.iter().all(|pump| pump.is_quiet()))
                && self.due_taken == 0
            {
                let exit = exit.clone();
                let output = self.output.as_ref();
                if output.is_some_and(|to| to.try_send(FromAgent::Exit(exit)).is_ok()) {
                    return Over::Told;
                }
                std::thread::sleep(FULL);
            }
        }
    }

    fn obey(&mut self, frame: ToAgent, running: &mut Running) -> Result<(), String> {
        match frame {
            ToAgent::Run(_) => return Err("a connection runs one program".into()),
            ToAgent::Stdin(bytes) => {
                running.inside += bytes.len();
                if running.inside > STDIN_WINDOW_BYTES {
                    return Err(format!("more than {STDIN_WINDOW_BYTES} bytes of input at a time"));
                }
                let Some(stdin) = &running.stdin else {
                    return Err("input after its end".into());
                };
                let _ = stdin.send(bytes);
            }
            ToAgent::StdinEnd => running.stdin = None,
            ToAgent::Signal(number) => {
                let signal = Signal::from_named_raw(number.into());
                running.program.signal(signal.ok_or_else(|| format!("there is no signal {number}"))?);
            }
            ToAgent::Ping => self.due_pong = true,
            ToAgent::Resize(rows, columns) => {
                if let Some(terminal) = &running.terminal {
                    resize(terminal, rows, columns);
                }
            }
        }
        Ok(())
    }

    fn note(&mut self, event: Event, running: &mut Running) {
        match event {
            Event::Taken(bytes) => {
                running.inside = running.inside.saturating_sub(bytes as usize);
                self.due_taken += bytes;
            }
            Event::OutputEnded => running.open_pumps -= 1,
            Event::StreamEnded => self.stream_ended = true,
            Event::ProgramEnded(status) => {
                let exit = match status {
                    Ok(status) => Exit { code: status.code(), signal: status.signal() },
                    Err(_) => Exit { code: None, signal: None },
                };
                running.ended = Some((Instant::now(), exit));
            }
            Event::Frame(_) | Event::StreamBad(_) | Event::AllWritten => {}
        }
    }

    /// Ends the program if it has not ended: it is asked, and then not.
    fn end(&mut self, running: &mut Running) {
        running.stdin = None;
        for (signal, limit) in [(Signal::TERM, GRACE), (Signal::KILL, 2 * GRACE)] {
            if running.ended.is_some() {
                return;
            }
            running.program.signal(signal);
            let until = Instant::now() + limit;
            while running.ended.is_none() && Instant::now() < until {
                if let Ok(event) = self.heard.recv_timeout(TICK) {
                    self.note(event, running);
                }
            }
        }
    }

    /// Sends a frame, unless nobody reads for a while.
    fn tell(&mut self, mut frame: FromAgent) {
        let until = Instant::now() + LAST_WORDS;
        while let Some(output) = &self.output
            && Instant::now() < until
        {
            match output.try_send(frame) {
                Err(TrySendError::Full(back)) => frame = back,
                Ok(()) | Err(TrySendError::Disconnected(_)) => return,
            }
            std::thread::sleep(FULL);
        }
    }

    /// Lets what was said arrive: the relay closes when it has heard the last of it. A relay that has gone is not
    /// waited for.
    fn flush(&mut self) {
        self.output = None;
        let until = Instant::now() + LAST_WORDS;
        while !self.stream_ended && Instant::now() < until {
            self.stream_ended |= matches!(self.heard.recv_timeout(TICK), Ok(Event::StreamEnded));
        }
    }
}

/// Compares without telling by its time how much was right.
fn same(a: &str, b: &str) -> bool {
    let different = a.bytes().zip(b.bytes()).fold(0, |all, (x, y)| all | (x ^ y));
    a.len() == b.len() && different == 0
}

#[cfg(test)]
mod tests {
    use super::same;

    #[test]
    fn tokens_are_the_same_or_not() {
        assert!(same("abc", "abc"));
        assert!(!same("abc", "abd") && !same("abc", "ab") && !same("", "a"));
    }
}
