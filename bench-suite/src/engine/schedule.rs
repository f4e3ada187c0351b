//! When the operations of an open loop are due: whatever the server does.

use model::request::Arrival;

use crate::workloads::random;

/// Keeps the gaps of arrivals apart from what operations do.
const GAPS: u64 = 0x6172_7269_7661_6c73;

/// An operation, and when it is due by the engine's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Its number.
    pub number: u64,
    /// In nanoseconds.
    pub due_ns: u64,
}

/// The due times of one thread's operations.
#[derive(Clone, Debug)]
pub struct Schedule {
    at_random: bool,
    seed: u64,
    start_ns: u64,
    /// Between operations of all threads.
    gap_ns: f64,
    /// Between this thread's, on average.
    own_gap_ns: f64,
    /// From the start to the operation that was asked for last.
    elapsed_ns: f64,
}

impl Schedule {
    /// Of a thread that has `share` of all connections; `None` in a closed loop.
    pub fn new(arrival: Arrival, start_ns: u64, share: f64, seed: u64) -> Option<Self> {
        let gap_ns = 1e9 / arrival.rate_per_s()?;
        Some(Schedule {
            at_random: matches!(arrival, Arrival::Poisson { .. }),
            seed: seed ^ GAPS,
            start_ns,
            gap_ns,
            own_gap_ns: gap_ns / share,
            elapsed_ns: 0.0,
        })
    }

    /// When an operation is due; each is asked for once, in order. Several Poisson processes together are one.
    pub fn due_ns(&mut self, number: u64) -> u64 {
        self.elapsed_ns = if self.at_random {
            // Uniform in (0, 1]: its logarithm is finite.
            let uniform = ((random(self.seed, number) >> 11) + 1) as f64 / (1_u64 << 53) as f64;
            self.elapsed_ns - uniform.ln() * self.own_gap_ns
        } else {
            number as f64 * self.gap_ns
        };
        self.start_ns.saturating_add(self.elapsed_ns as u64)
    }

    /// Operations of this thread that become due in so many nanoseconds, on average.
    pub fn within(&self, ns: u64) -> u64 {
        (ns as f64 / self.own_gap_ns) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_rate_is_at_equal_distances_whichever_thread_has_the_operation() {
        let mut schedule =
            Schedule::new(Arrival::Fixed { rate_per_s: 1000.0 }, 5, 0.5, 1).expect("an open loop");
        let due: Vec<u64> = [0, 1, 4, 5].map(|number| schedule.due_ns(number)).to_vec();
        assert_eq!(due, [5, 1_000_005, 4_000_005, 5_000_005]);
        assert_eq!(schedule.within(10_000_000), 5);
    }

    #[test]
    fn arrivals_at_random_have_the_rate_and_the_spread_of_a_poisson_process() {
        let mut schedule =
            Schedule::new(Arrival::Poisson { rate_per_s: 2000.0 }, 0, 0.5, 1).expect("an open loop");
        let due: Vec<u64> = (0..100_000).map(|number| schedule.due_ns(number)).collect();
        let gaps: Vec<f64> = due.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // Half of 2000 a second: a millisecond, and as much standard deviation.
        assert!((0.99..1.01).contains(&mean) && (0.98..1.02).contains(&variance.sqrt()), "{mean} {variance}");
    }

    #[test]
    fn a_closed_loop_has_none() {
        assert!(Schedule::new(Arrival::Closed, 0, 1.0, 1).is_none());
    }
}
