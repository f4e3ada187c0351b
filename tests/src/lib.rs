//! What the end-to-end tests share: the built `xtask`, its outcome, and the processes that it started.
//!
//! The tests use the same cache as a person would (`$PORTBENCH_HOME` or `~/.cache/portbench`), so nothing is built
//! twice. Those that break something do it in a home of their own.

pub mod namespace;
pub mod queue;
pub mod record;
pub mod sshd;

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use model::record::Line;

/// The path of the built `xtask`, built now if it is not up to date.
pub fn xtask() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| compiled("xtask"))
}

/// The path of the bench binary for this host, built likewise.
pub fn bench_suite() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| compiled("bench-suite"))
}

fn compiled(package: &str) -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo).args(["build", "--quiet", "--locked", "--package", package]).status();
    assert!(status.expect("cargo starts").success(), "{package} does not build");
    // This test's own program stands in `<target>/debug/deps`.
    let own = std::env::current_exe().expect("the test's own path");
    let debug = own.parent().and_then(Path::parent).expect("a folder above");
    debug.join(package)
}

/// A call of `xtask` whose processes can be found again.
pub struct Call {
    command: Command,
    mark: String,
}

/// How a call ended.
pub struct Ended {
    /// Exit code; `None`: killed by a signal.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// A call that goes on.
pub struct Running {
    /// None once [`Running::end`] has it.
    child: Option<Child>,
    /// What its processes carry in their environment.
    pub mark: String,
}

impl Drop for Running {
    /// A test that failed leaves none behind.
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        if matches!(child.try_wait(), Ok(None)) {
            kill(child.id(), rustix::process::Signal::INT);
            // One that is stopped is deaf until it goes on.
            kill(child.id(), rustix::process::Signal::CONT);
        }
        let _ = child.wait_with_output();
    }
}

/// A call of `xtask` with these arguments.
pub fn call<S: AsRef<OsStr>>(arguments: &[S]) -> Call {
    let mark = format!("{}-{:?}", std::process::id(), Instant::now());
    let mut command = Command::new(xtask());
    command.args(arguments).env("PORTBENCH_TEST_MARK", &mark).stdin(Stdio::null());
    Call { command, mark }
}

/// A call of `xtask` with words separated by spaces, run to its end.
pub fn run(words: &str) -> Ended {
    call(&words.split(' ').collect::<Vec<_>>()).run()
}

impl Call {
    /// Sets a variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs it by a command that runs what follows.
    pub fn by(mut self, mut command: Command) -> Self {
        command.arg(self.command.get_program()).args(self.command.get_args());
        let set = self.command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.envs(set).stdin(Stdio::null());
        self.command = command;
        self
    }

    /// Runs it to its end.
    pub fn run(mut self) -> Ended {
        Ended::from(self.command.output().expect("xtask starts"))
    }

    /// Starts it; its output is kept for [`Running::end`].
    pub fn start(mut self) -> Running {
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running { child: Some(self.command.spawn().expect("xtask starts")), mark: self.mark }
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ended { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }
}

impl Ended {
    /// Asserts the exit code, showing what was said otherwise.
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Asserts that standard error holds each of these.
    pub fn expect_said(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.stderr.contains(part), "`{part}` was not said:\n{}", self.stderr);
        }
        self
    }

    /// Asserts that the failure names an existing log file, and a next step.
    pub fn expect_log_and_next(self) -> Self {
        let log = self.stderr.lines().find_map(|line| line.trim().strip_prefix("log:"));
        let log = log.unwrap_or_else(|| panic!("no log is named:\n{}", self.stderr)).trim();
        assert!(Path::new(log).is_file(), "the named log {log} is not there");
        assert!(self.stderr.contains("next:"), "no next step is named:\n{}", self.stderr);
        self
    }
}

impl Running {
    fn child(&mut self) -> &mut Child {
        self.child.as_mut().expect("only its end takes it")
    }

    /// Process id of `xtask` itself.
    pub fn id(&self) -> u32 {
        self.child.as_ref().expect("only its end takes it").id()
    }

    /// The next line of its standard output, which is then no part of [`Running::end`]'s; empty where it has ended.
    pub fn next_line(&mut self) -> String {
        let stdout = self.child().stdout.as_mut().expect("its output is kept");
        let mut line = Vec::new();
        let mut byte = [0];
        // Not a byte further: the rest is for the end.
        while matches!(stdout.read(&mut byte), Ok(1)) && byte != *b"\n" {
            line.push(byte[0]);
        }
        String::from_utf8(line).expect("xtask writes UTF-8")
    }

    /// Sends a signal to `xtask` alone.
    pub fn signal(&self, signal: rustix::process::Signal) {
        kill(self.id(), signal);
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child().try_wait().expect("a child can be asked").is_some()
    }

    /// Waits for its end.
    pub fn end(mut self) -> Ended {
        let child = self.child.take().expect("only its end takes it");
        Ended::from(child.wait_with_output().expect("a child can be waited for"))
    }

    /// Processes that this call started and that live, `xtask` itself left out: id and command line.
    pub fn children(&self) -> Vec<(u32, String)> {
        marked(&self.mark).into_iter().filter(|(id, _)| *id != self.id()).collect()
    }

    /// Waits until one of its processes has `part` in its command line; its id.
    pub fn wait_for(&mut self, part: &str, limit: Duration) -> u32 {
        let until = Instant::now() + limit;
        loop {
            // Between fork and exec a child still looks like `xtask guard`; modes of the bench binary are no load.
            let other = [" guard ", " place ", " facts"];
            let found = self
                .children()
                .into_iter()
                .find(|(_, line)| line.contains(part) && !other.iter().any(|word| line.contains(word)));
            if let Some((id, _)) = found {
                return id;
            }
            assert!(!self.has_ended(), "xtask ended before `{part}` was started");
            assert!(Instant::now() < until, "no process `{part}` after {limit:?}: {:?}", self.children());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Sends a signal to one process.
pub fn kill(id: u32, signal: rustix::process::Signal) {
    let id = rustix::process::Pid::from_raw(id as i32).expect("a process id is above 0");
    // It may have ended meanwhile.
    let _ = rustix::process::kill_process(id, signal);
}

/// Living processes that carry a mark in their environment.
pub fn marked(mark: &str) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let read = |name: &str| fs::read(entry.path().join(name)).unwrap_or_default();
        let (environment, line) = (read("environ"), read("cmdline"));
        // A process without a command line has ended and waits to be reaped.
        if !line.is_empty() && environment.windows(mark.len()).any(|part| part == mark.as_bytes()) {
            found.push((id, String::from_utf8_lossy(&line).replace('\0', " ")));
        }
    }
    found
}

/// Asserts that nothing with this mark is left running, after a moment for the kernel.
pub fn expect_nothing_left(mark: &str) {
    let until = Instant::now() + Duration::from_secs(10);
    while !marked(mark).is_empty() {
        assert!(Instant::now() < until, "left running: {:?}", marked(mark));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The target whose server is compiled from source in these tests.
pub fn built() -> String {
    std::env::var("PORTBENCH_TEST_BUILT").unwrap_or("ppc64".into())
}

/// A folder for records, removed at the end.
pub fn records() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// The record files of a folder, sorted.
pub fn record_files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder of records")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files
}

/// Reads a record and checks it by its schema, as a library and by the command.
pub fn read_record(file: &Path) -> Vec<Line> {
    let text = fs::read_to_string(file).expect("the record");
    let lines: Vec<Line> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line of a record")).collect();
    assert_eq!(model::record::check(&lines), Vec::<String>::new());
    call(&["record", "check", &file.display().to_string()]).run().expect_code(0);
    lines
}

/// The cache that the tests share with people.
pub fn home() -> PathBuf {
    let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    var("PORTBENCH_HOME")
        .or_else(|| var("XDG_CACHE_HOME").map(|cache| cache.join("portbench")))
        .or_else(|| var("HOME").map(|home| home.join(".cache/portbench")))
        .expect("a home")
}

/// A home of its own for a test that breaks something: starts with hard links to parts of the shared one.
pub fn broken_home(parts: &[&str]) -> tempfile::TempDir {
    fs::create_dir_all(home()).expect("the shared home");
    // Beside the shared one: hard links do not cross file systems.
    let own = tempfile::tempdir_in(home()).expect("a temporary home");
    for part in parts {
        let status = Command::new("cp").args(["-al", "--"]).arg(home().join(part)).arg(own.path()).status();
        assert!(status.expect("cp starts").success(), "the shared home has no {part}");
    }
    own
}
