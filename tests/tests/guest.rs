//! Guests of the machine `qemu-system`: what runs in one, and each way in which one does not come up: a clear message,
//! and nothing left.

use std::path::Path;
use std::time::{Duration, Instant};

use portbench_tests::{Ended, Running, call, expect_nothing_left, home, run};
use rustix::process::Signal;

/// A guest is up in a quarter of a minute; emulated on a busy host it takes its time.
const LONG: Duration = Duration::from_secs(300);

const SHELL: [&str; 5] = ["shell", "--from", "distro", "--on", "qemu-system"];

fn guest(more: &[&str]) -> Running {
    call(&[&SHELL, more].concat()).start()
}

/// Runs it to its end; nothing of it may be left.
fn ended(more: &[&str]) -> Ended {
    let running = guest(more);
    let mark = running.mark.clone();
    let ended = running.end();
    expect_nothing_left(&mark);
    ended
}

/// Folders of guests in the cache.
fn folders() -> Vec<std::path::PathBuf> {
    let run = home().join("run");
    let Ok(entries) = std::fs::read_dir(run) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    paths.filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("guest-"))).collect()
}

#[test]
fn a_guest_is_a_computer_of_the_target_with_its_own_pages_and_an_unprivileged_user() {
    let script = "uname -m; id -un; ulimit -n; grep -m 1 KernelPageSize /proc/self/smaps | tr -d ' '; \
                  test -w /bundle && echo writable; ls $DATA > /dev/null && echo data; exit 7";
    let ended = ended(&["--", script]).expect_code(3).expect_said(&["exit code 7"]);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines, ["ppc64le", "portbench", "1048576", "KernelPageSize:64kB", "data"], "{}", ended.stderr);
    assert_eq!(folders(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn neither_token_nor_nonce_can_be_read_from_the_list_of_processes() {
    let mut running = guest(&["--", "sleep 60"]);
    let emulator = running.wait_for("-accel tcg", LONG);
    let line = std::fs::read_to_string(format!("/proc/{emulator}/cmdline")).expect("its command line");
    let log = line.split('\0').find(|word| word.ends_with("initramfs.cpio")).expect("its first file system");
    let text = String::from_utf8_lossy(&std::fs::read(log).expect("readable for us")).into_owned();
    let nonce = text.rsplit_once("NONCE=").and_then(|(_, rest)| rest.lines().next()).expect("a nonce");
    assert!(nonce.len() >= 16 && !line.contains(nonce), "{line}");
    running.signal(Signal::TERM);
    let mark = running.mark.clone();
    running.end().expect_code(130);
    expect_nothing_left(&mark);
}

#[test]
fn a_kernel_that_is_none_is_named_in_the_emulators_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("kernel");
    std::fs::write(&file, "this is no kernel\n".repeat(999)).expect("a file");
    let name = file.display().to_string();
    ended(&["--guest-kernel", &name, "--", "true"])
        .expect_code(38)
        .expect_said(&["the guest ended before it reached firmware", &name, "leave --guest-kernel out"])
        .expect_log_and_next();
}

#[test]
fn a_kernel_of_another_target_is_refused_before_anything_starts() {
    let own = std::env::current_exe().expect("this program");
    ended(&["--guest-kernel", &own.display().to_string(), "--", "true"])
        .expect_code(39)
        .expect_said(&["of another target than ppc64le", "next:"]);
}

#[test]
fn a_kernel_that_starts_nothing_is_told_with_the_last_console_line() {
    // The bundle's server is an ELF file of the target: the firmware loads and starts it.
    run("build --from distro").expect_code(0);
    let deployed = call(&["deploy", "--from", "distro", "--on", "qemu-user", "--json"]).run().expect_code(0);
    let value: serde_json::Value = serde_json::from_str(&deployed.stdout).expect("JSON");
    let program = Path::new(value["root"].as_str().expect("a folder")).join("bin/bench-suite");
    ended(&["--guest-kernel", &program.display().to_string(), "--", "true"])
        .expect_code(38)
        .expect_said(&["the guest"])
        .expect_log_and_next();
}

#[test]
fn too_little_memory_is_told_before_and_after_the_boot() {
    ended(&["--guest-memory-mib", "64", "--", "true"])
        .expect_code(38)
        .expect_said(&["the guest ended before", "emory", "--guest-memory-mib"])
        .expect_log_and_next();
    ended(&["--guest-memory-mib", "256", "--", "tail /dev/zero"])
        .expect_code(38)
        .expect_said(&["the guest ran out of memory", "killed a program", "more memory than 256 MiB"])
        .expect_log_and_next();
}

#[test]
fn a_wrong_console_is_told_with_the_one_that_was_expected() {
    let begun = Instant::now();
    ended(&["--guest-console", "ttyS7", "--", "true"])
        .expect_code(38)
        .expect_said(&[
            "did not reach init within",
            "expected on the console ttyS7",
            "last console line:",
            "has its console at hvc0",
        ])
        .expect_log_and_next();
    assert!(begun.elapsed() < LONG * 3, "it waited for {:?}", begun.elapsed());
}

#[test]
fn an_unknown_kernel_is_answered_with_the_nearest() {
    run("shell --from distro --on qemu-system --kernel 64kb -- true")
        .expect_code(2)
        .expect_said(&["unknown kernel `64kb`", "did you mean 64k?"]);
}

#[test]
fn kill_9_of_the_command_ends_the_guest_and_the_next_one_sweeps_its_folder() {
    let mut running = guest(&["--", "sleep 60"]);
    running.wait_for("-accel tcg", LONG);
    running.signal(Signal::KILL);
    let mark = running.mark.clone();
    assert_eq!(running.end().code, None);
    expect_nothing_left(&mark);
    assert_eq!(folders().len(), 1);
    ended(&["--guest-memory-mib", "64", "--", "true"]).expect_code(38);
    assert_eq!(folders().len(), 0);
}

#[test]
fn an_emulator_killed_in_mid_run_is_told_as_the_guests_end() {
    let mut running = guest(&["--", "touch /tmp/up; sleep 100"]);
    let emulator = running.wait_for("-accel tcg", LONG);
    running.wait_for("sleep 100", LONG);
    portbench_tests::kill(emulator, Signal::KILL);
    let mark = running.mark.clone();
    running
        .end()
        .expect_code(38)
        .expect_said(&["the guest ended in mid-run", "killed by signal 9"])
        .expect_log_and_next();
    expect_nothing_left(&mark);
}
