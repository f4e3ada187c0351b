//! Which thread does which operation: shared out beforehand, so that threads need not talk.

/// A thread's share of the operations 0, 1, 2, ...: of each `stride` it takes `width`, from `first` on.
#[derive(Clone, Debug)]
pub struct Numbers {
    /// Connections of all threads.
    stride: u64,
    /// This thread's connections.
    width: u64,
    /// Number of the current block's first operation.
    block: u64,
    offset: u64,
    limit: u64,
    base: u64,
}

/// Operations of the warm-up have numbers of their own: the timed part's do not depend on its length.
pub const WARMUP_BASE: u64 = 1 << 63;

impl Numbers {
    /// The share of connections `first..first + width` of `stride`; `limit` is of all threads together.
    pub fn new(first: u64, width: u64, stride: u64, base: u64, limit: Option<u64>) -> Self {
        Numbers { stride, width, block: first, offset: 0, limit: limit.unwrap_or(u64::MAX), base }
    }

    /// The next operation; `None` when this thread's share is done.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "an iterator would invite loops over it")]
    pub fn next(&mut self) -> Option<u64> {
        let number = self.block + self.offset;
        if number >= self.limit {
            return None;
        }
        self.offset += 1;
        if self.offset == self.width {
            self.offset = 0;
            self.block += self.stride;
        }
        Some(self.base + number)
    }
}

/// Splits `connections` over `threads`: for each its first connection and how many.
pub fn shares(connections: u32, threads: u32) -> Vec<(u32, u32)> {
    let (each, more) = (connections / threads, connections % threads);
    let mut first = 0;
    (0..threads)
        .map(|thread| {
            let width = each + u32::from(thread < more);
            first += width;
            (first - width, width)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_done_once() {
        for (connections, threads, limit) in [(1, 1, 10), (7, 3, 100), (16, 2, 5), (5, 5, 12)] {
            let mut done: Vec<u64> = Vec::new();
            for (first, width) in shares(connections, threads) {
                let mut numbers =
                    Numbers::new(first.into(), width.into(), connections.into(), 0, Some(limit));
                while let Some(number) = numbers.next() {
                    done.push(number);
                }
                assert_eq!(numbers.next(), None);
            }
            done.sort_unstable();
            assert_eq!(done, (0..limit).collect::<Vec<_>>());
        }
    }

    #[test]
    fn connections_are_shared_out_evenly() {
        assert_eq!(shares(7, 3), [(0, 3), (3, 2), (5, 2)]);
        assert_eq!(shares(2, 2), [(0, 1), (1, 1)]);
    }

    #[test]
    fn warmup_does_other_operations() {
        let mut warmup = Numbers::new(0, 1, 1, WARMUP_BASE, None);
        assert_eq!(warmup.next(), Some(WARMUP_BASE));
    }
}
