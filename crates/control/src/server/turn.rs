//! Copies of other servers' jobs that wait here: the target's half of what [`crate::handoff`] says of them.
//!
//! A copy is held like a job that is being moved, but in its place in the queue. What it may do when its turn has come its
//! source says. One that has stepped back is not in the batch system, and gets another number there when it comes back:
//! whatever is still told of the one it had is not about it.

use pliant_model::{Estimate, JobId, Span, Time};
use pliant_policy::batch::Submission;
use serde::{Deserialize, Serialize};

use super::target::{self, PreparedJob};
use super::{Command, Server};
use crate::handoff::{Call, HandoffId};
use crate::job::JobRecord;

/// How often the source of a copy that waits is asked about it, in case it was not heard when it said that the copy
/// is of no use. Much longer than of a job that is held: a copy waits as long as a job does, and asks in any case when its
/// turn has come.
pub(super) const INQUIRE_EVERY: Span = Span(600);
/// How often the source is asked when the turn of a copy has come, and for how long processors are kept for it.
const READY: (Span, Span) = (Span(2), Span(30));

/// How far a copy is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum SiblingState {
    /// It waits.
    #[default]
    ToCome,
    /// It has its processors, since then.
    Since(Time),
    /// It has given them back, and is not in the batch system until the source has been heard.
    SteppedBack,
}

impl Server {
    /// The turn of a copy has come.
    pub(super) fn its_turn(&mut self, now: Time, number: u32, commands: &mut Vec<Command>) {
        let Some(held) = self.held.values_mut().find(|held| held.number == number) else { return };
        held.turn = SiblingState::Since(now);
        held.ask(now + READY.0, Call::Ready, commands);
    }

    /// Asks sources about copies; those that have been ready for too long step back.
    pub(super) fn ask_for_copies(&mut self, now: Time, commands: &mut Vec<Command>) {
        let mut stepping_back = Vec::new();
        for held in self.held.values_mut().filter(|held| held.handoff.copy && held.ask_at <= now) {
            match held.turn {
                SiblingState::ToCome => held.ask(now + INQUIRE_EVERY, Call::Inquire, commands),
                SiblingState::SteppedBack => held.ask(now + target::INQUIRE_EVERY, Call::Inquire, commands),
                SiblingState::Since(since) if since + READY.1 > now => {
                    held.ask(now + READY.0, Call::Ready, commands)
                }
                SiblingState::Since(_) => {
                    stepping_back.push(JobId(held.number));
                    held.steps_back(now, &mut self.next);
                    held.ask(now + target::INQUIRE_EVERY, Call::Inquire, commands);
                }
            }
        }
        for job in stepping_back {
            self.with_batch(now, commands, |batch, effects| batch.cancel(now, job, effects));
        }
    }

    /// The source is there and has not decided: a copy that had stepped back queues again.
    pub(super) fn queue_again(&mut self, now: Time, id: &HandoffId, commands: &mut Vec<Command>) {
        let has_stepped_back =
            |held: &&mut PreparedJob| held.handoff.id == *id && held.turn == SiblingState::SteppedBack;
        let Some(held) = self.held.get_mut(&id.job).filter(has_stepped_back) else { return };
        (held.turn, held.ask_at) = (SiblingState::ToCome, now + INQUIRE_EVERY);
        let submission = held.submission();
        self.with_batch(now, commands, |batch, effects| batch.submit_tentatively(now, submission, effects));
    }
}

impl Server {
    /// A copy is ours since its source has let it go, and had lost its turn by then: it waits anew like any other job.
    pub(super) fn queue_anew(&mut self, now: Time, number: u32, commands: &mut Vec<Command>) {
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
        // It may be about to go on, or have copies.
        if let Some(leaving) = self.leaving.remove(&number) {
            self.leaving.insert(kept.number, leaving);
        }
        if let Some(copies) = self.copies.remove(&number) {
            self.copies.insert(kept.number, copies);
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
    pub(super) fn steps_back(&mut self, now: Time, next: &mut u32) {
        (self.turn, self.number, self.ask_at) = (SiblingState::SteppedBack, *next, now);
        *next += 1;
    }

    /// Asks the source something, and again then.
    fn ask(&mut self, again: Time, call: Call, commands: &mut Vec<Command>) {
        self.ask_at = again;
        let (to, id) = (self.handoff.from.clone(), self.handoff.id.clone());
        commands.push(Command::Call { to, id, call });
    }
}
