//! The relay stands for a program on a machine: streams, signals and exit code are the program's, and when the relay
//! ends in any way so does the program. Here the machine is this host and the transport a pipe or TCP; `ssh.rs` has
//! the real thing.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use portbench_tests::{bench_suite, expect_nothing_left, kill, marked, xtask};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A program's processes carry this in their environment.
const MARK: &str = "PORTBENCH_TEST_MARK";

fn mark(what: &str) -> String {
    format!("relay-{what}-{}-{:?}", std::process::id(), Instant::now())
}

fn spec(transport: Value) -> Value {
    json!({
        "transport": transport,
        "run": {
            "token": "0123456789abcdef", "program": [], "environment": {"WORD": "of the machine"}, "folder": "/usr",
            "user": null, "cpus": null, "numa_node": null, "silence_s": 3, "terminal": null
        }
    })
}

/// As with ssh, something stands between relay and agent: the relay's death is not the agent's.
fn by_pipe() -> Value {
    let line = format!("cat | '{}' agent | cat", bench_suite().display());
    spec(json!({"command": ["sh", "-c", line]}))
}

fn relay(spec: &Value, mark: &str, script: &str) -> Command {
    let mut command = Command::new(xtask());
    command.args(["relay", "--", "/bin/sh", "-c", script]);
    command.env("PORTBENCH_RELAY", spec.to_string()).env(MARK, mark);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn read_until(from: &mut impl Read, text: &str) {
    let (mut all, mut byte) = (Vec::new(), [0]);
    while !all.ends_with(text.as_bytes()) {
        assert_eq!(from.read(&mut byte).expect("a stream"), 1, "{}", String::from_utf8_lossy(&all));
        all.push(byte[0]);
    }
}

/// A program that has begun.
fn long(spec: &Value, mark: &str) -> Child {
    let script = "sleep 100 & echo up; wait; echo on";
    let mut child = relay(spec, mark, script).spawn().expect("the relay starts");
    read_until(child.stdout.as_mut().expect("a pipe"), "up\n");
    child
}

#[test]
fn streams_and_exit_code_are_the_programs() {
    let mark = mark("streams");
    let script = "cat; echo \"$WORD in $PWD\"; echo bad >&2; exit 7";
    let mut child = relay(&by_pipe(), &mark, script).spawn().expect("the relay starts");
    // More than fits any window or pipe, while nobody reads: nothing may be lost, nobody may wait for ever.
    let sent = vec![b'x'; 3 << 20];
    let mut stdin = child.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || stdin.write_all(&sent));
    std::thread::sleep(Duration::from_millis(500));
    let output = child.wait_with_output().expect("a child");
    writer.join().expect("no panic").expect("the program reads");
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(text.trim_start_matches('x'), "of the machine in /usr\n");
    assert_eq!(text.bytes().filter(|byte| *byte == b'x').count(), 3 << 20);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "bad\n");
    assert_eq!(output.status.code(), Some(7));
    expect_nothing_left(&mark);
}

#[test]
fn signals_reach_the_program() {
    for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15), (Signal::HUP, 1)] {
        let mark = mark("signals");
        let mut child = long(&by_pipe(), &mark);
        kill(child.id(), signal);
        assert_eq!(child.wait().expect("a child").code(), Some(128 + number));
        expect_nothing_left(&mark);
    }
}

#[test]
fn kill_9_of_the_relay_or_of_its_transport_ends_the_program() {
    let own = mark("kill");
    let mut child = long(&by_pipe(), &own);
    let begun = Instant::now();
    kill(child.id(), Signal::KILL);
    child.wait().expect("a child");
    expect_nothing_left(&own);
    assert!(begun.elapsed() < Duration::from_secs(3), "took {:?}", begun.elapsed());

    let own = mark("transport");
    let child = long(&by_pipe(), &own);
    let agent = marked(&own).into_iter().find(|(_, line)| line.ends_with("bench-suite agent "));
    kill(agent.expect("an agent").0, Signal::KILL);
    let output = child.wait_with_output().expect("a child");
    assert_eq!(output.status.code(), Some(125));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("relay: the link ended before the program did"), "{said}");
    for (id, line) in marked(&own).into_iter().filter(|(_, line)| line.starts_with("sleep")) {
        // What the program itself had started, when its agent is killed, is beyond everybody's reach.
        assert!(line.contains("100"));
        kill(id, Signal::KILL);
    }
    expect_nothing_left(&own);
}

#[test]
fn a_link_that_falls_silent_ends_the_relay_and_the_program() {
    let own = mark("silent");
    let child = long(&by_pipe(), &own);
    let agent = marked(&own).into_iter().find(|(_, line)| line.ends_with("bench-suite agent "));
    let agent = agent.expect("an agent").0;
    // Nothing comes and nothing ends: as when a cable is cut.
    kill(agent, Signal::STOP);
    let begun = Instant::now();
    let output = child.wait_with_output().expect("a child");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("relay: the link is lost: nothing was heard for 3 s"), "{said}");
    assert_eq!(output.status.code(), Some(125));
    assert!(begun.elapsed() < Duration::from_secs(10), "took {:?}", begun.elapsed());
    // The relay ended its transport, which here is the agent itself.
    for (id, _) in marked(&own) {
        kill(id, Signal::KILL);
    }
    expect_nothing_left(&own);
}

#[test]
fn what_the_agent_refuses_is_said_and_is_no_exit_code_of_the_program() {
    let mut spec = by_pipe();
    spec["run"]["folder"] = json!("/nonexistent");
    let output = relay(&spec, &mark("refused"), "true").output().expect("the relay starts");
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "relay: the folder /nonexistent is not there\n");
    let spec = self::spec(json!({"command": ["echo", "Last login: Monday"]}));
    let output = relay(&spec, &mark("none"), "true").output().expect("the relay starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("relay: this is no agent"), "{said}");
}

#[test]
fn over_tcp_it_is_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut agent = Listening::start(folder.path());
    let own = mark("tcp");
    let mut child = long(&spec(json!({"tcp": agent.address})), &own);
    kill(child.id(), Signal::TERM);
    assert_eq!(child.wait().expect("a child").code(), Some(143));
    let mut child = long(&spec(json!({"tcp": agent.address})), &own);
    kill(child.id(), Signal::KILL);
    child.wait().expect("a child");
    expect_nothing_left(&own);
    let child = long(&spec(json!({"tcp": agent.address})), &own);
    agent.end();
    let output = child.wait_with_output().expect("a child");
    assert!(String::from_utf8_lossy(&output.stderr).contains("told to end"));
    let output = relay(&spec(json!({"tcp": agent.address})), &own, "true").output().expect("it starts");
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot connect to the agent"));
    assert_eq!(output.status.code(), Some(125));
}

/// An agent that listens.
struct Listening {
    child: Child,
    address: String,
}

impl Listening {
    fn start(folder: &Path) -> Self {
        let token = folder.join("token");
        std::fs::write(&token, "0123456789abcdef").expect("a file");
        let mut command = Command::new(bench_suite());
        command.args(["agent", "--listen", "127.0.0.1:0", "--token-file"]).arg(token);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let stdout = child.stdout.as_mut().expect("a pipe");
        read_until(stdout, "listening at ");
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).expect("a line");
        Listening { child, address: line.trim().to_string() }
    }

    fn end(&mut self) {
        kill(self.child.id(), Signal::TERM);
        self.child.wait().expect("a child");
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.end();
    }
}
