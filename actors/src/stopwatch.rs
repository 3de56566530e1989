//! How long foreign code took.

use std::time::{Duration, Instant};

/// Times one piece of code after another.
pub(crate) struct Stopwatch {
    since: Instant,
    tick: Tick,
}

impl Stopwatch {
    pub(crate) fn start() -> Stopwatch {
        Stopwatch { since: Instant::now(), tick: Tick::now() }
    }

    /// The time since the last lap.
    pub(crate) fn lap(&mut self) -> Duration {
        let last = std::mem::replace(self, Stopwatch::start());
        self.since.saturating_duration_since(last.since)
    }

    /// The same for code that did not wait, of which there is a lot: nothing while the coarse clock stands still, which
    /// moves every few milliseconds and is read in a tenth of the time. What is not counted here is in the next lap.
    pub(crate) fn lap_at_once(&mut self) -> Duration {
        if self.tick == Tick::now() { Duration::ZERO } else { self.lap() }
    }
}

/// A reading of the coarse clock.
#[cfg(target_os = "linux")]
#[derive(PartialEq)]
struct Tick(i64, i64);

#[cfg(target_os = "linux")]
impl Tick {
    fn now() -> Tick {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
        Tick(now.tv_sec, now.tv_nsec)
    }
}

/// Elsewhere every reading is a new one, so that each lap is timed.
#[cfg(not(target_os = "linux"))]
struct Tick;

#[cfg(not(target_os = "linux"))]
impl Tick {
    fn now() -> Tick {
        Tick
    }
}

#[cfg(not(target_os = "linux"))]
impl PartialEq for Tick {
    fn eq(&self, _: &Tick) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // What took long is on record as that, also when it never waited.
    #[test]
    fn no_time_is_lost_between_laps() {
        let start = Instant::now();
        let mut watch = Stopwatch::start();
        let mut sum = Duration::ZERO;
        let mut laps = 0;
        while sum < Duration::from_millis(50) {
            sum += watch.lap_at_once();
            laps += 1;
        }
        assert!(laps > 2, "{laps}");
        assert!(sum <= start.elapsed(), "{sum:?}");
        let rest = watch.lap();
        assert!(sum + rest <= start.elapsed());
        std::thread::sleep(Duration::from_millis(40));
        assert!(watch.lap_at_once() >= Duration::from_millis(40));
    }
}
