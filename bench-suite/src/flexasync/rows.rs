//! What stands in flexasync's rows: a function of key and generation alone, so that every read can be checked.

/// A key: `DISTKEY`, which decides the data node, and `COL0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// One value a transaction.
    pub distribution: u32,
    /// One value an operation.
    pub index: u32,
}

/// How often a row has been written: 1 after its insert, 2 after its update.
pub type Generation = u32;

/// Words of a row that are its key.
const KEY_WORDS: usize = 2;
/// What a row that is to be read holds before, so that nothing old is taken for an answer.
const POISON: u32 = 0xdead_beef;

impl Key {
    /// The key of operation `operation` of a thread's transaction number `transaction`, of `transactions` in all.
    #[inline]
    pub fn of(thread: u32, transaction: u32, transactions: u32, operation: u32, operations: u32) -> Self {
        Key {
            distribution: thread.wrapping_mul(transactions).wrapping_add(transaction),
            index: transaction.wrapping_mul(operations).wrapping_add(operation),
        }
    }

    #[inline]
    fn base(self, generation: Generation) -> u32 {
        let mixed = self.distribution ^ generation.wrapping_mul(0x9e37_79b9);
        mixed.wrapping_mul(0x85eb_ca6b).wrapping_add(self.index.wrapping_mul(0xc2b2_ae35))
    }

    /// Writes the key alone.
    #[inline]
    pub fn write(self, row: &mut [u32]) {
        row[0] = self.distribution;
        row[1] = self.index;
    }

    /// Writes the key and each attribute's value.
    #[inline]
    pub fn write_all(self, generation: Generation, row: &mut [u32]) {
        self.write(row);
        let base = self.base(generation);
        for (value, at) in row[KEY_WORDS..].iter_mut().zip(0_u32..) {
            *value = base.wrapping_add(at);
        }
    }

    /// Writes the key, and values that no row has.
    #[inline]
    pub fn write_poisoned(self, row: &mut [u32]) {
        self.write(row);
        row[KEY_WORDS..].fill(POISON);
    }

    /// Whether nothing was read into a row that [`Self::write_poisoned`] has prepared.
    #[inline]
    pub fn is_untouched(row: &[u32]) -> bool {
        row[KEY_WORDS..].iter().all(|value| *value == POISON)
    }

    /// Whether a row that was read is the one that was written.
    #[inline]
    pub fn is(self, generation: Generation, row: &[u32]) -> bool {
        let base = self.base(generation);
        row[0] == self.distribution
            && row[1] == self.index
            && row[KEY_WORDS..].iter().zip(0_u32..).all(|(value, at)| *value == base.wrapping_add(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_told_from_every_other() {
        let key = Key::of(3, 17, 100, 1, 2);
        assert_eq!(key, Key { distribution: 317, index: 35 });
        let mut row = vec![0; 2 + 9];
        key.write_all(1, &mut row);
        assert!(key.is(1, &row));
        assert!(!key.is(2, &row), "an update that did nothing must show");
        assert!(!Key::of(3, 18, 100, 1, 2).is(1, &row));
        for at in 0..row.len() {
            let mut other = row.clone();
            other[at] ^= 1 << 31;
            assert!(!key.is(1, &other), "word {at}");
        }
    }

    #[test]
    fn a_row_that_was_not_read_is_not_taken_for_an_answer() {
        let (key, mut row) = (Key::of(0, 0, 1, 0, 1), vec![0; 12]);
        key.write_all(1, &mut row);
        key.write_poisoned(&mut row);
        assert!(!key.is(1, &row));
        assert!(Key::is_untouched(&row));
        row[5] = 7;
        assert!(!Key::is_untouched(&row));
    }
}
