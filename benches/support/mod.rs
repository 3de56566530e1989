//! What the benches share: clocks, alternating pairs, bars and their exit code. See `docs/benchmarks.md`.
#![allow(dead_code, unreachable_pub, reason = "each bench uses its part")]

pub mod house;
pub mod plain;

use std::process::ExitCode;

/// Bars that a build's luck may take over their limits (where the code comes to lie moves them by hundredths), with the value
/// that they may not pass either: a step back still fails. Said in `docs/benchmarks.md`.
const AT_THEIR_LIMIT: &[(&str, f64)] = &[("pipeline-64b", 1.6)];

/// The bars of one bench, as they are measured.
pub struct Bars {
    short: bool,
    named: Vec<String>,
    over: Vec<String>,
}

impl Bars {
    /// `None` unless `cargo bench` runs us: a debug build, as `cargo test --all-targets` makes, measures nothing true.
    pub fn from_args() -> Option<Bars> {
        let args: Vec<String> = std::env::args().collect();
        let has = |flag: &str| args.iter().any(|arg| arg == flag);
        if !has("--bench") {
            println!("nothing is measured here: run `cargo bench`");
            return None;
        }
        let short = has("--short") || std::env::var_os("PORTCULLIS_BENCH_SHORT").is_some();
        let named = args.into_iter().skip(1).filter(|arg| !arg.starts_with('-')).collect();
        Some(Bars { short, named, over: Vec::new() })
    }

    /// False when others were asked for by name: `cargo bench -- hook-tax`.
    pub fn wants(&self, name: &str) -> bool {
        self.named.is_empty() || self.named.iter().any(|named| name.contains(named.as_str()))
    }

    /// The form that CI runs.
    pub fn is_short(&self) -> bool {
        self.short
    }

    /// As many pairs as this form of the bench takes.
    pub fn pairs(&self, full: usize) -> usize {
        if self.short { (full / 4).max(7) } else { full }
    }

    /// Subject ÷ floor: the median of the ratios of alternating pairs, so that a machine that slows down slows both.
    pub fn ratio(&mut self, name: &str, limit: f64, unit: &str, pairs: &[(f64, f64)]) {
        let (value, beside) = summary(unit, pairs);
        self.bar(name, value, limit, value <= limit, &beside);
    }

    /// A ratio that is measured anew, twice at most, when it is over: on a machine that others use, a measurement of
    /// microseconds can come out unfair as a whole. Every one is printed, and the last counts.
    pub fn steady_ratio(
        &mut self,
        name: &str,
        limit: f64,
        unit: &str,
        mut measure: impl FnMut() -> Vec<(f64, f64)>,
    ) {
        for _ in 0..2 {
            let pairs = measure();
            let (value, beside) = summary(unit, &pairs);
            if value <= limit {
                return self.bar(name, value, limit, true, &beside);
            }
            println!("note {name} {}  ({beside})  over {}, measured anew", short(value), short(limit));
        }
        let pairs = measure();
        self.ratio(name, limit, unit, &pairs);
    }

    /// A ratio without a limit.
    pub fn note(&self, name: &str, unit: &str, pairs: &[(f64, f64)]) {
        let (value, beside) = summary(unit, pairs);
        println!("note {name} {}  ({beside})", short(value));
    }

    /// A number that is counted, not timed, and may not pass its limit.
    pub fn at_most(&mut self, name: &str, value: f64, limit: f64, beside: &str) {
        self.bar(name, value, limit, value <= limit, beside);
    }

    /// A number that is counted and can only be this one.
    pub fn exactly(&mut self, name: &str, value: u64, limit: u64, beside: &str) {
        #[expect(clippy::cast_precision_loss, reason = "small counts")]
        self.bar(name, value as f64, limit as f64, value == limit, beside);
    }

    fn bar(&mut self, name: &str, value: f64, limit: f64, met: bool, beside: &str) {
        let ceiling = AT_THEIR_LIMIT.iter().find(|(known, _)| *known == name).map(|(_, ceiling)| *ceiling);
        let known = ceiling.is_some_and(|ceiling| value <= ceiling);
        let mark = match (met, known) {
            (true, _) => "",
            (false, true) => "  OVER, as known",
            (false, false) => "  OVER",
        };
        println!("bar {name} {} {}  ({beside}){mark}", short(value), short(limit));
        if !met && !known {
            self.over.push(name.to_owned());
        }
    }

    /// Fails when a bar is over its limit.
    pub fn finish(self) -> ExitCode {
        if self.over.is_empty() {
            return ExitCode::SUCCESS;
        }
        eprintln!("over the limit: {}", self.over.join(", "));
        ExitCode::FAILURE
    }
}

/// Four digits are more than such a number can mean.
fn short(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The median of the ratios, and what stands beside it.
fn summary(unit: &str, pairs: &[(f64, f64)]) -> (f64, String) {
    let sorted = |pick: fn(&(f64, f64)) -> f64| {
        let mut all: Vec<f64> = pairs.iter().map(pick).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let ratios = sorted(|(subject, floor)| subject / floor);
    let (subject, floor) = (median(&sorted(|p| p.0)), median(&sorted(|p| p.1)));
    let value = median(&ratios);
    let at = |share: usize| ratios[(ratios.len() - 1) * share / 4];
    let beside = format!(
        "subject {subject:.0} {unit}, floor {floor:.0} {unit}, middle half {:.3}..{:.3} of {} pairs",
        at(1),
        at(3),
        ratios.len()
    );
    (value, beside)
}

/// Of a sorted list.
pub fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

/// CPU time of this thread, in ns. A neighbour on the machine takes wall time from us, not this.
pub fn thread_ns() -> f64 {
    clock(rustix::time::ClockId::ThreadCPUTime)
}

/// CPU time of this process, all threads, in ns.
pub fn process_ns() -> f64 {
    clock(rustix::time::ClockId::ProcessCPUTime)
}

fn clock(id: rustix::time::ClockId) -> f64 {
    let t = rustix::time::clock_gettime(id);
    #[expect(clippy::cast_precision_loss, reason = "a double counts nanoseconds exactly for a hundred days")]
    let ns = t.tv_sec as f64 * 1e9 + t.tv_nsec as f64;
    ns
}
