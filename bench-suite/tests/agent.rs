//! The agent as a relay meets it: frames in, frames out, and nothing left running whatever happens.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use model::agent::{Decoder, Exit, Frame, FromAgent, MAX_PAYLOAD_BYTES, Run, Terminal, ToAgent};

const BENCH: &str = env!("CARGO_BIN_EXE_bench-suite");
const LIMIT: Duration = Duration::from_secs(10);

fn sh(script: &str) -> Run {
    Run {
        token: String::new(),
        program: vec!["/bin/sh".into(), "-c".into(), script.into()],
        environment: Default::default(),
        folder: None,
        user: None,
        cpus: None,
        numa_node: None,
        silence_s: 20,
        terminal: None,
    }
}

/// A conversation, over pipes or TCP.
struct Talk<W, R> {
    write: W,
    read: R,
    decoder: Decoder,
}

impl<W: Write, R: Read> Talk<W, R> {
    fn say(&mut self, frame: ToAgent) {
        self.write.write_all(&frame.encode()).expect("the agent listens");
    }

    /// The next frame; `None` at the end of the stream.
    fn hear(&mut self) -> Option<FromAgent> {
        let mut bytes = [0; 4096];
        loop {
            if let Some(frame) = self.decoder.frame().expect("a frame") {
                return Some(frame);
            }
            match self.read.read(&mut bytes) {
                Ok(n) if n > 0 => self.decoder.push(&bytes[..n]),
                _ => return None,
            }
        }
    }

    fn started(&mut self) -> u32 {
        match self.hear() {
            Some(FromAgent::Started(started)) => started.pid,
            other => panic!("not started: {other:?}"),
        }
    }

    /// What the program writes until it ends, and its end.
    fn rest(&mut self) -> (String, String, Exit) {
        let (mut out, mut err) = (vec![], vec![]);
        loop {
            match self.hear() {
                Some(FromAgent::Stdout(bytes)) => out.extend(bytes),
                Some(FromAgent::Stderr(bytes)) => err.extend(bytes),
                Some(FromAgent::Exit(exit)) => {
                    let text = |bytes| String::from_utf8(bytes).expect("text");
                    return (text(out), text(err), exit);
                }
                Some(FromAgent::Taken(_) | FromAgent::Pong) => {}
                other => panic!("no end: {other:?}"),
            }
        }
    }

    /// Waits for `text` on standard output.
    fn wait_for(&mut self, text: &str) {
        let mut all = String::new();
        while !all.contains(text) {
            match self.hear() {
                Some(FromAgent::Stdout(bytes)) => all += &String::from_utf8_lossy(&bytes),
                Some(FromAgent::Taken(_) | FromAgent::Pong) => {}
                other => panic!("`{text}` was not said: {other:?} after {all}"),
            }
        }
    }

    fn refused(&mut self) -> String {
        loop {
            match self.hear() {
                Some(FromAgent::Refused(refused)) => return refused.why,
                Some(
                    FromAgent::Started(_) | FromAgent::Stdout(_) | FromAgent::Taken(_) | FromAgent::Pong,
                ) => {}
                other => panic!("not refused: {other:?}"),
            }
        }
    }
}

/// An agent on pipes.
struct Agent {
    child: Child,
    talk: Talk<ChildStdin, ChildStdout>,
}

fn agent_by(mut command: Command) -> Agent {
    command.arg("agent").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the agent starts");
    let (write, read) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
    Agent { child, talk: Talk { write, read, decoder: Decoder::default() } }
}

fn agent(run: Run) -> Agent {
    let mut agent = agent_by(Command::new(BENCH));
    agent.talk.say(ToAgent::Run(Box::new(run)));
    agent
}

fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[track_caller]
fn expect_dead(pid: u32) {
    let until = Instant::now() + LIMIT;
    while lives(pid) {
        assert!(Instant::now() < until, "{pid} lives");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn kill(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid as i32).expect("a process id");
    rustix::process::kill_process(pid, signal).expect("it lives");
}

#[test]
fn streams_variables_folder_and_exit_code_are_the_programs() {
    let mut run = sh("cat; echo \"$WORD in $PWD\"; echo bad >&2; exit 7");
    run.environment.insert("WORD".into(), "wörd".into());
    run.folder = Some("/usr".into());
    let mut agent = agent(run);
    agent.talk.started();
    agent.talk.say(ToAgent::Stdin(b"in, ".to_vec()));
    agent.talk.say(ToAgent::StdinEnd);
    let (out, err, exit) = agent.talk.rest();
    assert_eq!((out.as_str(), err.as_str()), ("in, wörd in /usr\n", "bad\n"));
    assert_eq!(exit, Exit { code: Some(7), signal: None });
    drop(agent.talk);
    assert!(agent.child.wait().expect("a child").success());
}

#[test]
fn through_a_loader_that_hides_its_own_words_it_finds_itself() {
    let elf = std::fs::read(BENCH).expect("the program");
    let loader = Path::new("/lib64/ld-linux-x86-64.so.2");
    if !elf.windows(27).any(|part| part == b"/lib64/ld-linux-x86-64.so.2") {
        return;
    }
    let mut command = Command::new(loader);
    command.args(["--library-path", "/nonexistent", BENCH]);
    let mut agent = agent_by(command);
    agent.talk.say(ToAgent::Run(Box::new(sh("echo ok"))));
    agent.talk.started();
    assert_eq!(agent.talk.rest().0, "ok\n");
}

#[test]
fn a_signal_reaches_the_program_and_is_told_as_its_end() {
    let mut agent = agent(sh("echo up; exec sleep 100"));
    agent.talk.started();
    agent.talk.wait_for("up");
    agent.talk.say(ToAgent::Signal(15));
    assert_eq!(agent.talk.rest().2, Exit { code: None, signal: Some(15) });
}

#[test]
fn the_end_of_the_stream_or_of_the_agent_ends_all_that_was_started() {
    use rustix::process::Signal;
    for how in [None, Some(Signal::TERM), Some(Signal::HUP), Some(Signal::KILL)] {
        let mut agent = agent(sh("trap '' TERM; sleep 100 & echo up; wait; sleep 100"));
        let pid = agent.talk.started();
        agent.talk.wait_for("up");
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let sleeper: u32 = children.expect("/proc").trim().parse().expect("one child");
        match how {
            None => drop(agent.talk),
            Some(signal) => kill(agent.child.id(), signal),
        }
        expect_dead(pid);
        if how == Some(Signal::KILL) {
            // The kernel ends the program itself; what that had started is beyond anybody's reach.
            kill(sleeper, Signal::KILL);
        }
        expect_dead(sleeper);
        agent.child.wait().expect("a child");
    }
}

#[test]
fn what_a_program_leaves_in_its_group_ends_with_it() {
    let mut agent = agent(sh("sleep 100 & echo $!"));
    agent.talk.started();
    let (out, _, exit) = agent.talk.rest();
    assert_eq!(exit.code, Some(0));
    expect_dead(out.trim().parse().expect("a process id"));
}

#[test]
fn silence_ends_the_program_and_pings_keep_it() {
    let mut run = sh("sleep 100");
    run.silence_s = 1;
    let mut agent = agent(run);
    let pid = agent.talk.started();
    for _ in 0..8 {
        agent.talk.say(ToAgent::Ping);
        assert_eq!(agent.talk.hear(), Some(FromAgent::Pong));
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(lives(pid));
    expect_dead(pid);
    assert_eq!(agent.child.wait().expect("a child").code(), Some(3));
}

#[test]
fn input_that_nobody_reads_holds_up_no_signal_and_more_of_it_is_refused() {
    let mut agent = agent(sh("echo up; sleep 100"));
    let pid = agent.talk.started();
    agent.talk.wait_for("up");
    for _ in 0..8 {
        agent.talk.say(ToAgent::Stdin(vec![0; 32 << 10]));
    }
    agent.talk.say(ToAgent::Ping);
    while agent.talk.hear() != Some(FromAgent::Pong) {}
    for _ in 0..8 {
        agent.talk.say(ToAgent::Stdin(vec![0; 32 << 10]));
    }
    assert!(agent.talk.refused().contains("bytes of input"));
    expect_dead(pid);
}

#[test]
fn a_relay_that_does_not_read_slows_the_program_down_and_loses_nothing() {
    let mut agent = agent(sh("head -c 26214400 /dev/zero; echo end"));
    agent.talk.started();
    std::thread::sleep(Duration::from_secs(3));
    let memory = std::fs::read_to_string(format!("/proc/{}/status", agent.child.id())).expect("/proc");
    let size = memory.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    let kib: u64 = size.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(kib < 16 << 10, "the agent took {kib} KiB");
    agent.talk.say(ToAgent::Ping);
    let (out, _, exit) = agent.talk.rest();
    assert_eq!((out.len(), exit.code), (26_214_404, Some(0)));
}

#[test]
fn what_cannot_be_is_refused_with_its_reason() {
    type Change = fn(&mut Run);
    let cases: [(&str, Change); 5] = [
        ("/nonexistent is not there", |run| run.program = vec!["/nonexistent".into()]),
        ("no program", |run| run.program = vec![]),
        ("folder /nonexistent", |run| run.folder = Some("/nonexistent".into())),
        ("CPU 1000 is not among", |run| run.cpus = Some([1000].into_iter().collect())),
        ("numactl", |run| run.numa_node = Some(0)),
    ];
    for (why, change) in cases {
        let mut run = sh("true");
        change(&mut run);
        let mut command = Command::new(BENCH);
        command.env("PATH", "/nonexistent");
        let mut agent = agent_by(command);
        agent.talk.say(ToAgent::Run(Box::new(run)));
        let said = agent.talk.refused();
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn garbage_and_frames_out_of_order_are_refused_and_end_the_program() {
    let mut new = agent_by(Command::new(BENCH));
    new.talk.say(ToAgent::Signal(9));
    assert!(new.talk.refused().contains("first frame"));
    let mut new = agent_by(Command::new(BENCH));
    new.talk.write.write_all(b"GET / HTTP/1.1\r\n").expect("it listens");
    assert!(new.talk.refused().contains(&MAX_PAYLOAD_BYTES.to_string()));
    let mut running = agent(sh("sleep 100"));
    let pid = running.talk.started();
    running.talk.say(ToAgent::Run(Box::new(sh("true"))));
    assert!(running.talk.refused().contains("one program"));
    expect_dead(pid);
    let mut running = agent(sh("sleep 100"));
    let pid = running.talk.started();
    running.talk.write.write_all(&[200, 0, 0, 0, 0]).expect("it listens");
    assert!(running.talk.refused().contains("kind 200"));
    expect_dead(pid);
}

#[test]
fn a_program_is_bound_to_the_cpus_that_were_asked_for() {
    let allowed = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let list = allowed.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("a list");
    let last = model::CpuList::of_kernel(list).expect("a list").iter().last().expect("a CPU");
    let mut run = sh("grep Cpus_allowed_list /proc/self/status");
    run.cpus = Some([last].into_iter().collect());
    let mut agent = agent(run);
    agent.talk.started();
    assert_eq!(agent.talk.rest().0.split_whitespace().last(), Some(last.to_string().as_str()));
}

#[test]
fn a_terminal_is_one_with_its_size_and_its_signals() {
    // With noflsh: a terminal throws away what is written as Ctrl-C comes, which may be the trap's own word already.
    let script =
        "test -t 0 && stty size; stty noflsh; trap 'echo caught; exit 5' INT; echo up; sleep 100 & wait";
    let mut run = sh(script);
    run.terminal = Some(Terminal { rows: 33, columns: 101, kind: "vt100".into() });
    let mut agent = agent(run);
    agent.talk.started();
    agent.talk.wait_for("33 101\r\nup");
    // Ctrl-C, as a person types it.
    agent.talk.say(ToAgent::Stdin(vec![3]));
    let (out, _, exit) = agent.talk.rest();
    assert!(out.contains("caught"), "{out}");
    assert_eq!(exit.code, Some(5));
}

fn listening(token: &Path) -> (Child, String) {
    let mut command = Command::new(BENCH);
    command.args(["agent", "--listen", "127.0.0.1:0", "--token-file"]).arg(token);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the agent starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("a pipe");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).expect("a line");
    (child, line.trim().strip_prefix("listening at ").expect("an address").to_string())
}

#[test]
fn over_tcp_only_who_knows_the_token_runs_programs_and_many_may() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    std::fs::write(&file, "0123456789abcdef\n").expect("a file");
    let (mut child, address) = listening(&file);
    let connect = |token: &str, script: &str| {
        let stream = TcpStream::connect(&address).expect("it accepts");
        let mut talk =
            Talk { write: stream.try_clone().expect("a copy"), read: stream, decoder: Decoder::default() };
        talk.say(ToAgent::Run(Box::new(Run { token: token.into(), ..sh(script) })));
        talk
    };
    assert!(connect("0123456789abcdeX", "true").refused().contains("token"));
    let mut long = connect("0123456789abcdef", "sleep 100");
    let pid = long.started();
    let mut short = connect("0123456789abcdef", "echo two");
    short.started();
    assert_eq!(short.rest().0, "two\n");
    assert!(lives(pid));
    let mut other = connect("0123456789abcdef", "sleep 100");
    let second = other.started();
    drop(long);
    expect_dead(pid);
    assert!(lives(second));
    kill(child.id(), rustix::process::Signal::TERM);
    expect_dead(second);
    assert!(child.wait().expect("a child").success());
}

#[test]
fn an_agent_that_anybody_could_use_does_not_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    std::fs::write(&file, "short").expect("a file");
    let listen = |more: &[&str]| {
        let mut command = Command::new(BENCH);
        command.args(["agent", "--listen", "127.0.0.1:0"]).args(more);
        let output = command.output().expect("it starts");
        assert!(!output.status.success());
        String::from_utf8(output.stderr).expect("text")
    };
    assert!(listen(&[]).contains("--token-file"));
    assert!(listen(&["--token-file", &file.display().to_string()]).contains("fewer than"));
}

/// A holder of a place, with what it told.
fn place(arguments: &[&std::ffi::OsStr]) -> (Child, model::agent::Place) {
    let mut command = Command::new(BENCH);
    command.arg("place").args(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("a pipe");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).expect("a line");
    (child, serde_json::from_str(&line).expect("a place"))
}

#[test]
fn a_place_goes_with_its_holder() {
    for by_signal in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut child, place) = place(&["--below".as_ref(), folder.path().as_os_str()]);
        let sockets = place.socket.parent().expect("a folder").to_path_buf();
        assert!(place.data.is_dir() && sockets.is_dir());
        if by_signal {
            kill(child.id(), rustix::process::Signal::TERM);
        } else {
            drop(child.stdin.take());
        }
        assert!(child.wait().expect("a child").success());
        assert!(!place.data.exists() && !sockets.exists());
    }
}

#[test]
fn a_data_folder_of_the_users_stays_and_has_one_holder() {
    let folder = tempfile::tempdir().expect("a folder");
    let mine = folder.path().join("mine");
    let arguments = ["--below".as_ref(), folder.path().as_os_str(), "--data".as_ref(), mine.as_os_str()];
    let (mut child, told) = place(&arguments);
    assert_eq!(told.data, mine);
    std::fs::write(mine.join("rows"), "1").expect("a file");
    let second = Command::new(BENCH).arg("place").args(arguments).output().expect("it starts");
    assert!(String::from_utf8_lossy(&second.stderr).contains("another server uses it"), "{second:?}");
    drop(child.stdin.take());
    assert!(child.wait().expect("a child").success());
    assert!(mine.join("rows").exists());
    assert!(!told.socket.parent().expect("a folder").exists());
}
