//! The main job, on both builds of MariaDB: from a release to a table and a valid record.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use model::message::CaveatKind;
use portbench_tests::record::{Record, bench};
use portbench_tests::{broken_home, call, expect_nothing_left, record_files, records, run};
use rustix::process::Signal;

#[test]
fn source_and_distro_stand_side_by_side() {
    let (ended, records) = bench(&["--from", "source,distro", "--duration-s", "2"]);
    assert_eq!(records.len(), 2);
    for (record, origin) in records.iter().zip(["source", "distro"]) {
        let suite_workloads = 4;
        record.expect_sound(suite_workloads);
        let header = record.header();
        let bundle = header.bundle.as_ref().expect("a bundle");
        assert_eq!((bundle.product.as_str(), bundle.origin.as_str()), ("mariadb", origin));
        assert!(bundle.elf.files > 3 && bundle.elf.instructions_scanned, "{:?}", bundle.elf);
        assert!(!bundle.packages.is_empty());
        let emulator = record.machine().emulator.as_ref().expect("an emulator");
        assert_eq!(emulator.cpu, "power8");
        assert!(record.has_caveat(CaveatKind::Emulated) && record.has_caveat(CaveatKind::FallbackIo));
        let settings = &record.server().settings;
        assert_eq!(settings["innodb_use_native_aio"], "OFF", "qemu-user has no native AIO");
        assert!(
            settings["version_compile_machine"].contains("powerpc64le")
                || settings["version_compile_machine"].contains("ppc64le"),
            "{settings:?}"
        );
        let facts = record.hello();
        assert_eq!(
            (facts.machine.as_str(), facts.byte_order.as_str(), facts.pointer_bits),
            ("ppc64le", "little", 64)
        );
    }
    let source = records[0].header().bundle.as_ref().expect("a bundle");
    assert_eq!(source.cpu_flags, ["-mcpu=power8"]);
    assert_eq!(source.source_sha256.as_deref().map(str::len), Some(64));
    let rows: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(rows.len(), 1 + 8, "{}", ended.stdout);
    assert!(rows[1..].iter().all(|row| row.ends_with("\tverified\tok")), "{}", ended.stdout);
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
    let json = run("build --target ppc64le --json").expect_code(0).stdout;
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
    let (folder, built) = unpacked_bundle();
    let mut readelf = Command::new("powerpc64le-linux-gnu-readelf");
    let header = readelf.arg("-h").arg(folder.path().join("bin/mariadbd")).output().expect("readelf starts");
    let header = String::from_utf8_lossy(&header.stdout).into_owned();
    for part in ["ELF64", "little endian", "PowerPC64", "abiv2"] {
        assert!(header.contains(part), "`{part}` is not in:\n{header}");
    }
    let manifest: serde_json::Value = serde_json::from_str(
        &std::fs::read_to_string(folder.path().join("manifest.json")).expect("a manifest"),
    )
    .expect("JSON");
    assert_eq!(manifest, built["manifest"]);
    for path in manifest["files"].as_object().expect("files").keys() {
        assert!(folder.path().join(path).is_file(), "{path} is not in the bundle");
    }
    let elf = &manifest["facts"]["elf"];
    assert_eq!(elf["instructions_scanned"], true);
    assert!(elf["run_time_dispatched"].get("bin/bench-suite").is_none(), "{elf}");
}

#[test]
fn a_build_with_nothing_to_do_does_nothing() {
    run("build --target ppc64le").expect_code(0);
    let again = run("build --target ppc64le").expect_code(0);
    for verb in ["fetch ", "configure ", "compile ", "probing", "unpack "] {
        assert!(!again.stderr.contains(verb), "`{verb}` was done again:\n{}", again.stderr);
    }
}

#[test]
fn a_killed_build_continues() {
    run("build --target ppc64le").expect_code(0);
    let own = broken_home(&["sysroots", "tools", "downloads", "sources"]);
    let build = || call(&["build", "--launcher", "none"]).env("PORTBENCH_HOME", own.path());
    let log = own.path().join("logs/build-mariadb-10.11.18-ppc64le.log");
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
