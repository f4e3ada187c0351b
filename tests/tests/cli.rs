//! The command line: names that are wrong, help that shows examples, tables that can be cut.

use std::process::{Command, Stdio};

use portbench_tests::{call, run, xtask};

const VERBS: [&str; 12] = [
    "bench",
    "build",
    "fetch",
    "sysroot",
    "toolchain",
    "setup",
    "doctor",
    "targets",
    "products",
    "show",
    "record",
    "ci",
];

#[test]
fn every_verb_has_help_with_examples() {
    let all = run("--help").expect_code(0).stdout;
    for verb in VERBS {
        assert!(all.contains(&format!("\n  {verb} ")), "{verb} is not in --help:\n{all}");
        let help = run(&format!("{verb} --help")).expect_code(0).stdout;
        assert!(help.contains("Examples:\n  cargo xtask"), "{verb} --help has no examples:\n{help}");
    }
    assert!(all.contains("Exit codes:"), "{all}");
}

#[test]
fn wrong_names_are_answered_with_the_nearest() {
    for (words, said) in [
        ("build --target ppc64el", "unknown target `ppc64el`; did you mean ppc64le"),
        ("build --product mariabd", "unknown product `mariabd`; did you mean mariadb?"),
        ("build --release 10.11.81", "unknown release of mariadb `10.11.81`; did you mean 10.11.18?"),
        ("bench --workload point-selct", "unknown workload `point-selct`; did you mean point-select?"),
        ("bench --suite smok", "unknown suite `smok`; did you mean smoke?"),
    ] {
        run(words).expect_code(2).expect_said(&[said, "next: choose one of:"]);
    }
    run("bench --on qemu-usr")
        .expect_code(2)
        .expect_said(&["`qemu-usr`; did you mean qemu-user", "choose one of:"]);
    let distro = run("bench --target ppc64 --from distro").expect_code(2);
    distro.expect_said(&["no distribution has packages for ppc64", "next: use --from source"]);
    run("bnech").expect_code(2).expect_said(&["'bench'"]);
    run("bench --duration-s 0").expect_code(2).expect_said(&["above 0"]);
    run("bench --connections 0").expect_code(2);
    run("build --launcher no-such-cache").expect_code(2).expect_said(&["no-such-cache"]);
}

#[test]
fn tables_are_separated_by_tabs_when_they_are_piped() {
    let targets = run("targets").expect_code(0).stdout;
    let row = targets.lines().find(|line| line.starts_with("ppc64le\t")).expect("a row for ppc64le");
    assert_eq!(row.split('\t').count(), targets.lines().next().expect("a header").split('\t').count());
    let products = run("products").expect_code(0).stdout;
    assert!(products.lines().any(|line| line.starts_with("mariadb\t10.11.18\t")), "{products}");
}

#[test]
fn json_is_json() {
    let none = tempfile::NamedTempFile::new().expect("a file");
    let show = format!("show --json {}", none.path().display());
    for words in ["targets --json", "products --json", "record schema", &show] {
        let text = run(words).expect_code(0).stdout;
        serde_json::from_str::<serde_json::Value>(&text)
            .unwrap_or_else(|error| panic!("{words}: {error}\n{text}"));
    }
}

#[test]
fn doctor_names_each_check_with_its_fix() {
    let doctor = run("doctor --json");
    let checks: Vec<serde_json::Value> = serde_json::from_str(&doctor.stdout).expect("doctor --json");
    let names: Vec<&str> = checks.iter().filter_map(|check| check["check"].as_str()).collect();
    for name in ["cc", "cmake", "packages", "sysroot", "rust", "disk", "memory", "compiler cache"] {
        assert!(names.contains(&name), "doctor does not check {name}: {names:?}");
    }
    assert!(names.iter().any(|name| name.starts_with("emulator")), "{names:?}");
    for check in &checks {
        let fix = check["fix"].as_str().unwrap_or_default();
        assert_eq!(fix.is_empty(), check["status"] == "ok", "{check}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    for words in [["record", "schema"], ["targets", "--json"], ["products", "--json"]] {
        let mut command = Command::new(xtask());
        let mut child =
            command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("xtask starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("xtask ends");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_file_or_folder_that_cannot_be_used_is_named_with_what_to_do() {
    run("show /nonexistent/record.jsonl").expect_code(2).expect_said(&["/nonexistent/record.jsonl", "next:"]);
    let in_the_way = tempfile::NamedTempFile::new().expect("a file");
    let colon = std::path::Path::new("/tmp/portbench:cache");
    for home in [in_the_way.path(), colon] {
        let call = call(&["doctor"]).env("PORTBENCH_HOME", home);
        call.run().expect_code(2).expect_said(&["PORTBENCH_HOME", "next:"]);
    }
}
