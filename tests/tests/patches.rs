//! The patch queue against real releases: what fits, what does not, and how a person changes it. Each patch's own test,
//! with it and without it, as far as nothing needs to be built whole.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use portbench_tests::queue::Queue;
use portbench_tests::{Ended, broken_home, call};

const FIRST: &str = "mysql/9.7.2/0001-build-comp_err-when-an-emulator-runs-it.patch";

fn changed(queue: &Queue, change: impl FnOnce(String) -> String) -> PathBuf {
    let file = queue.file(FIRST);
    fs::write(&file, change(fs::read_to_string(&file).expect("the patch"))).expect("a patch");
    file
}

fn status(queue: &Queue) -> Ended {
    queue.patch("status --product mysql").run()
}

#[test]
fn every_patch_of_every_release_applies_and_says_what_it_is() {
    let ended = call(&["patch", "status"]).run().expect_code(0);
    assert!(ended.stdout.lines().count() > 10 && !ended.stdout.contains("conflicts"), "{}", ended.stdout);
    assert!(ended.stdout.contains("mariadb\t10.5.23\t-\tno patches"), "{}", ended.stdout);
    // Whether a build reads what they change, is checked where one is in the cache: not on a bare machine.
    let ended = call(&["patch", "check", "--without-builds"]).run().expect_code(0);
    assert!(ended.stdout.lines().skip(1).all(|line| line.contains("\tgood\texactly\t")), "{}", ended.stdout);
}

#[test]
fn a_series_is_carried_to_another_release_as_far_as_it_fits_there() {
    let queue = Queue::new();
    let (series, there) = ("mariadb/10.11.18/series", queue.file("mariadb/10.5.23/series"));
    let text = fs::read_to_string(queue.file(series)).expect("the series");
    fs::write(queue.file(series), text + "0002-say-more.patch\n").expect("a series");
    fs::write(queue.file("mariadb/10.11.18/0002-say-more.patch"), FITS_BOTH).expect("a patch");
    let before = fs::read_to_string(&there).expect("its series");
    let port = "port --product mariadb --release 10.11.18 --to 10.5.23";

    // What 0001 mends came after 10.5.23: its lines are not there, and nobody guesses.
    let ended = queue.patch(port).run().expect_code(4);
    assert!(ended.stdout.contains("0002-say-more.patch\tapplies"), "{}", ended.stdout);
    ended.expect_said(&["ha_maria.cc: its lines are not there", "1 of 2 do not fit", "nothing was written"]);
    assert_eq!(fs::read_to_string(&there).expect("its series"), before);

    queue.patch(&format!("{port} --partial")).run().expect_code(0);
    let after = fs::read_to_string(&there).expect("its series");
    assert!(after.contains("../10.11.18/0002-say-more.patch # applies unchanged"), "{after}");
    assert!(after.starts_with(&before), "what a person wrote there is gone:\n{after}");
    let ended = queue.patch("status --product mariadb --release 10.5.23").run().expect_code(0);
    assert!(ended.stdout.contains("10.5.23\t0002-say-more.patch\tapplies"), "{}", ended.stdout);
}

/// A change to a file that both releases have.
const FITS_BOTH: &str = "Description: say more
Author: A Person <person@example.org>
Forwarded: not-needed
Last-Update: 2026-12-07
---
--- a/mysys/crc32/crc32c_ppc.c
+++ b/mysys/crc32/crc32c_ppc.c
@@ -1,3 +1,4 @@
+/* More. */
 #define CRC32_FUNCTION crc32c_ppc
 #define CRC_TABLE
 #define POWER8_INTRINSICS
";

#[test]
fn what_could_not_be_checked_is_not_green() {
    let home = broken_home(&["downloads"]);
    let check = call(&["patch", "check", "--product", "mysql"]).env("PORTBENCH_HOME", home.path());
    let ended = check.run().expect_code(4);
    ended.expect_said(&["no build is in the cache", "--product mysql --release 9.7.2", "--without-builds"]);
}

#[test]
fn context_that_is_not_there_is_no_fuzz_but_a_conflict() {
    let queue = Queue::new();
    // The first line of the first hunk's context.
    changed(&queue, |text| {
        let (before, hunk) = text.split_once("\n@@").expect("a hunk");
        format!("{before}\n@@{}", hunk.replacen("\n ", "\n another line: ", 1))
    });
    status(&queue).expect_code(4).expect_said(&["0001-", "its lines are not there", "patch does not apply"]);
}

#[test]
fn a_patch_that_upstream_has_is_told_as_such() {
    let queue = Queue::new();
    let second = queue.file("mysql/9.7.2/0002-again.patch");
    fs::copy(queue.file(FIRST), second).expect("a copy");
    let series = queue.file("mysql/9.7.2/series");
    let text = fs::read_to_string(&series).expect("the series");
    fs::write(&series, text.replacen('\n', "\n0002-again.patch\n", 1)).expect("a series");
    let ended = status(&queue).expect_code(4);
    assert!(ended.stdout.contains("0002-again.patch\talready upstream"), "{}", ended.stdout);
}

#[test]
fn a_file_that_moved_is_told_with_where_it_may_be() {
    let queue = Queue::new();
    changed(&queue, |text| text.replace("/utilities/CMakeLists.txt", "/utils/gone/comp_err.cc"));
    let ended = status(&queue).expect_code(4);
    ended.expect_said(&["utils/gone/comp_err.cc: it is not there", "now utilities/comp_err.cc?"]);
}

#[test]
fn carriage_returns_in_a_patch_do_no_harm() {
    let queue = Queue::new();
    changed(&queue, |text| text.replace('\n', "\r\n"));
    status(&queue).expect_code(0);
}

#[test]
fn a_tree_is_made_with_all_patches_or_not_at_all() {
    let queue = Queue::new();
    let last = queue.file("mysql/9.7.2/0016-ndb-test-interpreter-of-partial-words.patch");
    let text = fs::read_to_string(&last).expect("the patch");
    fs::write(&last, text.replacen("\n ", "\n  not there ", 3)).expect("a patch");
    let out = queue.folder.path().join("out");
    let ended = queue.patch(&format!("extract --product mysql -o {}", out.display())).run().expect_code(3);
    ended.expect_said(&["0016-ndb-test-interpreter-of-partial-words.patch does not apply", "log:"]);
    let first = fs::read_to_string(out.join("utilities/CMakeLists.txt")).expect("a file");
    assert!(!first.contains("EMULATOR"), "the first patch is in, though the last is not:\n{first}");
}

#[test]
fn a_wrong_header_is_told_with_its_line() {
    let queue = Queue::new();
    changed(&queue, |text| {
        text.replace("Forwarded: no", "Forwarded: perhaps").replace("Last-Update: 20", "Last-Update: ")
    });
    let ended = queue.patch("check --product mysql").run().expect_code(4);
    ended.expect_said(&["Forwarded: is missing or wrong", "Last-Update: is missing or no date"]);
}

/// MariaDB's tree: it is a third of MySQL's.
#[test]
fn a_person_edits_the_tree_and_commits_become_patches() {
    let queue = Queue::new();
    let home = tempfile::tempdir_in(portbench_tests::home()).expect("a folder");
    let patch = |words: &str| {
        // Only the edited trees are the test's own; what was downloaded stays where it is.
        queue.patch(words).env("PORTBENCH_EDITS", home.path()).run()
    };
    let folder = PathBuf::from(patch("edit --product mariadb").expect_code(0).stdout.trim());
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(&folder).args(arguments).output().expect("git");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(git(&["rev-list", "--count", "release..HEAD"]).trim(), "1");
    patch("refresh --product mariadb").expect_code(0).expect_said(&["nothing has changed"]);

    // A change that is not committed is not lost, and becomes a patch when it is asked for.
    let readme = folder.join("README.md");
    let text = fs::read_to_string(&readme).expect("README.md");
    fs::write(&readme, format!("{text}one more line\n")).expect("README.md");
    patch("refresh --product mariadb").expect_code(2).expect_said(&[
        "not committed",
        "README.md",
        "patch new",
    ]);
    patch("drop 0001 --product mariadb").expect_code(2).expect_said(&["work that is in no patch"]);
    patch("new say-one-more-line --product mariadb")
        .expect_code(0)
        .expect_said(&["0002-say-one-more-line.patch"]);
    let release = queue.file("mariadb/10.11.18");
    let made = fs::read_to_string(release.join("0002-say-one-more-line.patch")).expect("the new patch");
    assert!(made.contains("+one more line\n") && made.contains("Description: say one more line"), "{made}");
    patch("status --product mariadb --release 10.11.18").expect_code(0);

    // A patch that is changed by hand is what the next tree is made of.
    patch("drop 0002 --product mariadb").expect_code(0);
    patch("edit --product mariadb").expect_code(0);
    assert_eq!(git(&["rev-list", "--count", "release..HEAD"]).trim(), "1");
    assert!(!fs::read_to_string(&readme).expect("README.md").contains("one more line"));
}

/// What a patch does to the instructions of both byte orders, by the compiler of each.
#[test]
fn powers_instructions_are_there_with_the_patches_and_not_without() {
    let folder = tempfile::tempdir().expect("a folder");
    let sources = [
        "include/big_endian.h",
        "include/little_endian.h",
        "include/my_byteorder.h",
        "include/my_compiler.h",
        "include/my_inttypes.h",
        "include/my_rdtsc.h",
        "include/mysql/attribute.h",
        "include/template_utils.h",
        "mysys/my_rdtsc.cc",
    ];
    for (variant, patches) in [("released", "none"), ("patched", "all")] {
        let out = folder.path().join(variant);
        let words = format!("patch extract --product mysql --patches {patches} -o {}", out.display());
        let all: Vec<&str> = words.split(' ').chain(sources).collect();
        call(&all).run().expect_code(0);
        let header = fs::read_to_string(out.join("storage/innobase/include/ut0ut.h")).expect("ut0ut.h");
        let (begin, end) =
            ("#if defined(HAVE_PAUSE_INSTRUCTION)", "#define UT_RESUME_PRIORITY_CPU() ((void)0)\n#endif\n");
        let from = header.find(begin).expect("the pause");
        let to = header.find(end).expect("the priority") + end.len();
        fs::write(out.join("ut_relax.h"), &header[from..to]).expect("a header");
    }
    for prefix in ["powerpc64-linux-gnu", "powerpc64le-linux-gnu"] {
        for (variant, patched) in [("released", false), ("patched", true)] {
            let of = |function: &str| disassembled(folder.path(), prefix, variant, function);
            assert_eq!(of("mb").contains("hwsync"), patched, "{prefix} {variant}: mb");
            assert!(of("rmb").contains("lwsync") && of("wmb").contains("lwsync"), "{prefix} {variant}");
            assert_eq!(of("ndb_pause").contains("mr      r1,r1"), patched, "{prefix} {variant}: cpu_pause");
            assert_eq!(of("innodb_relax").contains("mf"), patched, "{prefix} {variant}: UT_RELAX_CPU");
            assert_eq!(of("").contains("vpmsumd"), patched, "{prefix} {variant}: CRC-32C");
        }
    }
}

/// A function's instructions; of all, where it has no name.
fn disassembled(folder: &Path, prefix: &str, variant: &str, function: &str) -> String {
    let object = folder.join(format!("{prefix}-{variant}.o"));
    let tree = folder.join(variant);
    if !object.exists() {
        let shim = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench-suite/product-sys/shim");
        let includes =
            [shim.clone(), tree.clone(), tree.join("include"), tree.join("storage/innobase/include")];
        let mut compiler = Command::new(format!("{prefix}-g++"));
        compiler
            .args(["-std=c++20", "-O2", "-w", "-mcpu=power8", "-DNDEBUG", "-c", "-ffunction-sections"])
            .arg(format!("-DPB_NAME={variant}"));
        compiler.args(includes.iter().map(|folder| format!("-I{}", folder.display())));
        let done =
            compiler.arg(shim.join("variant.cpp")).arg("-o").arg(&object).output().expect("the compiler");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    let mut objdump = Command::new(format!("{prefix}-objdump"));
    objdump.args(["-d", "--no-show-raw-insn", "-Mpower8"]);
    if !function.is_empty() {
        // Its section: in the older ABI the name itself is that of a descriptor.
        objdump.arg(format!("--section=.text.pb_{variant}_{function}"));
    }
    let output = objdump.arg(&object).output().expect("objdump");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Compiles and runs a program of this host's with a patched header of NDB's, or with the released one.
#[test]
fn ndbs_timer_counts_beyond_32_bits_with_its_patch_only() {
    let said = |patches: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        let tree = folder.path().join("tree");
        let words = format!("patch extract --product mysql --patches {patches} -o {}", tree.display());
        call(&words.split(' ').collect::<Vec<_>>()).run().expect_code(0);
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
        write("NdbTick.h", TICK);
        write(
            "NdbOut.hpp",
            "#include <cstdarg>\n#include <cstdio>\ninline void ndbout_c(const char *f, ...) { va_list a; va_start(a, f); vprintf(f, a); va_end(a); }\n",
        );
        write(
            "main.cpp",
            "#include <NdbTick.h>\n#include <NdbTimer.hpp>\nint main() { NdbTimer t; t.doStart(); t.doStop(); t.printTransactionStatistics(\"inserts\", 100000, 100000); }\n",
        );
        let program = folder.path().join("main");
        let mut compiler = Command::new("c++");
        compiler.arg("-w").arg(format!("-I{}", folder.path().display()));
        compiler.arg(format!("-I{}", tree.join("storage/ndb/test/include").display()));
        let done =
            compiler.arg(folder.path().join("main.cpp")).arg("-o").arg(&program).output().expect("c++");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let output = Command::new(&program).output().expect("the program");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let right = "100000 transactions, 10000000000 inserts total time = 5000000000 ms";
    assert!(said("all").contains(right), "{}", said("all"));
    assert!(!said("all,-0014").contains(right));
}

/// A clock that is 5 000 000 s further each time.
const TICK: &str = "#pragma once
#include <cstdint>
typedef uint32_t Uint32; typedef unsigned long long Uint64; typedef Uint64 NDB_TICKS;
inline void NdbTick_Invalidate(NDB_TICKS *t) { *t = 0; }
inline NDB_TICKS NdbTick_getCurrentTicks() { static NDB_TICKS now; return now += 5000000000ULL; }
struct Elapsed { Uint64 ms; Uint64 milliSec() const { return ms; } };
inline Elapsed NdbTick_Elapsed(NDB_TICKS a, NDB_TICKS b) { return {b - a}; }
";

/// Compiles a source of NDB's as a cross build does whose probes found no `clock_gettime`.
#[test]
fn ndbs_condition_variables_compile_without_clock_gettime_with_their_patch_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let stubs = folder.path().join("stubs");
    fs::create_dir(&stubs).expect("a folder");
    let compile = |variant: &str, patches: &str| {
        let tree = folder.path().join(variant);
        let words = format!(
            "patch extract --product mysql --patches {patches} -o {} include/ storage/ndb/include/",
            tree.display()
        );
        call(&words.split(' ').collect::<Vec<_>>()).run().expect_code(0);
        // What configure would write.
        let types = fs::read_to_string(tree.join("storage/ndb/include/ndb_types.h.in")).expect("a header");
        let with_sizes = SIZES.iter().fold(types, |text, (name, bytes)| {
            text.replace(&format!("@NDB_SIZEOF_{name}@"), &bytes.to_string())
        });
        let sizes = SIZES.map(|(name, bytes)| format!("#define SIZEOF_{name} {bytes}\n")).concat();
        let write = |name: &str, text: &str| fs::write(stubs.join(name), text).expect("a header");
        write("ndb_types.h", &with_sizes);
        write("my_config.h", &format!("#define HAVE_UNISTD_H 1\n{sizes}"));
        write("ndb_config.h", "");
        write(
            "EventLogger.hpp",
            "struct EventLogger { void info(const char *, ...); };\nextern EventLogger *g_eventLogger;\n",
        );
        let mut compiler = Command::new("c++");
        compiler.args(["-std=c++20", "-w", "-fsyntax-only"]).arg(format!("-I{}", stubs.display()));
        for include in ["include", ".", "storage/ndb/include", "storage/ndb/include/portlib"] {
            compiler.arg(format!("-I{}", tree.join(include).display()));
        }
        let source = tree.join("storage/ndb/src/common/portlib/NdbCondition.cpp");
        let output = compiler.arg(source).output().expect("c++");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (compiles, said) = compile("patched", "all");
    assert!(compiles, "{said}");
    let (compiles, said) = compile("released", "all,-0015");
    assert!(!compiles && said.contains("gettimeofday"), "{said}");
}

/// C's types where a pointer has 64 bits, in bytes.
const SIZES: [(&str, u32); 6] =
    [("CHAR", 1), ("CHARP", 8), ("INT", 4), ("SHORT", 2), ("LONG", 8), ("LONG_LONG", 8)];
