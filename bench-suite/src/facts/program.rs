//! This program itself: its C library, and whether an emulator runs it.

use std::path::Path;

/// The C library that is mapped into this program.
pub fn libc() -> Option<String> {
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

/// The emulator of single programs that runs this one.
///
/// qemu-user answers for the program where `/proc/self` is asked, and passes `/proc/thread-self` on to the kernel,
/// which knows what really runs.
pub fn seen_through() -> Option<String> {
    let executable = |who: &str| std::fs::read_link(format!("/proc/{who}/exe")).ok();
    differs(&executable("self")?, &executable("thread-self")?)
}

fn differs(own: &Path, real: &Path) -> Option<String> {
    (own != real).then(|| real.file_name().unwrap_or(real.as_os_str()).to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glibc_says_its_version() {
        let banner = b"\0GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.\nCopy";
        assert_eq!(glibc_version(banner).unwrap(), "2.36");
        assert_eq!(glibc_version(b"nothing"), None);
    }

    #[test]
    fn an_emulator_is_what_runs_in_the_programs_place() {
        let (program, emulator) =
            (Path::new("/deployed/bin/bench-suite"), Path::new("/usr/bin/qemu-ppc64le"));
        assert_eq!(differs(program, emulator).as_deref(), Some("qemu-ppc64le"));
        assert_eq!(differs(program, program), None);
    }
}
