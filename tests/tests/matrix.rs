//! What takes hours on a bare machine: every target's server from source, on every machine. `cargo xtask ci matrix`.

use portbench_tests::record::bench;

#[test]
#[ignore = "compiles the servers of all targets: cargo xtask ci matrix"]
fn source_and_distro_stand_side_by_side() {
    let (ended, records) = bench(&["--target", "ppc64le", "--from", "source,distro", "--duration-s", "2"]);
    assert_eq!(records.len(), 2);
    records.iter().for_each(|record| record.expect_sound(4));
    let rows: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(rows.len(), 1 + 8, "{}", ended.stdout);
}
