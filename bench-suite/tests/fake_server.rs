//! What a real server does not do on demand: garbage, silence, and closing in the middle.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bench_suite::control::{Control, Server};
use bench_suite::engine::{Backend, Engine, Job, Report, Run};
use bench_suite::failure::Failure;
use bench_suite::request::example;
use bench_suite::workloads;
use model::Message;
use model::message::{Failed, FailedKind};
use model::request::{Account, Arrival, Endpoint, Load, Oltp, OltpTest, Workload};

/// What the server does with its n-th `DO 0`, from 0; returns what it sends, `None` to close.
type Behaviour = fn(u64) -> Option<Vec<u8>>;

const OK: &[u8] = &[7, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0];
const GARBAGE: &[u8] = &[3, 0, 0, 9, 1, 2, 3];

fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = (payload.len() as u32).to_le_bytes()[..3].to_vec();
    out.push(sequence);
    out.extend_from_slice(payload);
    out
}

fn greeting() -> Vec<u8> {
    greeting_of("mysql_native_password")
}

fn greeting_of(plugin: &str) -> Vec<u8> {
    let mut payload = b"\x0a8.0\0\x09\0\0\0ABCDEFGH\0\xff\xff\x2d\x02\0\xff\xff\x15".to_vec();
    payload.extend_from_slice(&[0; 10]);
    payload.extend_from_slice(b"abcdefghijkl\0");
    payload.extend_from_slice(plugin.as_bytes());
    payload.push(0);
    packet(0, &payload)
}

/// Reads one packet's payload.
fn receive(stream: &mut UnixStream) -> Option<Vec<u8>> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).ok()?;
    let mut payload = vec![0; u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize];
    stream.read_exact(&mut payload).ok()?;
    Some(payload)
}

fn serve(mut stream: UnixStream, behaviour: Behaviour, asked: &AtomicU64) -> Option<()> {
    stream.write_all(&greeting()).ok()?;
    receive(&mut stream)?;
    stream.write_all(&packet(2, &[0, 0, 0, 2, 0, 0, 0])).ok()?;
    loop {
        let command = receive(&mut stream)?;
        let reply = match command.as_slice() {
            b"\x03DO 0" => behaviour(asked.fetch_add(1, Ordering::Relaxed))?,
            _ => OK.to_vec(),
        };
        stream.write_all(&reply).ok()?;
    }
}

/// Listens in `folder` and gives each connection a thread; they end with the test's process.
fn listen(folder: &tempfile::TempDir, each: impl Fn(UnixStream) + Send + Sync + 'static) -> Server {
    let path = folder.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let each = Arc::new(each);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let each = each.clone();
            std::thread::spawn(move || each(stream));
        }
    });
    Server {
        endpoint: Endpoint::Unix { path },
        account: Account { user: "me".into(), password: String::new() },
        reply_timeout: Duration::from_millis(300),
    }
}

/// Does `operations` times `DO 0` with two connections.
fn load(behaviour: Behaviour, operations: u64) -> Report {
    let load = Load { connections: 2, operations: Some(operations), duration_s: 20.0, ..example().load };
    let report = run(behaviour, &load, Duration::from_millis(300));
    assert_eq!(report.sent, operations);
    assert_eq!(report.recorder.operations() + report.recorder.error_count(), operations);
    report
}

/// Does a load of `DO 0` with one thread.
fn run(behaviour: Behaviour, load: &Load, reply_timeout: Duration) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let asked = AtomicU64::new(0);
    let server = listen(&folder, move |stream| {
        serve(stream, behaviour, &asked);
    });
    let server = Server { reply_timeout, ..server };
    let workload = workloads::make(&Workload::Do0, 1).unwrap();
    let engine = Engine::start(&Backend::Server(server), &workload, load, 1).unwrap();
    let opened = engine.perform(&Job::Open, &mut |_| ()).unwrap();
    assert_eq!((opened.up, opened.cipher.as_deref()), (load.connections, Some("")));
    let start_ns = engine.clock().now_ns();
    let deadline_ns = start_ns + (load.duration_s * 1e9) as u64;
    let run = Run { base: 0, limit: load.operations, start_ns, deadline_ns };
    let mut report = engine.perform(&Job::Run(run), &mut |_| ()).unwrap();
    report.ended_ns -= start_ns;
    report
}

fn open_loop(arrival: Arrival, duration_s: f64) -> Load {
    Load { connections: 1, arrival, operations: None, duration_s, ..example().load }
}

#[test]
fn what_waits_behind_a_silent_server_is_late_though_it_is_served_fast() {
    for arrival in [Arrival::Fixed { rate_per_s: 1000.0 }, Arrival::Poisson { rate_per_s: 1000.0 }] {
        let silent = |n| {
            // The one connection, and so the whole server.
            if n == 200 {
                std::thread::sleep(Duration::from_millis(800));
            }
            Some(OK.to_vec())
        };
        let report = run(silent, &open_loop(arrival, 2.0), Duration::from_secs(20));
        let (due, sent) = (report.recorder.latency().unwrap(), report.service.unwrap().latency().unwrap());
        assert!((1800..=2200).contains(&due.count) && due.count == sent.count, "{arrival:?}: {}", due.count);
        assert!(due.latency_us_p99_9 > 790_000.0, "{arrival:?}: {due:?}");
        assert!(due.latency_us_p95 > 400_000.0 && sent.latency_us_p95 < 400_000.0, "{arrival:?}: {sent:?}");
        assert!((600..=1000).contains(&report.backlog_max), "{arrival:?}: {}", report.backlog_max);
        assert!(report.ended_ns >= 2_000_000_000 && report.lost == 0, "{arrival:?}: {}", report.ended_ns);
    }
}

#[test]
fn a_rate_that_cannot_be_reached_leaves_operations_unsent_and_counted() {
    let slow = |_| {
        std::thread::sleep(Duration::from_millis(5));
        Some(OK.to_vec())
    };
    let report = run(slow, &open_loop(Arrival::Fixed { rate_per_s: 10_000.0 }, 0.5), Duration::from_secs(20));
    assert!(report.sent <= 101 && report.sent == report.recorder.operations(), "{}", report.sent);
    assert!((4999..=5001).contains(&(report.sent + report.unsent)), "{} {}", report.sent, report.unsent);
    assert!(report.backlog_max > 4000, "{}", report.backlog_max);
}

fn errors(report: &Report) -> Vec<(String, u64)> {
    report.recorder.errors().into_iter().collect()
}

#[test]
fn a_limited_number_of_operations_is_exact() {
    let report = load(|_| Some(OK.to_vec()), 1001);
    assert_eq!((report.recorder.operations(), report.exhausted), (1001, true));
}

#[test]
fn garbage_costs_one_operation_and_the_connection() {
    let report = load(|n| Some(if n == 5 { GARBAGE.to_vec() } else { OK.to_vec() }), 100);
    assert_eq!(errors(&report), [("protocol".to_string(), 1)]);
    assert_eq!((report.recorder.operations(), report.lost), (99, 1));
}

#[test]
fn a_closed_connection_is_made_again() {
    let report = load(|n| (n != 5).then(|| OK.to_vec()), 100);
    assert_eq!(errors(&report), [("connection-lost".to_string(), 1)]);
    assert_eq!(report.lost, 1);
}

#[test]
fn silence_is_a_lost_connection() {
    let report = load(|n| Some(if n == 5 { vec![] } else { OK.to_vec() }), 100_000);
    assert_eq!(errors(&report), [("reply-timeout".to_string(), 1)]);
}

#[test]
fn half_a_reply_is_waited_for_and_given_up() {
    let report = load(|n| Some(if n == 5 { OK[..6].to_vec() } else { OK.to_vec() }), 100_000);
    assert_eq!(errors(&report), [("reply-timeout".to_string(), 1)]);
}

#[test]
fn an_error_or_a_wrong_answer_keeps_the_connection() {
    let report = load(
        |n| match n {
            5 => Some(packet(1, b"\xff\x25\x05#70100Query execution was interrupted")),
            6 => Some(packet(1, &[0, 7, 0, 2, 0, 0, 0])),
            _ => Some(OK.to_vec()),
        },
        100,
    );
    let expected = [("1317".to_string(), 1), ("wrong-answer".to_string(), 1)];
    assert_eq!((errors(&report), report.lost), (expected.to_vec(), 0));
}

/// What MySQL does that has no digest of the password yet: it asks for the password, and may refuse it.
fn serve_caching_sha2(mut stream: UnixStream) -> Option<()> {
    stream.write_all(&greeting_of("caching_sha2_password")).ok()?;
    receive(&mut stream)?;
    stream.write_all(&packet(2, b"\x01\x04")).ok()?;
    let denied = b"\xff\x15\x04#28000Access denied for user 'me'@'localhost' (using password: YES)";
    let reply: &[u8] = if receive(&mut stream)? == b"secret\0" { &[0, 0, 0, 2, 0, 0, 0] } else { denied };
    stream.write_all(&packet(4, reply)).ok()?;
    receive(&mut stream)?;
    stream.write_all(OK).ok()
}

#[test]
fn a_password_that_is_asked_for_is_sent_and_a_wrong_one_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = listen(&folder, |stream| {
        serve_caching_sha2(stream);
    });
    server.account.password = "secret".into();
    let mut control = Control::connect(&server, &Arc::default()).unwrap();
    control.query("DO 0").unwrap();
    server.account.password = "wrong".into();
    let denied = Control::connect(&server, &Arc::default()).err().unwrap();
    assert_eq!(denied.kind, FailedKind::Authentication);
    let said = "cannot log in as me with caching_sha2_password: Access denied for user 'me'@'localhost'";
    assert!(denied.detail.starts_with(said), "{denied}");
}

fn cannot_connect(each: fn(UnixStream)) -> Failure {
    let folder = tempfile::tempdir().unwrap();
    let server = listen(&folder, each);
    Control::connect(&server, &Arc::default()).err().unwrap()
}

#[test]
fn what_is_no_server_is_told_apart() {
    let http = cannot_connect(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        std::thread::sleep(Duration::from_secs(5));
    });
    assert_eq!(http.kind, FailedKind::Protocol, "{http}");
    let garbage = cannot_connect(|mut stream| {
        let _ = stream.write_all(&packet(0, b"garbage"));
    });
    assert_eq!(garbage.kind, FailedKind::Protocol, "{garbage}");
    let closed = cannot_connect(drop);
    assert_eq!(closed.kind, FailedKind::CannotConnect, "{closed}");
    let full = cannot_connect(|mut stream| {
        let _ = stream.write_all(&packet(0, b"\xff\x10\x04Too many connections"));
    });
    assert_eq!(full.kind, FailedKind::Limit, "{full}");
}

#[test]
fn the_program_gives_up_on_a_silent_server_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let server = listen(&folder, |stream| {
        std::thread::sleep(Duration::from_secs(30));
        drop(stream);
    });
    let mut request = bench_suite::request::example();
    request.load.reply_timeout_s = 0.3;
    request.backend = model::request::Backend::Server {
        endpoint: server.endpoint,
        account: server.account,
        server_pid: None,
    };
    let begun = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_bench-suite"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    serde_json::to_writer(&mut stdin, &request).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(begun.elapsed() < Duration::from_secs(10));
    let text = String::from_utf8(output.stdout).unwrap();
    let last: Message = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert!(matches!(last, Message::Failed(Failed { kind: FailedKind::CannotConnect, .. })), "{last:?}");
}

/// A server that takes every transaction but those that `refuses` names by how many commits there were before: it says
/// deadlock. Counts roll-backs.
fn serve_transactions(
    mut stream: UnixStream,
    refuses: fn(u64) -> bool,
    counts: &[AtomicU64; 2],
) -> Option<()> {
    let [commits, rollbacks] = counts;
    let changed_one = packet(1, &[0, 1, 0, 2, 0, 0, 0]);
    stream.write_all(&greeting()).ok()?;
    receive(&mut stream)?;
    stream.write_all(&packet(2, &[0, 0, 0, 2, 0, 0, 0])).ok()?;
    let mut statements = 0;
    loop {
        let command = receive(&mut stream)?;
        let reply = match command.as_slice() {
            [0x16, ..] => {
                statements += 1;
                packet(1, &[0, statements, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
            }
            [0x17, ..] => changed_one.clone(),
            b"\x03COMMIT" if refuses(commits.fetch_add(1, Ordering::Relaxed)) => {
                packet(1, b"\xff\xbd\x04#40001Deadlock found when trying to get lock")
            }
            b"\x03ROLLBACK" => {
                rollbacks.fetch_add(1, Ordering::Relaxed);
                OK.to_vec()
            }
            _ => OK.to_vec(),
        };
        stream.write_all(&reply).ok()?;
    }
}

fn transactions(refuses: fn(u64) -> bool, operations: u64) -> (Report, u64) {
    let folder = tempfile::tempdir().unwrap();
    let counts = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let of_server = counts.clone();
    let server = listen(&folder, move |stream| {
        serve_transactions(stream, refuses, &of_server);
    });
    let oltp =
        Oltp { test: OltpTest::WriteOnly, tables: 1, rows: 1000, engine: model::request::Engine::InnoDb };
    let workload = workloads::make(&Workload::Oltp(oltp), 1).unwrap();
    let load = Load { connections: 1, operations: Some(operations), ..example().load };
    let engine = Engine::start(&Backend::Server(server), &workload, &load, 1).unwrap();
    engine.perform(&Job::Open, &mut |_| ()).unwrap();
    engine.perform(&Job::Arm, &mut |_| ()).unwrap();
    let start_ns = engine.clock().now_ns();
    let run = Run { base: 0, limit: load.operations, start_ns, deadline_ns: start_ns + 20_000_000_000 };
    let report = engine.perform(&Job::Run(run), &mut |_| ()).unwrap();
    (report, counts[1].load(Ordering::Relaxed))
}

#[test]
fn a_deadlock_is_rolled_back_and_the_same_transaction_begun_again() {
    let (report, rollbacks) = transactions(|commits| commits == 3 || commits == 4, 50);
    assert_eq!((report.recorder.operations(), report.recorder.error_count(), rollbacks), (50, 0, 2));
    assert_eq!(report.recorder.retries(), [("1213".to_string(), 2)].into());
    // Each of six commands, and the roll-back of each that was taken back.
    assert_eq!(report.questions, 52 * 6 + 2);
}

#[test]
fn a_transaction_that_never_succeeds_is_given_up_and_counted() {
    let (report, rollbacks) = transactions(|commits| (3..14).contains(&commits), 50);
    assert_eq!(report.recorder.operations(), 49);
    assert_eq!(errors(&report), [("1213".to_string(), 1)]);
    assert_eq!((report.recorder.retries()["1213"], rollbacks), (10, 11));
    assert_eq!(report.sent, 50);
}
