//! Times, memory and metrics, as the tables show them.

use std::time::Duration;

use crate::Outcome;

/// The polling interval.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How long each of many operations took.
#[derive(Default)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn add(&mut self, time: Duration) {
        self.0.push(time);
    }

    pub(crate) fn extend(&mut self, other: Times) {
        self.0.extend(other.0);
    }

    /// In seconds.
    pub(crate) fn median(&mut self) -> f64 {
        self.0.sort_unstable();
        self.0.get(self.0.len().saturating_sub(1) / 2).map_or(0.0, Duration::as_secs_f64)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Median, 99th percentile and longest, in milliseconds.
    pub(crate) fn text(&mut self) -> String {
        self.0.sort_unstable();
        let at = |percent: usize| {
            let index = (self.0.len().saturating_sub(1)) * percent / 100;
            self.0.get(index).map_or(0.0, |time| time.as_secs_f64() * 1e3)
        };
        format!("p50 {:.2} ms, p99 {:.2} ms, longest {:.1} ms", at(50), at(99), at(100))
    }
}

/// What a process has used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Time on processors.
    pub(crate) cpu: Duration,
    /// Present and peak memory in MB.
    pub(crate) resident_mb: (u64, u64),
}

impl Cost {
    /// Reads it from /proc.
    pub(crate) fn of(process: u32) -> Outcome<Cost> {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
        // The fields after the name, which may have blanks: the 12th and 13th are ticks of a hundredth of a second.
        let fields = stat.rsplit_once(')').ok_or("expected a name in brackets")?.1;
        let ticks: u64 =
            fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse().unwrap_or(0)).sum();
        let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
        let kilobytes = |key: &str| -> Outcome<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).ok_or("expected a size")?;
            Ok(line.trim().trim_end_matches("kB").trim().parse()?)
        };
        let resident_mb = (kilobytes("VmRSS:")? * 1024 / 1_000_000, kilobytes("VmHWM:")? * 1024 / 1_000_000);
        Ok(Cost { cpu: Duration::from_millis(ticks * 10), resident_mb })
    }
}

/// The sum and the count of a histogram in the text form of Prometheus.
pub(crate) fn histogram(metrics: &str, name: &str) -> (f64, f64) {
    let value = |suffix: &str| {
        let key = format!("{name}_{suffix} ");
        let found = metrics.lines().find_map(|line| line.strip_prefix(&key));
        found.and_then(|value| value.parse().ok()).unwrap_or(0.0)
    };
    (value("sum"), value("count"))
}
