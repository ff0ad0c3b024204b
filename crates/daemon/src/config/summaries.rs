//! How often a daemon reports to its agent when work could start on its servers.

use pliant_model::Span;
use pliant_policy::discovery::ReportRule;
use serde::{Deserialize, Serialize};

/// When a daemon reports its summary.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SummariesFile {
    /// Seconds between two reports, at least; 0: none is ever sent.
    pub every_s: u32,
    /// The least change of a start that is reported, in seconds.
    pub change_s: u32,
}

impl Default for SummariesFile {
    fn default() -> SummariesFile {
        SummariesFile { every_s: 1, change_s: 10 }
    }
}

impl SummariesFile {
    /// Which key is wrong and why, if one is.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        let at_most_an_hour = |key, found: u32| match found {
            found if found > 3600 => Err((key, format!("expected at most an hour, found {found} s"))),
            _ => Ok(()),
        };
        at_most_an_hour("summaries.every_s", self.every_s)?;
        at_most_an_hour("summaries.change_s", self.change_s)
    }

    /// The rule; none if none is ever sent.
    pub fn rule(&self) -> Option<ReportRule> {
        let (every, least_change) = (Span(self.every_s.into()), Span(self.change_s.into()));
        (self.every_s > 0).then_some(ReportRule { every, least_change })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_are_reported_at_least_hourly_or_never() {
        let usual = SummariesFile::default();
        assert_eq!(usual.check(), Ok(()));
        assert_eq!(usual.rule(), Some(ReportRule { every: Span(1), least_change: Span(10) }));
        assert_eq!(SummariesFile { every_s: 0, ..usual }.rule(), None);
        for (wrong, key) in [
            (SummariesFile { every_s: 3601, ..usual }, "summaries.every_s"),
            (SummariesFile { change_s: 3601, ..usual }, "summaries.change_s"),
        ] {
            let (found, why) = wrong.check().unwrap_err();
            assert!(found == key && why == "expected at most an hour, found 3601 s", "{found}: {why}");
        }
    }
}
