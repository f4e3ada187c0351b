//! Instructions beyond the CPU baseline.
//!
//! A file is disassembled twice. The disassembler that knows the baseline only leaves words that are no instruction;
//! what the one that knows the newest CPU makes an instruction of, at the same address, is beyond the baseline. Data
//! between instructions (zeros, tables for debuggers) is an instruction to neither.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result};

use super::disassembler::Disassembler;
use super::file::{self, Code};
use super::jump_table::{self, Words};
use super::listing::{Line, is_unknown, mnemonic, parse};
use crate::interrupt;
use crate::tables::target::{ByteOrder, Isa};

/// One instruction that the baseline does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beyond {
    /// The symbol that it stands behind; of a stripped file the nearest that is left.
    pub symbol: String,
    /// Its address.
    pub address: u64,
    /// Its name.
    pub mnemonic: String,
}

/// What was found in one file.
#[derive(Debug, Default)]
pub struct Found {
    /// The instructions, by address.
    pub beyond: Vec<Beyond>,
    /// Words that look like such instructions but are entries of jump tables.
    pub in_tables: u64,
}

/// Where a word is: the number of its section in the listing, and its address.
type Place = (usize, u64);

/// Scans some files of a bundle, on all CPUs; the answers stand in the order of `paths`.
pub fn all(
    bundle: &Path,
    paths: &[&Path],
    isa: &Isa,
    order: ByteOrder,
    disassembler: &dyn Disassembler,
) -> Result<Vec<Found>> {
    // The largest first, so that no CPU waits at the end for one that began it last.
    let size = |path: &Path| bundle.join(path).metadata().map_or(0, |data| data.len());
    let mut by_size: Vec<(usize, &Path)> = paths.iter().copied().enumerate().collect();
    by_size.sort_by_key(|(_, path)| std::cmp::Reverse(size(path)));
    let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        while let Some((index, path)) = by_size.get(next.fetch_add(1, Ordering::Relaxed)) {
            let found = interrupt::check().and_then(|()| one(&bundle.join(path), isa, order, disassembler));
            let failed = found.is_err();
            done.lock().unwrap_or_else(PoisonError::into_inner).insert(*index, found);
            if failed {
                next.store(by_size.len(), Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    let found: Vec<Found> = done.into_values().collect::<Result<_>>()?;
    if found.len() == paths.len() { Ok(found) } else { Err(interrupt::failure().into()) }
}

/// Scans one file.
fn one(path: &Path, isa: &Isa, order: ByteOrder, disassembler: &dyn Disassembler) -> Result<Found> {
    let mut unknown = Unknown::default();
    disassembler.lines(path, &isa.baseline, &mut |line| unknown.line(line))?;
    if unknown.places.is_empty() {
        return Ok(Found::default());
    }
    let mut known = Known::of(unknown.places);
    disassembler.lines(path, &isa.newest, &mut |line| known.line(line))?;
    if known.hits.is_empty() {
        return Ok(Found::default());
    }
    let words = Words { size: usize::try_from(isa.word_bytes)?, order };
    without_tables(known, &file::code(path)?, words)
        .with_context(|| format!("cannot place the instructions of {}", path.display()))
}

/// Reads the first listing: the places of all words that are no instruction of the baseline.
#[derive(Default)]
struct Unknown {
    sections: usize,
    places: Vec<Place>,
}

impl Unknown {
    fn line(&mut self, line: &[u8]) {
        match parse(line) {
            Line::Section(_) => self.sections += 1,
            Line::Word { address, text } if is_unknown(text) => self.places.push((self.sections, address)),
            _ => {}
        }
    }
}

/// Reads the second listing: what the newest CPU makes of those words.
struct Known {
    wanted: std::iter::Peekable<std::vec::IntoIter<Place>>,
    sections: Vec<String>,
    symbol: Vec<u8>,
    hits: Vec<(Place, Beyond)>,
    /// Words that are no instruction even so, in order.
    data: Vec<Place>,
}

impl Known {
    fn of(places: Vec<Place>) -> Self {
        let wanted = places.into_iter().peekable();
        Known { wanted, sections: Vec::new(), symbol: Vec::new(), hits: Vec::new(), data: Vec::new() }
    }

    fn line(&mut self, line: &[u8]) {
        match parse(line) {
            Line::Section(name) => self.sections.push(String::from_utf8_lossy(name).into_owned()),
            Line::Symbol(name) => {
                self.symbol.clear();
                self.symbol.extend_from_slice(name);
            }
            Line::Word { address, text } => self.word(address, text),
            Line::Other => {}
        }
    }

    fn word(&mut self, address: u64, text: &[u8]) {
        let place = (self.sections.len(), address);
        // Words left behind are inside an instruction that has become longer: they belong to it.
        while self.wanted.next_if(|wanted| *wanted < place).is_some() {}
        if self.wanted.next_if_eq(&place).is_none() {
            return;
        }
        if is_unknown(text) {
            self.data.push(place);
        } else {
            let symbol = String::from_utf8_lossy(&self.symbol).into_owned();
            self.hits.push((place, Beyond { symbol, address, mnemonic: mnemonic(text) }));
        }
    }
}

/// Leaves out what is no instruction but an entry of a jump table.
fn without_tables(known: Known, code: &[Code], words: Words) -> Result<Found> {
    let mut found = Found::default();
    for (place @ (section, address), beyond) in known.hits {
        let name = section.checked_sub(1).and_then(|index| known.sections.get(index));
        let code = code
            .iter()
            .find(|code| Some(&code.section) == name && code.contains(address))
            .with_context(|| format!("no section with instructions holds {address:#x}"))?;
        let is_data = |address| known.data.binary_search(&(place.0, address)).is_ok();
        if jump_table::holds(code, words, address, is_data) {
            found.in_tables += 1;
        } else {
            found.beyond.push(beyond);
        }
    }
    Ok(found)
}
