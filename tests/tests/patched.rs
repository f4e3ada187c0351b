//! What patches do to whole builds and servers: a build that lacks one of them, what is compiled again for it, and both
//! in one bench. `cargo xtask ci patched`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use portbench_tests::queue::Queue;
use portbench_tests::record::bench;
use portbench_tests::sshd::own_target;
use portbench_tests::{Ended, Running, broken_home, call, expect_nothing_left, run};
use rustix::process::Signal;

/// A cross build of MySQL's server that does not come to compiling.
fn mysql_without(patch: &str) -> Ended {
    run(&format!("build --product mysql --target ppc64le --patches all,-{patch}"))
}

#[test]
fn mysql_without_a_patch_of_its_configuration_is_refused_before_it_compiles() {
    mysql_without("0001").expect_code(3).expect_said(&["unknown target 'comp_err'"]).expect_log_and_next();
    let barriers = ["HAVE_IB_GCC_SYNC_SYNCHRONISE", "HAVE_IB_GCC_ATOMIC_THREAD_FENCE", "HAVE_IB_LINUX_FUTEX"];
    mysql_without("0002").expect_code(4).expect_said(&barriers);
    mysql_without("0003").expect_code(4).expect_said(&["none of HAVE_PAUSE_INSTRUCTION"]);
}

/// Hides the files of an internal temporary table from who opens them, once the file `SWITCH` is there: making a data
/// folder needs such tables too. Who makes them sees them.
const HIDES: &str = r##"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>
#define OPEN(NAME)                                                              \
  int NAME(const char *path, int flags, ...) {                                  \
    va_list more;                                                               \
    va_start(more, flags);                                                      \
    int mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, int) : 0;         \
    va_end(more);                                                               \
    int hidden = !(flags & O_CREAT) && strstr(path, "#sql") && strstr(path, ".MA"); \
    if (hidden && !access(SWITCH, F_OK)) {                                      \
      errno = ENOENT;                                                           \
      return -1;                                                                \
    }                                                                           \
    return ((int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #NAME))(path, flags, mode); \
  }
OPEN(open)
OPEN(open64)
"##;

/// A MariaDB server for this host that is up, and a client of it.
struct Server {
    running: Running,
    /// The password's export and the client's command line.
    lines: [String; 2],
}

impl Server {
    fn start(release: &str, patches: &str, preload: &Path) -> Self {
        let own = own_target();
        let words = ["serve", "--target", &own, "--on", "local", "--release", release, "--patches", patches];
        let mut running = call(&words).env("LD_PRELOAD", preload).start();
        let lines = [running.next_line(), running.next_line()];
        if lines[1].is_empty() {
            panic!("it is not up:\n{}", running.end().stderr);
        }
        Server { running, lines }
    }

    fn says(&self, sql: &str) -> Output {
        let [password, client] = &self.lines;
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{password}\n{client} --batch -e \"$1\""), "sh", sql]);
        shell.output().expect("a shell")
    }
}

#[test]
fn a_temporary_table_that_cannot_be_opened_ends_mariadb_without_its_patch_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, library) = (folder.path().join("hides.c"), folder.path().join("libhides.so"));
    fs::write(&source, HIDES).expect("a file");
    let mut compiler = Command::new("cc");
    let switch = folder.path().join("hide");
    compiler.arg(format!("-DSWITCH=\"{}\"", switch.display()));
    compiler.args(["-shared", "-fPIC", "-O2", "-o"]).arg(&library).arg(&source).arg("-ldl");
    assert!(compiler.status().expect("cc").success());
    // A column this long is in no table in memory.
    let sql = "SELECT LENGTH(x) FROM (SELECT REPEAT('a', 70000) AS x UNION SELECT REPEAT('b', 70000)) AS t";

    // The older release has no need of the patch.
    for release in ["10.11.18", "10.5.23"] {
        let server = Server::start(release, "all", &library);
        fs::write(&switch, "").expect("a file");
        let refused = server.says(sql);
        let why = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && why.contains("#sql") && why.contains("Errcode: 2"), "{why}");
        assert!(server.says("SELECT 1").status.success());
        server.running.signal(Signal::INT);
        server.running.end().expect_code(0);
        fs::remove_file(&switch).expect("it is there");
    }

    let server = Server::start("10.11.18", "all,-0001", &library);
    let mark = server.running.mark.clone();
    fs::write(&switch, "").expect("a file");
    let lost = server.says(sql);
    let why = String::from_utf8_lossy(&lost.stderr).into_owned();
    assert!(why.contains("Lost connection"), "{why}");
    server.running.end().expect_said(&["signal 11"]).expect_log_and_next();
    expect_nothing_left(&mark);
}

/// How many files the compiler cache did not have, and how many it was asked for.
fn compiled(log: &Path) -> (usize, usize) {
    let text = fs::read_to_string(log).expect("the compiler cache's log");
    let count = |what: &str| text.lines().filter(|line| *line == what).count();
    (count("cache_miss"), text.lines().filter(|line| line.starts_with('#')).count())
}

#[test]
fn only_what_a_patch_touches_is_compiled_again() {
    let home = broken_home(&["downloads", "sysroots", "toolchains"]);
    let build = |patches: &str| -> PathBuf {
        let log = home.path().join(format!("compiled-{patches}"));
        let words = ["build", "--target", &own_target(), "--patches", patches, "--launcher", "ccache"];
        let build = call(&words).env("PORTBENCH_HOME", home.path()).env("CCACHE_STATSLOG", &log);
        build.run().expect_code(0);
        log
    };
    build("all");
    let (missed, asked) = compiled(&build("none"));
    assert!(asked > 500 && (1..10).contains(&missed), "{missed} of {asked}");
}

/// Checksums at every length and alignment, barriers, clocks: under an emulator they are checked and not timed.
#[test]
fn primitives_are_right_with_the_patches_and_a_wrong_constant_is_found() {
    let queue = Queue::new();
    for target in ["ppc64le", "ppc64"] {
        let ended = queue.call(&format!("bench micro --target {target} --on qemu-user")).run().expect_code(0);
        assert!(ended.stdout.contains("checked, not timed"), "{}", ended.stdout);
    }
    let (patch, words) =
        ("mysql/9.7.2/0005-innodb-crc32c-by-vpmsum-on-power.patch", "for_b = x_to(bits - 1)");
    queue.replace(patch, words, "for_b = x_to(bits + 1)");
    let ended = queue.call("bench micro --target ppc64 --on qemu-user").run().expect_code(3);
    ended
        .expect_said(&["patched: CRC-32C of 128 bytes at alignment 0 is not the table's"])
        .expect_log_and_next();
}

#[test]
fn two_selections_of_patches_are_benched_side_by_side() {
    let own = own_target();
    let (ended, records) = bench(&[
        "--target",
        &own,
        "--on",
        "local",
        "--patches",
        "all",
        "--against",
        "none",
        "--repeat",
        "2",
        "--workload",
        "do0",
        "--duration-s",
        "1",
    ]);
    let patches = |record: &portbench_tests::record::Record| {
        record.expect_sound(1);
        record.header().bundle.as_ref().expect("a bundle").patches.len()
    };
    // One after the other, so that what drifts meets both.
    assert_eq!(records.iter().map(patches).collect::<Vec<_>>(), [1, 0, 0, 1], "{}", ended.stdout);
}

/// Regular expressions that name a character: what ICU knows of them is in its data.
#[test]
#[ignore = "compiles MySQL's server for big endian twice: cargo xtask ci matrix"]
fn big_endian_mysql_finds_its_icu_data_with_its_patch_only() {
    let warnings = |patches: &str| {
        let words = "--product mysql --target ppc64 --on qemu-user --workload do0 --duration-s 1 --patches";
        let (_, records) = bench(&words.split(' ').chain([patches]).collect::<Vec<_>>());
        records[0].server().warnings.clone()
    };
    assert_eq!(warnings("all"), Vec::<String>::new());
    let without = warnings("all,-0006");
    assert!(without.iter().any(|line| line.contains("MY-013829")), "{without:?}");
}
