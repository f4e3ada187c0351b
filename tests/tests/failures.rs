//! What goes wrong for people: each kind has its own message, exit code and next step, and loses nothing.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use model::record::{Line, Outcome};
use portbench_tests::{
    Ended, broken_home, call, expect_nothing_left, home, read_record, record_files, records, run, xtask,
};

/// A proxy on loopback that answers every request with the same few bytes, as a captive portal does.
fn captive_portal() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // A tunnel is granted; whatever is asked through it gets the portal's page.
            while let Some(request) = read_request(&mut stream) {
                let page: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nlogin!";
                let tunnel = request.starts_with(b"CONNECT ");
                let answer = if tunnel { b"HTTP/1.1 200 Connection established\r\n\r\n" } else { page };
                if stream.write_all(answer).is_err() || !tunnel {
                    break;
                }
            }
        }
    });
    port
}

/// A whole request, or the beginning of something that is not HTTP (a TLS handshake); `None`: the other side has gone.
fn read_request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut request = Vec::new();
    let mut part = [0; 4096];
    loop {
        let length = stream.read(&mut part).ok().filter(|length| *length > 0)?;
        request.extend_from_slice(&part[..length]);
        if request.ends_with(b"\r\n\r\n") || !request[0].is_ascii_uppercase() {
            return Some(request);
        }
    }
}

#[test]
fn a_corrupt_download_is_refused_and_nothing_is_placed() {
    let own = tempfile::tempdir().expect("a home");
    let proxy = format!("http://127.0.0.1:{}", captive_portal());
    call(&["fetch"])
        .env("PORTBENCH_HOME", own.path())
        .env("http_proxy", &proxy)
        .env("https_proxy", &proxy)
        .run()
        .expect_code(41)
        .expect_said(&["mariadb_10.11.18.orig.tar.gz", "next:"]);
    let placed = walk(own.path()).into_iter().any(|file| file.ends_with("mariadb_10.11.18.orig.tar.gz"));
    assert!(!placed, "a corrupt download was placed");
}

#[test]
fn offline_names_the_file_that_is_missing() {
    let own = tempfile::tempdir().expect("a home");
    call(&["fetch", "--offline"])
        .env("PORTBENCH_HOME", own.path())
        .run()
        .expect_code(3)
        .expect_said(&["mariadb_10.11.18.orig.tar.gz", "next:"]);
}

/// Runs a shell script in a mount namespace of its own, as root there.
fn in_namespace(script: &str, arguments: &[&Path]) -> Ended {
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command.args(["--mount", "sh", "-ec", script, "sh"]).args(arguments);
    let output = command.output().expect("unshare (util-linux) starts");
    let ended = Ended::from(output);
    let cannot = ended.stderr.contains("unshare:") || ended.stderr.contains("mount:");
    assert!(!cannot, "this test needs mount namespaces, which are not allowed here:\n{}", ended.stderr);
    ended
}

#[test]
fn without_rights_setup_prints_what_to_run() {
    // The package database is hidden from this one process: everything is missing to it, and it is nobody, but for
    // reading a checkout that may be root's alone.
    let script = "mount --bind /dev/null /var/lib/dpkg/status; cp \"$1\" \"$2/xtask\"; chmod -R a+rwx \"$2\"; \
                  PORTBENCH_HOME=\"$2\" exec setpriv --reuid=65534 --regid=65534 --clear-groups \
                  --inh-caps=+dac_read_search --ambient-caps=+dac_read_search \"$2/xtask\" setup";
    let own = tempfile::tempdir_in("/tmp").expect("a home");
    in_namespace(script, &[xtask(), own.path()]).expect_code(3).expect_said(&[
        "packages are missing",
        "sudo apt-get update",
        "sudo apt-get install --yes --no-install-recommends",
        "g++-powerpc64le-linux-gnu",
    ]);
}

#[test]
fn on_another_distribution_what_is_needed_is_named_and_nothing_guessed() {
    let script = "echo 'ID=fedora' > \"$2\"; echo 'PRETTY_NAME=\"Fedora Linux 43\"' >> \"$2\"; \
                  mount --bind \"$2\" /etc/os-release; PATH=/nonexistent exec \"$1\" setup";
    let file = tempfile::NamedTempFile::new().expect("a file");
    let ended = in_namespace(script, &[xtask(), file.path()]).expect_code(3);
    let ended = ended.expect_said(&["Fedora Linux 43", "powerpc64le-linux-gnu-gcc", "ninja", "Debian's"]);
    assert!(!ended.stderr.contains("apt-get"), "{}", ended.stderr);
}

#[test]
fn setup_print_shows_commands_and_installs_nothing() {
    let script = "mount --bind /dev/null /var/lib/dpkg/status; exec \"$1\" setup --print";
    let ended = in_namespace(script, &[xtask()]).expect_code(0);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{}", ended.stdout);
    assert!(lines[0].ends_with("apt-get update") && lines[1].contains("apt-get install"), "{}", ended.stdout);
}

#[test]
fn a_disk_that_is_too_small_is_told_before_it_is_full() {
    let script = "mount -t tmpfs -o size=64m none \"$2\"; PORTBENCH_HOME=\"$2\" exec \"$1\" sysroot";
    let own = tempfile::tempdir().expect("a home");
    in_namespace(script, &[xtask(), own.path()])
        .expect_code(31)
        .expect_said(&["disk full", "PORTBENCH_HOME"]);
}

#[test]
fn a_disk_that_fills_in_mid_run_ends_the_run_in_order() {
    run("build --from distro").expect_code(0);
    let script = "mount -t tmpfs -o size=8k none \"$2\"; PORTBENCH_HOME=\"$3\" PORTBENCH_TEST_MARK=\"$2\" \
                  exec \"$1\" bench --from distro --records \"$2\"";
    let folder = tempfile::tempdir().expect("a folder");
    in_namespace(script, &[xtask(), folder.path(), &home()])
        .expect_code(31)
        .expect_said(&["No space left", "next:"]);
    expect_nothing_left(&folder.path().display().to_string());
}

#[test]
fn a_missing_sysroot_file_is_named_before_anything_is_compiled() {
    run("toolchain").expect_code(0);
    let own = broken_home(&["sysroots"]);
    let loader =
        walk(own.path()).into_iter().find(|file| file.ends_with("lib64/ld64.so.2")).expect("the loader");
    std::fs::remove_file(loader).expect("the loader is removed");
    call(&["build"])
        .env("PORTBENCH_HOME", own.path())
        .run()
        .expect_code(42)
        .expect_said(&["lacks lib64/ld64.so.2", "next: cargo xtask sysroot --target ppc64le --renew"]);
}

#[test]
fn a_broken_emulator_is_named_as_such() {
    // One that does not start, one that starts and runs nothing, and one that is not there.
    let folder = tempfile::tempdir().expect("a folder");
    let liar = folder.path().join("qemu-liar");
    let text = "#!/bin/sh\n[ \"$1\" = --version ] && echo 'qemu-ppc64le version 99.0' && exit 0\nexit 132\n";
    std::fs::write(&liar, text).expect("a script");
    let status = Command::new("chmod").arg("+x").arg(&liar).status();
    assert!(status.expect("chmod starts").success());
    for emulator in ["/bin/false", liar.to_str().expect("a path"), "/nonexistent/qemu"] {
        call(&["bench", "--from", "distro"])
            .env("PORTBENCH_EMULATOR", emulator)
            .run()
            .expect_code(32)
            .expect_said(&["the emulator", emulator, "does not work", "unset PORTBENCH_EMULATOR"]);
    }
}

#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = taken.local_addr().expect("its address").port().to_string();
    let folder = records();
    let records = folder.path().display().to_string();
    let call = call(&["bench", "--from", "distro", "--port", &port, "--records", &records]);
    call.run().expect_code(33).expect_said(&[&format!("port {port} is in use"), "next:"]);
    let record = read_record(&record_files(folder.path())[0]);
    assert!(matches!(record.last(), Some(Line::End { outcome: Outcome::Failed, .. })), "{:?}", record.last());
}

#[test]
fn a_server_that_dies_at_its_start_is_quoted() {
    let folder = records();
    let records = folder.path().display().to_string();
    let call =
        call(&["bench", "--from", "distro", "--server-arg=--no-such-setting=1", "--records", &records]);
    call.run()
        .expect_code(34)
        .expect_said(&["the server ended while it started", "no-such-setting"])
        .expect_log_and_next();
    let record = read_record(&record_files(folder.path())[0]);
    let Some(Line::End { error: Some(error), .. }) = record.last() else { panic!("{:?}", record.last()) };
    assert_eq!(error.kind, "server-died");
}

#[test]
fn a_setting_that_the_server_does_not_take_fails_the_run() {
    let folder = records();
    let records = folder.path().display().to_string();
    // Rounded down by the server without an error.
    let call =
        call(&["bench", "--from", "distro", "--server-arg=--max-allowed-packet=1025", "--records", &records]);
    call.run()
        .expect_code(4)
        .expect_said(&["max_allowed_packet: asked for 1025, is 1024"])
        .expect_log_and_next();
}

#[test]
fn a_record_that_was_edited_is_refused_with_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("bad.jsonl");
    std::fs::write(&file, "{\"line\":\"end\",\"outcom\":\"complete\"}\n").expect("a file");
    let name = file.display().to_string();
    call(&["record", "check", &name]).run().expect_code(44).expect_said(&["line 1", "outcom", "next:"]);
}

fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() { found.extend(walk(&path)) } else { found.push(path) }
    }
    found
}
