//! A workload of a suite with what the flags say in its place.

use anyhow::Result;
use model::request::{Arrival, Load, Workload};
use serde::Deserialize;

use super::{MAX_RATE_PER_S, MAX_THREADS};
use crate::failure::{Failure, Kind};

/// How the operations of a rate are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// At equal distances.
    #[default]
    Fixed,
    /// At random, as a Poisson process: what many independent users do.
    Poisson,
}

impl Spread {
    /// With a rate, or a closed loop without.
    pub fn arrival(self, rate_per_s: Option<f64>) -> Arrival {
        match (self, rate_per_s) {
            (_, None) => Arrival::Closed,
            (Spread::Fixed, Some(rate_per_s)) => Arrival::Fixed { rate_per_s },
            (Spread::Poisson, Some(rate_per_s)) => Arrival::Poisson { rate_per_s },
        }
    }
}

/// A workload ready to be asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// What.
    pub workload: Workload,
    /// How much.
    pub load: Load,
}

impl Planned {
    /// Its name with its variant and its rate, as tables print it.
    pub fn label(&self) -> String {
        self.workload.label() + &self.load.arrival.label()
    }

    /// Takes another rate than the suite's.
    ///
    /// # Errors
    /// `flexasync` is a closed loop.
    pub fn arrive(&mut self, arrival: Arrival) -> Result<()> {
        if matches!(self.workload, Workload::Flexasync(_)) && arrival != Arrival::Closed {
            let what = "--rate: flexasync is a closed loop, whose phases end when all their operations have";
            return Err(Failure::new(Kind::Usage, what).next("leave --rate out").into());
        }
        if arrival != Arrival::Closed {
            self.load.arrival = arrival;
        }
        Ok(())
    }

    /// Takes another number of connections than the suite's.
    ///
    /// # Errors
    /// `flexasync` has a thread for each, and fewer can be.
    pub fn connect(&mut self, connections: Option<u32>) -> Result<()> {
        let Some(connections) = connections else { return Ok(()) };
        if matches!(self.workload, Workload::Flexasync(_)) && connections > MAX_THREADS {
            let what = format!(
                "--connections {connections}: flexasync has a thread for each, at most {MAX_THREADS}"
            );
            return Err(Failure::new(Kind::Usage, what).next("ask for fewer").into());
        }
        self.load.connections = connections;
        Ok(())
    }
}

/// Operations a second, as a flag has them.
pub fn rate_of_text(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| *rate > 0.0 && *rate <= MAX_RATE_PER_S);
    rate.ok_or_else(|| format!("must be a number of operations a second above 0, at most {MAX_RATE_PER_S}"))
}

#[cfg(test)]
mod tests {
    use super::super::{MAX_CONNECTIONS, Suite};
    use super::*;

    #[test]
    fn a_rate_makes_an_open_loop_and_is_part_of_the_label() {
        let mut planned = Suite::load("smoke").unwrap().plan(&["do0".into()]).unwrap().remove(0);
        planned.arrive(Spread::Poisson.arrival(Some(500.0))).unwrap();
        assert_eq!(planned.label(), "do0 @~500/s");
        planned.arrive(Spread::Fixed.arrival(None)).unwrap();
        assert_eq!(planned.load.arrival, Arrival::Poisson { rate_per_s: 500.0 });
        let mut flexasync = Suite::load("flexasync").unwrap().plan(&[]).unwrap().remove(0);
        assert!(flexasync.arrive(Spread::Fixed.arrival(Some(1.0))).is_err());
    }

    #[test]
    fn flexasync_takes_no_more_threads_by_the_flag_than_by_its_suite() {
        for (suite, most) in [("flexasync", MAX_THREADS), ("smoke", MAX_CONNECTIONS)] {
            let mut planned = Suite::load(suite).unwrap().plan(&[]).unwrap().remove(0);
            planned.connect(Some(most)).unwrap();
            assert_eq!(planned.load.connections, most);
            assert_eq!(planned.connect(Some(most + 1)).is_err(), suite == "flexasync");
        }
    }
}
