//! NDB Clusters of this host's own programs: up in time, read back, and, whatever goes wrong, the root error on top and
//! nothing left. They build NDB for this host's target first, where it is not in the cache.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use model::record::ClusterFacts;
use portbench_tests::sshd::{Sshd, own_target};
use portbench_tests::{Ended, Running, call, expect_nothing_left, home, kill};
use rustix::process::Signal;

fn serve(more: &[&str]) -> portbench_tests::Call {
    let target = own_target();
    let mut words = vec!["serve", "--product", "ndb", "--target", &target, "--on", "local"];
    words.extend(more);
    call(&words)
}

fn log(running: &Running, node: u32) -> PathBuf {
    home().join(format!("logs/cluster-serve-{}-node-{node}.log", running.id()))
}

/// Waits until a node's log has a line.
fn until(running: &mut Running, node: u32, words: &str) {
    let until = Instant::now() + Duration::from_secs(600);
    let file = log(running, node);
    while !fs::read_to_string(&file).is_ok_and(|text| text.contains(words)) {
        assert!(!running.has_ended(), "ended before `{words}`");
        assert!(Instant::now() < until, "no `{words}` in {}", file.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Starts a cluster and waits until it is up: what was told of it.
fn up(more: &[&str]) -> (Running, String) {
    let mut running = serve(more).start();
    let line = running.next_line();
    if line.is_empty() {
        end(running).expect_code(0);
        panic!("it said nothing");
    }
    (running, line)
}

fn end(running: Running) -> Ended {
    let mark = running.mark.clone();
    let ended = running.end();
    expect_nothing_left(&mark);
    ended
}

/// Serves until Ctrl-C: its facts.
fn facts(more: &[&str]) -> ClusterFacts {
    let words: Vec<&str> = more.iter().copied().chain(["--json"]).collect();
    let (running, line) = up(&words);
    running.signal(Signal::INT);
    end(running).expect_code(0);
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

fn topology(folder: &Path, change: impl FnOnce(String) -> String) -> String {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../xtask/topologies/small.toml");
    let file = folder.join("changed.toml");
    fs::write(&file, change(fs::read_to_string(shipped).expect("small"))).expect("a file");
    file.display().to_string()
}

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn a_cluster_is_up_runs_with_what_it_was_asked_for_and_leaves_nothing() {
    let found = facts(&[]);
    assert!(found.started_s > 0.0, "{} s", found.started_s);
    assert_eq!(found.nodes.iter().map(|node| node.node_id).collect::<Vec<_>>(), [145, 1, 2]);
    let data = &found.nodes[1];
    assert_eq!(data.effective.get("DataMemory").map(String::as_str), Some("200 MB"));
    // Also what no log tells, by the node's own copy of the configuration.
    let effective = |name: &str| data.effective.get(name).map(String::as_str);
    assert_eq!(effective("MaxNoOfExecutionThreads"), Some("2"));
    let heartbeat_ms = effective("HeartbeatIntervalDbDb").and_then(|ms| ms.parse::<u32>().ok());
    assert!(heartbeat_ms >= Some(5000), "more on a busy host, never less: {heartbeat_ms:?}");
    assert_eq!(effective("FragmentLogFileSize"), Some("16777216"));
    assert!(found.config_ini.contains("NoOfReplicas=1") && found.version.contains("ndb-"), "{found:?}");
}

#[test]
fn every_topology_of_one_host_comes_up() {
    assert_eq!(facts(&["--topology", "replicas"]).replicas, 2);
    let bound = facts(&["--topology", "numa"]);
    for node in &bound.nodes[1..] {
        assert!(node.memory_policy.as_ref().is_some_and(|policy| policy.starts_with("bind")), "{node:?}");
    }
}

#[test]
fn two_management_nodes_come_up_and_know_each_other() {
    let folder = temporary();
    let file = topology(folder.path(), |text| text.replace("id = 145", "id = 145\n[[management]]\nid = 146"));
    let found = facts(&["--topology", &file]);
    assert_eq!(found.nodes.iter().map(|node| node.node_id).collect::<Vec<_>>(), [145, 146, 1, 2]);
    assert_eq!(found.connect_string.split(',').count(), 2, "{}", found.connect_string);
}

#[test]
fn a_data_node_that_is_killed_in_any_phase_of_the_start_is_named_first() {
    for phase in [0, 2, 4, 9] {
        let mut running = serve(&[]).start();
        until(&mut running, 2, &format!("-- Start phase {phase} completed"));
        let id = running.wait_for("--ndb-nodeid=2 ", Duration::from_secs(1));
        kill(id, Signal::KILL);
        let ended = end(running).expect_code(34).expect_log_and_next();
        ended.expect_said(&["error: data node 2 ended after start phase", "killed from outside by signal 9"]);
    }
}

#[test]
fn a_node_that_is_killed_in_mid_run_is_named_first() {
    for (node, name) in [(1, "data node 1"), (145, "management node 145")] {
        let (mut running, _) = up(&[]);
        let id = running.wait_for(&format!("--ndb-nodeid={node} "), Duration::from_secs(1));
        kill(id, Signal::KILL);
        let ended = end(running).expect_code(35).expect_log_and_next();
        ended.expect_said(&[&format!("error: {name} ended in mid-run: killed from outside by signal 9")]);
    }
}

#[test]
fn a_management_node_that_is_killed_while_the_cluster_starts_is_named() {
    let mut running = serve(&[]).start();
    until(&mut running, 1, "-- Start phase 0 completed");
    let id = running.wait_for("--ndb-nodeid=145 ", Duration::from_secs(1));
    kill(id, Signal::KILL);
    end(running).expect_code(34).expect_said(&["error: management node 145 ended"]);
}

#[test]
fn whatever_ends_the_command_ends_every_node() {
    for (signal, code) in [(Signal::KILL, None), (Signal::TERM, Some(0))] {
        let (running, _) = up(&[]);
        running.signal(signal);
        assert_eq!(end(running).code, code);
    }
}

#[test]
fn memory_that_the_system_does_not_give_is_told_as_such() {
    // Built before: what builds needs more.
    let target = own_target();
    call(&["build", "--product", "ndb", "--target", &target]).run().expect_code(0);
    let mut limited = Command::new("prlimit");
    limited.arg("--as=900000000");
    let running = serve(&[]).by(limited).start();
    end(running).expect_code(34).expect_log_and_next().expect_said(&["ended", "memory is exhausted"]);
}

#[test]
fn a_changed_configuration_holds_though_the_data_is_kept() {
    let folder = temporary();
    let data = folder.path().join("data").display().to_string();
    let before = facts(&["--data", &data]);
    assert_eq!(before.data_written_by, None);
    let more =
        topology(folder.path(), |text| text.replace("data-memory = \"200M\"", "data-memory = \"220M\""));
    let after = facts(&["--data", &data, "--topology", &more]);
    assert_eq!(after.data_written_by, Some(own_target()));
    for node in &after.nodes[1..] {
        assert_eq!(node.effective.get("DataMemory").map(String::as_str), Some("220 MB"));
        assert_eq!(node.effective.get("generation").map(String::as_str), Some("1"));
    }
}

#[test]
fn a_data_folder_of_another_topology_or_of_somebody_else_is_not_touched() {
    let folder = temporary();
    let data = folder.path().join("data");
    fs::create_dir(&data).expect("a folder");
    let stamp = data.join("portbench.cluster");
    fs::write(&stamp, "ppc64; replicas 2, data nodes 1,2\n").expect("a file");
    let refused = || {
        let words = data.display().to_string();
        let ended = end(serve(&["--data", &words]).start()).expect_code(2);
        assert_eq!(fs::read_dir(&data).expect("a folder").count(), 1, "something was made there");
        ended.expect_said(&["not touched"])
    };
    refused().expect_said(&["the data of another cluster (ppc64; replicas 2, data nodes 1,2)"]);
    fs::rename(&stamp, data.join("letters")).expect("a rename");
    refused().expect_said(&["holds files that portbench did not make"]);
}

#[test]
fn a_value_that_ndb_refuses_is_named() {
    let folder = temporary();
    for (line, said) in [
        ("BogusKey = 1", "Unknown parameter: BogusKey"),
        ("MaxNoOfTables = 99999999", "Illegal value 99999999"),
    ] {
        let file = topology(folder.path(), |text| format!("{text}\n[config]\n{line}\n"));
        let ended = end(serve(&["--topology", &file]).start()).expect_code(2).expect_log_and_next();
        ended.expect_said(&["error: management node 145 ended", said]);
    }
}

#[test]
fn a_port_in_use_is_told() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let folder = temporary();
    for node in ["id = 145\n", "id = 2\n"] {
        let file = topology(folder.path(), |text| text.replace(node, &format!("{node}port = {port}\n")));
        end(serve(&["--topology", &file]).start()).expect_code(33).expect_said(&["its port is in use"]);
    }
}

#[test]
fn more_memory_than_the_machine_has_is_refused_before_anything_starts() {
    let folder = temporary();
    let file = topology(folder.path(), |text| text.replace("\"200M\"", "\"16T\""));
    let said = ["changed.toml:5: data nodes 1 and 2 need"];
    call(&["topology", "check", &file]).run().expect_code(2).expect_said(&said);
    end(serve(&["--topology", &file]).start()).expect_code(2).expect_said(&said);
}

/// Two machines on loopback: two accounts of the same sshd, with folders of their own.
#[test]
fn nodes_are_spread_over_machines() {
    let (sshd, target) = (Sshd::start(&own_target()), own_target());
    sshd.write_two_machines(&target);
    let folder = temporary();
    let file = topology(folder.path(), |mut text| {
        for (id, machine) in [(145, "ssh:a"), (1, "ssh:a"), (2, "ssh:b")] {
            let line = format!("\nid = {id}\n");
            text = text.replace(&line, &format!("{line}machine = \"{machine}\"\n"));
        }
        text
    });
    let machines = sshd.machines().display().to_string();
    let found = facts(&["--topology", &file, "--machines", &machines]);
    let places: Vec<&str> = found.nodes.iter().map(|node| node.machine.as_str()).collect();
    assert_eq!(places, ["ssh:a", "ssh:a", "ssh:b"]);
}
