//! One transfer: from one place to the end of a partial file.
//!
//! A thread of its own talks to the server, since nothing interrupts it there. It hands over what comes, so that this
//! side sees at once a Ctrl-C, a stall and a body that is not the one that was pinned.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ureq::http::{StatusCode, header};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

use crate::interrupt;
use crate::process::TICK;
use crate::ui::Progress;

/// Bytes that are handed over at a time.
const CHUNK: usize = 64 << 10;

/// Chunks that may wait to be written.
const AHEAD: usize = 16;

/// Why a transfer came to nothing.
#[derive(Debug)]
pub enum Trouble {
    /// The place does not have it, or cannot be reached, or has stalled: another may do better.
    Unavailable(String),
    /// The transfer broke: it may go on from where the partial file ends.
    Broken(String),
    /// The place has something else than what is pinned.
    Wrong(String),
    /// Our own end: the disk, or Ctrl-C.
    Ours(anyhow::Error),
}

impl From<anyhow::Error> for Trouble {
    fn from(error: anyhow::Error) -> Self {
        Trouble::Ours(error)
    }
}

/// What to bring from where to where.
pub struct Transfer<'a> {
    /// `http://…`, `https://…` or `file:/…`.
    pub uri: &'a str,
    /// The partial file: what it holds is not asked for again.
    pub part: &'a Path,
    /// Bytes of the whole.
    pub size: u64,
    /// How long nothing may come.
    pub patience: Duration,
}

/// What the thread hands over.
enum Event {
    /// The body begins at this byte of the file; the file's size, where the server tells it.
    Begins(u64, Option<u64>),
    /// The next bytes.
    Bytes(Vec<u8>),
    /// The body is at its end.
    Ended,
    /// The server does not go on from the partial file's end.
    CannotResume,
    /// It came to nothing.
    Failed(Trouble),
}

impl Transfer<'_> {
    /// Fills the partial file to its size. A partial file that holds too much is begun anew.
    pub fn run(&self, progress: &mut Progress) -> Result<(), Trouble> {
        let mut at = length(self.part)?;
        if at > self.size {
            remove(self.part)?;
            at = 0;
        }
        progress.begin_at(at);
        if at == self.size {
            return Ok(());
        }
        let (send, events) = sync_channel(AHEAD);
        let (uri, patience) = (self.uri.to_string(), self.patience);
        std::thread::spawn(move || {
            if let Err(trouble) = talk(&uri, at, patience, &send) {
                // Nobody listens any more: nobody needs to know.
                let _ = send.send(Event::Failed(trouble));
            }
        });
        self.receive(&events, progress)
    }

    fn receive(&self, events: &Receiver<Event>, progress: &mut Progress) -> Result<(), Trouble> {
        let (mut file, mut at) = match self.next(events)? {
            Event::Begins(_, Some(size)) if size != self.size => {
                return Err(Trouble::Wrong(format!("has {size} bytes")));
            }
            Event::Begins(at, _) => (self.open(at)?, at),
            Event::CannotResume => {
                remove(self.part)?;
                return Err(Trouble::Broken("does not go on with an interrupted transfer".into()));
            }
            _ => return Err(Trouble::Broken("ended before it began".into())),
        };
        while let Event::Bytes(bytes) = self.next(events)? {
            at += bytes.len() as u64;
            if at > self.size {
                remove(self.part)?;
                return Err(Trouble::Wrong(format!("has more than {} bytes", self.size)));
            }
            file.write_all(&bytes).with_context(|| format!("cannot write {}", self.part.display()))?;
            progress.at(at, self.size);
        }
        if at < self.size {
            return Err(Trouble::Broken(format!("ended after {at} of {} bytes", self.size)));
        }
        Ok(())
    }

    /// The next event, unless Ctrl-C or the end of our patience comes first.
    fn next(&self, events: &Receiver<Event>) -> Result<Event, Trouble> {
        let until = Instant::now() + self.patience;
        loop {
            interrupt::check()?;
            match events.recv_timeout(TICK) {
                Ok(Event::Failed(trouble)) => return Err(trouble),
                Ok(event) => return Ok(event),
                Err(RecvTimeoutError::Timeout) if Instant::now() < until => {}
                Err(RecvTimeoutError::Timeout) => {
                    let limit = self.patience.as_secs_f32();
                    return Err(Trouble::Unavailable(format!("stalled: nothing came for {limit} s")));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(Trouble::Broken("ended".into())),
            }
        }
    }

    /// The partial file, ready to be written from `at`, which is either its end or its beginning.
    fn open(&self, at: u64) -> Result<File> {
        let mut options = File::options();
        if at == 0 {
            options.write(true).create(true).truncate(true);
        } else {
            options.append(true);
        }
        options.open(self.part).with_context(|| format!("cannot write {}", self.part.display()))
    }
}

/// The thread: asks for what lies behind byte `from`, and hands it over.
fn talk(uri: &str, from: u64, patience: Duration, events: &SyncSender<Event>) -> Result<(), Trouble> {
    let (begin, mut body) = match local(uri) {
        Some(path) => open_file(path, from)?,
        None => request(uri, from, patience)?,
    };
    // Sending fails when the other side has given up: so do we.
    let mut more = events.send(begin).is_ok();
    let mut chunk = vec![0; CHUNK];
    while more {
        let event = match body.read(&mut chunk) {
            Ok(0) => Event::Ended,
            Ok(n) => Event::Bytes(chunk[..n].to_vec()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Trouble::Broken(error.to_string())),
        };
        more = !matches!(event, Event::Ended);
        more &= events.send(event).is_ok();
    }
    Ok(())
}

/// What the body begins with, and the body.
type Opened = (Event, Box<dyn Read>);

/// The path in a `file:` address.
fn local(uri: &str) -> Option<&Path> {
    uri.strip_prefix("file://").or_else(|| uri.strip_prefix("file:")).map(Path::new)
}

fn open_file(path: &Path, from: u64) -> Result<Opened, Trouble> {
    let unavailable = |error: io::Error| Trouble::Unavailable(error.to_string());
    let mut file = File::open(path).map_err(unavailable)?;
    let size = file.metadata().map_err(unavailable)?.len();
    file.seek(SeekFrom::Start(from)).map_err(unavailable)?;
    Ok((Event::Begins(from, Some(size)), Box::new(file)))
}

fn request(uri: &str, from: u64, patience: Duration) -> Result<Opened, Trouble> {
    let mut request = agent(uri, patience).get(uri);
    if from > 0 {
        request = request.header(header::RANGE, format!("bytes={from}-"));
    }
    let response = request.call().map_err(|error| Trouble::Unavailable(error.to_string()))?;
    let begin = match response.status() {
        StatusCode::OK => Event::Begins(0, response.body().content_length()),
        StatusCode::PARTIAL_CONTENT => {
            let range = response.headers().get(header::CONTENT_RANGE).and_then(|value| value.to_str().ok());
            match range.and_then(content_range) {
                Some((at, size)) if at == from => Event::Begins(at, size),
                _ => Event::CannotResume,
            }
        }
        StatusCode::RANGE_NOT_SATISFIABLE if from > 0 => Event::CannotResume,
        status => return Err(Trouble::Unavailable(format!("answers {status}"))),
    };
    Ok((begin, Box::new(response.into_body().into_reader())))
}

/// The first byte and the whole size in `bytes 5-9/10`; a size of `*` is unknown.
fn content_range(value: &str) -> Option<(u64, Option<u64>)> {
    let (range, size) = value.strip_prefix("bytes ")?.split_once('/')?;
    let (first, _) = range.split_once('-')?;
    Some((first.trim().parse().ok()?, size.trim().parse().ok()))
}

/// Time limits here only see to it that a thread which nobody listens to any more ends: [`Transfer::next`] gives up
/// first. Proxies are the environment's, except to reach this very machine.
fn agent(uri: &str, patience: Duration) -> ureq::Agent {
    let mut config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .accept_encoding("identity")
        .user_agent(concat!("portbench/", env!("CARGO_PKG_VERSION")))
        .timeout_connect(Some(patience * 2))
        .timeout_recv_response(Some(patience * 2))
        .timeout_per_read(Some(patience * 2));
    if ["http://127.0.0.1:", "http://localhost:"].iter().any(|here| uri.starts_with(here)) {
        config = config.proxy(None);
    }
    if let Some(certificates) = certificates() {
        config = config.tls_config(TlsConfig::builder().root_certs(certificates).build());
    }
    config.build().into()
}

/// The certificates in `$SSL_CERT_FILE`, by which networks with a certificate of their own are reached.
fn certificates() -> Option<RootCerts> {
    let pem = fs::read(std::env::var_os("SSL_CERT_FILE")?).ok()?;
    let certificates: Vec<_> = parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    (!certificates.is_empty()).then(|| RootCerts::new_with_certs(&certificates))
}

/// Bytes that a file holds; none if there is no file.
pub fn length(path: &Path) -> Result<u64> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Removes a file that may not be there.
pub fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_ranges_are_read() {
        assert_eq!(content_range("bytes 5-9/10"), Some((5, Some(10))));
        assert_eq!(content_range("bytes 5-9/*"), Some((5, None)));
        assert_eq!(content_range("bytes */10"), None);
    }

    #[test]
    fn file_addresses_are_paths() {
        assert_eq!(local("file:///srv/mirror/x"), Some(Path::new("/srv/mirror/x")));
        assert_eq!(local("file:/srv/mirror/x"), Some(Path::new("/srv/mirror/x")));
        assert_eq!(local("http://example.org/file:/x"), None);
    }
}
