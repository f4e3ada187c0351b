//! MySQL as it is built here: started, logged in to with its default authentication, benched over socket and TCP.
//!
//! `PORTBENCH_TEST_MYSQL` names another target than the host's own; it then runs under `qemu-user`.

use model::message::CaveatKind;
use portbench_tests::record::{Record, bench};
use portbench_tests::sshd::own_target;
use portbench_tests::{call, home, run};

fn target() -> String {
    std::env::var("PORTBENCH_TEST_MYSQL").unwrap_or_else(|_| own_target())
}

fn machine() -> &'static str {
    if target() == own_target() { "local" } else { "qemu-user" }
}

/// One bench of the product, with these further flags.
fn benched(more: &[&str]) -> Record {
    let target = target();
    let mut words = vec!["--product", "mysql", "--target", &target, "--on", machine(), "--duration-s", "1"];
    words.extend(more);
    let (_, mut records) = bench(&words);
    records.remove(0)
}

/// What a native build of the same release says at start as well is left out of records, so there is nothing left: no
/// word of missing memory barriers, futexes or spin hints above all.
fn expect_no_warning(record: &Record) {
    assert_eq!(record.server().warnings, Vec::<String>::new());
    assert!(!record.has_caveat(CaveatKind::ServerWarning));
}

#[test]
fn it_passes_the_workloads_with_its_default_authentication_over_socket_and_tcp() {
    for (flags, transport) in [(&[] as &[&str], "unix"), (&["--tcp"], "tcp")] {
        let record = benched(flags);
        record.expect_sound(4);
        for measured in record.measurements() {
            assert_eq!(measured.transport, transport);
            assert_eq!(measured.authentication.as_deref(), Some("caching_sha2_password"));
        }
        expect_no_warning(&record);
    }
}

#[test]
fn its_record_says_what_it_is() {
    let record = benched(&["--workload", "do0"]);
    let bundle = record.header().bundle.as_ref().expect("a bundle");
    assert_eq!((bundle.product.as_str(), bundle.origin.as_str()), ("mysql", "source"));
    let barriers =
        |patch: &String| patch.starts_with("0002-innodb-probes-barriers-when-cross-compiling.patch ");
    assert!(bundle.patches.iter().any(barriers), "{:?}", bundle.patches);
    let server = record.server();
    assert_eq!(server.version, bundle.release);
    assert_eq!(server.settings["authentication_policy"], "*,,");
    assert_eq!(server.settings["innodb_buffer_pool_size"], "134217728");
    assert!(server.crc32_method.as_ref().is_some_and(|words| words.contains("crc32")), "{server:?}");
    match machine() {
        "local" => assert!(["libaio", "synchronous"].contains(&server.io_method.as_deref().unwrap_or(""))),
        _ => assert_eq!(server.io_method.as_deref(), Some("synchronous")),
    }
}

#[test]
fn a_data_folder_that_is_kept_is_used_again_with_another_password() {
    // Beside the cache: the folders of running servers are there as well.
    let folder = tempfile::tempdir_in(home()).expect("a folder");
    let data = folder.path().join("data").display().to_string();
    for written_by in [None, Some(target())] {
        let record = benched(&["--workload", "do0", "--data", &data]);
        record.expect_sound(1);
        assert_eq!(record.server().data_written_by, written_by);
        expect_no_warning(&record);
    }
}

#[test]
fn an_ndb_table_without_a_cluster_is_refused_in_the_servers_words() {
    let folder = portbench_tests::records();
    let path = folder.path().display().to_string();
    let target = target();
    let words = [
        "bench",
        "--product",
        "mysql",
        "--target",
        &target,
        "--on",
        machine(),
        "--suite",
        "sql-engines",
        "--duration-s",
        "1",
        "--records",
        &path,
    ];
    let ended = call(&words).run();
    assert_ne!(ended.code, Some(0));
    let ended = ended.expect_said(&["portbench and its table stamp_ndb", "next:"]);
    assert!(ended.stderr.to_lowercase().contains("ndbcluster"), "{}", ended.stderr);
}

#[test]
fn a_setting_that_the_server_does_not_take_is_told() {
    let words = format!(
        "bench --product mysql --target {} --on {} --workload do0 --server-arg=--max-connections=no",
        target(),
        machine()
    );
    // The server's own words, not only any failure of the command.
    run(&words).expect_code(34).expect_said(&["[ERROR]", "'no' to 'max_connections'"]);
}
