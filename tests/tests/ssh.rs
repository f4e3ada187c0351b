//! Machines that are reached by ssh, against a real sshd on loopback: what fits is deployed and benched there, what
//! does not is refused in plain words, and nothing is left on either side however it ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use model::record::{Line, Outcome};
use portbench_tests::namespace::{ADDRESSES, Cable};
use portbench_tests::sshd::{Sshd, on, own_target};
use portbench_tests::{Running, call, expect_nothing_left, read_record, record_files, records};
use rustix::process::Signal;

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
    let (sshd, target) = (Sshd::start(&own_target()), own_target());
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

#[test]
fn a_bench_there_is_a_record_with_the_machines_own_facts() {
    let (sshd, target) = (Sshd::start(&own_target()), own_target());
    for client in ["target", "host"] {
        let folder = records();
        let to = folder.path().display().to_string();
        let words = ["--client", client, "--workload", "do0", "--duration-s", "1", "--records", &to];
        on(&sshd, &target, "bench", &words).run().expect_code(0);
        let files = record_files(folder.path());
        let record = read_record(&files[0]);
        let up = record.iter().find_map(|line| match line {
            Line::Machine(up) => Some(up),
            _ => None,
        });
        let up = up.expect("the machine's facts");
        assert_eq!((up.machine.as_str(), up.facts.machine.as_str()), ("ssh:loopback", target.as_str()));
        assert!(up.clock_ahead_s.is_some_and(|ahead| ahead.abs() < 1.0), "{:?}", up.clock_ahead_s);
        expect_no_data(&sshd, Duration::from_secs(5));
    }
}

/// A bench that lasts, begun: something was measured.
fn long_bench(sshd: &Sshd, records: &Path, by: Command) -> Running {
    let to = records.display().to_string();
    let words = ["--workload", "do0", "--duration-s", "120", "--records", &to];
    let mut running = on(sshd, &own_target(), "bench", &words).by(by).start();
    let until = Instant::now() + Duration::from_secs(300);
    let measured =
        |file: &PathBuf| fs::read_to_string(file).is_ok_and(|text| text.contains(r#""message":"interval""#));
    while !record_files(records).iter().any(measured) {
        assert!(!running.has_ended() && Instant::now() < until, "nothing was measured");
        std::thread::sleep(Duration::from_millis(50));
    }
    running
}

/// Processes of the machine that were started from its work folder.
fn there(sshd: &Sshd) -> Vec<String> {
    let mut found = Vec::new();
    let mark = sshd.work().display().to_string();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        // What connects to it has the folder in its arguments as well.
        if line.starts_with(&mark) {
            found.push(line);
        }
    }
    found
}

#[track_caller]
fn expect_nothing_there(sshd: &Sshd, within: Duration) {
    let until = Instant::now() + within;
    while !there(sshd).is_empty() {
        assert!(Instant::now() < until, "left running there: {:#?}", there(sshd));
        std::thread::sleep(Duration::from_millis(50));
    }
    expect_no_data(sshd, Duration::from_secs(10));
}

#[test]
fn whatever_ends_the_command_ends_everything_there() {
    let sshd = Sshd::start(&own_target());
    for (signal, code) in [(Signal::INT, Some(130)), (Signal::TERM, Some(130)), (Signal::KILL, None)] {
        let folder = records();
        let running = long_bench(&sshd, folder.path(), Command::new("env"));
        assert!(there(&sshd).iter().any(|line| line.contains("mariadbd")), "{:?}", there(&sshd));
        running.signal(signal);
        let mark = running.mark.clone();
        assert_eq!(running.end().code, code);
        expect_nothing_left(&mark);
        expect_nothing_there(&sshd, Duration::from_secs(10));
    }
}

#[test]
fn a_link_cut_in_mid_run_is_told_and_nothing_is_left_on_either_side() {
    let (cable, target) = (Cable::lay(), own_target());
    let sshd = Sshd::start_at(&target, ADDRESSES[1], 2222, cable.at(1));
    let folder = records();
    let running = long_bench(&sshd, folder.path(), cable.at(0));
    assert!(there(&sshd).iter().any(|line| line.contains("mariadbd")), "{:?}", there(&sshd));
    let (mark, begun) = (running.mark.clone(), Instant::now());
    cable.cut();
    let ended = running.end().expect_code(37).expect_log_and_next();
    let took = begun.elapsed();
    ended.expect_said(&["the link to ssh:loopback broke"]);
    assert!(took < Duration::from_secs(40), "took {took:?}");
    expect_nothing_left(&mark);
    // There, nobody tells them: they notice that nobody speaks any more.
    expect_nothing_there(&sshd, Duration::from_secs(40));
    let record = read_record(&record_files(folder.path())[0]);
    let outcome = record.iter().find_map(|line| match line {
        Line::End { outcome, .. } => Some(*outcome),
        _ => None,
    });
    assert_eq!(outcome, Some(Outcome::Failed));
}

/// Server on one machine, load generator on another: two accounts of the same sshd, with folders of their own.
#[test]
fn the_load_comes_from_a_machine_of_its_own() {
    let (sshd, target) = (Sshd::start(&own_target()), own_target());
    sshd.write_two_machines(&target);
    let folder = records();
    let (to, machines) = (folder.path().display().to_string(), sshd.machines().display().to_string());
    let words = [
        "bench",
        "--target",
        &target,
        "--from",
        "distro",
        "--machines",
        &machines,
        "--server",
        "ssh:a",
        "--client",
        "ssh:b",
        "--workload",
        "do0",
        "--duration-s",
        "1",
        "--records",
        &to,
    ];
    call(&words).run().expect_code(0);
    let record = read_record(&record_files(folder.path())[0]);
    let roles: Vec<(&str, &str)> = record
        .iter()
        .filter_map(|line| match line {
            Line::Machine(up) => Some((up.role.as_str(), up.machine.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(roles, [("server", "ssh:a"), ("client", "ssh:b")]);
    let transport = record.iter().find_map(|line| match line {
        Line::Workload { client, transport, .. } => Some((client.as_str(), transport.as_str())),
        _ => None,
    });
    assert_eq!(transport, Some(("ssh:b", "tcp")));
    assert!(sshd.at("other/deployments").is_dir(), "the load generator was not deployed to b");
    expect_no_data(&sshd, Duration::from_secs(5));
}
