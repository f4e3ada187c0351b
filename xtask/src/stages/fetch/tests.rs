//! A server that answers as a test tells it, and what comes of it.

use std::io::{BufRead, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tempfile::TempDir;

use super::*;
use crate::failure::kind_of;

/// A server on this machine that ends with its value.
struct Server {
    address: SocketAddr,
    /// Path and first byte of each request.
    seen: Arc<Mutex<Vec<(String, usize)>>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// `answer` makes the bytes of the whole response from the path and the first byte that are asked for.
    fn start(answer: impl Fn(&str, usize) -> Vec<u8> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, ends) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (log, end) = (seen.clone(), ends.clone());
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if end.load(Ordering::SeqCst) {
                    return;
                }
                let (path, first) = asked(&stream);
                log.lock().unwrap().push((path.clone(), first));
                // The client may have left in mid-answer.
                let _ = (&stream).write_all(&answer(&path, first));
            }
        });
        Server { address, seen, ends, thread: Some(thread) }
    }

    fn uri(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn first_bytes(&self) -> Vec<usize> {
        self.seen.lock().unwrap().iter().map(|(_, first)| *first).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn asked(stream: &TcpStream) -> (String, usize) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let path = lines.next().and_then(|line| line.split(' ').nth(1).map(String::from)).unwrap_or_default();
    let range = lines.take_while(|line| !line.is_empty()).find_map(|line| {
        let line = line.to_lowercase();
        line.strip_prefix("range: bytes=")?.strip_suffix('-')?.parse().ok()
    });
    (path, range.unwrap_or(0))
}

/// Bytes that no two places of are alike.
fn content() -> Vec<u8> {
    (0..75_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect()
}

/// An answer that holds `body` from `first` on and breaks off before `end`.
fn ranged(body: &[u8], first: usize, end: usize) -> Vec<u8> {
    let (size, end) = (body.len(), end.max(first));
    let length = size - first;
    let head = match first {
        0 => format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"),
        _ => format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Length: {length}\r\nContent-Range: bytes {first}-{}/{size}\r\n\
             Connection: close\r\n\r\n",
            size - 1
        ),
    };
    [head.as_bytes(), &body[first..end]].concat()
}

/// The whole of `body`, whatever range was asked for.
fn whole(body: &[u8]) -> Vec<u8> {
    ranged(body, 0, body.len())
}

fn not_found() -> Vec<u8> {
    b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec()
}

/// A home in a folder that ends with the test, and a release whose archive is [`content`].
struct Bench {
    _folder: TempDir,
    home: Home,
    release: Release,
}

impl Bench {
    fn new(uris: &[String]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let release = Release {
            version: "1.0".into(),
            archive: "db.tar.gz".into(),
            size: content().len() as u64,
            sha256: stage::hex(&Sha256::digest(content())),
            locators: uris.iter().cloned().map(Locator::Url).collect(),
        };
        Bench { home: Home::at(folder.path().into()), release, _folder: folder }
    }

    fn fetch(&self) -> Result<Archive> {
        fetch(&self.home, &self.release, &[], Options::default())
    }

    fn file(&self) -> PathBuf {
        Place::of(&self.home, &self.release).unwrap().file
    }

    fn part(&self) -> PathBuf {
        self.file().with_added_extension("part")
    }

    fn has_it(&self) {
        assert!(fs::read(self.file()).unwrap() == content());
        assert!(!self.part().exists());
    }

    fn fails(&self, kind: Kind) -> String {
        let error = self.fetch().unwrap_err();
        assert_eq!(kind_of(&error), Some(kind), "{error:#}");
        assert!(!self.file().exists());
        error.to_string()
    }
}

#[test]
fn the_whole_comes_once_and_is_found_from_then_on() {
    let server = Server::start(|_, first| ranged(&content(), first, content().len()));
    let bench = Bench::new(&[server.uri("/a")]);
    let archive = bench.fetch().unwrap();
    assert!(!archive.reused());
    assert_eq!(archive.path(), bench.file());
    bench.has_it();
    assert!(bench.fetch().unwrap().reused());
    assert_eq!(server.first_bytes(), [0]);
    verify(&archive).unwrap();
}

#[test]
fn a_cut_connection_is_taken_up_where_it_broke() {
    // Each answer breaks off 125 kB behind where it began; the third reaches the end.
    let server = Server::start(|_, first| ranged(&content(), first, content().len().min(first + 125_000)));
    let bench = Bench::new(&[server.uri("/a")]);
    bench.fetch().unwrap();
    bench.has_it();
    let first_bytes = server.first_bytes();
    assert_eq!(first_bytes.len(), 3, "{first_bytes:?}");
    assert!(first_bytes.is_sorted() && first_bytes[1] > 0, "{first_bytes:?}");
}

#[test]
fn what_one_place_began_another_or_a_later_run_finishes() {
    let server = Server::start(|path, first| match path {
        "/short" => ranged(&content(), first, 100_000),
        _ => ranged(&content(), first, content().len()),
    });
    let short = Bench::new(&[server.uri("/short")]);
    let message = short.fails(Kind::StageFailed);
    assert!(message.contains("/short: "), "{message}");
    assert_eq!(fs::metadata(short.part()).unwrap().len(), 100_000);

    let mut later = short;
    later.release.locators.push(Locator::Url(server.uri("/whole")));
    later.fetch().unwrap();
    later.has_it();
    assert_eq!(server.seen.lock().unwrap().last(), Some(&("/whole".into(), 100_000)));
}

#[test]
fn a_server_without_ranges_begins_anew() {
    let server = Server::start(|_, _| whole(&content()));
    let bench = Bench::new(&[server.uri("/a")]);
    fs::write(bench.part(), &content()[..1000]).unwrap();
    bench.fetch().unwrap();
    bench.has_it();
    assert_eq!(server.first_bytes(), [1000]);
}

#[test]
fn a_server_that_refuses_the_range_is_asked_for_the_whole() {
    let server = Server::start(|_, first| match first {
        0 => whole(&content()),
        _ => b"HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec(),
    });
    let bench = Bench::new(&[server.uri("/a")]);
    fs::write(bench.part(), &content()[..1000]).unwrap();
    bench.fetch().unwrap();
    bench.has_it();
    assert_eq!(server.first_bytes(), [1000, 0]);
}

#[test]
fn a_partial_file_that_is_wrong_or_too_large_does_not_spoil_the_rest() {
    for left in [vec![7; 1000], vec![7; content().len()], vec![7; content().len() + 1]] {
        let server = Server::start(|_, first| ranged(&content(), first, content().len()));
        let bench = Bench::new(&[server.uri("/a")]);
        fs::write(bench.part(), left).unwrap();
        bench.fetch().unwrap();
        bench.has_it();
    }
}

#[test]
fn wrong_content_is_corrupt_and_not_placed() {
    let mut wrong = content();
    wrong[5] ^= 1;
    let found = stage::hex(&Sha256::digest(&wrong));
    let server = Server::start(move |_, _| whole(&wrong));
    let bench = Bench::new(&[server.uri("/a")]);
    let message = bench.fails(Kind::CorruptDownload);
    for part in [&server.uri("/a"), &bench.release.sha256, &found, "300000 bytes", "place the file by hand"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(!bench.part().exists());
}

#[test]
fn another_size_is_told_before_anything_is_read() {
    let server = Server::start(|path, first| match path {
        "/portal" => whole(b"<html>please log in</html>"),
        _ => ranged(&content(), first, content().len()),
    });
    let bench = Bench::new(&[server.uri("/portal")]);
    fs::write(bench.part(), &content()[..1000]).unwrap();
    let message = bench.fails(Kind::CorruptDownload);
    assert!(message.contains("/portal: has 26 bytes"), "{message}");
    assert_eq!(fs::metadata(bench.part()).unwrap().len(), 1000, "what another place had sent is gone");
}

#[test]
fn a_body_without_end_is_cut_off() {
    let server = Server::start(|_, _| {
        [b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", content().as_slice(), b"more"].concat()
    });
    let bench = Bench::new(&[server.uri("/a")]);
    let message = bench.fails(Kind::CorruptDownload);
    assert!(message.contains("has more than 300000 bytes"), "{message}");
    assert!(!bench.part().exists());
}

#[test]
fn the_second_place_is_used_when_the_first_has_nothing() {
    let server = Server::start(|path, first| match path {
        "/debian/pool/main/d/db.tar.gz" => ranged(&content(), first, content().len()),
        _ => not_found(),
    });
    let mut bench = Bench::new(&[server.uri("/a")]);
    bench.release.locators.push(Locator::DebianPool("main/d/db.tar.gz".into()));
    fetch(&bench.home, &bench.release, &[server.uri("/debian/")], Options::default()).unwrap();
    bench.has_it();
    assert_eq!(server.first_bytes(), [0, 0]);
}

#[test]
fn when_all_fail_each_says_why() {
    let server = Server::start(|_, _| not_found());
    // Nobody listens on the discard port.
    let mut bench = Bench::new(&[server.uri("/a"), "http://user:secret@127.0.0.1:9/b".into()]);
    bench.release.locators.push(Locator::DebianPool("main/d/db.tar.gz".into()));
    let message = bench.fails(Kind::StageFailed);
    let place = bench.file().display().to_string();
    let reasons = ["/a: answers 404 Not Found", "http://127.0.0.1:9/b: io: Connection refused"];
    for part in
        reasons.into_iter().chain(["pool/main/d/db.tar.gz: this machine has no Debian mirror", &place])
    {
        assert!(message.contains(part), "{message}");
    }
    assert!(!message.contains("secret"), "{message}");
}

#[test]
fn a_stalled_server_is_given_up() {
    let server = Server::start(|_, _| {
        std::thread::sleep(Duration::from_millis(600));
        not_found()
    });
    let bench = Bench::new(&[]);
    let (uri, part, patience) = (server.uri("/a"), bench.part(), Duration::from_millis(200));
    let mut progress = ui::Progress::bytes("fetch", 10);
    let result = Transfer { uri: &uri, part: &part, size: 10, patience }.run(&mut progress);
    assert!(matches!(&result, Err(Trouble::Unavailable(reason)) if reason.contains("stalled")), "{result:?}");
}

#[test]
fn files_are_places_too() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("db");
    fs::write(&source, content()).unwrap();
    let bench = Bench::new(&[format!("file://{}", source.display())]);
    fs::write(bench.part(), &content()[..1000]).unwrap();
    bench.fetch().unwrap();
    bench.has_it();
}

#[test]
fn offline_takes_what_is_there_and_names_what_is_not() {
    let server = Server::start(|_, _| whole(&content()));
    let bench = Bench::new(&[server.uri("/a")]);
    let offline = || fetch(&bench.home, &bench.release, &[], Options { offline: true });
    let error = offline().unwrap_err().to_string();
    assert!(error.contains(&bench.file().display().to_string()) && error.contains("/a"), "{error}");
    // Placed by hand: hashed before it is trusted.
    fs::write(bench.file(), vec![7; content().len()]).unwrap();
    assert_eq!(kind_of(&offline().unwrap_err()), Some(Kind::CorruptDownload));
    fs::write(bench.file(), content()).unwrap();
    assert!(offline().unwrap().reused());
    assert!(server.first_bytes().is_empty());
}

#[test]
fn a_cached_file_that_was_cut_or_changed_is_fetched_again() {
    let server = Server::start(|_, first| ranged(&content(), first, content().len()));
    let bench = Bench::new(&[server.uri("/a")]);
    bench.fetch().unwrap();
    for bad in [content()[..1000].to_vec(), vec![7; content().len()]] {
        fs::write(bench.file(), bad).unwrap();
        assert!(!bench.fetch().unwrap().reused());
        bench.has_it();
    }
    assert_eq!(server.first_bytes(), [0, 0, 0]);
}

#[test]
fn damage_that_leaves_size_and_time_alone_is_found_by_verify() {
    let server = Server::start(|_, first| ranged(&content(), first, content().len()));
    let bench = Bench::new(&[server.uri("/a")]);
    let archive = bench.fetch().unwrap();
    let time = fs::metadata(bench.file()).unwrap().modified().unwrap();
    fs::write(bench.file(), vec![7; content().len()]).unwrap();
    File::options().write(true).open(bench.file()).unwrap().set_modified(time).unwrap();
    assert!(bench.fetch().unwrap().reused());
    assert_eq!(kind_of(&verify(&archive).unwrap_err()), Some(Kind::CorruptDownload));
    assert!(!bench.fetch().unwrap().reused());
    verify(&archive).unwrap();
}
