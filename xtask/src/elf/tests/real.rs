//! With the cross compilers and the objdump of this machine, for every target; one whose compiler is missing fails.

use std::process::Command;

use super::scan::Found;
use super::*;
use crate::process::find_program;

/// objdump without the guard, which in a test is the test itself.
struct Plain(String);

impl Disassembler for Plain {
    fn lines(&self, file: &Path, options: &[String], each: &mut dyn FnMut(&[u8])) -> Result<()> {
        let (reader, writer) = std::io::pipe()?;
        let mut child = disassembler::command(&self.0, file, options).stdout(writer).spawn()?;
        disassembler::each_line(reader, each)?;
        anyhow::ensure!(child.wait()?.success(), "objdump failed");
        Ok(())
    }
}

/// Jump tables, vectors, 128-bit numbers: what a compiler emits of new instructions where it may.
const C: &str = r"
extern long g[];
long load(long i) { return g[i] + g[3]; }
long remainder_of(long a, long b) { return a % b; }
void vectors(double *a, double *b, int n) { for (int i = 0; i < n; i++) a[i] += b[i] * 3.0; }
void bytes(unsigned char *a, unsigned char *b, int n) { for (int i = 0; i < n; i++) a[i] ^= b[i] + 7; }
int choose(int x) {
  switch (x) { case 0: return g[7]; case 1: return g[3] * 3; case 2: return g[9] / 3; case 3: return 17;
    case 4: return 99; case 5: return g[1] ^ g[2]; case 6: return -1; case 7: return g[5] * g[6]; }
  return 5;
}
";

/// Compiles `source`; `None` where the target's table has no way to find newer instructions.
fn compiled(target: &Target, source: &str, flags: &[String]) -> Option<(tempfile::TempDir, Found)> {
    let (compiler, objdump) = (target.tool("gcc"), target.tool("objdump"));
    // A check that cannot run is not green.
    let present = find_program(&compiler).is_some() && find_program(&objdump).is_some();
    assert!(present, "{compiler} or {objdump} is missing: cargo xtask setup --target {}", target.name);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("x.c"), source).unwrap();
    let mut command = Command::new(compiler);
    command.current_dir(&folder).args(["-O3", "-c", "x.c", "-o", "x.o"]).args(flags);
    assert!(command.status().unwrap().success());
    let isa = target.isa.as_ref()?;
    let paths = [Path::new("x.o")];
    let found = scan::all(folder.path(), &paths, isa, target.byte_order, &Plain(objdump)).unwrap();
    Some((folder, found.into_iter().next().unwrap()))
}

#[test]
fn code_of_the_baseline_is_clean() {
    for name in Target::names().unwrap() {
        let target = Target::load(&name).unwrap();
        if let Some((_, found)) = compiled(&target, C, &target.cpu.flags) {
            assert_eq!(found.beyond, [], "{name}");
        }
    }
}

#[test]
fn code_of_newer_cpus_is_found() {
    // The table says nothing of newer CPUs' flags: the test knows some.
    let newer = [
        ("ppc64le", "-mcpu=power9", vec!["modsd"]),
        ("ppc64le", "-mcpu=power10", vec!["modsd", "pld"]),
        ("ppc64", "-mcpu=power9", vec!["modsd"]),
        ("ppc64", "-mcpu=power10", vec!["modsd"]),
    ];
    for (name, flag, mnemonics) in newer {
        let Ok(target) = Target::load(name) else { continue };
        let Some((_, found)) = compiled(&target, C, &[flag.to_string()]) else { continue };
        for mnemonic in mnemonics {
            let is = |one: &&scan::Beyond| one.mnemonic == mnemonic;
            let symbol = found.beyond.iter().find(is).map(|one| one.symbol.as_str());
            assert!(symbol.is_some_and(|symbol| !symbol.is_empty()), "{name} {flag} {mnemonic}");
        }
    }
}

/// `ELF_TARGET=NAME ELF_BUNDLE=FOLDER cargo test -p xtask elf_bundle -- --ignored --nocapture`
#[test]
#[ignore = "needs a bundle: set ELF_TARGET and ELF_BUNDLE"]
fn elf_bundle() {
    let folder = PathBuf::from(std::env::var_os("ELF_BUNDLE").expect("ELF_BUNDLE is not set"));
    let target = Target::load(&std::env::var("ELF_TARGET").expect("ELF_TARGET is not set")).unwrap();
    let log = tempfile::NamedTempFile::new().unwrap();
    let begun = std::time::Instant::now();
    let result = check_with(&folder, &target, log.path(), &Plain(target.tool("objdump")));
    println!("{}", std::fs::read_to_string(log.path()).unwrap());
    println!("{result:#?}\n{:.1} s", begun.elapsed().as_secs_f64());
}
