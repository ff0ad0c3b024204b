//! Journals that are not there any more: a child's, whose jobs are lost, or this agent's own, of which children report again what it
//! had acknowledged. Servers that never come back are declared lost by an operator.

use std::collections::BTreeSet;

use pliant_model::{Span, Time};
use serde::{Deserialize, Serialize};

use super::reports::Contradiction;
use super::{Agent, Child, ChildKind, Command, audit};
use crate::audit::{Actor, AuditAct};
use crate::job::{Exit, JobRecord};
use crate::names::{Handle, Name, User};

/// How long a server has to be connected with another journal before the jobs of its earlier one are lost. Until then the earlier one may
/// come back, as when a second process had the server's certificate.
const LOST_AFTER: Span = Span(600);

/// The jobs of a server that has come back with another journal.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct LostJournal {
    /// The earlier journal.
    journal: u64,
    /// The last status update that this agent had of it.
    sequence: u64,
    /// When the server connected with another one.
    since: Time,
    /// Jobs that waited or ran there, and were not reported since.
    jobs: BTreeSet<Handle>,
}

impl Agent {
    /// What remains of a child's earlier journals when it connects with this one, and the last status update that is known of this one.
    pub(super) fn journals_of(
        &mut self,
        now: Time,
        child: &Name,
        kind: ChildKind,
        journal: u64,
    ) -> (u64, Option<LostJournal>) {
        let Some(before) = self.children.get_mut(child) else { return (0, None) };
        if before.journal == journal {
            return (before.sequence, before.lost.take());
        }
        let lost = before.lost.take();
        if let Some(earlier) = &lost
            && earlier.journal == journal
        {
            return (earlier.sequence, None);
        }
        if kind == ChildKind::Agent {
            // Its servers have their journals still, and report to it again.
            return (0, None);
        }
        // With a third journal, the first one is what may come back.
        let (journal, sequence) =
            lost.map_or((before.journal, before.sequence), |lost| (lost.journal, lost.sequence));
        // With other masters a journal counts as another one, and the jobs of others are reported to them.
        let is_own = |job: &JobRecord| self.share.has(job.owner.owner());
        let open = |job: &&JobRecord| !job.state.is_final() && job.server() == child && is_own(job);
        let jobs: BTreeSet<_> = self.jobs.all().filter(open).map(|job| job.handle.clone()).collect();
        (0, (!jobs.is_empty()).then_some(LostJournal { journal, sequence, since: now, jobs }))
    }

    /// A child has the job still.
    pub(super) fn is_not_lost(&mut self, child: &Name, job: &Handle) {
        if let Some(lost) = self.children.get_mut(child).and_then(|child| child.lost.as_mut()) {
            lost.jobs.remove(job);
        }
    }

    /// Ends the jobs that are lost with the journals of servers.
    pub(super) fn end_lost_jobs(&mut self, now: Time, commands: &mut Vec<Command>) {
        let is_due = |(_, child): &(&Name, &mut Child)| child.lost_at().is_some_and(|at| at <= now);
        let due = self.children.iter_mut().filter(is_due);
        let lost: Vec<(Name, LostJournal)> =
            due.filter_map(|(name, child)| Some((name.clone(), child.lost.take()?))).collect();
        for (server, LostJournal { since, jobs, .. }) in lost {
            let why =
                format!("the server {server} has lost its journal; it has another one since {}", since.utc());
            self.end_jobs_of(now, &server, jobs, &why, commands);
        }
    }

    /// Ends those of some jobs that have not ended and are at that server, and returns their number.
    fn end_jobs_of(
        &mut self,
        now: Time,
        server: &Name,
        jobs: impl IntoIterator<Item = Handle>,
        why: &str,
        commands: &mut Vec<Command>,
    ) -> u32 {
        let mut ended = 0;
        for job in jobs {
            let known = self.jobs.get(&job).filter(|known| !known.state.is_final());
            let Some(known) = known.filter(|known| known.server() == server) else { continue };
            let exit = Exit::Lost(why.to_owned());
            let record =
                JobRecord { state: exit.state(), exit: Some(exit), ended: Some(now), ..known.clone() };
            if !self.config.root {
                commands.push(Command::ReportStatus(Box::new(record.clone())));
            }
            self.update_index(now, record, commands);
            ended += 1;
        }
        ended
    }

    /// Ends the jobs of a server that is not connected, because an operator says that its state is lost, and lists the server no more.
    ///
    /// # Errors
    /// The server is unknown, connected, or below another agent.
    pub(super) fn forget_server(
        &mut self,
        now: Time,
        server: &Name,
        by: User,
        why: &str,
        commands: &mut Vec<Command>,
    ) -> Result<u32, String> {
        self.may_forget(server)?;
        audit(now, Actor::Operator(by.clone()), AuditAct::Forget, format!("{server}: {why}"), commands);
        for (name, child) in &mut self.children {
            let gone: Vec<_> = child.servers.extract_if(.., |known| known.name == *server).collect();
            self.below.remove(name, &gone);
        }
        self.children.remove(server);
        let jobs: Vec<Handle> =
            self.jobs.all().filter(|job| job.server() == server).map(|job| job.handle.clone()).collect();
        let why = format!("{by} has declared that the server {server} is lost: {why}");
        let ended = self.end_jobs_of(now, server, jobs, &why, commands);
        if !self.config.root {
            commands.push(Command::Announce);
        }
        Ok(ended)
    }

    fn may_forget(&self, server: &Name) -> Result<(), String> {
        let known = self.servers().filter(|(info, ..)| info.name == *server);
        // A server that was moved to another agent is listed below both until the first one is connected again.
        let Some((_, child, is_attached)) = known.max_by_key(|(_, _, is_attached)| *is_attached) else {
            return Err(format!("no server {server} is below this agent"));
        };
        match (child == server, is_attached) {
            (true, false) => Ok(()),
            (true, true) => Err(format!("the server {server} is connected")),
            (false, true) => Err(format!("the server {server} is below the agent {child}: ask that agent")),
            (false, false) => Err(format!(
                "the server {server} is below the agent {child}, which is down: the server may be up. Start that agent, and ask it"
            )),
        }
    }

    /// When [`Agent::end_lost_jobs`] has to run next.
    pub(super) fn next_lost(&self) -> Option<Time> {
        self.children.values().filter_map(Child::lost_at).min()
    }

    /// Keeps what a child reports again of a job, unless that is known.
    pub(super) fn record_again(
        &mut self,
        now: Time,
        child: &Name,
        record: JobRecord,
        commands: &mut Vec<Command>,
    ) {
        if !self.children.contains_key(child) {
            return;
        }
        self.is_not_lost(child, &record.handle);
        let known = self.jobs.get(&record.handle);
        if let Some(why) = known.and_then(|known| Contradiction::of(known, &record)) {
            commands.push(Command::RefuseStatus { child: child.clone(), job: record.handle, why });
            return;
        }
        if known == Some(&record) || self.is_late(&record) {
            return;
        }
        let has_ended_before = known.is_none() && record.state.is_final();
        if !self.config.root {
            commands.push(Command::ReportStatus(Box::new(record.clone())));
        }
        if !self.is_below(record.server()) {
            self.archive_departed(now, record, commands);
        } else if has_ended_before {
            // Nothing is learned from it: such jobs come in no order.
            self.changes.note(&record);
            commands.push(Command::Archive(Box::new(record)));
        } else {
            self.update_index(now, record, commands);
        }
    }
}

impl Child {
    /// When the jobs of its earlier journal are lost, if the earlier one does not come back.
    fn lost_at(&self) -> Option<Time> {
        let lost = self.lost.as_ref().filter(|_| self.attached)?;
        // Each connection begins that time again.
        Some(self.since.max(lost.since) + LOST_AFTER)
    }
}

#[cfg(test)]
mod tests;
