//! The summaries that daemons report to their agents.

use pliant_control::agent;
use pliant_model::Time;
use pliant_policy::discovery::SummaryReports;

use super::driver::Driver;
use crate::kernel::Peer;

/// The reports of a daemon's summary.
#[derive(Default)]
pub(super) struct PlannedReports {
    reports: SummaryReports,
    /// The next one is scheduled.
    is_planned: bool,
}

impl Driver<'_> {
    fn planned_reports(&mut self, peer: Peer) -> Option<&mut PlannedReports> {
        match peer {
            Peer::Server(index) => Some(&mut self.servers[index].reports),
            // The master agent has no parent.
            Peer::Agent(index) if self.agents[index].position.parent.is_some() => {
                Some(&mut self.agents[index].reports)
            }
            Peer::Agent(_) | Peer::Client(_) => None,
        }
    }

    /// Plans the next report of a daemon whose summary may have changed.
    pub(super) fn summary_changed(&mut self, now: Time, peer: Peer) {
        let Some(rule) = self.summaries else { return };
        let Some(PlannedReports { reports, is_planned }) = self.planned_reports(peer) else { return };
        reports.note_change();
        let due = reports.due(now, rule).filter(|_| !*is_planned);
        let Some(due) = due else { return };
        if due <= now {
            self.report_summary(now, peer);
        } else {
            *is_planned = true;
            self.plan_summary(due, peer);
        }
    }

    /// Reports the summary of a daemon to its agent if it has changed.
    pub(super) fn report_summary(&mut self, now: Time, peer: Peer) {
        let Some(rule) = self.summaries else { return };
        let (child, present) = match peer {
            Peer::Server(index) => {
                let machine = &mut self.servers[index].node.machine;
                (machine.name().clone(), machine.summary(now))
            }
            Peer::Agent(index) => {
                let machine = &self.agents[index].node.machine;
                (machine.config().name.clone(), machine.summary())
            }
            Peer::Client(_) => return,
        };
        let Some(PlannedReports { reports, is_planned }) = self.planned_reports(peer) else { return };
        *is_planned = false;
        if let Some(summary) = reports.report(now, present, rule) {
            self.send_up(now, peer, agent::Event::Summarised { child, summary });
        }
    }

    /// The agent of a daemon has a new connection to it, and no summary.
    pub(super) fn restart_reports(&mut self, now: Time, peer: Peer) {
        if let Some(PlannedReports { reports, .. }) = self.planned_reports(peer) {
            reports.restart();
            self.summary_changed(now, peer);
        }
    }
}
