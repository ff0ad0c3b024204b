//! Copies of other servers' jobs that wait here: the target's half of what [`crate::handoff`] says of them.
//!
//! A sibling is prepared like a job that is being moved, but in its place in the queue. What it may do when its sibling_state has come its
//! source says. One that has stepped back is not in the batch system, and gets another number there when it comes back:
//! whatever is still told of the one it had is not about it.

use pliant_model::{Estimate, JobId, Span, Time};
use pliant_policy::batch::Submission;
use serde::{Deserialize, Serialize};

use super::target::{self, PreparedJob};
use super::{Command, Server};
use crate::handoff::{Call, HandoffId};
use crate::job::JobRecord;

/// How often the source of a sibling that waits is asked about it, in case it was not heard when it said that the sibling
/// is of no use. Much longer than of a job that is prepared: a sibling waits as long as a job does, and asks in any case when its
/// sibling_state has come.
pub(super) const INQUIRE_EVERY: Span = Span(600);
/// How often the source is asked when the sibling_state of a sibling has come, and for how long processors are kept for it.
const READY: (Span, Span) = (Span(2), Span(30));

/// How far a sibling is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum SiblingState {
    /// It waits.
    #[default]
    Waiting,
    /// It has its processors, since then.
    Ready(Time),
    /// It has given them back, and is not in the batch system until the source has been heard.
    Yielded,
}

impl Server {
    /// The sibling_state of a sibling has come.
    pub(super) fn sibling_ready(&mut self, now: Time, number: u32, commands: &mut Vec<Command>) {
        let Some(prepared) = self.prepared.values_mut().find(|prepared| prepared.number == number) else {
            return;
        };
        prepared.sibling_state = SiblingState::Ready(now);
        prepared.query(now + READY.0, Call::Ready, commands);
    }

    /// Asks sources about siblings; those that have been ready for too long step back.
    pub(super) fn query_sources_of_siblings(&mut self, now: Time, commands: &mut Vec<Command>) {
        let mut yielding = Vec::new();
        for prepared in
            self.prepared.values_mut().filter(|prepared| prepared.handoff.sibling && prepared.ask_at <= now)
        {
            match prepared.sibling_state {
                SiblingState::Waiting => prepared.query(now + INQUIRE_EVERY, Call::Inquire, commands),
                SiblingState::Yielded => prepared.query(now + target::INQUIRE_EVERY, Call::Inquire, commands),
                SiblingState::Ready(since) if since + READY.1 > now => {
                    prepared.query(now + READY.0, Call::Ready, commands)
                }
                SiblingState::Ready(_) => {
                    yielding.push(JobId(prepared.number));
                    prepared.yield_processors(now, &mut self.next);
                    prepared.query(now + target::INQUIRE_EVERY, Call::Inquire, commands);
                }
            }
        }
        for job in yielding {
            self.with_batch(now, commands, |batch, effects| batch.cancel(now, job, effects));
        }
    }

    /// The source is there and has not decided: a sibling that had stepped back queues again.
    pub(super) fn requeue_yielded(&mut self, now: Time, id: &HandoffId, commands: &mut Vec<Command>) {
        let has_yielded = |prepared: &&mut PreparedJob| {
            prepared.handoff.id == *id && prepared.sibling_state == SiblingState::Yielded
        };
        let Some(prepared) = self.prepared.get_mut(&id.job).filter(has_yielded) else { return };
        (prepared.sibling_state, prepared.ask_at) = (SiblingState::Waiting, now + INQUIRE_EVERY);
        let submission = prepared.submission();
        self.with_batch(now, commands, |batch, effects| batch.submit_tentatively(now, submission, effects));
    }
}

impl Server {
    /// A sibling is ours since its source has let it go, and had lost its sibling_state by then: it waits anew like any other job.
    pub(super) fn requeue_released_too_late(&mut self, now: Time, number: u32, commands: &mut Vec<Command>) {
        let Some(mut kept) = self.jobs.remove(&number) else { return };
        kept.number = self.next;
        self.next += 1;
        let JobRecord { handle, key, procs, walltime, submitted, owner, .. } = &kept.record;
        let submission = Submission {
            job: JobId(kept.number),
            procs: *procs,
            walltime: *walltime,
            submit: *submitted,
            owner: owner.owner(),
        };
        self.keys.insert(*key, kept.number);
        self.numbers.insert(handle.clone(), kept.number);
        // It may be about to go on, or have siblings.
        if let Some(outgoing) = self.outgoing.remove(&number) {
            self.outgoing.insert(kept.number, outgoing);
        }
        if let Some(siblings) = self.siblings.remove(&number) {
            self.siblings.insert(kept.number, siblings);
        }
        self.jobs.insert(kept.number, kept);
        self.with_batch(now, commands, |batch, effects| batch.submit(now, submission, effects));
    }
}

impl PreparedJob {
    /// It as the batch system gets it.
    pub(super) fn submission(&self) -> Submission {
        let Estimate { procs, walltime, .. } = self.estimate;
        let (submit, owner) = (self.handoff.submitted, self.handoff.owner.owner());
        Submission { job: JobId(self.number), procs, walltime, submit, owner }
    }

    /// It is not in the batch system any more; when it comes back, it does so under the next number.
    pub(super) fn yield_processors(&mut self, now: Time, next: &mut u32) {
        (self.sibling_state, self.number, self.ask_at) = (SiblingState::Yielded, *next, now);
        *next += 1;
    }

    /// Asks the source something, and again then.
    fn query(&mut self, again: Time, call: Call, commands: &mut Vec<Command>) {
        self.ask_at = again;
        let (to, id) = (self.handoff.from.clone(), self.handoff.id.clone());
        commands.push(Command::Call { to, id, call });
    }
}
