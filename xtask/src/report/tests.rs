//! Tables of records that were cut from real ones.

use super::*;

const HEADER: &str = r#"{"line":"header","schema_version":2,"id":"x","started_at":"2026-01-01T00:00:00Z",
    "portbench_version":"0","portbench_commit":null,"bench_binary_sha256":"","command":[],"target":"ppc64le",
    "suite":"s","bundle":null,"placement":{"server_cpus":null,"client_cpus":null,"numa_node":null},
    "machine":{"machine":"qemu-system","host_kernel":"k","host_cpu":null,"host_cpus":1,"host_memory_bytes":1}}"#;
const MACHINE: &str = r#"{"line":"machine","machine":"qemu-system","role":"server","emulator":null,
    "clock_ahead_s":null,"facts":{"machine":"ppc64le","kernel":"6.1","byte_order":"little","pointer_bits":64,
    "page_bytes":65536,"cpu_model":null,"cpus":1,"libc":null}}"#;
const WORKLOAD: &str = r#"{"line":"workload","index":0,"workload":{"name":"do0"},"client":"target",
    "transport":"unix","load":{"connections":8,"threads":null,"warmup_s":1.0,"duration_s":2.0,"operations":null,
    "seed":1,"interval_s":1.0,"reply_timeout_s":1.0}}"#;
const VERIFIED: &str = r#"{"line":"message","index":0,"said":{"message":"verified","phase":"verify-before",
    "checks":[{"check":"row count","expected":"3","found":"3"}]}}"#;
const WRONG: &str = r#"{"line":"message","index":0,"said":{"message":"verified","phase":"verify-before",
    "checks":[{"check":"row count","expected":"3","found":"2"}]}}"#;
const FAILED: &str = r#"{"line":"message","index":0,"said":{"message":"failed","kind":"wrong-data",
    "detail":"3 rows expected\nmore","phase":"verify-before","partial":null}}"#;
const FINISHED: &str = r#"{"line":"message","index":0,"said":{"message":"finished","transport":"unix",
    "authentication":"mysql_native_password","tls_cipher":null,"connections":8,"connections_up_at_start":8,
    "connections_up_at_end":8,"threads":2,"elapsed_s":2.0,"operations":2000,"throughput_per_s":1000.0,
    "latency":{"count":2000,"latency_us_min":1.0,"latency_us_mean":9.0,"latency_us_p50":8.123,
    "latency_us_p95":90.0,"latency_us_p99":100.4,"latency_us_p99_9":200.0,"latency_us_max":300.0,
    "histogram_ns_hdr_base64":"HIST"},"client_cpu":{"user_s":0.01,"system_s":0.01},
    "server_cpu":{"user_s":0.1,"system_s":0.1},"server_questions":2000,"client_questions":2000,
    "errors":{"1205":1},"ended_by":"duration"}}"#;
const LOST: &str = r#"{"line":"end","outcome":"failed","ended_at":"2026-01-01T00:00:01Z","error":{"kind":"server-lost",
    "detail":"the server ended in mid-run: killed by signal 9\n  | log","log":null}}"#;

fn record(lines: &[&str]) -> Vec<Line> {
    lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The table's first row as programs get it.
fn first_row(lines: &[&str]) -> String {
    let text = table(&row::of(&record(lines)), &[]).render(false);
    text.lines().nth(1).unwrap().to_string()
}

#[test]
fn data_is_verified_only_before_and_after() {
    let after =
        r#"{"line":"message","index":0,"said":{"message":"verified","phase":"verify-after","checks":[]}}"#;
    assert!(first_row(&[HEADER, WORKLOAD, VERIFIED, after]).contains("\tverified\t"));
}

#[test]
fn a_measurement_is_a_row_with_its_machine_and_its_cost_an_operation() {
    assert_eq!(
        first_row(&[HEADER, MACHINE, WORKLOAD, VERIFIED, FINISHED]),
        "ppc64le\tqemu-system\t64 KiB\tnull back-end\tdo0\ttarget/unix\t8\t1000\t8.12\t90\t100\t200\t300\t10\t100\t1\tbefore only\tok"
    );
}

#[test]
fn a_failure_is_a_row_with_its_reason() {
    let numbers = "-\t-\t-\t-\t-\t-\t-\t-\t-";
    assert_eq!(
        first_row(&[HEADER, WORKLOAD, WRONG, FAILED]),
        format!(
            "ppc64le\tqemu-system\t-\tnull back-end\tdo0\ttarget/unix\t8\t{numbers}\tWRONG\tfailed: wrong-data: 3 rows expected"
        )
    );
    // The load generator had no last word.
    let lost = "failed: server-lost: the server ended in mid-run: killed by signal 9";
    assert!(first_row(&[HEADER, WORKLOAD, LOST]).ends_with(&format!("{numbers}\t-\t{lost}")));
}

#[test]
fn a_record_that_came_to_no_workload_is_a_row_all_the_same() {
    let row = first_row(&[HEADER, MACHINE, &LOST.replace("server-lost", "server-died")]);
    assert!(row.starts_with("ppc64le\tqemu-system\t64 KiB\tnull back-end\t-\t-\t-\t-"), "{row}");
    assert!(row.ends_with("failed: server-died: the server ended in mid-run: killed by signal 9"), "{row}");
    assert!(first_row(&[HEADER]).ends_with("no result"));
    // What failed between two workloads is told by none of them.
    let rows = row::of(&record(&[HEADER, WORKLOAD, FINISHED, LOST]));
    assert_eq!(rows.iter().map(|row| row.status.word.as_str()).collect::<Vec<_>>(), ["ok", "failed"]);
    let rows = row::of(&record(&[HEADER, WORKLOAD, FAILED, LOST]));
    assert_eq!(rows.len(), 1, "told once");
}

#[test]
fn a_long_reason_is_cut() {
    let long = FAILED.replace("3 rows", &"é".repeat(200));
    let row = first_row(&[HEADER, WORKLOAD, &long]);
    assert!(row.ends_with('…') && row.chars().count() < 260, "{row}");
}

#[test]
fn a_matrix_is_one_table_with_what_cannot_be_and_why() {
    let absent = [Absent {
        target: "ppc64".into(),
        machine: "local".into(),
        reason: "not possible: this host runs little-endian programs only".into(),
    }];
    let run = record(&[HEADER, MACHINE, WORKLOAD, VERIFIED, FINISHED]);
    let lost = record(&[HEADER, MACHINE, WORKLOAD, LOST]);
    let rows: Vec<Row> = [run, lost].iter().flat_map(|r| row::of(r)).chain(row::absent(&absent)).collect();
    assert_eq!(
        table(&rows, &NARROW).render(true),
        "\
target   machine      page    build          workload  conns  ops/s  p50 us  p95 us  p99 us  max us  errors  data         status
ppc64le  qemu-system  64 KiB  null back-end  do0           8   1000    8.12      90     100     300       1  before only  ok
ppc64le  qemu-system  64 KiB  null back-end  do0           8      -       -       -       -       -       -  -            failed: server-lost: the server ended in mid-run: killed by signal 9
ppc64    local        -       -              -             -      -       -       -       -       -       -  -            not possible: this host runs little-endian programs only
"
    );
}

#[test]
fn a_record_without_an_end_says_that_its_writer_was_killed() {
    let record = record(&[HEADER, WORKLOAD, r#"{"line":"caveat","kind":"emulated","detail":"slow"}"#]);
    assert_eq!(outcome(&record).0, "unknown");
    assert_eq!(caveats(&record), ["emulated: slow"]);
}

#[test]
fn programs_get_what_the_tables_show_in_full() {
    let whole = record(&[HEADER, MACHINE, WORKLOAD, VERIFIED, FINISHED, LOST]);
    let json = serde_json::to_value(summary(std::path::Path::new("x.jsonl"), &whole)).unwrap();
    assert_eq!(
        (&json["file"], &json["id"], &json["page_bytes"]),
        (&"x.jsonl".into(), &"x".into(), &65536.into())
    );
    assert_eq!((&json["outcome"], &json["machine"]), (&"failed".into(), &"qemu-system".into()));
    let workload = &json["workloads"][0];
    assert_eq!((&workload["status"], &workload["data"]), (&"ok".into(), &"before only".into()));
    assert_eq!(workload["measurement"]["latency"]["latency_us_p99_9"], 200.0);
    let text = json.to_string();
    assert!(!text.contains("HIST"), "the histogram stays in the record");
    let failed = record(&[HEADER, WORKLOAD, FAILED]);
    let json = serde_json::to_value(summary(std::path::Path::new("x"), &failed)).unwrap();
    assert_eq!(json["workloads"][0]["reason"], "wrong-data: 3 rows expected\nmore");
}
