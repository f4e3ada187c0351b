//! Machines that are reached by ssh, against a real sshd on loopback: what fits is deployed and benched there, what does
//! not is refused in plain words, and nothing is left on either side however it ends.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use portbench_tests::sshd::Sshd;
use portbench_tests::{Call, call, expect_nothing_left};

/// What this host's own programs are.
fn target() -> String {
    let output = Command::new("uname").arg("-m").output().expect("uname starts");
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

/// `xtask VERB … --on ssh:loopback` with the distribution's build.
fn on(sshd: &Sshd, target: &str, verb: &str, more: &[&str]) -> Call {
    let machines = sshd.machines().display().to_string();
    let mut words =
        vec![verb, "--target", target, "--from", "distro", "--on", "ssh:loopback", "--machines", &machines];
    words.extend(more);
    call(&words)
}

/// Files below a folder; none where it is not there.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(files(&path)),
            path => found.push(path.display().to_string()),
        }
    }
    found
}

/// Asserts that no server's data is left, after a moment for those who clean up.
fn expect_no_data(sshd: &Sshd, within: Duration) {
    let until = Instant::now() + within;
    while !files(&sshd.work().join("run")).is_empty() {
        assert!(Instant::now() < until, "left: {:?}", files(&sshd.work().join("run")));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_machine_reached_by_ssh_is_deployed_to_once_and_benched() {
    let (sshd, target) = (Sshd::start(&target()), target());
    on(&sshd, &target, "deploy", &[]).run().expect_code(0).expect_said(&["push", "ssh:loopback"]);
    let begun = Instant::now();
    let second = on(&sshd, &target, "deploy", &[]).run().expect_code(0);
    let took = begun.elapsed();
    assert!(!second.stderr.contains(" push "), "nothing had changed:\n{}", second.stderr);
    assert!(took < Duration::from_secs(10), "took {took:?}");
    // A file that was changed there is sent again, and only that.
    let bench = files(&sshd.work()).into_iter().find(|file| file.ends_with("bin/bench-suite"));
    fs::write(bench.expect("the bench binary"), "no program").expect("a file");
    on(&sshd, &target, "deploy", &[]).run().expect_code(0).expect_said(&["1 of "]);
    let said = on(&sshd, &target, "shell", &["--", "uname -m; exit 3"]).run();
    assert!(said.stdout.contains(&target), "{}{}", said.stdout, said.stderr);
    expect_no_data(&sshd, Duration::from_secs(5));
}
