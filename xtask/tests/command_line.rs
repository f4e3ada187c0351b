//! The built `xtask` as a process: what it becomes, and what it does when nobody reads it.

use std::process::{Command, Stdio};

fn xtask(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn allowed(status: &str) -> Option<&str> {
    status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(str::trim)
}

#[test]
fn a_placed_program_runs_on_its_cpus() {
    let own = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let last = allowed(&own).expect("a list").rsplit([',', '-']).next().expect("a CPU");
    let output =
        xtask(&["place", "--cpus", last, "--", "cat", "/proc/self/status"]).output().expect("xtask starts");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(allowed(&String::from_utf8_lossy(&output.stdout)), Some(last));
}

#[test]
fn what_cannot_be_placed_is_not_started() {
    for (arguments, code, said) in [
        (&["place", "--cpus", "1000", "--", "true"][..], 127, "cannot run on the CPUs 1000"),
        (&["place", "--cpus", "2000", "--", "true"], 127, "CPU 2000: only those below"),
        (&["place", "--cpus", "0", "--", "/none/program"], 127, "cannot start /none/program"),
        (&["place", "--cpus", "0-", "--", "true"], 2, "write it like 0-3,8"),
    ] {
        let output = xtask(arguments).output().expect("xtask starts");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(code) && text.contains(said), "{arguments:?}: {output:?}");
    }
}

#[test]
fn readers_that_have_gone_change_no_exit_code() {
    for (arguments, code) in [
        (&["show", "/nonexistent/record.jsonl"][..], 2),
        (&["targets"], 0),
        (&["--help"], 0),
        (&["bnech"], 2),
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let both = writer.try_clone().expect("a pipe");
        let status = xtask(arguments).stdout(both).stderr(writer).status().expect("xtask starts");
        assert_eq!(status.code(), Some(code), "{arguments:?}");
    }
}
