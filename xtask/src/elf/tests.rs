//! The check as a whole: bundles of tiny files, listings as objdump prints them, and the real tools where there are
//! any.

mod real;

use std::collections::HashMap;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::tiny::Tiny;
use super::*;
use crate::tables::target::{ByteOrder, RunTimeDispatch};

const LOADER: &str = "/lib64/ld.so.1";

/// A target that no file describes: what is checked comes from the table alone.
fn target() -> Target {
    let mut target = Target::load(&Target::names().unwrap()[0]).unwrap();
    target.name = "made-up".into();
    target.byte_order = ByteOrder::Big;
    target.cpu.baseline = "OLD".into();
    target.elf.class = 64;
    target.elf.machine = 77;
    (target.elf.flags_mask, target.elf.flags) = (3, 2);
    target.elf.interpreter = LOADER.into();
    let dispatch = RunTimeDispatch { file: "libc.so.6".into(), only: vec![], why: "a test".into() };
    target.isa = Some(Isa {
        baseline: vec!["old".into()],
        newest: vec!["new".into()],
        word_bytes: 4,
        run_time_dispatch: vec![dispatch],
    });
    target
}

fn tiny() -> Tiny {
    Tiny::new(64, ByteOrder::Big, 77, 2)
}

fn program() -> Tiny {
    let needs = vec![("libc.so.6", "GLIBC_2.4"), ("libc.so.6", "GLIBC_2.34")];
    Tiny { interpreter: Some(LOADER), needed: vec!["libc.so.6"], needs, ..tiny() }
}

fn library() -> Tiny {
    let defines = vec!["libc.so.6", "GLIBC_2.4", "GLIBC_2.34", "GLIBC_2.36"];
    Tiny { soname: Some("libc.so.6"), defines, ..tiny() }
}

/// A disassembler that prints what a test tells it, by file name: under the baseline, and under the newest.
#[derive(Default)]
struct Told(HashMap<&'static str, [&'static str; 2]>);

impl Disassembler for Told {
    fn lines(&self, file: &Path, options: &[String], each: &mut dyn FnMut(&[u8])) -> Result<()> {
        let name = file.file_name().unwrap().to_str().unwrap();
        let listings = self.0.get(name).copied().unwrap_or_default();
        disassembler::each_line(listings[usize::from(options[0] == "new")].as_bytes(), each)
    }
}

/// A bundle of a program and its library, changed by the test.
struct Bundle(tempfile::TempDir);

impl Bundle {
    fn new(program: Tiny) -> Self {
        let bundle = Bundle(tempfile::tempdir().unwrap());
        program.write(&bundle.path("bundle/bin/server"));
        library().write(&bundle.path("bundle/lib/libc.so.6"));
        bundle
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn check(&self, told: &Told) -> Result<ElfFacts> {
        check_with(&self.path("bundle"), &target(), &self.path("log"), told)
    }

    /// The message of the failure that the bundle must give.
    fn refused(&self) -> String {
        let error = self.check(&Told::default()).unwrap_err();
        let failure = error.downcast_ref::<Failure>().unwrap();
        assert_eq!(failure.kind, Kind::VerificationFailed);
        assert!(failure.next.is_some() && failure.log.is_some());
        failure.what.clone()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap()
    }
}

#[test]
fn a_bundle_that_is_right_passes_and_is_counted() {
    let bundle = Bundle::new(program());
    std::fs::write(bundle.path("bundle/share"), "no ELF file").unwrap();
    std::os::unix::fs::symlink("nowhere", bundle.path("bundle/lib/dangling.so")).unwrap();
    let facts = bundle.check(&Told::default()).unwrap();
    assert_eq!((facts.files, facts.instructions_scanned), (2, true));
    assert_eq!(facts.glibc_needed.as_deref(), Some("2.34"));
    assert!(facts.run_time_dispatched.is_empty());
}

#[test]
fn a_target_without_a_disassembler_says_that_nothing_was_scanned() {
    let bundle = Bundle::new(program());
    let target = Target { isa: None, ..target() };
    let facts = check_with(&bundle.path("bundle"), &target, &bundle.path("log"), &Told::default()).unwrap();
    assert!(!facts.instructions_scanned);
}

#[test]
fn an_empty_bundle_is_refused() {
    let bundle = Bundle(tempfile::tempdir().unwrap());
    std::fs::create_dir(bundle.path("bundle")).unwrap();
    assert!(bundle.refused().contains("holds no ELF file"));
}

#[test]
fn each_thing_that_is_wrong_is_named() {
    let cases = [
        (Tiny { class: 32, ..program() }, "is of 32 bits, must be 64"),
        (Tiny { order: ByteOrder::Little, ..program() }, "is little endian, must be big"),
        (Tiny { machine: 62, ..program() }, "is for machine 62, must be 77"),
        (Tiny { flags: 1, ..program() }, "has the ABI flags 0x1, must be 0x2"),
        (Tiny { interpreter: Some("/lib/other"), ..program() }, "asks for the loader /lib/other, must be"),
        (Tiny { stack: 7, ..program() }, "asks for an executable stack"),
        (Tiny { runpath: Some("$ORIGIN/../lib:/usr/lib"), ..program() }, "looks for libraries in `/usr/lib`"),
        (Tiny { needed: vec!["libz.so.1"], ..program() }, "needs libz.so.1, which is not in lib"),
        (
            Tiny { needs: vec![("libc.so.6", "GLIBC_2.38")], ..program() },
            "needs GLIBC_2.38 of libc.so.6, but lib/libc.so.6 has up to GLIBC_2.36",
        ),
        (Tiny { sections: false, ..program() }, "is broken: its section headers are gone"),
    ];
    for (program, expected) in cases {
        let what = Bundle::new(program).refused();
        assert!(what.starts_with("1 thing in the bundle is not what made-up asks for:"), "{what}");
        assert!(what.contains(&format!("bin/server {expected}")), "{what}");
    }
}

#[test]
fn bits_outside_the_mask_and_a_static_program_are_fine() {
    let program = Tiny { flags: 0xf2, interpreter: None, needed: vec![], needs: vec![], ..program() };
    assert!(Bundle::new(program).check(&Told::default()).is_ok());
}

#[test]
fn a_library_that_is_only_a_name_is_no_library() {
    let bundle = Bundle::new(Tiny { needed: vec!["libx.so", "liby.so", "libz.so"], ..program() });
    std::fs::write(bundle.path("bundle/lib/libx.so"), "GROUP ( libx.so.1 )").unwrap();
    tiny().write(&bundle.path("outside"));
    std::os::unix::fs::symlink("../../outside", bundle.path("bundle/lib/liby.so")).unwrap();
    std::os::unix::fs::symlink("libc.so.6", bundle.path("bundle/lib/libz.so")).unwrap();
    let what = bundle.refused();
    assert!(what.starts_with("2 things"), "{what}");
    assert!(what.contains("libx.so is no whole ELF file") && what.contains("liby.so leads out"), "{what}");
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_a_violation_and_no_panic() {
    let whole = program().bytes();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server");
    std::fs::write(&file, &whole).unwrap();
    let shorter = fs::File::options().write(true).open(&file).unwrap();
    for length in (4..whole.len()).rev() {
        shorter.set_len(length as u64).unwrap();
        assert!(File::read(&file).unwrap().is_err(), "{length} of {} bytes passed", whole.len());
    }
    let bundle = Bundle::new(program());
    std::fs::write(bundle.path("bundle/bin/server"), &whole[..whole.len() - 1]).unwrap();
    let what = bundle.refused();
    assert!(what.contains("bin/server is broken: "), "{what}");
    assert!(needed(&bundle.path("bundle/bin/server")).is_err());
}

#[test]
fn no_wrong_byte_makes_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server");
    for (class, order) in [(64, ByteOrder::Big), (32, ByteOrder::Little)] {
        let whole = Tiny { class, order, defines: vec!["A_1"], ..program() }.bytes();
        std::fs::write(&file, &whole).unwrap();
        // Changed in place: to write the file anew each time would wait for the disk.
        let wrong = fs::File::options().write(true).open(&file).unwrap();
        for (place, right) in whole.iter().enumerate().skip(4) {
            for value in [0, 1, 0x7f, 0xff, *right] {
                wrong.write_at(&[value], place as u64).unwrap();
                if File::read(&file).unwrap().is_ok() {
                    let _ = file::code(&file);
                }
            }
        }
    }
}

#[test]
fn everything_is_told_at_once_and_the_log_has_what_the_message_leaves_out() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    let bundle = Bundle::new(Tiny { needed: names.to_vec(), ..program() });
    Tiny { stack: 7, ..tiny() }.write(&bundle.path("bundle/a"));
    let what = bundle.refused();
    assert!(what.starts_with("13 things") && what.contains("… and 3 more"), "{what}");
    assert_eq!(bundle.log().matches("violation: ").count(), 13);
}

#[test]
fn needed_names_come_in_their_order() {
    let bundle = Bundle::new(Tiny { needed: vec!["z", "a"], ..program() });
    assert_eq!(needed(&bundle.path("bundle/bin/server")).unwrap(), ["z", "a"]);
}

/// A prefixed instruction, a plain new one, a table for debuggers, and zeros.
const OLD: &str = "\nx:     file format x\n\nDisassembly of section .text:\n\n0000000000000000 <main>:
   0:\t.long 0x4100000\n   4:\t.long 0xe5400000\n   8:\tblr\n   c:\t.long 0x7c6105e6\n\t...\n  14:\t.long 0x80\n";
const NEW: &str = "\nx:     file format x\n\nDisassembly of section .text:\n\n0000000000000000 <main>:
   0:\tpld     r10,0\t# 0 <main>\n   8:\tblr\n   c:\tdarn    r3,1\n\t...\n  14:\t.long 0x80\n";

/// The tiny file's code lies where its header ends; the listings' addresses are moved there.
fn moved(listing: &str, code: &file::Code) -> &'static str {
    let lines = listing.lines().map(|line| match listing::parse(line.as_bytes()) {
        listing::Line::Word { address, text } => {
            format!("{:4x}:\t{}\n", code.address + address, String::from_utf8_lossy(text))
        }
        _ => format!("{line}\n"),
    });
    Box::leak(lines.collect::<String>().into_boxed_str())
}

fn told(bundle: &Bundle, file: &'static str, name: &'static str, listings: [&str; 2]) -> Told {
    let code = file::code(&bundle.path(file)).unwrap().remove(0);
    Told(HashMap::from([(name, listings.map(|listing| moved(listing, &code)))]))
}

#[test]
fn instructions_beyond_the_baseline_are_refused_with_symbol_address_and_name() {
    let bundle = Bundle::new(Tiny { code: vec![0; 64], ..program() });
    let told = told(&bundle, "bundle/bin/server", "server", [OLD, NEW]);
    let error = bundle.check(&told).unwrap_err();
    let failure = error.downcast_ref::<Failure>().unwrap();
    let at = file::code(&bundle.path("bundle/bin/server")).unwrap()[0].address;
    let expected = format!("bin/server has 2 instructions beyond OLD in main at {at:#x}: 1 darn, 1 pld");
    assert!(failure.what.contains(&expected), "{}", failure.what);
    assert!(failure.next.as_deref().unwrap().contains("isa.run-time-dispatch"));
    assert!(bundle.log().contains(&format!("bin/server: {:#x} <main> darn", at + 0xc)), "{}", bundle.log());
}

#[test]
fn files_that_choose_at_run_time_are_counted() {
    let bundle = Bundle::new(program());
    let facts = bundle.check(&told(&bundle, "bundle/lib/libc.so.6", "libc.so.6", [OLD, NEW])).unwrap();
    assert_eq!(facts.run_time_dispatched, BTreeMap::from([("lib/libc.so.6".to_string(), 2)]));
}

#[test]
fn a_file_that_may_hold_some_instructions_may_not_hold_others() {
    let bundle = Bundle::new(program());
    let mut target = target();
    target.isa.as_mut().unwrap().run_time_dispatch[0].only = vec!["pld".into()];
    let told = told(&bundle, "bundle/lib/libc.so.6", "libc.so.6", [OLD, NEW]);
    let error = check_with(&bundle.path("bundle"), &target, &bundle.path("log"), &told).unwrap_err();
    assert!(error.to_string().contains("lib/libc.so.6 has 1 instruction beyond OLD in main"), "{error}");
}

#[test]
fn files_of_another_machine_are_not_disassembled() {
    let bundle = Bundle::new(Tiny { machine: 62, ..program() });
    let what = bundle.check(&told(&bundle, "bundle/bin/server", "server", [OLD, NEW])).unwrap_err();
    assert!(what.to_string().starts_with("1 thing"), "{what}");
}

#[test]
fn entries_of_jump_tables_are_left_out_and_counted() {
    let words: [u32; 6] = [0x4e80_0420, 0x10, 0xffff_fffc, 0xffff_fffc, 0xffff_fffc, 0x4e80_0420];
    let code = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    let bundle = Bundle::new(Tiny { code, ..program() });
    let old = "Disassembly of section .text:\n   0:\tbctr\n   4:\t.long 0x10\n   8:\t.long 0xfffffffc\n";
    let new = "Disassembly of section .text:\n   0:\tbctr\n   4:\t.long 0x10\n   8:\txsnew   1\n";
    bundle.check(&told(&bundle, "bundle/bin/server", "server", [old, new])).unwrap();
    assert!(bundle.log().contains("new instructions: 1\n"), "{}", bundle.log());
}
