//! Wakes a thread that waits in epoll, whose own time limits are in milliseconds.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use mio::unix::SourceFd;
use mio::{Interest, Poll, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// What its events carry.
pub const TOKEN: Token = Token(usize::MAX);

/// A timer of the kernel's.
pub struct Timer(OwnedFd);

impl Timer {
    /// One that `poll` waits for.
    pub fn new(poll: &Poll) -> io::Result<Self> {
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        poll.registry().register(&mut SourceFd(&timer.as_raw_fd()), TOKEN, Interest::READABLE)?;
        Ok(Timer(timer))
    }

    /// Wakes the thread in so many nanoseconds, instead of when it was told before. Nobody reads it: setting it anew
    /// takes back what it said.
    pub fn wake_in(&self, ns: u64) -> io::Result<()> {
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let (seconds, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
        // Zero would mean never.
        let value = Timespec { tv_sec: seconds as _, tv_nsec: rest.max(1) as _ };
        timerfd_settime(
            &self.0,
            TimerfdTimerFlags::empty(),
            &Itimerspec { it_interval: never, it_value: value },
        )?;
        Ok(())
    }
}
