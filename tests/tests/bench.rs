//! The main job, on both builds of MariaDB: from a release to a table and a valid record.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use model::message::CaveatKind;
use portbench_tests::record::{Record, bench};
use portbench_tests::{Ended, broken_home, built, call, expect_nothing_left, record_files, records, run};
use rustix::process::Signal;

/// What a record must say of a target, by the target's name: `uname -m`, byte order, compiler's flags.
fn promised(target: &str) -> (&'static str, &'static str, &'static str) {
    match target {
        "ppc64le" => ("ppc64le", "little", "-mcpu=power8"),
        "ppc64" => ("ppc64", "big", "-mcpu=power8"),
        "x86_64" => ("x86_64", "little", "-march=x86-64-v2"),
        other => panic!("say here what {other} promises"),
    }
}

/// What every record of an emulated server of the smoke suite must say.
fn expect_emulated(ended: &Ended, record: &Record, target: &str, origin: &str) {
    record.expect_sound(4);
    let header = record.header();
    let bundle = header.bundle.as_ref().expect("a bundle");
    assert_eq!((bundle.product.as_str(), bundle.origin.as_str()), ("mariadb", origin));
    assert!(bundle.elf.files > 3 && !bundle.packages.is_empty(), "{:?}", bundle.elf);
    assert!(record.machine().emulator.is_some());
    assert!(record.has_caveat(CaveatKind::Emulated) && record.has_caveat(CaveatKind::FallbackIo));
    let settings = &record.server().settings;
    assert_eq!(settings["innodb_use_native_aio"], "OFF", "qemu-user has no native AIO");
    let (machine, order, _) = promised(target);
    for facts in [record.hello(), &record.machine().facts] {
        assert_eq!(
            (facts.machine.as_str(), facts.byte_order.as_str(), facts.pointer_bits),
            (machine, order, 64)
        );
    }
    let rows: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(rows.len(), 1 + 4, "{}", ended.stdout);
    assert!(rows[1..].iter().all(|row| row.ends_with("\tverified\tok")), "{}", ended.stdout);
}

#[test]
fn a_build_from_source_is_benched() {
    let target = built();
    let (ended, records) = bench(&["--target", &target, "--from", "source", "--duration-s", "2"]);
    expect_emulated(&ended, &records[0], &target, "source");
    let bundle = records[0].header().bundle.as_ref().expect("a bundle");
    assert_eq!(bundle.cpu_flags, [promised(&target).2]);
    assert_eq!(bundle.source_sha256.as_deref().map(str::len), Some(64));
}

#[test]
fn the_distributions_build_is_benched() {
    let (ended, records) = bench(&["--target", "ppc64le", "--from", "distro", "--duration-s", "2"]);
    expect_emulated(&ended, &records[0], "ppc64le", "distro");
    assert!(records[0].header().bundle.as_ref().is_some_and(|bundle| bundle.elf.instructions_scanned));
    assert_eq!(records[0].machine().emulator.as_ref().expect("an emulator").cpu, "power8");
}

#[test]
fn sysbenchs_tests_run_and_lose_no_row() {
    let words = "--target x86_64 --on local --from distro --suite oltp --duration-s 1";
    let (ended, records) = bench(&words.split(' ').collect::<Vec<_>>());
    records[0].expect_sound(8);
    for test in ["point-select", "read-only", "read-write", "write-only", "update-index", "random-ranges"] {
        assert!(ended.stdout.contains(&format!("\toltp/{test}\t")), "{}", ended.stdout);
    }
    let rows: Vec<&str> = ended.stdout.lines().skip(1).collect();
    assert!(rows.iter().all(|row| row.ends_with("\t0\tverified\tok")), "{}", ended.stdout);
}

#[test]
fn this_hosts_own_target_runs_without_an_emulator() {
    let (_, records) =
        bench(&["--target", "x86_64", "--on", "local", "--from", "distro", "--duration-s", "1"]);
    records[0].expect_sound(4);
    assert!(records[0].machine().emulator.is_none() && !records[0].has_caveat(CaveatKind::Emulated));
}

#[test]
fn a_cell_that_cannot_exist_is_a_row_with_its_reason() {
    let folder = records();
    let path = folder.path().display().to_string();
    let words = [
        "bench",
        "--target",
        "x86_64,ppc64le",
        "--on",
        "local",
        "--from",
        "distro",
        "--workload",
        "do0",
        "--duration-s",
        "1",
        "--records",
        &path,
    ];
    let ended = call(&words).run().expect_code(0);
    let row =
        ended.stdout.lines().find(|line| line.contains("ppc64le")).expect("a row for the impossible cell");
    assert!(row.contains("not possible: this host is"), "{row}");
    assert_eq!(record_files(folder.path()).len(), 1);
    // Alone it is no answer to what was asked.
    run("bench --target ppc64le --on local --from distro")
        .expect_code(39)
        .expect_said(&["this host is", "next:"]);
}

#[test]
fn a_native_client_over_tcp_says_so() {
    let (_, records) = bench(&[
        "--from",
        "distro",
        "--client",
        "host",
        "--tcp",
        "--workload",
        "point-select",
        "--duration-s",
        "1",
    ]);
    let record = &records[0];
    record.expect_sound(3);
    assert!(record.has_caveat(CaveatKind::ClientOnHost));
    assert!(record.measurements().iter().all(|measured| measured.transport == "tcp"));
}

#[test]
fn many_connections_are_all_served() {
    let (_, records) =
        bench(&["--from", "distro", "--workload", "do0", "--connections", "500", "--duration-s", "2"]);
    records[0].expect_sound(1);
    assert_eq!(records[0].measurements()[0].connections_up_at_start, 500);
}

#[test]
fn the_null_back_end_measures_the_harness_alone() {
    for client in ["host", "target"] {
        let (_, records) = bench(&[
            "--from",
            "distro",
            "--null",
            "--client",
            client,
            "--workload",
            "point-select",
            "--duration-s",
            "1",
        ]);
        let record = &records[0];
        assert!(record.header().bundle.is_none());
        for measured in record.measurements() {
            assert_eq!((measured.transport.as_str(), measured.server_questions), ("none", None));
            assert!(measured.operations > 1000, "{measured:?}");
        }
    }
}

#[test]
fn a_standard_library_built_from_source_serves_as_well() {
    let folder = records();
    let path = folder.path().display().to_string();
    let words = ["bench", "--from", "distro", "--workload", "do0", "--duration-s", "1", "--records", &path];
    call(&words).env("PORTBENCH_RUST_STD", "build-std").run().expect_code(0);
    Record::read(&record_files(folder.path())[0]).expect_sound(1);
}

/// The bundle of the build from source, unpacked.
fn unpacked_bundle() -> (tempfile::TempDir, serde_json::Value) {
    let json = run(&format!("build --target {} --json", built())).expect_code(0).stdout;
    let built: serde_json::Value = serde_json::from_str(&json).expect("build --json");
    let bundle = PathBuf::from(built["bundle"].as_str().expect("the bundle's path"));
    let folder = tempfile::tempdir().expect("a folder");
    let archive = std::fs::File::open(bundle).expect("the bundle");
    let reader = zstd::Decoder::new(archive).expect("zstd");
    tar::Archive::new(reader).unpack(folder.path()).expect("the bundle unpacks");
    (folder, built)
}

#[test]
fn the_bundle_is_what_its_manifest_says() {
    let (folder, report) = unpacked_bundle();
    let (order, abi) = match built().as_str() {
        "ppc64le" => ("little endian", "abiv2"),
        "ppc64" => ("big endian", "PowerPC64"),
        _ => ("little endian", "X86-64"),
    };
    let mut readelf = Command::new("powerpc64le-linux-gnu-readelf");
    let header = readelf.arg("-h").arg(folder.path().join("bin/mariadbd")).output().expect("readelf starts");
    let header = String::from_utf8_lossy(&header.stdout).into_owned();
    for part in ["ELF64", order, abi] {
        assert!(header.contains(part), "`{part}` is not in:\n{header}");
    }
    let manifest: serde_json::Value = serde_json::from_str(
        &std::fs::read_to_string(folder.path().join("manifest.json")).expect("a manifest"),
    )
    .expect("JSON");
    assert_eq!(manifest, report["manifest"]);
    for path in manifest["files"].as_object().expect("files").keys() {
        assert!(folder.path().join(path).is_file(), "{path} is not in the bundle");
    }
    let elf = &manifest["facts"]["elf"];
    assert!(elf["run_time_dispatched"].get("bin/bench-suite").is_none(), "{elf}");
}

#[test]
fn a_build_with_nothing_to_do_does_nothing() {
    let build = format!("build --target {}", built());
    run(&build).expect_code(0);
    let again = run(&build).expect_code(0);
    for verb in ["fetch ", "configure ", "compile ", "probing", "unpack "] {
        assert!(!again.stderr.contains(verb), "`{verb}` was done again:\n{}", again.stderr);
    }
}

#[test]
fn a_killed_build_continues() {
    let target = built();
    run(&format!("toolchain --target {target}")).expect_code(0);
    run(&format!("build --target {target}")).expect_code(0);
    let own = broken_home(&["sysroots", "tools", "downloads", "sources"]);
    let build =
        || call(&["build", "--target", &target, "--launcher", "none"]).env("PORTBENCH_HOME", own.path());
    let log = own.path().join(format!("logs/build-mariadb-10.11.18-{target}.log"));
    let counts = || -> Vec<(u32, u32)> {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let status = |line: &str| {
            let (done, total) = line.strip_prefix('[')?.split_once(']')?.0.split_once('/')?;
            Some((done.parse().ok()?, total.parse().ok()?))
        };
        text.lines().filter_map(status).collect()
    };
    let until_compiled = |running: &mut portbench_tests::Running, seen: usize| {
        let until = Instant::now() + Duration::from_secs(600);
        while counts().len() < seen {
            assert!(
                !running.has_ended() && Instant::now() < until,
                "nothing was compiled: see {}",
                log.display()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let mut first = build().start();
    until_compiled(&mut first, 30);
    first.signal(Signal::KILL);
    let mark = first.mark.clone();
    first.end();
    expect_nothing_left(&mark);
    let (before, total) = (counts().len(), counts()[0].1);
    let mut second = build().start();
    until_compiled(&mut second, before + 2);
    second.signal(Signal::TERM);
    let mark = second.mark.clone();
    second.end().expect_code(130).expect_said(&["next: run the same command again"]);
    expect_nothing_left(&mark);
    let rest = counts()[before].1;
    assert!(rest < total, "the second build began anew: {rest} of {total} steps");
}
