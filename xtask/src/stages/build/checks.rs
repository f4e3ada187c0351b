//! What configure found, held against the target: a wrong answer here is a server that fails an hour later, or lies.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use xshell::{Shell, cmd};

use crate::process;
use crate::tables::product::{ConfigCache, ConfigHeader};
use crate::tables::target::Target;

/// Checks a generated header; what is wrong, one sentence each.
///
/// The target's own preprocessor reads it: what counts is what the sources will see, whatever `#if` stands around it.
pub fn header(file: &Path, wanted: &ConfigHeader, target: &Target) -> Result<Vec<String>> {
    anyhow::ensure!(file.is_file(), "configure made no {}", file.display());
    let (sh, gcc) = (Shell::new()?, target.tool("gcc"));
    let text = process::output(cmd!(sh, "{gcc} -E -dM -x c {file}"))?;
    Ok(held_against(&macros(&text), wanted, target))
}

/// The macros in the output of `gcc -E -dM`.
fn macros(text: &str) -> BTreeMap<&str, &str> {
    let definitions = text.lines().filter_map(|line| line.strip_prefix("#define "));
    definitions
        .map(|rest| rest.split_once(' ').map_or((rest, ""), |(name, value)| (name, value.trim())))
        .collect()
}

fn held_against(macros: &BTreeMap<&str, &str>, wanted: &ConfigHeader, target: &Target) -> Vec<String> {
    let mut wrong = Vec::new();
    for name in wanted.defined.iter().filter(|name| !macros.contains_key(name.as_str())) {
        wrong.push(format!("{}: {name} is not defined: a probe of configure did not run", wanted.file));
    }
    for names in wanted.any_of.iter().filter(|names| !names.iter().any(|n| macros.contains_key(n.as_str()))) {
        wrong.push(format!("{}: none of {} is defined", wanted.file, names.join(", ")));
    }
    for (name, value) in wanted.expected(target) {
        let found = macros.get(name.as_str()).copied();
        if found != value.as_deref() {
            let say = |value: Option<&str>| value.map_or("undefined".to_string(), |v| format!("`{v}`"));
            wrong.push(format!(
                "{}: {name} is {}, must be {}",
                wanted.file,
                say(found),
                say(value.as_deref())
            ));
        }
    }
    wrong
}

#[derive(Deserialize)]
struct CompileCommand {
    file: String,
    command: String,
}

/// Every compile command carries the CPU flags, and none of them twice with another value.
pub fn compile_commands(file: &Path, flags: &[String]) -> Result<Vec<String>> {
    let text = fs::read_to_string(file).with_context(|| format!("configure made no {}", file.display()))?;
    let commands: Vec<CompileCommand> = serde_json::from_str(&text)?;
    if commands.is_empty() {
        return Ok(vec!["no compile commands: nothing would be built".into()]);
    }
    let lacks = |flag: &String| -> Option<String> {
        let key = flag.split('=').next().unwrap_or(flag);
        let right = |c: &&CompileCommand| {
            let given: Vec<&str> = c.command.split(' ').filter(|word| word.starts_with(key)).collect();
            !given.is_empty() && given.iter().all(|word| word == flag)
        };
        let wrong: Vec<&CompileCommand> = commands.iter().filter(|c| !right(c)).collect();
        let first = wrong.first()?;
        Some(format!(
            "{flag} is not what {} of {} compile commands say, e.g. {}",
            wrong.len(),
            commands.len(),
            first.file
        ))
    };
    Ok(flags.iter().filter_map(lacks).collect())
}

/// CMake's cache: what configure found out is there, and every library that it found is the sysroot's: the host's would
/// link, or fail to, an hour later.
pub fn cache(file: &Path, wanted: Option<&ConfigCache>, sysroot: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(file).with_context(|| format!("configure made no {}", file.display()))?;
    let mut wrong = foreign_libraries(&text, sysroot);
    wrong.extend(wanted.map_or(Vec::new(), |wanted| not_found(&text, wanted)));
    Ok(wrong)
}

/// What is not there, or not true as CMake understands it.
fn not_found(cache: &str, wanted: &ConfigCache) -> Vec<String> {
    let value = |name: &str| {
        let entry = |line: &'_ str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(':'));
        let line = cache.lines().find(|line| entry(line))?;
        line.split_once('=').map(|(_, value)| value.trim())
    };
    let says = |name: &String| match value(name) {
        None => Some(format!("CMakeCache.txt: {name} is not there: its probe did not run")),
        Some("" | "0" | "OFF" | "FALSE" | "NO") => {
            Some(format!("CMakeCache.txt: {name} was not found: the emulator or the compiler is at fault"))
        }
        Some(_) => None,
    };
    wanted.defined.iter().filter_map(says).collect()
}

fn foreign_libraries(cache: &str, sysroot: &Path) -> Vec<String> {
    let paths = cache.lines().filter_map(|line| {
        let (name, rest) = line.split_once(':')?;
        let (kind, path) = rest.split_once('=')?;
        let library = path.starts_with('/') && (path.ends_with(".so") || path.ends_with(".a"));
        (kind == "FILEPATH" && library).then_some((name, path))
    });
    paths
        .filter(|(_, path)| !Path::new(path).starts_with(sysroot))
        .map(|(name, path)| format!("{name} is the host's {path}, not the sysroot's"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::product::Product;

    const GOOD: &str =
        "#define MY_CONFIG_H \n#define HAVE_POLL 1\n#define STACK_DIRECTION -1\n#define SIZEOF_CHARP 8\n";

    fn wanted() -> ConfigHeader {
        let mut header = Product::load("mariadb").unwrap().build.config_header[0].clone();
        header.defined = vec!["HAVE_POLL".into()];
        header
    }

    #[test]
    fn a_header_that_fits_passes() {
        let target = Target::load("ppc64le").unwrap();
        assert_eq!(held_against(&macros(GOOD), &wanted(), &target), Vec::<String>::new());
    }

    #[test]
    fn a_wrong_stack_direction_a_missing_function_and_a_wrong_byte_order_are_found() {
        let target = Target::load("ppc64le").unwrap();
        let bad = GOOD.replace("-1", "1").replace("HAVE_POLL", "WORDS_BIGENDIAN");
        let wrong = held_against(&macros(&bad), &wanted(), &target).join("\n");
        assert!(wrong.contains("HAVE_POLL is not defined"), "{wrong}");
        assert!(wrong.contains("STACK_DIRECTION is `1`, must be `-1`"), "{wrong}");
        assert!(wrong.contains("WORDS_BIGENDIAN is `1`, must be undefined"), "{wrong}");
    }

    #[test]
    fn a_lost_or_overridden_cpu_flag_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.json");
        let text = r#"[{"file":"a.c","command":"cc -mcpu=power8 -c a.c"},{"file":"b.c","command":"cc -mcpu=power8 -mcpu=power9 -c b.c"}]"#;
        fs::write(&file, text).unwrap();
        let wrong = compile_commands(&file, &["-mcpu=power8".into()]).unwrap();
        assert_eq!(wrong.len(), 1);
        assert!(wrong[0].contains("1 of 2") && wrong[0].contains("b.c"), "{wrong:?}");
    }

    /// The products that are built from MySQL's source.
    fn of_mysql() -> [Product; 2] {
        ["mysql", "ndb"].map(|name| Product::load(name).unwrap())
    }

    #[test]
    fn a_server_without_barriers_or_futexes_is_found() {
        // As the cache of an unpatched cross build says it: the probes of the first two did not run, the third failed.
        let unpatched = "HAVE_IB_LINUX_FUTEX:INTERNAL=\nHAVE_IB_LINUX_FUTEX_EXITCODE:INTERNAL=1\n";
        let patched = "HAVE_IB_GCC_ATOMIC_THREAD_FENCE:INTERNAL=1\nHAVE_IB_GCC_SYNC_SYNCHRONISE:INTERNAL=1\n\
                       HAVE_IB_LINUX_FUTEX:INTERNAL=1\nHAVE_IB_LINUX_FUTEX_EXITCODE:INTERNAL=0\n";
        for product in of_mysql() {
            let wanted = product.build.config_cache.unwrap();
            let wrong = not_found(unpatched, &wanted);
            assert_eq!(wrong.len(), 3, "{wrong:?}");
            assert!(wrong[0].contains("HAVE_IB_GCC_SYNC_SYNCHRONISE is not there"), "{wrong:?}");
            assert!(wrong[2].contains("HAVE_IB_LINUX_FUTEX was not found"), "{wrong:?}");
            assert_eq!(not_found(patched, &wanted), Vec::<String>::new());
        }
    }

    #[test]
    fn a_server_that_spins_without_a_hint_is_found() {
        let target = Target::load("ppc64le").unwrap();
        for product in of_mysql() {
            let mut wanted = product.build.config_header[0].clone();
            wanted.defined.clear();
            let without = "#define SIZEOF_CHARP 8\n";
            let wrong = held_against(&macros(without), &wanted, &target);
            assert_eq!(wrong.len(), 1, "{wrong:?}");
            assert!(wrong[0].contains("HAVE_HMT_PRIORITY_INSTRUCTION is defined"), "{wrong:?}");
            let with = format!("{without}#define HAVE_HMT_PRIORITY_INSTRUCTION 1\n");
            assert_eq!(held_against(&macros(&with), &wanted, &target), Vec::<String>::new());
        }
    }

    #[test]
    fn a_host_library_is_found() {
        let cache =
            "ZLIB_LIBRARY:FILEPATH=/usr/lib/x86_64-linux-gnu/libz.so\nSSL:FILEPATH=/s/usr/lib/libssl.so\n";
        let wrong = foreign_libraries(cache, Path::new("/s"));
        assert_eq!(
            wrong,
            ["ZLIB_LIBRARY is the host's /usr/lib/x86_64-linux-gnu/libz.so, not the sysroot's"]
        );
    }
}
