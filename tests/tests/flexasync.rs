//! flexasync on a cluster of this host's own programs: every phase, every row checked, beside NDB's own flexAsynch, and
//! a clear end when the cluster goes away. They build NDB for this host's target first, where it is not in the cache.

use std::path::Path;
use std::time::Duration;

use model::Message;
use model::message::Measurement;
use model::record::{Line, Outcome};
use portbench_tests::record::{Record, bench};
use portbench_tests::sshd::own_target;
use portbench_tests::{Ended, call, expect_nothing_left, kill, read_record, record_files, records};
use rustix::process::Signal;

const PHASES: [&str; 5] = ["insert", "read", "update", "read-updated", "delete"];

fn flexasync(more: &[&str]) -> (Ended, Vec<Record>) {
    let target = own_target();
    let mut words = vec!["--product", "ndb", "--target", &target, "--on", "local", "--duration-s", "0.5"];
    words.extend(more);
    bench(&words)
}

/// What each part measured, in order.
fn parts(record: &Record) -> Vec<(String, Measurement)> {
    let part = |line: &Line| match line {
        Line::Message { said: Message::Part { part, measured }, .. } => {
            Some((part.clone(), (**measured).clone()))
        }
        _ => None,
    };
    record.lines.iter().filter_map(part).collect()
}

#[test]
fn every_phase_is_measured_and_every_row_is_right() {
    let (ended, found) = flexasync(&[]);
    for said in ["flexasync/insert", "flexasync/delete", "verified"] {
        assert!(ended.stdout.contains(said), "{said}: {}", ended.stdout);
    }
    let [record] = &found[..] else { panic!("{} records", found.len()) };
    let parts = parts(record);
    assert_eq!(parts.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), PHASES);
    // Each phase does the same keys, however many loops there were time for.
    let inserted = parts[0].1.operations;
    assert!(inserted >= 4 * 64 * 300, "{inserted}");
    for (name, measured) in &parts {
        assert_eq!(measured.operations, inserted, "{name}");
        let latency = measured.latency.as_ref().expect("a latency");
        assert_eq!(latency.count, inserted, "{name}");
        assert!(measured.client_cpu.user_s + measured.client_cpu.system_s > 0.0, "{name}");
        assert!(measured.server_cpu.is_some(), "{name}: the data nodes run on this host");
        assert_eq!(measured.transport, "ndb");
    }
    let checks: Vec<&model::message::DataCheck> = record
        .lines
        .iter()
        .filter_map(|line| match line {
            Line::Message { said: Message::Verified { checks, .. }, .. } => Some(checks),
            _ => None,
        })
        .flatten()
        .collect();
    assert_eq!(checks.len(), 2 * 3, "before and after: {checks:?}");
    assert!(checks.iter().all(|check| check.passed()), "{checks:?}");
    assert!(record.lines.iter().any(|line| matches!(line, Line::Cluster(_))));
}

#[test]
fn flexasynch_runs_in_turn_with_it_on_the_same_cluster() {
    let (ended, found) = flexasync(&["--workload", "flexasync", "--compare", "flexAsynch", "--repeat", "2"]);
    for said in ["flexAsynch ops/s", "client us/op"] {
        assert!(ended.stdout.contains(said), "{said}: {}", ended.stdout);
    }
    let order: Vec<String> = found[0]
        .lines
        .iter()
        .filter_map(|line| match line {
            Line::Compared { index, ran } => {
                assert_eq!(ran.phases.iter().map(|phase| phase.phase.as_str()).collect::<Vec<_>>(), PHASES);
                assert!(ran.phases.iter().all(|phase| phase.elapsed_s > 0.0), "{ran:?}");
                Some(format!("theirs {index}"))
            }
            Line::Message { index, said: Message::Finished(_) } => Some(format!("ours {index}")),
            _ => None,
        })
        .collect();
    assert_eq!(order, ["ours 0", "theirs 0", "theirs 1", "ours 1"]);
    // Both did the same number of operations.
    let theirs = found[0].lines.iter().find_map(|line| match line {
        Line::Compared { ran, .. } => Some(ran.phases[0].operations),
        _ => None,
    });
    assert_eq!(theirs, Some(parts(&found[0])[0].1.operations));
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_built() {
    let refused = |words: &[&str], says: &str| {
        let all: Vec<&str> = ["bench"].iter().chain(words).copied().collect();
        call(&all).run().expect_code(2).expect_said(&[says]);
    };
    refused(&["--workload", "flexasync", "--suite", "flexasync"], "mariadb is no cluster");
    refused(&["--product", "ndb", "--client", "host"], "--client host has no NDB API");
    refused(&["--product", "ndb", "--suite", "smoke"], "add --with sql");
    refused(&["--product", "ndb", "--from", "distro"], "no distribution has packages of ndb");
    refused(&["--compare", "flexAsynch"], "do0 is another workload");
    refused(&["--product", "ndb", "--topology", "smal"], "did you mean small");
    refused(&["--product", "ndb", "--with", "sqll"], "did you mean sql");
}

#[test]
fn memory_that_is_full_in_mid_run_is_told_with_ndbs_code_and_what_to_do() {
    let (target, folder) = (own_target(), records());
    let small = Path::new(env!("CARGO_MANIFEST_DIR")).join("../xtask/topologies/small.toml");
    let text = std::fs::read_to_string(small).expect("small").replace("\"200M\"", "\"3M\"");
    let topology = folder.path().join("full.toml");
    std::fs::write(&topology, text).expect("a file");
    let (topology, into) = (topology.display().to_string(), folder.path().display().to_string());
    let words = ["bench", "--product", "ndb", "--target", &target, "--on", "local", "--duration-s", "5"];
    let running = call(&[&words[..], &["--topology", &topology, "--records", &into]].concat()).start();
    let mark = running.mark.clone();
    let said = ["827", "Out of memory", "`data-memory` of the topology"];
    running.end().expect_code(3).expect_said(&said).expect_log_and_next();
    expect_nothing_left(&mark);
    let record = read_record(&record_files(folder.path())[0]);
    let Some(Line::End { outcome, error: Some(error), .. }) = record.last() else { panic!("no end") };
    assert_eq!((*outcome, error.kind.as_str()), (Outcome::Failed, "stage-failed"));
}

#[test]
fn a_data_node_that_is_killed_in_mid_run_ends_it_with_the_reason_and_nothing_left() {
    ended_in_mid_run_by(Signal::KILL).expect_said(&["error: data node 2 ended in mid-run"]);
}

#[test]
fn a_data_node_that_does_not_answer_is_named_before_what_the_client_says() {
    let ended = ended_in_mid_run_by(Signal::STOP);
    ended.expect_said(&[
        "error: data node 2 does not answer, though its process is there",
        "in consequence: ",
    ]);
}

/// A run whose node 2 gets a signal once the load has begun: lost, as its record says too.
fn ended_in_mid_run_by(signal: Signal) -> Ended {
    let (target, folder) = (own_target(), records());
    let into = folder.path().display().to_string();
    let words = ["bench", "--product", "ndb", "--target", &target, "--on", "local", "--duration-s", "600"];
    let mut running = call(&[&words[..], &["--records", &into]].concat()).start();
    let node = running.wait_for("--ndb-nodeid=2 ", Duration::from_secs(900));
    // The load has begun when the first interval is in the record.
    let begun = |line: &Line| matches!(line, Line::Message { said: Message::Interval(_), .. });
    let until = std::time::Instant::now() + Duration::from_secs(300);
    while !record_files(folder.path()).first().is_some_and(|file| read_record(file).iter().any(begun)) {
        assert!(!running.has_ended(), "ended before the load began");
        assert!(std::time::Instant::now() < until, "no load");
        std::thread::sleep(Duration::from_millis(200));
    }
    kill(node, signal);
    let mark = running.mark.clone();
    let ended = running.end().expect_code(35).expect_log_and_next();
    expect_nothing_left(&mark);
    let record = read_record(&record_files(folder.path())[0]);
    let Some(Line::End { outcome, error: Some(error), .. }) = record.last() else { panic!("no end") };
    assert_eq!((*outcome, error.kind.as_str()), (Outcome::Failed, "server-lost"));
    ended
}
