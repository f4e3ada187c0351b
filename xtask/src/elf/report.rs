//! All that was found in a bundle: told at once, the first of it in the message, everything in the log.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

use anyhow::Result;
use model::record::ElfFacts;

use super::scan::{Beyond, Found};
use crate::failure::{Failure, Kind};
use crate::process::append;
use crate::tables::target::{RunTimeDispatch, Target};

/// How many violations a message shows.
const SHOWN: usize = 10;

/// Something that may not be so.
#[derive(Debug, PartialEq, Eq)]
pub enum Violation {
    /// Instructions beyond the baseline.
    Instructions(String),
    /// Anything else: what a file is or asks for.
    Other(String),
}

/// Collects what the checks find.
pub struct Report<'a> {
    /// What a record keeps of it.
    pub facts: ElfFacts,
    bundle: &'a Path,
    target: &'a Target,
    violations: Vec<(String, Violation)>,
    /// What stands in the log only.
    details: Vec<String>,
}

impl<'a> Report<'a> {
    /// An empty report.
    pub fn new(bundle: &'a Path, target: &'a Target) -> Self {
        let (violations, details) = (Vec::new(), Vec::new());
        Report { facts: ElfFacts::default(), bundle, target, violations, details }
    }

    /// Adds what is wrong with a file.
    pub fn add(&mut self, file: &Path, violations: impl IntoIterator<Item = Violation>) {
        let file = file.display().to_string();
        self.violations.extend(violations.into_iter().map(|violation| (file.clone(), violation)));
    }

    /// Adds the instructions found in a file: those that `dispatch` lets it hold are counted, others are violations.
    pub fn instructions(&mut self, file: &Path, found: Found, dispatch: Option<&RunTimeDispatch>) {
        let name = file.display().to_string();
        let (allowed, refused): (Vec<_>, Vec<_>) = found.beyond.into_iter().partition(|one| {
            dispatch.is_some_and(|dispatch| dispatch.only.is_empty() || dispatch.only.contains(&one.mnemonic))
        });
        if !allowed.is_empty() {
            self.details.push(format!("{name}: may hold, chosen at run time: {}", counted(&allowed)));
            self.facts.run_time_dispatched.insert(name.clone(), allowed.len() as u64);
        }
        if found.in_tables > 0 {
            let count = found.in_tables;
            self.details
                .push(format!("{name}: entries of jump tables that look like new instructions: {count}"));
        }
        for Beyond { symbol, address, mnemonic } in &refused {
            self.details.push(format!("{name}: {address:#x} <{symbol}> {mnemonic}"));
        }
        self.add(file, self.refusal(&refused));
    }

    /// One violation a file, however many instructions: a whole server built for a newer CPU hides no other file.
    fn refusal(&self, refused: &[Beyond]) -> Option<Violation> {
        let Beyond { symbol, address, .. } = refused.first()?;
        let symbols: BTreeSet<&str> = refused.iter().map(|one| one.symbol.as_str()).collect();
        let place = match symbols.len() {
            1 => format!("in {symbol} at {address:#x}"),
            count => format!("in {count} functions, first in {symbol} at {address:#x}"),
        };
        let count = plural(refused.len(), "instruction");
        let what = format!("has {count} beyond {} {place}: {}", self.target.cpu.baseline, counted(refused));
        Some(Violation::Instructions(what))
    }

    /// Writes everything to the log; the facts, or a failure that tells what is wrong.
    pub fn finish(mut self, log: &Path) -> Result<ElfFacts> {
        if self.facts.files == 0 {
            let what = "holds no ELF file: nothing could be checked".to_string();
            self.violations.push((self.bundle.display().to_string(), Violation::Other(what)));
        }
        self.write(log)?;
        if self.violations.is_empty() {
            return Ok(self.facts);
        }
        let begin = match self.violations.len() {
            1 => "1 thing in the bundle is".to_string(),
            count => format!("{count} things in the bundle are"),
        };
        let mut what = format!("{begin} not what {} asks for:", self.target.name);
        for line in self.lines().take(SHOWN) {
            what.push_str(&format!("\n  {line}"));
        }
        if self.violations.len() > SHOWN {
            what.push_str(&format!("\n  … and {} more, in the log", self.violations.len() - SHOWN));
        }
        Err(Failure::new(Kind::VerificationFailed, what).log(log).next(self.next()).into())
    }

    fn lines(&self) -> impl Iterator<Item = String> + '_ {
        self.violations.iter().map(|(file, violation)| {
            let (Violation::Instructions(what) | Violation::Other(what)) = violation;
            format!("{file} {what}")
        })
    }

    fn write(&self, log: &Path) -> Result<()> {
        let mut log = append(log)?;
        let files = plural(self.facts.files as usize, "ELF file");
        writeln!(log, "{files} in {} for {}", self.bundle.display(), self.target.name)?;
        for line in self.lines() {
            writeln!(log, "violation: {line}")?;
        }
        for line in &self.details {
            writeln!(log, "{line}")?;
        }
        Ok(())
    }

    fn next(&self) -> String {
        let name = &self.target.name;
        let other = "mend the build or the sysroot that the named files come from, and build the bundle anew";
        let instructions = |(_, violation): &(_, Violation)| matches!(violation, Violation::Instructions(_));
        if !self.violations.iter().any(instructions) {
            return other.into();
        }
        let dispatch = format!(
            "build with `{}` only; where a program asks the CPU before it uses such instructions, \
             add its file to isa.run-time-dispatch in xtask/targets/{name}.toml",
            self.target.cpu.flags.join(" ")
        );
        if self.violations.iter().all(instructions) { dispatch } else { format!("{other}; {dispatch}") }
    }
}

/// `8 dcbstps, 1 phwsync`: the most frequent first, the rest in one number.
fn counted(all: &[Beyond]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for one in all {
        *counts.entry(&one.mnemonic).or_default() += 1;
    }
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let mut parts: Vec<String> =
        counts.iter().take(5).map(|(mnemonic, count)| format!("{count} {mnemonic}")).collect();
    let rest: usize = counts.iter().skip(5).map(|(_, count)| count).sum();
    if rest > 0 {
        parts.push(format!("{rest} more"));
    }
    parts.join(", ")
}

fn plural(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
