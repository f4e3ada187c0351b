//! CPU time of this process and of the server's, and the CPUs that they share.

use model::CpuList;
use model::message::CpuTime;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use crate::facts::{Tree, memory, topology};

/// CPU time of this process so far, all threads.
///
/// From the kernel's own accounting: qemu-user makes up `/proc/self/stat`.
pub fn own() -> Option<CpuTime> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let seconds = |time: nix::sys::time::TimeVal| time.num_microseconds() as f64 / 1e6;
    Some(CpuTime { user_s: seconds(usage.user_time()), system_s: seconds(usage.system_time()) })
}

/// CPU time of process `pid` so far; `None` where it cannot be read.
pub fn of_process(pid: u32) -> Option<CpuTime> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&stat, rustix::param::clock_ticks_per_second())
}

/// The difference between two readings.
pub fn difference(before: CpuTime, after: CpuTime) -> CpuTime {
    CpuTime {
        user_s: (after.user_s - before.user_s).max(0.0),
        system_s: (after.system_s - before.system_s).max(0.0),
    }
}

/// Fields 14 and 15, counted behind the last parenthesis: the program's name, in parentheses, may hold
/// anything.
fn parse_stat(stat: &str, ticks_per_s: u64) -> Option<CpuTime> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let mut seconds = || Some(fields.next()?.parse::<u64>().ok()? as f64 / ticks_per_s as f64);
    Some(CpuTime { user_s: seconds()?, system_s: seconds()? })
}

/// What this process and another one share of the CPUs that they may run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shared {
    /// Nothing.
    Nothing,
    /// No CPU, but cores, whose threads they run on.
    Cores,
    /// CPUs.
    Cpus,
}

/// What this process and process `pid` share; `None` where that cannot be read.
pub fn shared_with(pid: u32) -> Option<Shared> {
    let allowed = |who: &str| {
        let status = std::fs::read_to_string(format!("/proc/{who}/status")).ok()?;
        memory::allowed(&status, "Cpus_allowed_list:")
    };
    let (own, other) = (allowed("self")?, allowed(&pid.to_string())?);
    let cores = |cpus: &CpuList| topology::with_siblings(&Tree::of_machine(), cpus);
    Some(shared(&own, &other, cores))
}

fn shared(own: &CpuList, other: &CpuList, cores: impl Fn(&CpuList) -> CpuList) -> Shared {
    if own.overlaps(other) {
        Shared::Cpus
    } else if cores(own).overlaps(other) {
        Shared::Cores
    } else {
        Shared::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_is_survived() {
        let stat = "12 (my) sql d) (x)) S 1 12 12 0 -1 4194560 9 8 7 6 150 25 0 0 20 0 31 0 5 6";
        let cpu = parse_stat(stat, 100).unwrap();
        assert_eq!((cpu.user_s, cpu.system_s), (1.5, 0.25));
        assert_eq!(parse_stat("12 (x) S 1 2", 100), None);
        assert_eq!(parse_stat("", 100), None);
    }

    #[test]
    fn own_time_grows() {
        let before = own().unwrap();
        let mut sum = 0_u64;
        while own().unwrap().user_s + own().unwrap().system_s <= before.user_s + before.system_s + 0.005 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let spent = difference(before, own().unwrap());
        assert!(spent.user_s + spent.system_s > 0.0);
        assert!(of_process(std::process::id()).is_some());
        assert_eq!(of_process(u32::MAX), None);
    }

    #[test]
    fn cpus_are_shared_or_only_cores_or_nothing() {
        let list = |text: &str| text.parse::<CpuList>().unwrap();
        // Cores of four threads.
        let cores = |cpus: &CpuList| cpus.iter().flat_map(|cpu| cpu / 4 * 4..cpu / 4 * 4 + 4).collect();
        assert_eq!(shared(&list("0-3"), &list("3-7"), cores), Shared::Cpus);
        assert_eq!(shared(&list("0-1"), &list("2-3"), cores), Shared::Cores);
        assert_eq!(shared(&list("0-3"), &list("4-7"), cores), Shared::Nothing);
        assert_eq!(shared_with(std::process::id()), Some(Shared::Cpus));
        assert_eq!(shared_with(u32::MAX), None);
    }
}
