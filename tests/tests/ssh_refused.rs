//! Machines of `machines.toml` that cannot be used: each is told in plain words with its next step, before anything is
//! built or copied.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use portbench_tests::namespace::with_tmpfs;
use portbench_tests::sshd::{Sshd, on, own_target};
use portbench_tests::{Ended, expect_nothing_left};

/// Runs `deploy`, which has to fail with this exit code; nothing may be left there.
fn refused(sshd: &Sshd, target: &str, code: i32) -> Ended {
    let begun = Instant::now();
    let ended = on(sshd, target, "deploy", &[]).run().expect_code(code);
    assert!(ended.stderr.contains("next:"), "no next step is named:\n{}", ended.stderr);
    assert!(begun.elapsed() < Duration::from_secs(60), "took {:?}", begun.elapsed());
    assert!(!sshd.work().join("deployments").exists(), "something was copied");
    ended
}

const UNREACHABLE: i32 = 37;
const WRONG: i32 = 39;

#[test]
fn a_host_key_that_changed_or_is_unknown_ends_it() {
    let (sshd, target) = (Sshd::start(&own_target()), own_target());
    let other = fs::read_to_string(sshd.at("user.pub")).expect("a key");
    sshd.know_host("127.0.0.1", &other);
    let known = sshd.at("known").display().to_string();
    refused(&sshd, &target, UNREACHABLE).expect_log_and_next().expect_said(&[
        "the host key",
        &format!("is not the one in {known}:1"),
        &format!("ssh-keygen -f {known} -R '[127.0.0.1]:{}'", sshd.port()),
    ]);
    fs::write(&known, "").expect("a file");
    refused(&sshd, &target, UNREACHABLE)
        .expect_log_and_next()
        .expect_said(&[&format!("is not in {known}"), &format!("ssh-keyscan -p {} 127.0.0.1", sshd.port())]);
    assert_eq!(fs::read_to_string(&known).expect("a file"), "", "nobody was asked");
}

#[test]
fn a_key_that_is_refused_a_port_where_nobody_listens_and_a_host_that_nobody_knows_are_told_apart() {
    let (mut sshd, target) = (Sshd::start(&own_target()), own_target());
    fs::write(sshd.at("authorized"), "").expect("a file");
    let key = sshd.at("user").display().to_string();
    refused(&sshd, &target, UNREACHABLE).expect_said(&[&format!("not in with the key {key}")]);
    sshd.write_machines(&sshd.machine(&target, "host.invalid"));
    refused(&sshd, &target, UNREACHABLE).expect_said(&["nobody knows a host named host.invalid"]);
    sshd.write_machines(&sshd.machine(&target, "127.0.0.1"));
    sshd.end();
    let port = sshd.port();
    refused(&sshd, &target, UNREACHABLE).expect_said(&[&format!("no sshd answers at 127.0.0.1 port {port}")]);
}

#[test]
fn a_host_of_another_architecture_is_told_with_both_sides() {
    // Both byte orders: whichever this host has not, it is refused.
    for other in ["ppc64le", "ppc64"].into_iter().filter(|other| is_target(other)) {
        let sshd = Sshd::start(other);
        refused(&sshd, other, WRONG).expect_said(&[&format!("is {}, {other} is needed", own_target())]);
    }
}

fn is_target(name: &str) -> bool {
    let tables = Path::new(env!("CARGO_MANIFEST_DIR")).join("../xtask/targets");
    tables.join(format!("{name}.toml")).is_file()
}

#[test]
fn a_typo_in_the_file_is_told_with_its_line_and_the_nearest_key() {
    let (sshd, target) = (Sshd::start(&own_target()), own_target());
    let good = sshd.machine(&target, "127.0.0.1");
    sshd.write_machines(&good.replace("work-folder", "workfolder"));
    refused(&sshd, &target, 2).expect_said(&["machines.toml", "line 7", "did you mean `work-folder`?"]);
    sshd.write_machines(&good.replace("[loopback]", "[loopbak]"));
    refused(&sshd, &target, 2).expect_said(&["did you mean loopbak?"]);
    sshd.write_machines(&format!("{good}password = \"x\"\n"));
    refused(&sshd, &target, 2).expect_said(&["line 9", "holds no secrets"]);
}

#[test]
fn a_full_disk_there_is_told_and_what_had_arrived_is_removed() {
    let target = own_target();
    // Too small, which is seen before anything is sent; and one whose room is not what it says.
    for (options, said) in
        [("size=8m", "MiB are free"), ("size=2g,nr_inodes=30", "what had arrived was removed")]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = folder.path().join("disk");
        let sshd = Sshd::start_by(&target, with_tmpfs(&disk, options));
        let machine = sshd.machine(&target, "127.0.0.1");
        let work = sshd.work().display().to_string();
        sshd.write_machines(&machine.replace(&work, &disk.join("work").display().to_string()));
        let call = on(&sshd, &target, "deploy", &[]).run().expect_code(31);
        call.expect_said(&["disk full", said, "next:", "deployments"]);
        // Seen from within: the file system is nobody else's.
        let left = sshd.run(&format!(
            "find {} -type f | wc -l; ls {}/work/deployments",
            disk.display(),
            disk.display()
        ));
        assert_eq!(left.trim(), "0", "{options}: something was left");
    }
}

#[test]
fn a_folder_where_no_program_may_run_is_told_before_anything_is_copied() {
    let target = own_target();
    let folder = tempfile::tempdir().expect("a folder");
    let disk = folder.path().join("disk");
    let sshd = Sshd::start_by(&target, with_tmpfs(&disk, "size=1g,noexec"));
    let machine = sshd.machine(&target, "127.0.0.1");
    let work = sshd.work().display().to_string();
    sshd.write_machines(&machine.replace(&work, &disk.join("work").display().to_string()));
    let call = on(&sshd, &target, "deploy", &[]).start();
    let mark = call.mark.clone();
    call.end().expect_code(3).expect_said(&["noexec", "work-folder"]);
    expect_nothing_left(&mark);
}
