//! NDB on another byte order: its own unit tests and test programs against a cluster of the target, and backups that a
//! cluster of the other byte order restores.
//!
//! `PORTBENCH_TEST_BUILT` names the target, `ppc64` where it is not set; it runs under `qemu-user` unless it is the
//! host's own. NDB with its tests is built first, for it and for the host, where it is not in the cache.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use portbench_tests::sshd::own_target;
use portbench_tests::{Running, built, call, expect_nothing_left};
use rustix::process::Signal;

/// Unit tests that fail where an emulator runs them, and why.
const NOT_EMULATED: [(&str, &str); 2] = [
    ("NdbProcess-t", "starts programs of the target, which the host's kernel cannot run"),
    ("testNdbProcess-t", "starts itself, which the host's kernel cannot run"),
];

/// Unit tests that count what happens within a second: on a busy host, a second try decides.
const TIMED: [&str; 1] = ["logger-t"];

/// NDB's own unit tests: what the product's table builds, without what is no unit test.
fn unit_tests() -> Vec<String> {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("../xtask/products/ndb.toml");
    let text = fs::read_to_string(table).expect("the product's table");
    let names = text.split('"').filter(|word| word.ends_with("-t") && !word.contains(['/', ' ']));
    names.map(str::to_string).collect()
}

/// Test programs with their cases. Left out: cases that restart nodes or inject errors, which ndbmtd started by
/// itself does not do and a release build does not have; `testScanInterpreter`, whose tables no server creates any
/// more; `InterpretedWriteProgram` with fewer than 50 rows, which ends a data node on any byte order.
const PROGRAMS: [&str; 21] = [
    "testInterpreter -n PartialWords T1",
    "testInterpreter -r 60 -n IncValue32 T1",
    "testInterpreter -r 60 -n IncValue64 T1",
    "testInterpreter -r 60 -n Bug19537 T1",
    "testInterpreter -r 60 -n InterpretedUpdate T1",
    "testInterpreter -r 60 -n InterpretedUKLookup T1",
    "testInterpreter -r 20 -n InterpretedWrite T6 T13",
    "testInterpreter -r 20 -n BranchNonZeroLabel T6 T16",
    "testScanFilter -r 10 T1",
    "testBitfield",
    "testNativeDefault",
    "testBlobs -rows 25 -skip hp",
    "testBlobs -rows 25 -version 1 -skip hp",
    "testOIBasic -case abcdef -rows 20 -loop 1",
    "testIndex -r 50 -l 1 -n CreateAll T1 T13 T14",
    "testIndex -r 50 -l 1 -n MixedTransaction T1",
    "testBasic -r 30 -l 1 -n PkUpdate T1 T6 T13 D1 D2",
    "testDict -r 20 -l 1 -n TableAddAttrs T1 T6 D1",
    "testDict -r 20 -l 1 -n FK_TRANS1 T1",
    "testSpj -r 30 -l 1 -n LookupJoin T1 T6 T13",
    "test_event -r 60 -n BasicEventOperation T6 T13",
];

/// What a program said, and whether it was content.
struct Said {
    ok: bool,
    text: String,
}

/// A cluster of a target, up until it is dropped.
struct Cluster {
    running: Running,
    /// The variable by which programs find it.
    connect: String,
    /// How a program of the bundle is started, up to its folder in the bundle.
    prefix: String,
}

impl Cluster {
    fn start(target: &str, data: &Path) -> Self {
        Cluster::with_patches("all", target, data)
    }

    fn with_patches(patches: &str, target: &str, data: &Path) -> Self {
        let on = if target == own_target() { "local" } else { "qemu-user" };
        let data = data.display().to_string();
        let words = ["serve", "--product", "ndb", "--with", "tests", "--target", target, "--on", on];
        let words: Vec<&str> = words.into_iter().chain(["--patches", patches, "--data", &data]).collect();
        let mut running = call(&words).start();
        let (export, client) = (running.next_line(), running.next_line());
        let found = export.strip_prefix("export NDB_CONNECTSTRING=").zip(client.split_once("bin/ndb_mgm"));
        let Some((connect, (prefix, _))) = found else {
            let ended = running.end();
            panic!("it is not up, it said `{export}`, `{client}`:\n{}", ended.stderr);
        };
        Cluster { connect: connect.into(), prefix: prefix.into(), running }
    }

    /// Starts a program of the bundle in a folder; it ends by itself after ten minutes at the latest.
    fn spawn(&self, program: &str, arguments: &str, folder: &Path) -> Child {
        let line = format!("exec timeout -k 10 600 {}{program} {arguments} 2>&1", self.prefix);
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).current_dir(folder).env("NDB_CONNECTSTRING", &self.connect);
        shell.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("a shell starts")
    }

    fn run(&self, program: &str, arguments: &str, folder: &Path) -> Said {
        said(self.spawn(program, arguments, folder))
    }

    /// A program that has to be content.
    fn expect(&self, program: &str, arguments: &str, folder: &Path) -> String {
        let said = self.run(program, arguments, folder);
        assert!(said.ok, "{program} {arguments} failed:\n{}", said.text);
        said.text
    }

    /// Ends it in good order.
    fn stop(self) {
        self.running.signal(Signal::INT);
        let mark = self.running.mark.clone();
        self.running.end().expect_code(0);
        expect_nothing_left(&mark);
    }
}

fn said(mut child: Child) -> Said {
    let mut bytes = Vec::new();
    child.stdout.take().expect("its output is kept").read_to_end(&mut bytes).expect("output");
    let ok = child.wait().expect("a child can be waited for").success();
    Said { ok, text: String::from_utf8_lossy(&bytes).into_owned() }
}

/// The end of what a program said.
fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn ndbs_unit_tests_pass() {
    let folder = temporary();
    let cluster = Cluster::start(&built(), &folder.path().join("data"));
    let emulated = built() != own_target();
    let names = unit_tests();
    assert!(names.len() > 50, "{names:?}");
    let mut failures = Vec::new();
    for name in &names {
        let program = format!("tests/{name}");
        let mut said = cluster.run(&program, "", folder.path());
        if !said.ok && TIMED.contains(&name.as_str()) {
            said = cluster.run(&program, "", folder.path());
        }
        let known = NOT_EMULATED.iter().find(|(known, _)| emulated && known == name);
        match (said.ok, known) {
            (true, None) | (false, Some(_)) => {}
            (true, Some((_, why))) => failures.push(format!("{name} passes now, though it {why}")),
            (false, None) => failures.push(format!("{name}:\n{}", tail(&said.text))),
        }
    }
    cluster.stop();
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), names.len(), failures.join("\n"));
}

#[test]
fn ndbs_test_programs_pass_on_a_cluster() {
    let folder = temporary();
    let cluster = Cluster::start(&built(), &folder.path().join("data"));
    let mut failures = Vec::new();
    for case in PROGRAMS {
        let (program, arguments) = case.split_once(' ').unwrap_or((case, ""));
        let said = cluster.run(&format!("tests/{program}"), arguments, folder.path());
        if !said.ok {
            failures.push(format!("{case}:\n{}", tail(&said.text)));
        }
    }
    cluster.stop();
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), PROGRAMS.len(), failures.join("\n"));
}

/// Cases of [`PROGRAMS`] that fail on big endian without a patch, and pass on little endian as the release is.
const MENDED: [(&str, &str); 2] =
    [("0010", "testInterpreter -n PartialWords T1"), ("0011", "testBlobs -rows 25 -skip hp")];

#[test]
fn programs_that_a_patch_mends_fail_without_it_on_big_endian_only() {
    let targets = call(&["targets", "--json"]).run().expect_code(0).stdout;
    let targets: serde_json::Value = serde_json::from_str(&targets).expect("JSON");
    let mut all = targets.as_array().expect("targets").iter();
    let target = all.find(|target| target["name"] == built().as_str()).expect("the target");
    for (patch, case) in MENDED {
        assert!(PROGRAMS.contains(&case), "{case} does not run with its patch");
        let folder = temporary();
        let cluster = Cluster::with_patches(&format!("all,-{patch}"), &built(), &folder.path().join("data"));
        let (program, arguments) = case.split_once(' ').expect("a program and its arguments");
        let said = cluster.run(&format!("tests/{program}"), arguments, folder.path());
        cluster.stop();
        assert_eq!(said.ok, target["byte-order"] != "big", "{case} without {patch}:\n{}", tail(&said.text));
    }
}

/// Every column type, in memory and on disk, with blobs and indexes: written on a cluster that is stopped and
/// started, backed up while rows change, and restored by a cluster of the other byte order.
fn restored(from: &str, to: &str) {
    let folder = temporary();
    let (path, data) = (folder.path(), folder.path().join("data"));
    let cluster = Cluster::start(from, &data);
    cluster.expect("tests/testEveryType", "create", path);
    cluster.expect("tests/testEveryType", "load 0 30", path);
    // Rows change before the backup starts and after it has ended.
    let changes = cluster.spawn("tests/testEveryType", "change 0 10 20", path);
    std::thread::sleep(Duration::from_secs(5));
    cluster.expect("bin/ndb_mgm", "-e 'start backup 1 wait completed'", path);
    let changes = said(changes);
    assert!(changes.ok, "{}", changes.text);
    cluster.stop();

    let cluster = Cluster::start(from, &data);
    let verified = cluster.expect("tests/testEveryType", "verify 30", path);
    assert!(verified.contains("\n0 differences"), "after a restart:\n{verified}");
    cluster.stop();

    let cluster = Cluster::start(to, &path.join("other"));
    let backup = |node: u32| data.join(format!("node-{node}/BACKUP/BACKUP-1")).display().to_string();
    let restore = |node: u32, more: &str| {
        let words = format!("-b 1 -n {node} {more} --backup-path={}", backup(node));
        cluster.expect("tests/ndb_restore", &words, path)
    };
    restore(1, "-m");
    let log: String = [1, 2].map(|node| restore(node, "-r")).concat();
    // `Restored 9 tuples and 5 log entries`; the line that begins this step has no count before these words.
    let count = |line: &str| line.strip_suffix(" log entries")?.rsplit(' ').next()?.parse::<u64>().ok();
    let entries: u64 = log.lines().filter_map(count).sum();
    assert!(entries > 0, "no row changed during the backup:\n{log}");
    let verified = cluster.expect("tests/testEveryType", "verify 30", path);
    assert!(verified.contains("\n0 differences"), "{from} restored on {to}:\n{verified}");
    cluster.stop();
}

#[test]
fn a_backup_is_restored_on_its_own_byte_order_and_on_the_other() {
    let (built, own) = (built(), own_target());
    restored(&built, &built);
    restored(&built, &own);
    restored(&own, &built);
}
