//! What the bench binary sees of the machine it runs on.

use std::path::Path;

use model::message::Facts;

/// Reads the facts.
pub fn read() -> Facts {
    let uname = rustix::system::uname();
    let machine = uname.machine().to_string_lossy().into_owned();
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    Facts {
        kernel: uname.release().to_string_lossy().into_owned(),
        // Of the running program: a big-endian program under an emulator says so.
        byte_order: if cfg!(target_endian = "big") { "big" } else { "little" }.into(),
        pointer_bits: usize::BITS,
        page_bytes: rustix::param::page_size() as u64,
        cpu_model: cpu_model(&cpuinfo),
        cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        libc: libc(),
        machine,
    }
}

/// The CPU as `/proc/cpuinfo` names it, by whichever field this kernel has.
///
/// POWER says `cpu` and `revision`, x86 `model name`. Under qemu-user the file is the host's, as the kernel is: the
/// record's emulator says which CPU the program saw.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    let field = |name: &str| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim_end() == name && !value.trim().is_empty()).then(|| value.trim().to_string())
        })
    };
    if let (Some(cpu), Some(revision)) = (field("cpu"), field("revision")) {
        return Some(format!("{cpu}, revision {revision}"));
    }
    ["cpu", "model name", "uarch", "cpu model"].into_iter().find_map(field)
}

/// The C library that is mapped into this program.
fn libc() -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let path = maps.lines().filter_map(|line| line.split_whitespace().nth(5)).find(|path| {
        let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libc.so") || name.starts_with("libc-2") || name.starts_with("ld-musl")
    })?;
    if path.contains("musl") {
        return Some("musl".into());
    }
    glibc_version(&std::fs::read(path).ok()?).map(|version| format!("glibc {version}"))
}

/// The version in glibc's own banner.
fn glibc_version(library: &[u8]) -> Option<String> {
    const BEFORE: &[u8] = b" release version ";
    let at = library.windows(BEFORE.len()).position(|window| window == BEFORE)? + BEFORE.len();
    let rest = &library[at..];
    let end = rest.iter().position(|b| !(b.is_ascii_digit() || *b == b'.'))?;
    let version = String::from_utf8_lossy(&rest[..end]);
    let version = version.trim_end_matches('.');
    (!version.is_empty()).then(|| version.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const X86: &str = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\n\
                       model name\t: Intel(R) Xeon(R) CPU @ 2.20GHz\ncpu MHz\t\t: 2200.000\n";
    const POWER: &str = "processor\t: 0\ncpu\t\t: POWER8 (architected), altivec supported\n\
                         clock\t\t: 3425.000000MHz\nrevision\t: 2.0 (pvr 004d 0200)\n\n\
                         timebase\t: 512000000\nplatform\t: pSeries\n";

    #[test]
    fn cpu_of_x86_and_power() {
        assert_eq!(cpu_model(X86).unwrap(), "Intel(R) Xeon(R) CPU @ 2.20GHz");
        let power = "POWER8 (architected), altivec supported, revision 2.0 (pvr 004d 0200)";
        assert_eq!(cpu_model(POWER).unwrap(), power);
        assert_eq!(cpu_model(""), None);
    }

    #[test]
    fn glibc_says_its_version() {
        let banner = b"\0GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.\nCopy";
        assert_eq!(glibc_version(banner).unwrap(), "2.36");
        assert_eq!(glibc_version(b"nothing"), None);
    }

    #[test]
    fn this_machine_has_facts() {
        let facts = read();
        assert!(!facts.machine.is_empty() && facts.cpus >= 1 && facts.page_bytes >= 4096);
    }
}
