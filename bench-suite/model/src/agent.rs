//! What a relay on the host and an agent on the machine say to each other: frames on one stream, a program a stream.
//!
//! A frame is its kind (a byte), the length of its payload (32 bits, big endian) and the payload. What has more than
//! one value is JSON, what a program reads and writes is bytes. Here is no I/O: see `agent` of the bench binary and
//! `relay` of the orchestrator.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::CpuList;

/// Longest payload. What is longer is no frame, and ends the conversation before memory is asked for it.
pub const MAX_PAYLOAD_BYTES: usize = 1 << 20;
/// Most bytes of one [`ToAgent::Stdin`], [`FromAgent::Stdout`] or [`FromAgent::Stderr`].
pub const CHUNK_BYTES: usize = 32 << 10;
/// Bytes of standard input that may be on their way: more is sent when [`FromAgent::Taken`] says that the program has
/// read. So input that nobody reads never stands in front of a signal.
pub const STDIN_WINDOW_BYTES: usize = 256 << 10;
/// How often a relay says that it lives, in seconds.
pub const PING_S: u64 = 2;
/// How long either side waits for a word of the other, in seconds, unless [`Run::silence_s`] says otherwise.
pub const SILENCE_S: u64 = 20;
/// Exit code of a relay whose link or agent failed: the program's own end is not known.
pub const EXIT_RELAY_FAILED: u8 = 125;

const HEADER_BYTES: usize = 5;

/// What to start, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Known to both sides where anybody might connect; empty where the connection itself vouches for the relay.
    pub token: String,
    /// The program's path and its arguments.
    pub program: Vec<String>,
    /// Set beside the agent's own environment.
    pub environment: BTreeMap<String, String>,
    /// Working folder; `None`: the agent's.
    pub folder: Option<PathBuf>,
    /// User and group id to run as; `None`: the agent's.
    pub user: Option<u32>,
    /// CPUs to run on; `None`: all that the agent may use.
    pub cpus: Option<CpuList>,
    /// NUMA node that memory is taken from; `None`: any.
    pub numa_node: Option<u32>,
    /// Seconds without a word of the relay after which the program is ended.
    pub silence_s: u64,
    /// A terminal for the program; `None`: pipes.
    pub terminal: Option<Terminal>,
}

/// A terminal's size and kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terminal {
    /// Lines.
    pub rows: u16,
    /// Characters a line.
    pub columns: u16,
    /// `$TERM`.
    pub kind: String,
}

/// The program runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// Its process id on the machine.
    pub pid: u32,
}

/// The program has ended. One of the two is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// The program was not started, or the conversation cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The reason, for people.
    pub why: String,
}

/// Where a server may keep its data: what `bench-suite place` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// A private folder, removed when nobody needs it any more; what holds it has files of its own there.
    pub data: PathBuf,
    /// Path for a UNIX socket, short enough to be one.
    pub socket: PathBuf,
    /// A TCP port of 127.0.0.1 that was free.
    pub port: u16,
    /// Further ones, as many as were asked for.
    pub more_ports: Vec<u16>,
}

/// From the relay to the agent. The first is `Run`, and there is one.
#[derive(Clone, Debug, PartialEq)]
pub enum ToAgent {
    /// Start a program.
    Run(Box<Run>),
    /// Bytes for its standard input.
    Stdin(Vec<u8>),
    /// No more of them.
    StdinEnd,
    /// A signal for its process group.
    Signal(u8),
    /// The relay lives.
    Ping,
    /// The terminal has another size: rows, columns.
    Resize(u16, u16),
}

/// From the agent to the relay. The last is `Exit` or `Refused`.
#[derive(Clone, Debug, PartialEq)]
pub enum FromAgent {
    /// The program runs.
    Started(Started),
    /// Bytes of its standard output.
    Stdout(Vec<u8>),
    /// Bytes of its standard error.
    Stderr(Vec<u8>),
    /// So many bytes of standard input were taken by the program.
    Taken(u32),
    /// It has ended, and all that it wrote was sent.
    Exit(Exit),
    /// It was not started, or the relay said what cannot be.
    Refused(Refused),
    /// The agent lives: the answer to `Ping`.
    Pong,
}

/// What arrived is no frame of this protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bad(pub String);

impl std::fmt::Display for Bad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Bad {}

/// One direction of the conversation.
pub trait Frame: Sized {
    /// Kind and payload.
    fn parts(&self) -> (u8, Vec<u8>);
    /// The frame of a kind and a payload.
    fn from_parts(kind: u8, payload: &[u8]) -> Result<Self, Bad>;

    /// The frame as it is sent.
    fn encode(&self) -> Vec<u8> {
        let (kind, payload) = self.parts();
        let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
        bytes.push(kind);
        bytes.extend_from_slice(&(payload.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&payload);
        bytes
    }
}

impl Frame for ToAgent {
    fn parts(&self) -> (u8, Vec<u8>) {
        match self {
            ToAgent::Run(run) => (1, json(run)),
            ToAgent::Stdin(bytes) => (2, bytes.clone()),
            ToAgent::StdinEnd => (3, vec![]),
            ToAgent::Signal(number) => (4, vec![*number]),
            ToAgent::Ping => (5, vec![]),
            ToAgent::Resize(rows, columns) => (6, [rows.to_be_bytes(), columns.to_be_bytes()].concat()),
        }
    }

    fn from_parts(kind: u8, payload: &[u8]) -> Result<Self, Bad> {
        match (kind, payload) {
            (1, json) => Ok(ToAgent::Run(parsed(json)?)),
            (2, bytes) => Ok(ToAgent::Stdin(bytes.to_vec())),
            (3, []) => Ok(ToAgent::StdinEnd),
            (4, [number @ 1..=64]) => Ok(ToAgent::Signal(*number)),
            (5, []) => Ok(ToAgent::Ping),
            (6, [r1, r2, c1, c2]) => {
                Ok(ToAgent::Resize(u16::from_be_bytes([*r1, *r2]), u16::from_be_bytes([*c1, *c2])))
            }
            _ => Err(unknown(kind, payload)),
        }
    }
}

impl Frame for FromAgent {
    fn parts(&self) -> (u8, Vec<u8>) {
        match self {
            FromAgent::Started(started) => (65, json(started)),
            FromAgent::Stdout(bytes) => (66, bytes.clone()),
            FromAgent::Stderr(bytes) => (67, bytes.clone()),
            FromAgent::Taken(bytes) => (68, bytes.to_be_bytes().to_vec()),
            FromAgent::Exit(exit) => (69, json(exit)),
            FromAgent::Refused(refused) => (70, json(refused)),
            FromAgent::Pong => (71, vec![]),
        }
    }

    fn from_parts(kind: u8, payload: &[u8]) -> Result<Self, Bad> {
        match (kind, payload) {
            (65, json) => Ok(FromAgent::Started(parsed(json)?)),
            (66, bytes) => Ok(FromAgent::Stdout(bytes.to_vec())),
            (67, bytes) => Ok(FromAgent::Stderr(bytes.to_vec())),
            (68, [a, b, c, d]) => Ok(FromAgent::Taken(u32::from_be_bytes([*a, *b, *c, *d]))),
            (69, json) => Ok(FromAgent::Exit(parsed(json)?)),
            (70, json) => Ok(FromAgent::Refused(parsed(json)?)),
            (71, []) => Ok(FromAgent::Pong),
            _ => Err(unknown(kind, payload)),
        }
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("plain values with text as keys are always JSON")
}

fn parsed<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, Bad> {
    serde_json::from_slice(json).map_err(|error| Bad(format!("a frame's JSON cannot be read: {error}")))
}

fn unknown(kind: u8, payload: &[u8]) -> Bad {
    Bad(format!("a frame of kind {kind} with {} bytes is not one of this protocol", payload.len()))
}

/// Puts frames together from pieces of a stream.
#[derive(Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    // What of them was handed out.
    used: usize,
}

impl Decoder {
    /// Adds what was read. Holds at most a frame and what was read with its end.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.used);
        self.used = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next frame, `None` until it has arrived whole.
    pub fn frame<F: Frame>(&mut self) -> Result<Option<F>, Bad> {
        let bytes = &self.bytes[self.used..];
        let Some((&[kind, a, b, c, d], rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if length > MAX_PAYLOAD_BYTES {
            return Err(Bad(format!("a frame of {length} bytes: {MAX_PAYLOAD_BYTES} are allowed")));
        }
        let Some(payload) = rest.get(..length) else { return Ok(None) };
        let frame = F::from_parts(kind, payload)?;
        self.used += HEADER_BYTES + length;
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Run {
        Run {
            token: "t".into(),
            program: vec!["/bin/x".into(), "-é".into()],
            environment: [("A".to_string(), "b".to_string())].into(),
            folder: Some("/tmp".into()),
            user: Some(7),
            cpus: Some([0, 1].into_iter().collect()),
            numa_node: None,
            silence_s: SILENCE_S,
            terminal: Some(Terminal { rows: 24, columns: 80, kind: "vt100".into() }),
        }
    }

    fn there_and_back<F: Frame + PartialEq + std::fmt::Debug>(frames: &[F]) {
        let bytes: Vec<u8> = frames.iter().flat_map(Frame::encode).collect();
        for piece in [1, 3, 7, bytes.len()] {
            let mut decoder = Decoder::default();
            let mut found = Vec::new();
            for part in bytes.chunks(piece) {
                decoder.push(part);
                while let Some(frame) = decoder.frame::<F>().unwrap() {
                    found.push(frame);
                }
            }
            assert_eq!(found, frames, "in pieces of {piece}");
        }
    }

    #[test]
    fn every_frame_arrives_as_it_was_sent_in_pieces_of_any_size() {
        there_and_back(&[
            ToAgent::Run(Box::new(run())),
            ToAgent::Stdin(vec![0, 255, 10]),
            ToAgent::Stdin(vec![]),
            ToAgent::StdinEnd,
            ToAgent::Signal(15),
            ToAgent::Ping,
            ToAgent::Resize(50, 300),
        ]);
        there_and_back(&[
            FromAgent::Started(Started { pid: 9 }),
            FromAgent::Stdout(b"out".to_vec()),
            FromAgent::Stderr(b"err".to_vec()),
            FromAgent::Taken(1 << 18),
            FromAgent::Exit(Exit { code: Some(3), signal: None }),
            FromAgent::Refused(Refused { why: "no".into() }),
            FromAgent::Pong,
        ]);
    }

    fn refused<F: Frame>(bytes: &[u8]) -> String {
        let mut decoder = Decoder::default();
        decoder.push(bytes);
        match decoder.frame::<F>() {
            Err(bad) => bad.to_string(),
            Ok(_) => panic!("{bytes:?} was taken for a frame"),
        }
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        assert!(refused::<ToAgent>(b"SSH-2.0-OpenSSH").contains("bytes"));
        assert!(refused::<ToAgent>(&[5, 0, 0x10, 0, 1]).contains("1048577"));
        assert!(refused::<ToAgent>(&[99, 0, 0, 0, 0]).contains("kind 99"));
        assert!(refused::<ToAgent>(&[4, 0, 0, 0, 1, 0]).contains("kind 4"), "signal 0 is none");
        assert!(refused::<ToAgent>(&[4, 0, 0, 0, 1, 65]).contains("kind 4"));
        assert!(refused::<ToAgent>(&[5, 0, 0, 0, 1, 0]).contains("kind 5"));
        assert!(refused::<ToAgent>(&[1, 0, 0, 0, 2, b'{', b'}']).contains("JSON"));
        // Each side hears only what is meant for it.
        assert!(refused::<ToAgent>(&FromAgent::Pong.encode()).contains("kind 71"));
        assert!(refused::<FromAgent>(&ToAgent::Ping.encode()).contains("kind 5"));
    }
}
