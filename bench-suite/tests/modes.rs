//! What the bench binary does without a request.

use std::process::{Command, Output, Stdio};

use model::facts::{Facts, FolderFacts};

fn bench_suite(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench-suite"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn one_line(output: Output) -> String {
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

#[test]
fn facts_are_one_line() {
    let facts: Facts = serde_json::from_str(&one_line(bench_suite(&["facts"]).output().unwrap())).unwrap();
    assert!(facts.cpus >= 1 && facts.allowed_cpus.is_some(), "{facts:?}");
    assert_eq!(facts.seen_through, None, "a native program sees its own machine");
}

#[test]
fn a_folder_is_tried_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let line = one_line(bench_suite(&["probe-io", "--in", path]).output().unwrap());
    assert!(!serde_json::from_str::<FolderFacts>(&line).unwrap().file_system.is_empty());
    let output = bench_suite(&["probe-io", "--in", &format!("{path}/none")]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/none"), "{output:?}");
}

#[test]
fn readers_that_have_gone_change_no_exit_code() {
    for (arguments, code) in [(&[][..], 2), (&["probe-io", "--in", "/none"], 3)] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = bench_suite(arguments).stdout(Stdio::null()).stderr(writer).status().unwrap();
        assert_eq!(status.code(), Some(code), "{arguments:?}");
    }
}
