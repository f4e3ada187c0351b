//! How a server does its I/O and its checksums, by its own words in the log of its start.
//!
//! Settings alone do not tell: `innodb_use_native_aio` is `ON` for io_uring and for libaio alike, and which of them it
//! is depends on the libraries that the server was built with and on what the kernel grants.

use std::collections::BTreeMap;

/// By an io_uring.
const IO_URING: &str = "io_uring";
/// By the kernel's native AIO.
const LIBAIO: &str = "libaio";
/// By calls that wait, in threads of the server's own.
const SYNCHRONOUS: &str = "synchronous";

/// What a server's start says of its means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Means {
    /// `io_uring`, `libaio` or `synchronous`; `None` where neither log nor settings tell.
    pub io_method: Option<String>,
    /// Why it is not the method that the server tried first, in its own words; `None` where it is.
    pub fell_back: Option<String>,
    /// How checksums are computed, in the server's own words; `None` where it does not say.
    pub crc32_method: Option<String>,
}

/// Reads them off the log's last start and the settings that were read back after it.
pub fn means(log: &str, settings: &BTreeMap<String, String>) -> Means {
    let start = last_start(log);
    let using: Vec<String> = start.iter().filter_map(|line| used(line)).collect();
    let is_crc32 = |what: &&String| what.contains("crc32") || what.ends_with(" instructions");
    Means {
        io_method: io_method(&start, &using, settings).map(String::from),
        fell_back: fell_back(&start),
        crc32_method: using.iter().find(is_crc32).cloned(),
    }
}

/// What InnoDB says that it uses: `[Note] InnoDB: Using …` is MariaDB's way, `[Note] [MY-012366] [InnoDB] Using …`
/// MySQL's.
fn used(line: &str) -> Option<String> {
    let said = line.split_once("InnoDB: Using ").or_else(|| line.split_once("[InnoDB] Using "));
    said.map(|(_, what)| what.trim().trim_end_matches('.').to_string())
}

/// The lines from a server's last "starting … as process" on: before it the log has the making of the data folder.
fn last_start(log: &str) -> Vec<&str> {
    let lines: Vec<&str> = log.lines().collect();
    let begins = |line: &&str| line.contains(" as process ") && line.to_lowercase().contains("starting ");
    let from = lines.iter().rposition(begins).unwrap_or(0);
    lines[from..].to_vec()
}

fn io_method(start: &[&str], using: &[String], settings: &BTreeMap<String, String>) -> Option<&'static str> {
    if using.iter().any(|what| what == "io_uring" || what == "liburing") {
        return Some(IO_URING);
    }
    let off = settings.get("innodb_use_native_aio").is_some_and(|value| value == "OFF" || value == "0");
    // MySQL says what it uses before it has tried.
    if using.iter().any(|what| what == "Linux native AIO") && !start.iter().any(gave_up) {
        return Some(LIBAIO);
    }
    (off || start.iter().any(gave_up)).then_some(SYNCHRONOUS)
}

/// The last word on native AIO that does not work: MariaDB's, MySQL's.
fn gave_up(line: &&str) -> bool {
    line.contains("native AIO failed") || line.contains("Linux Native AIO disabled")
}

/// What a fallback is announced with, and what says why in the lines before it.
fn fell_back(start: &[&str]) -> Option<String> {
    let announced = |line: &&&str| line.contains("falling back to") || gave_up(line);
    let causes =
        ["io_uring_queue_init() failed", "io_setup(", "Linux Native AIO interface", "Linux Native AIO setup"];
    let cause = |line: &&&str| causes.iter().any(|cause| line.contains(cause));
    let words = start.iter().filter(|line| announced(line) || cause(line)).map(|line| plain(line));
    let words: Vec<&str> = words.collect();
    let fell = start.iter().any(|line| announced(&line));
    fell.then(|| words.join("; "))
}

/// A line without its time and marks, of which MySQL has three.
fn plain(line: &str) -> &str {
    let mut rest = line.find(" [").map_or(line, |at| &line[at + 1..]);
    while let Some((_, after)) = rest.strip_prefix('[').and_then(|inner| inner.split_once("] ")) {
        rest = after;
    }
    rest.trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOTSTRAP: &str = "\
2026-11-30 17:18:48 0 [Note] Starting MariaDB 10.11.18-MariaDB source revision 197f as process 5364
2026-11-30 17:18:48 0 [Note] InnoDB: Using generic crc32 instructions
2026-11-30 17:18:48 0 [Note] InnoDB: Using Linux native AIO
";
    const START: &str = "\
2026-11-30 17:18:51 0 [Note] Starting MariaDB 10.11.18-MariaDB source revision 197f as process 5390
2026-11-30 17:18:51 0 [Note] InnoDB: Compressed tables use zlib 1.2.13
2026-11-30 17:18:51 0 [Note] InnoDB: Number of transaction pools: 1
2026-11-30 17:18:51 0 [Note] InnoDB: Using POWER8 crc32 instructions
";

    fn of(lines: &str, native_aio: &str) -> Means {
        let settings = BTreeMap::from([("innodb_use_native_aio".to_string(), native_aio.to_string())]);
        means(&format!("{BOOTSTRAP}$ qemu mariadbd\n{START}{lines}"), &settings)
    }

    fn method(lines: &str, native_aio: &str) -> Option<String> {
        of(lines, native_aio).io_method
    }

    #[test]
    fn the_method_is_the_one_that_the_server_names() {
        assert_eq!(method("0 [Note] InnoDB: Using io_uring\n", "ON").as_deref(), Some("io_uring"));
        assert_eq!(method("0 [Note] InnoDB: Using liburing\n", "ON").as_deref(), Some("io_uring"));
        assert_eq!(method("0 [Note] InnoDB: Using Linux native AIO\n", "ON").as_deref(), Some("libaio"));
        assert_eq!(method("", "OFF").as_deref(), Some("synchronous"));
        assert_eq!(method("", "ON"), None, "what made the data folder says nothing of the server");
        assert_eq!(means("", &BTreeMap::new()), Means::default());
    }

    #[test]
    fn a_fallback_is_told_with_its_causes() {
        let refused = "\
2026-11-30 17:18:51 0 [Warning] mariadbd: io_uring_queue_init() failed with ENOSYS: check seccomp filters, and the kernel version (newer than 5.1 required)
create_uring failed: falling back to libaio
2026-11-30 17:18:51 0 [Note] InnoDB: Using Linux native AIO
";
        let found = of(refused, "ON");
        assert_eq!(found.io_method.as_deref(), Some("libaio"));
        let why = found.fell_back.unwrap();
        assert!(why.starts_with("mariadbd: io_uring_queue_init() failed with ENOSYS"), "{why}");
        assert!(why.ends_with("; create_uring failed: falling back to libaio"), "{why}");
        let none = "\
Warning: io_setup(2048) returned Resource temporarily unavailable. See man 2 io_setup.
2026-11-30 17:18:51 0 [Warning] InnoDB: native AIO failed: falling back to innodb_use_native_aio=OFF
";
        let found = of(none, "OFF");
        assert_eq!(found.io_method.as_deref(), Some("synchronous"));
        let why = found.fell_back.unwrap();
        assert!(
            why.starts_with("Warning: io_setup(2048)") && why.ends_with("innodb_use_native_aio=OFF"),
            "{why}"
        );
        assert_eq!(of("0 [Note] InnoDB: Using io_uring\n", "ON").fell_back, None);
    }

    #[test]
    fn checksums_are_told_in_the_servers_words() {
        assert_eq!(of("", "OFF").crc32_method.as_deref(), Some("POWER8 crc32 instructions"));
        for words in ["AVX512 instructions", "crc32 + pclmulqdq instructions", "generic crc32 instructions"] {
            let log = format!("0 [Note] InnoDB: Using {words}\n0 [Note] InnoDB: Using io_uring\n");
            let found = means(&log, &BTreeMap::new());
            assert_eq!(found.crc32_method.as_deref(), Some(words));
        }
    }

    const MYSQL: &str = "\
2026-12-01T00:03:49.501158Z 0 [System] [MY-010116] [Server] mysqld (mysqld 9.7.2) starting as process 14528
2026-12-01T00:03:49.510930Z 0 [Note] [MY-012366] [InnoDB] Using Linux native AIO
2026-12-01T00:03:49.523565Z 1 [Note] [MY-012951] [InnoDB] Using hardware accelerated crc32 and polynomial multiplication.
2026-12-01T00:03:49.602618Z 1 [Note] [MY-013532] [InnoDB] Using './#ib_16384_0.dblwr' for doublewrite
";

    #[test]
    fn mysqls_words_are_understood() {
        let found = means(MYSQL, &BTreeMap::new());
        assert_eq!((found.io_method.as_deref(), found.fell_back), (Some("libaio"), None));
        let crc32 = "hardware accelerated crc32 and polynomial multiplication";
        assert_eq!(found.crc32_method.as_deref(), Some(crc32));
        let refused = "\
2026-12-01T00:03:49.6Z 1 [ERROR] [MY-012584] [InnoDB] io_setup() failed with EAGAIN after 5 attempts.
2026-12-01T00:03:49.6Z 1 [Warning] [MY-012654] [InnoDB] Linux Native AIO disabled.
";
        let found = means(&format!("{MYSQL}{refused}"), &BTreeMap::new());
        assert_eq!(found.io_method.as_deref(), Some("synchronous"));
        let why = "io_setup() failed with EAGAIN after 5 attempts.; Linux Native AIO disabled.";
        assert_eq!(found.fell_back.as_deref(), Some(why));
    }
}
