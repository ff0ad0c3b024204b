//! When a child reports its summary: when it has changed enough, and at most so often. To make a summary costs time, so a comparison that
//! reports nothing counts like a report.

use pliant_model::{Span, Time};

use super::Summary;

/// How often a child reports its summary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReportRule {
    /// The least time between two reports, and between two comparisons with the last one.
    pub every: Span,
    /// The least change of a start that is reported ([`Summary::differs_from`]).
    pub least_change: Span,
}

/// The reports of a child over its present connection.
#[derive(Clone, Default, Debug)]
pub struct SummaryReports {
    reported: Option<Summary>,
    /// When the summary was last made and compared.
    compared: Option<Time>,
    is_changed: bool,
}

impl SummaryReports {
    /// Something has changed that the summary depends on.
    pub fn note_change(&mut self) {
        self.is_changed = true;
    }

    /// The connection is a new one: the parent has no summary.
    pub fn restart(&mut self) {
        *self = SummaryReports { is_changed: true, ..SummaryReports::default() };
    }

    /// When the summary is to be made and compared; none before the next change. A clock that was set back delays nothing.
    pub fn due(&self, now: Time, rule: ReportRule) -> Option<Time> {
        let last = self.compared.filter(|last| *last <= now);
        self.is_changed.then(|| last.map_or(now, |last| last + rule.every))
    }

    /// The present summary if it is to be reported.
    pub fn report(&mut self, now: Time, present: Summary, rule: ReportRule) -> Option<Summary> {
        (self.is_changed, self.compared) = (false, Some(now));
        if let Some(reported) = &self.reported
            && !present.differs_from(reported, now, rule.least_change)
        {
            return None;
        }
        self.reported = Some(present.clone());
        Some(present)
    }
}
