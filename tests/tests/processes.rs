//! Whatever ends the command, nothing that it started is left, and the record says how it ended.

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use model::Message;
use model::message::CaveatKind;
use model::record::{Line, Outcome};
use portbench_tests::{
    Running, call, expect_nothing_left, kill, marked, read_record, record_files, records, run, xtask,
};
use rustix::process::Signal;

const LONG: Duration = Duration::from_secs(900);

/// A bench that lasts, of the distribution's build.
fn long_bench(records: &std::path::Path) -> Running {
    // Built before, so that what is waited for below is the server and not a compiler.
    run("build --from distro").expect_code(0);
    let folder = records.display().to_string();
    call(&[
        "bench",
        "--from",
        "distro",
        "--workload",
        "point-select",
        "--duration-s",
        "60",
        "--records",
        &folder,
    ])
    .start()
}

/// Waits until the timed part has begun and something was measured.
fn wait_for_interval(running: &mut Running, records: &std::path::Path) {
    let until = Instant::now() + LONG;
    loop {
        let measured = record_files(records).iter().any(|file| {
            std::fs::read_to_string(file).is_ok_and(|text| text.contains(r#""message":"interval""#))
        });
        if measured {
            return;
        }
        assert!(!running.has_ended() && Instant::now() < until, "nothing was measured");
        sleep(Duration::from_millis(50));
    }
}

fn outcome(record: &[Line]) -> Option<Outcome> {
    match record.last() {
        Some(Line::End { outcome, .. }) => Some(*outcome),
        _ => None,
    }
}

#[test]
fn ctrl_c_leaves_a_valid_partial_record() {
    let folder = records();
    for signal in [Signal::INT, Signal::TERM] {
        let mut running = long_bench(folder.path());
        wait_for_interval(&mut running, folder.path());
        running.signal(signal);
        let mark = running.mark.clone();
        running.end().expect_code(130);
        expect_nothing_left(&mark);
        let files = record_files(folder.path());
        let record = read_record(files.last().expect("a record"));
        assert_eq!(outcome(&record), Some(Outcome::Interrupted));
        assert!(
            record.iter().any(|line| matches!(line, Line::Caveat(c) if c.kind == CaveatKind::Interrupted))
        );
        let measured = record
            .iter()
            .any(|line| matches!(line, Line::Message { said: Message::Finished(m), .. } if m.operations > 0));
        assert!(measured, "what was measured until then is lost");
        files.iter().for_each(|file| std::fs::remove_file(file).expect("a record"));
    }
}

#[test]
fn a_second_ctrl_c_ends_at_once() {
    let folder = records();
    let mut running = long_bench(folder.path());
    running.wait_for("bin/mariadbd", LONG);
    running.signal(Signal::INT);
    sleep(Duration::from_millis(20));
    running.signal(Signal::INT);
    let mark = running.mark.clone();
    running.end().expect_code(130);
    expect_nothing_left(&mark);
}

#[test]
fn kill_9_of_the_command_leaves_nothing_running() {
    for part in ["--bootstrap", "--init-file", "bin/bench-suite"] {
        for later_ms in [0, 300] {
            let folder = records();
            let mut running = long_bench(folder.path());
            running.wait_for(part, LONG);
            sleep(Duration::from_millis(later_ms));
            running.signal(Signal::KILL);
            let mark = running.mark.clone();
            assert_eq!(running.end().code, None);
            expect_nothing_left(&mark);
            for file in record_files(folder.path()) {
                assert_eq!(outcome(&read_record(&file)), None, "nobody could have written an end");
            }
        }
    }
}

#[test]
fn a_server_killed_in_mid_run_is_named_with_its_log() {
    let folder = records();
    let mut running = long_bench(folder.path());
    wait_for_interval(&mut running, folder.path());
    let server = running.wait_for("bin/mariadbd", LONG);
    kill(server, Signal::KILL);
    let mark = running.mark.clone();
    running
        .end()
        .expect_code(35)
        .expect_said(&["the server ended in mid-run", "killed by signal 9"])
        .expect_log_and_next();
    expect_nothing_left(&mark);
    let record = read_record(&record_files(folder.path())[0]);
    let Some(Line::End { outcome: Outcome::Failed, error: Some(error), .. }) = record.last() else {
        panic!("the record does not end with its error: {:?}", record.last());
    };
    assert_eq!(error.kind, "server-lost");
    assert!(error.log.is_some());
}

/// What a closed loop would hide: one stall is a long wait for everything that was due in it.
#[test]
fn a_server_that_stands_still_is_in_the_percentiles_of_a_fixed_rate() {
    let folder = records();
    let into = folder.path().display().to_string();
    run("build --from distro").expect_code(0);
    let words = "bench --from distro --workload do0 --rate 200 --duration-s 20 --records";
    let mut running = call(&words.split(' ').chain([into.as_str()]).collect::<Vec<_>>()).start();
    wait_for_interval(&mut running, folder.path());
    let server = running.wait_for("bin/mariadbd", LONG);
    kill(server, Signal::STOP);
    sleep(Duration::from_secs(2));
    kill(server, Signal::CONT);
    let ended = running.end().expect_code(0);
    assert!(ended.stdout.contains("do0 @200/s"), "{}", ended.stdout);
    let record = read_record(&record_files(folder.path())[0]);
    let finished = record.iter().find_map(|line| match line {
        Line::Message { said: Message::Finished(measured), .. } => Some(measured),
        _ => None,
    });
    let measured = finished.expect("it has ended");
    let open = measured.open_loop.as_ref().expect("an open loop");
    let (due, sent) = (measured.latency.as_ref().unwrap(), open.service.as_ref().unwrap());
    assert!((3990..=4000).contains(&measured.operations), "{}", measured.operations);
    assert!(due.latency_us_p99_9 > 1.9e6 && open.backlog_max >= 380, "{due:?}, {}", open.backlog_max);
    // A tenth of all was due in those two seconds, and one operation alone was under way.
    assert!(due.latency_us_p95 > 10.0 * sent.latency_us_p95, "{due:?} {sent:?}");
}

#[test]
fn a_client_killed_in_mid_run_is_named_with_its_log() {
    let folder = records();
    let mut running = long_bench(folder.path());
    wait_for_interval(&mut running, folder.path());
    let client = running.wait_for("bin/bench-suite", LONG);
    kill(client, Signal::KILL);
    let mark = running.mark.clone();
    running
        .end()
        .expect_code(3)
        .expect_said(&["the load generator ended without a result"])
        .expect_log_and_next();
    expect_nothing_left(&mark);
    assert_eq!(outcome(&read_record(&record_files(folder.path())[0])), Some(Outcome::Failed));
    assert!(marked(&mark).is_empty());
}

#[test]
fn a_hang_up_that_nohup_ignores_ends_nothing() {
    let folder = records();
    let (before, short) = (records(), "bench --null --client host --workload do0 --duration-s 0.2 --records");
    // Built before, so that what is waited for below is the load.
    run(&format!("{short} {}", before.path().display())).expect_code(0);
    let mut child = Command::new("nohup")
        .arg(xtask())
        .args(["bench", "--null", "--client", "host", "--workload", "do0", "--duration-s", "4", "--records"])
        .arg(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("nohup starts");
    let until = Instant::now() + LONG;
    while record_files(folder.path()).is_empty() {
        assert!(child.try_wait().expect("a child can be asked").is_none() && Instant::now() < until);
        sleep(Duration::from_millis(20));
    }
    kill(child.id(), Signal::HUP);
    assert!(child.wait().expect("a child can be waited for").success());
    assert_eq!(outcome(&read_record(&record_files(folder.path())[0])), Some(Outcome::Complete));
}
