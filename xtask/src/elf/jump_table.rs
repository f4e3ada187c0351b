//! Jump tables between instructions: words that are distances, some of which look like new instructions.
//!
//! A compiler may put the table of a `switch` into the code, each word the distance from the table to a case. Distances
//! backwards have many leading ones, as some of the newest instructions have. A run of words is taken for a table only
//! if all of them lead to a place in the same section and one of them at least is an instruction on no CPU at all:
//! that is never so in code that can be executed.

use super::file::Code;
use crate::tables::target::ByteOrder;

/// Fewer words are no table: compilers compare instead.
const SHORTEST: usize = 4;

/// No function is longer than this many bytes, so no distance in it is either.
const FARTHEST: i64 = 1 << 20;

/// How the words of some code are to be read.
#[derive(Clone, Copy)]
pub struct Words {
    /// Bytes of one.
    pub size: usize,
    /// Their byte order.
    pub order: ByteOrder,
}

/// Whether the word at `address` is one of a jump table; `is_data` tells of a word whether no CPU knows it.
pub fn holds(code: &Code, words: Words, address: u64, is_data: impl Fn(u64) -> bool) -> bool {
    let Some(at) = address.checked_sub(code.address).and_then(|at| usize::try_from(at).ok()) else {
        return false;
    };
    if distance(code, words, at).is_none() {
        return false;
    }
    let mut begin = at;
    while begin >= words.size && distance(code, words, begin - words.size).is_some() {
        begin -= words.size;
    }
    let entries: Vec<usize> = (begin..code.bytes.len())
        .step_by(words.size)
        .take_while(|entry| distance(code, words, *entry).is_some_and(|far| leads_inside(code, begin, far)))
        .collect();
    entries.len() >= SHORTEST
        && entries.contains(&at)
        && entries.iter().any(|entry| is_data(code.address + *entry as u64))
}

/// The word at an offset, if it could be the distance to a case.
fn distance(code: &Code, words: Words, at: usize) -> Option<i64> {
    let bytes = code.bytes.get(at..at.checked_add(words.size)?)?;
    let significant_first: Vec<u8> = match words.order {
        ByteOrder::Big => bytes.to_vec(),
        ByteOrder::Little => bytes.iter().rev().copied().collect(),
    };
    let first = *significant_first.first()? as i8;
    let word =
        significant_first[1..].iter().fold(i64::from(first), |word, byte| word << 8 | i64::from(*byte));
    let aligned = word % words.size as i64 == 0;
    (aligned && word != 0 && word.abs() < FARTHEST).then_some(word)
}

fn leads_inside(code: &Code, begin: usize, distance: i64) -> bool {
    (0..code.bytes.len() as i64).contains(&(begin as i64 + distance))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LITTLE: Words = Words { size: 4, order: ByteOrder::Little };

    /// `bctr`, and words behind it, in the middle of zeros.
    fn code(words: &[u32]) -> Code {
        let mut bytes = vec![0; 0x4000];
        bytes.extend(0x4e80_0420_u32.to_le_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend([0; 0x4000]);
        Code { section: ".text".into(), address: 0x1000, bytes }
    }

    const FIRST: u64 = 0x1000 + 0x4000 + 4;

    #[test]
    fn distances_around_a_word_that_is_no_instruction_are_a_table() {
        let code = code(&[0xb68, 0xffff_fbc8, 0xffff_fbc8, 0xffff_fbc8]);
        for entry in 0..4 {
            assert!(holds(&code, LITTLE, FIRST + entry * 4, |address| address == FIRST));
        }
    }

    #[test]
    fn words_that_a_cpu_knows_one_and_all_are_code() {
        let code = code(&[0xffff_fbc8; 8]);
        assert!(!holds(&code, LITTLE, FIRST, |_| false));
    }

    #[test]
    fn other_instructions_are_never_taken_for_distances() {
        let code = code(&[0xb68, 0xc00, 0xc04, 0xf443_0019, 0xb68, 0xc00]);
        assert!(!holds(&code, LITTLE, FIRST + 12, |_| true));
    }

    #[test]
    fn few_words_and_words_that_lead_nowhere_are_no_table() {
        assert!(!holds(&code(&[0xb68, 0xffff_fbc8]), LITTLE, FIRST + 4, |_| true));
        assert!(!holds(&code(&[0xb68, 0xffff_0000, 0xb68, 0xb68]), LITTLE, FIRST + 4, |_| true));
        assert!(!holds(&code(&[1, 2, 3, 5, 0xb69]), LITTLE, FIRST, |_| true));
        assert!(!holds(&code(&[]), LITTLE, 0, |_| true));
    }

    #[test]
    fn big_endian_words_are_read_as_such() {
        let mut code = code(&[]);
        let words = [0xb68_u32, 0xffff_fbc8, 0xffff_fbc8, 0xffff_fbc8];
        code.bytes.splice(0x4004..0x4014, words.iter().flat_map(|word| word.to_be_bytes()));
        let big = Words { size: 4, order: ByteOrder::Big };
        assert!(holds(&code, big, FIRST + 4, |address| address == FIRST));
        assert!(!holds(&code, LITTLE, FIRST + 4, |address| address == FIRST));
    }
}
