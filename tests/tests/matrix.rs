//! What takes hours on a bare machine: every target's server from source, on every machine. `cargo xtask ci matrix`.

use portbench_tests::record::bench;
use portbench_tests::sshd::{Sshd, own_target};

#[test]
#[ignore = "compiles the servers of all targets: cargo xtask ci matrix"]
fn source_and_distro_stand_side_by_side() {
    let (ended, records) = bench(&["--target", "ppc64le", "--from", "source,distro", "--duration-s", "2"]);
    assert_eq!(records.len(), 2);
    records.iter().for_each(|record| record.expect_sound(4));
    let rows: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(rows.len(), 1 + 8, "{}", ended.stdout);
}

/// Three targets on four machines by one command: a record a cell that can be, a row of the table a cell that cannot.
#[test]
#[ignore = "compiles the servers of all targets: cargo xtask ci matrix"]
fn every_target_on_every_machine() {
    let sshd = Sshd::start(&own_target());
    let machines = sshd.machines().display().to_string();
    let (ended, records) = bench(&[
        "--target",
        "x86_64,ppc64le,ppc64",
        "--on",
        "local,qemu-user,qemu-system,ssh:loopback",
        "--machines",
        &machines,
        "--from",
        "source",
        "--workload",
        "point-select/prepared",
        "--duration-s",
        "2",
    ]);
    records.iter().for_each(|record| record.expect_sound(2));
    let ran: Vec<(&str, &str)> = records
        .iter()
        .map(|record| (record.header().target.as_str(), record.header().machine.machine.as_str()))
        .collect();
    let emulated = ["qemu-user", "qemu-system"];
    for target in ["x86_64", "ppc64le", "ppc64"] {
        assert!(emulated.iter().all(|machine| ran.contains(&(target, machine))), "{target}: {ran:?}");
        let own = target == own_target();
        for machine in ["local", "ssh:loopback"] {
            assert_eq!(ran.contains(&(target, machine)), own, "{target} on {machine}");
        }
    }
    assert_eq!(ended.stdout.matches("not possible: ").count(), 4, "{}", ended.stdout);
    for record in &records {
        // What the program saw of itself, wherever it ran.
        let (order, facts) =
            (if record.header().target == "ppc64" { "big" } else { "little" }, record.hello());
        assert_eq!((facts.byte_order.as_str(), &facts.machine), (order, &record.header().target));
    }
}
