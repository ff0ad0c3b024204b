//! How an agent has its servers measure the links between them.

use std::time::Duration;

use pliant_model::Span;
use pliant_wire::bounds::{PROBE_BYTES, PROBE_LIMIT_MS};
use serde::{Deserialize, Serialize};

/// What a measurement may cost, and how often there is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProbesFile {
    /// Seconds between two measurements of the same link; 0: none is ever measured.
    pub every_s: i64,
    /// Seconds between any two measurements.
    pub pause_s: u32,
    /// The most bytes that one sends, each way.
    pub bytes: u64,
    /// How long it may send them, each way, in seconds.
    pub limit_s: u32,
}

impl Default for ProbesFile {
    fn default() -> ProbesFile {
        ProbesFile { every_s: 3600, pause_s: 2, bytes: 4 << 20, limit_s: 5 }
    }
}

impl ProbesFile {
    /// Which key is wrong and why, if one is.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        let ProbesFile { every_s, pause_s, bytes, limit_s } = *self;
        let limits = [PROBE_LIMIT_MS.start() / 1000, PROBE_LIMIT_MS.end() / 1000];
        if !(0..=86_400).contains(&every_s) {
            return Err(("probes.every_s", format!("expected 0 s (never) to a day, found {every_s}")));
        }
        if pause_s > 3600 {
            return Err(("probes.pause_s", format!("expected at most an hour, found {pause_s} s")));
        }
        if !PROBE_BYTES.contains(&bytes) {
            let (least, most) = (PROBE_BYTES.start(), PROBE_BYTES.end());
            return Err(("probes.bytes", format!("expected {least} to {most} bytes, found {bytes}")));
        }
        if !(limits[0]..=limits[1]).contains(&limit_s) {
            let [least, most] = limits;
            return Err(("probes.limit_s", format!("expected {least} to {most} s, found {limit_s}")));
        }
        Ok(())
    }

    /// Whether anything is measured.
    pub fn is_on(&self) -> bool {
        self.every_s > 0
    }

    /// Between two measurements of the same link.
    pub fn every(&self) -> Span {
        Span(self.every_s)
    }

    /// Between any two measurements.
    pub fn pause(&self) -> Duration {
        Duration::from_secs(self.pause_s.into())
    }

    /// How long one may send, each way.
    pub fn limit(&self) -> Duration {
        Duration::from_secs(self.limit_s.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_is_bounded() {
        let usual = ProbesFile::default();
        assert_eq!(usual.check(), Ok(()));
        assert_eq!(ProbesFile { every_s: 0, ..usual }.check(), Ok(()));
        for (wrong, key) in [
            (ProbesFile { every_s: -1, ..usual }, "probes.every_s"),
            (ProbesFile { every_s: 90_000, ..usual }, "probes.every_s"),
            (ProbesFile { pause_s: 3601, ..usual }, "probes.pause_s"),
            (ProbesFile { bytes: 1, ..usual }, "probes.bytes"),
            (ProbesFile { bytes: 1 << 40, ..usual }, "probes.bytes"),
            (ProbesFile { limit_s: 0, ..usual }, "probes.limit_s"),
            (ProbesFile { limit_s: 31, ..usual }, "probes.limit_s"),
        ] {
            let (found, why) = wrong.check().unwrap_err();
            assert!(found == key && why.starts_with("expected"), "{found}: {why}");
        }
    }
}
