//! What is read off a server from outside: its end, its log, its answers.

use std::collections::BTreeMap;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::interrupt;
use crate::process::{Guarded, TICK};

/// Waits for a process's end, at most `limit`; an interrupt ends the wait.
pub fn end(process: &mut Guarded, limit: Duration) -> Result<Option<ExitStatus>> {
    let until = Instant::now() + limit;
    loop {
        interrupt::check()?;
        match process.ended()? {
            None if Instant::now() < until => std::thread::sleep(TICK),
            ended => return Ok(ended),
        }
    }
}

/// The rows `name<TAB>value` of a client's output.
pub fn rows(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once('\t'));
    pairs.map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

/// The warnings and errors in a server's log, without their time stamps, and without the `usual` ones.
pub fn warnings(log: &str, usual: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for line in log.lines().filter(|line| !usual.iter().any(|part| line.contains(part.as_str()))) {
        let mark = ["[Warning]", "[ERROR]"].into_iter().find_map(|mark| line.find(mark));
        if let Some(at) = mark
            && !found.contains(&line[at..].to_string())
        {
            found.push(line[at..].to_string());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_kept_once_and_without_time() {
        let log = "2026-11-30 16:00:00 0 [Warning] no AIO\n2026-11-30 16:00:01 0 [Note] x\n2026-11-30 16:00:02 0 [Warning] no AIO\n";
        assert_eq!(warnings(log, &[]), ["[Warning] no AIO"]);
        let mysql = "2026-12-01T00:03:50.436537Z 0 [Warning] [MY-010068] [Server] CA certificate ca.pem is self signed.\n\
                     2026-12-01T00:03:49.512220Z 1 [Warning] [MY-012947] [InnoDB] MySQL was built without a memory barrier\n\
                     2026-12-01T00:03:50.489944Z 0 [System] [MY-010931] [Server] mysqld: ready for connections.\n";
        let found = warnings(mysql, &["[MY-010068]".to_string()]);
        assert_eq!(found, ["[Warning] [MY-012947] [InnoDB] MySQL was built without a memory barrier"]);
    }

    #[test]
    fn rows_are_split_at_the_first_tab() {
        assert_eq!(rows("a\tb\tc\nx\n").get("a").map(String::as_str), Some("b\tc"));
    }
}
