//! When a child reports its summary: when it has changed enough, and at most so often.

use pliant_model::{Span, Time};

use super::Summary;

/// How often a child reports its summary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReportRule {
    /// The least time between two reports.
    pub every: Span,
    /// The least change of a start that is reported ([`Summary::differs_from`]).
    pub least_change: Span,
}

/// The reports of a child over its present connection.
#[derive(Clone, Default, Debug)]
pub struct SummaryReports {
    reported: Option<(Time, Summary)>,
    is_changed: bool,
}

impl SummaryReports {
    /// Something has changed that the summary depends on.
    pub fn note_change(&mut self) {
        self.is_changed = true;
    }

    /// The connection is a new one: the parent has no summary.
    pub fn restart(&mut self) {
        *self = SummaryReports { reported: None, is_changed: true };
    }

    /// When the summary is to be made and compared; none before the next change.
    pub fn due(&self, rule: ReportRule) -> Option<Time> {
        let last = self.reported.as_ref().map(|(at, _)| *at + rule.every);
        self.is_changed.then(|| last.unwrap_or(Time(i64::MIN)))
    }

    /// The present summary if it is to be reported.
    pub fn report(&mut self, now: Time, present: Summary, rule: ReportRule) -> Option<Summary> {
        self.is_changed = false;
        if let Some((_, reported)) = &self.reported
            && !present.differs_from(reported, now, rule.least_change)
        {
            return None;
        }
        self.reported = Some((now, present.clone()));
        Some(present)
    }
}
