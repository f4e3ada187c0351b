//! What must hold of a machine before anything is copied there, asked in one round trip.
//!
//! The bundle brings its own loader and C library, so the machine's do not matter (its version is kept all the same).
//! What matters is the kernel: glibc's loader refuses one that is older than it was built for, and says which in a note
//! of its own file.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use super::master::{Master, SCRIPT};
use crate::failure::{Failure, Kind};
use crate::tables::machines::SshMachine;
use crate::tables::target::{ByteOrder, Target};

const ASK: &str = include_str!("preflight.sh");

/// What a machine said of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preflight {
    /// `uname -m`.
    pub machine: String,
    /// `uname -r`.
    pub kernel: String,
    /// Byte order of its programs.
    pub byte_order: String,
    /// Size of a page in bytes; `None`: it has no way to say.
    pub page_bytes: Option<u64>,
    /// Its own C library.
    pub libc: Option<String>,
    /// The user's number.
    pub user: u32,
    /// Free bytes where bundles go.
    pub free_bytes: u64,
    /// Seconds that its clock is ahead of ours, and how sure that is.
    pub clock_ahead_s: f64,
    /// Half of the round trip.
    pub clock_uncertain_s: f64,
    /// `/proc/cpuinfo`.
    cpuinfo: String,
    full: bool,
    noexec: bool,
    errors: Vec<String>,
}

/// Asks the machine.
pub fn ask(master: &Master, machine: &SshMachine) -> Result<Preflight> {
    let before = now_s();
    let ran = master.run(ASK, &[&machine.work_folder], SCRIPT, |_| Ok(()))?;
    let after = now_s();
    let mut said = parse(&ran.stdout);
    said.clock_uncertain_s += (after - before) / 2.0;
    said.clock_ahead_s -= f64::midpoint(before, after);
    if said.machine.is_empty() {
        let what = format!(
            "ssh:{}: the log-in shell of {} did not run a script\n{}",
            machine.name,
            machine.host,
            crate::process::indented(format!("{}{}", ran.stdout, ran.stderr).trim())
        );
        return Err(Failure::new(Kind::MachineUnreachable, what)
            .next("log in by hand and see that a command can be run there")
            .into());
    }
    Ok(said)
}

fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

fn parse(text: &str) -> Preflight {
    let mut said = Preflight::default();
    for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
        let value = value.trim_end();
        match key {
            "machine" => said.machine = value.into(),
            "kernel" => said.kernel = value.into(),
            "order" => said.byte_order = value.into(),
            "page" => said.page_bytes = value.parse().ok(),
            "libc" => said.libc = Some(value.to_string()).filter(|text| !text.is_empty()),
            "user" => said.user = value.parse().unwrap_or(u32::MAX),
            "free" => said.free_bytes = value.parse::<u64>().unwrap_or(0) << 10,
            "time" => {
                // Not every `date` knows parts of a second.
                let parts: Option<f64> = value.parse().ok();
                said.clock_uncertain_s = if parts.is_some() { 0.0 } else { 0.5 };
                let whole = || Some(value.split('.').next()?.parse::<f64>().ok()? + 0.5);
                said.clock_ahead_s = parts.or_else(whole).unwrap_or(0.0);
            }
            "full" => said.full = true,
            "noexec" => said.noexec = true,
            "error" => said.errors.push(value.into()),
            "cpuinfo" => said.cpuinfo = said.cpuinfo + value + "\n",
            _ => {}
        }
    }
    said
}

impl Preflight {
    /// Whether a target's programs can run there at all.
    pub fn check_target(&self, machine: &SshMachine, target: &Target) -> Result<()> {
        let name = &machine.name;
        let wrong = |what: String| {
            Err(Failure::new(
                Kind::WrongMachine,
                format!("ssh:{name} is the wrong machine for {}: {what}", target.name),
            )
            .next(format!("mend `host` or `target` of [{name}] in machines.toml"))
            .into())
        };
        if self.machine != target.uname_machine {
            return wrong(format!(
                "{} is {}, {} is needed",
                machine.host, self.machine, target.uname_machine
            ));
        }
        if self.byte_order != target.byte_order.name() {
            let (have, need) = (&self.byte_order, target.byte_order.name());
            return wrong(format!("{}'s byte order is {have} endian, {need} endian is needed", machine.host));
        }
        let Some(cpu) = &target.cpu.cpuinfo else { return Ok(()) };
        let Some(value) = field(&self.cpuinfo, &cpu.field) else { return Ok(()) };
        let words: Vec<&str> = value.split(|c: char| c.is_whitespace() || c == ',').collect();
        let missing: Vec<&str> =
            cpu.all_of.iter().map(String::as_str).filter(|word| !words.contains(word)).collect();
        let any = cpu.any_of.is_empty() || cpu.any_of.iter().any(|word| words.contains(&word.as_str()));
        if any && missing.is_empty() {
            return Ok(());
        }
        let baseline = &target.cpu.baseline;
        match missing.as_slice() {
            [] => wrong(format!("its CPU is {value}, {baseline} or later is needed")),
            missing => wrong(format!("its CPU lacks {}, {baseline} is needed", missing.join(" "))),
        }
    }

    /// Whether a bundle's programs can be kept and started there.
    pub fn check_folder(&self, machine: &SshMachine) -> Result<()> {
        let (name, folder) = (&machine.name, &machine.work_folder);
        if self.full {
            return Err(full(machine, "nothing can be written there").into());
        }
        let what = match self.errors.as_slice() {
            [] if self.noexec => {
                format!("no program may be run in {folder}: its file system is mounted noexec")
            }
            [] => return Ok(()),
            errors => errors.join("; "),
        };
        Err(Failure::new(Kind::StageFailed, format!("ssh:{name}: {what}"))
            .next(format!("mend that, or choose another `work-folder` of [{name}] in machines.toml"))
            .into())
    }

    /// Whether the bundle's loader, by its own note, runs on the machine's kernel.
    pub fn check_kernel(&self, machine: &SshMachine, loader: &Path, order: ByteOrder) -> Result<()> {
        let bytes = std::fs::read(loader).with_context(|| format!("cannot read {}", loader.display()))?;
        let Some(needed) = kernel_of(&bytes, order) else { return Ok(()) };
        if numbers(&self.kernel) >= needed {
            return Ok(());
        }
        let [major, minor, patch] = needed;
        let what = format!(
            "ssh:{} is the wrong machine: its kernel is {}, the bundle's C library needs {major}.{minor}.{patch}",
            machine.name, self.kernel
        );
        Err(Failure::new(Kind::WrongMachine, what).next("run it on a machine with a newer kernel").into())
    }
}

/// The failure of a disk without room.
pub fn full(machine: &SshMachine, what: &str) -> Failure {
    let (name, folder) = (&machine.name, &machine.work_folder);
    Failure::new(Kind::DiskFull, format!("ssh:{name}: disk full: {what} ({folder})")).next(format!(
        "free some space there (old bundles stand in {folder}/deployments), or choose another `work-folder` of [{name}] \
         in machines.toml"
    ))
}

fn field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

fn numbers(version: &str) -> [u32; 3] {
    let mut parts = version.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    std::array::from_fn(|_| parts.next().unwrap_or(0))
}

/// The oldest kernel of an ELF file's `NT_GNU_ABI_TAG`: name and value of 4 and 16 bytes, type 1, `GNU`, Linux,
/// version.
fn kernel_of(elf: &[u8], order: ByteOrder) -> Option<[u32; 3]> {
    let number = |n: u32| if order == ByteOrder::Big { n.to_be_bytes() } else { n.to_le_bytes() };
    let head = [number(4), number(16), number(1), *b"GNU\0", number(0)].concat();
    let at = elf.windows(head.len()).position(|window| window == head)? + head.len();
    let words: Vec<u32> = elf
        .get(at..at + 12)?
        .chunks_exact(4)
        .map(|word| {
            let word = [word[0], word[1], word[2], word[3]];
            if order == ByteOrder::Big { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
        })
        .collect();
    words.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::kind_of;

    const SAID: &str = "machine=ppc64le\nkernel=6.1.0-13-powerpc64le\ntime=1000.25\nuser=1000\norder=little\npage=65536\n\
                        libc=glibc 2.36\nfree=1024\ncpuinfo=processor\t: 0\ncpuinfo=cpu\t\t: POWER9 (raw), altivec\n";

    fn machine() -> SshMachine {
        let text = "host = \"h\"\nwork-folder = \"/w\"\ntarget = \"ppc64le\"\n";
        let mut machine: SshMachine = toml::from_str(text).unwrap();
        machine.name = "big".into();
        machine
    }

    fn refused(said: &str) -> (Option<Kind>, String) {
        let said = parse(said);
        let target = Target::load("ppc64le").unwrap();
        let error =
            said.check_target(&machine(), &target).and_then(|()| said.check_folder(&machine())).unwrap_err();
        (kind_of(&error), error.to_string())
    }

    #[test]
    fn a_fitting_machine_passes() {
        let said = parse(SAID);
        assert_eq!((said.page_bytes, said.free_bytes, said.user), (Some(65536), 1 << 20, 1000));
        assert_eq!((said.clock_ahead_s, said.clock_uncertain_s), (1000.25, 0.0));
        said.check_target(&machine(), &Target::load("ppc64le").unwrap()).unwrap();
        said.check_folder(&machine()).unwrap();
        assert_eq!(parse("time=1000.%N\n").clock_ahead_s, 1000.5, "a date that knows no parts of a second");
    }

    #[test]
    fn a_wrong_machine_is_told_with_both_sides() {
        let (kind, said) = refused(&SAID.replace("machine=ppc64le", "machine=riscv64"));
        assert_eq!(kind, Some(Kind::WrongMachine));
        assert!(said.contains("h is riscv64, ppc64le is needed"), "{said}");
        let (kind, said) = refused(&SAID.replace("order=little", "order=big"));
        assert_eq!(kind, Some(Kind::WrongMachine));
        assert!(said.contains("is big endian, little endian is needed"), "{said}");
        let (kind, said) = refused(&SAID.replace("POWER9", "POWER7"));
        assert_eq!(kind, Some(Kind::WrongMachine));
        assert!(said.contains("POWER7") && said.contains("POWER8 or later"), "{said}");
    }

    #[test]
    fn an_unusable_folder_is_told() {
        assert_eq!(refused(&format!("{SAID}full=yes\n")).0, Some(Kind::DiskFull));
        assert!(refused(&format!("{SAID}noexec=yes\n")).1.contains("noexec"));
        assert!(refused(&format!("{SAID}error=tar is not installed there\n")).1.contains("tar"));
    }

    #[test]
    fn the_loaders_note_names_the_oldest_kernel() {
        let little = [&[9, 9], &[4, 0, 0, 0, 16, 0, 0, 0, 1, 0, 0, 0][..], b"GNU\0", &[0; 4], &[3, 0, 0, 0]];
        let mut bytes = little.concat();
        bytes.extend([10, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(kernel_of(&bytes, ByteOrder::Little), Some([3, 10, 0]));
        assert_eq!(kernel_of(&bytes, ByteOrder::Big), None);
        assert!(numbers("3.9.12-x") < [3, 10, 0] && numbers("6.1") >= [3, 10, 0]);
    }

    #[test]
    fn the_question_is_understood_by_this_hosts_shell() {
        let folder = tempfile::tempdir().unwrap();
        let output =
            std::process::Command::new("sh").args(["-c", ASK, "sh"]).arg(folder.path()).output().unwrap();
        let said = parse(&String::from_utf8(output.stdout).unwrap());
        assert_eq!(said.machine, crate::host::uname_machine());
        assert!(said.free_bytes > 0 && said.page_bytes.is_some_and(|bytes| bytes >= 4096), "{said:?}");
        assert!((now_s() - said.clock_ahead_s).abs() < 60.0);
        assert!(!said.full && !said.noexec && said.errors.is_empty(), "{said:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "something was left");
    }
}
