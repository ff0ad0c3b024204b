//! Lists of jobs, page by page: those in memory and those in the archive, the last to be submitted first.
//!
//! A job keeps its place, whatever happens to it: it is on one page, and those submitted while a client reads are on none of the
//! pages that follow.

use std::collections::BTreeSet;

use pliant_control::access::Caller;
use pliant_control::agent::Agent;
use pliant_control::job::{JobRecord, JobState};
use pliant_control::names::{Handle, Name, User};
use pliant_journal::Filter;
use pliant_wire::{ChangePosition, ChangesPage, ChangesQuery, JobCursor, JobsPage, JobsQuery, bounds};
use tonic::Status;

use super::child_connection::stopped;
use super::child_connections::ChildConnections;
use crate::gate::for_operators;
use crate::host::{Mailbox, SharedArchive, listed, record};

/// What a user does who asks for the jobs of others.
pub(super) const OWN_JOBS: &str = "your own jobs are listed without --all and --user";

/// A page of the jobs that a caller asks for, and may see.
pub(super) async fn page(
    mailbox: &Mailbox<Agent>,
    archive: &SharedArchive,
    connections: &ChildConnections,
    caller: &Caller,
    query: JobsQuery,
) -> Result<JobsPage, Status> {
    // Before the machine is asked: what a child has reported is in it once the child is not among these any more.
    let reporting_again = connections.reporting_again();
    let wanted = Wanted::read(query, caller)?;
    let limit = wanted.query.limit as usize;
    let in_archive = wanted.in_archive();
    // In this order: what leaves the memory is in the archive by then. One more than the page shows whether there are more.
    let in_memory =
        move |agent: &mut Agent, _| (wanted.newest_in_memory(agent, limit + 1), agent.children().count());
    let (jobs, children) = mailbox.ask(in_memory).await.map_err(|_| stopped())?;
    let children = if reporting_again.is_empty() { 0 } else { children as u32 };
    let with_ended = |ended| JobsPage { reporting_again, children, ..merged(jobs, ended, limit) };
    let Some(filter) = in_archive else { return Ok(with_ended(Vec::new())) };
    let rows = listed(archive, &caller.user, move |archive| archive.jobs(&filter)).await?;
    Ok(with_ended(rows.iter().map(record).collect::<Result<_, _>>()?))
}

/// The jobs that changed after a position of that run of the agent, and that a caller may see.
pub(super) async fn changes(
    mailbox: &Mailbox<Agent>,
    archive: &SharedArchive,
    run: u64,
    caller: &Caller,
    query: ChangesQuery,
) -> Result<ChangesPage, Status> {
    if query.all && !caller.operator {
        return Err(for_operators("see the jobs of other users", OWN_JOBS));
    }
    let owner = (!query.all).then(|| caller.user.clone());
    let changed = move |agent: &mut Agent, _| changed(agent, run, owner.as_ref(), query.after);
    let (mut page, gone) = mailbox.ask(changed).await.map_err(|_| stopped())?;
    if gone.is_empty() {
        return Ok(page);
    }
    // They have ended, or went to a server below another agent. A job leaves memory before its row is in the archive.
    mailbox.settled().await.map_err(|_| stopped())?;
    let rows = listed(archive, &caller.user, move |archive| {
        gone.iter()
            .map(|handle| archive.job(handle.server.as_str(), handle.number))
            .collect::<Result<Vec<_>, _>>()
    });
    // One that is in neither was deleted since.
    for row in rows.await?.iter().flatten() {
        page.jobs.push(record(row)?);
    }
    Ok(page)
}

/// The changed jobs that are in memory, and those that are not any more.
fn changed(
    agent: &Agent,
    run: u64,
    owner: Option<&User>,
    after: Option<ChangePosition>,
) -> (ChangesPage, Vec<Handle>) {
    let position = |number| ChangePosition { run, number };
    let none = |forgotten| {
        let position = position(agent.last_change());
        (ChangesPage { jobs: Vec::new(), position, more: false, forgotten }, Vec::new())
    };
    let Some(after) = after else { return none(false) };
    let changes =
        Some(after).filter(|after| after.run == run).and_then(|after| agent.changes_after(after.number));
    let Some(changes) = changes else { return none(true) };
    let (mut jobs, mut gone, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    let (mut reached, mut more) = (after.number, false);
    for (number, handle, of) in changes {
        if seen.len() == bounds::JOBS_MAX {
            more = true;
            break;
        }
        reached = number;
        if owner.is_none_or(|owner| owner == of) && seen.insert(handle) {
            match agent.job(handle) {
                Some(record) => jobs.push(record.clone()),
                None => gone.push(handle.clone()),
            }
        }
    }
    (ChangesPage { jobs, position: position(reached), more, forgotten: false }, gone)
}

/// The page of those in memory and those in the archive, each the first ones and one more than the page holds. A job that is in
/// both is as the memory has it.
fn merged(mut jobs: Vec<JobRecord>, ended: Vec<JobRecord>, limit: usize) -> JobsPage {
    let known: BTreeSet<Handle> = jobs.iter().map(|job| job.handle.clone()).collect();
    jobs.extend(ended.into_iter().filter(|job| !known.contains(&job.handle)));
    jobs.sort_by(newer_first);
    let more = jobs.len() > limit;
    jobs.truncate(limit);
    let next = jobs.last().filter(|_| more).map(JobCursor::of);
    JobsPage { jobs, next, ..JobsPage::default() }
}

/// Which jobs a caller asks for, and may see.
struct Wanted {
    /// None: everybody's.
    owner: Option<User>,
    query: JobsQuery,
}

impl Wanted {
    fn read(query: JobsQuery, caller: &Caller) -> Result<Wanted, Status> {
        let others = query.all || query.owner.as_ref().is_some_and(|owner| *owner != caller.user);
        if others && !caller.operator {
            return Err(for_operators("see the jobs of other users", OWN_JOBS));
        }
        let own = (!query.all).then(|| caller.user.clone());
        Ok(Wanted { owner: query.owner.clone().or(own), query })
    }

    /// The newest `count` of those in memory.
    fn newest_in_memory(&self, agent: &Agent, count: usize) -> Vec<JobRecord> {
        let wanted = |record: &&JobRecord| self.takes(record);
        let handle = |before: &JobCursor| Handle { server: before.server.clone(), number: before.number };
        let before = self.query.before.as_ref().map(|before| (before.submitted, handle(before)));
        let JobsQuery { server, states, .. } = &self.query;
        match &self.owner {
            Some(owner) => agent.jobs_of(owner, before).filter(wanted).take(count).cloned().collect(),
            // Most of what is in memory is wanted, so that few more are looked at than are taken.
            None if server.is_none() && (states.is_empty() || states.contains(&JobState::Queued)) => {
                agent.newest_jobs(before).filter(wanted).take(count).cloned().collect()
            }
            None => newest(agent.jobs().filter(wanted), count),
        }
    }

    fn takes(&self, record: &JobRecord) -> bool {
        let JobsQuery { server, states, before, .. } = &self.query;
        self.owner.as_ref().is_none_or(|owner| *owner == record.owner)
            && server.as_ref().is_none_or(|server| server == record.server())
            && (states.is_empty() || states.contains(&record.state))
            && before.as_ref().is_none_or(|before| {
                let Handle { server, number } = &record.handle;
                (record.submitted, server, *number) < (before.submitted, &before.server, before.number)
            })
    }

    /// What to look for in the archive; none if only jobs that have not ended are wanted.
    fn in_archive(&self) -> Option<Filter> {
        let JobsQuery { server, states, limit, before, .. } = &self.query;
        let position = |before: &JobCursor| (before.submitted.0, before.server.to_string(), before.number);
        let ended = states.is_empty() || states.iter().any(|state| state.is_final());
        ended.then(|| Filter {
            owner: self.owner.as_ref().map(User::to_string),
            server: server.as_ref().map(Name::to_string),
            states: states.iter().map(|state| state.word().to_owned()).collect(),
            limit: limit + 1,
            before: before.as_ref().map(position),
        })
    }
}

fn newer_first(a: &JobRecord, b: &JobRecord) -> std::cmp::Ordering {
    (b.submitted, &b.handle).cmp(&(a.submitted, &a.handle))
}

/// The newest `count` of them, in any order. Looks at each once and copies only those: there may be many jobs, and
/// the machine does nothing else meanwhile.
fn newest<'a>(records: impl Iterator<Item = &'a JobRecord>, count: usize) -> Vec<JobRecord> {
    let mut found: Vec<&JobRecord> = Vec::with_capacity(2 * count);
    // The oldest one that could still be among them.
    let mut bound: Option<&JobRecord> = None;
    for record in records {
        if bound.is_some_and(|bound| newer_first(bound, record).is_lt()) {
            continue;
        }
        found.push(record);
        if found.len() == 2 * count {
            found.select_nth_unstable_by(count - 1, |a, b| newer_first(a, b));
            found.truncate(count);
            bound = found.last().copied();
        }
    }
    found.sort_unstable_by(|a, b| newer_first(a, b));
    found.truncate(count);
    found.into_iter().cloned().collect()
}

#[cfg(test)]
mod tests;
