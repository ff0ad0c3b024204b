//! The summary of a daemon, reported over the connection to its parent.

use std::time::Duration;

use pliant_policy::discovery::{ReportRule, Summary, SummaryReports};
use pliant_transport::Clock;

/// The reports over the present connection.
pub(super) struct ConnectionSummaries {
    /// How often it is reported; none if it is not.
    rule: Option<ReportRule>,
    reports: SummaryReports,
    /// It is to be made and compared now.
    pub(super) is_due: bool,
}

impl ConnectionSummaries {
    pub(super) fn new(rule: Option<ReportRule>) -> ConnectionSummaries {
        ConnectionSummaries { rule, reports: SummaryReports::default(), is_due: false }
    }

    /// The connection is a new one.
    pub(super) fn restart(&mut self) {
        self.reports.restart();
        self.is_due = false;
    }

    /// Something has changed that the summary depends on.
    pub(super) fn note_change(&mut self) {
        self.reports.note_change();
    }

    /// Waits until the summary is to be made.
    pub(super) async fn due(&self, clock: &Clock) {
        let now = clock.now();
        let due = self.rule.and_then(|rule| self.reports.due(now, rule));
        let Some(due) = due.filter(|_| !self.is_due) else { return std::future::pending().await };
        if due > now {
            tokio::time::sleep(Duration::from_secs((due - now).0.unsigned_abs())).await;
        }
    }

    /// The present summary if it is to be reported.
    pub(super) fn report(&mut self, clock: &Clock, present: Summary) -> Option<Summary> {
        self.reports.report(clock.now(), present, self.rule?)
    }
}
