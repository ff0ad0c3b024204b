//! Where every job is: what servers tell, kept and passed on.

use pliant_model::{Span, Time};

use super::{Agent, Command};
use crate::job::{JobRecord, JobState};
use crate::names::{Handle, Name};

/// How long an ended job stays in memory: longer than it takes to be found in the archive.
pub(super) const KEPT_AFTER_END: Span = Span(60);

impl Agent {
    pub(super) fn told(
        &mut self,
        now: Time,
        child: &Name,
        sequence: u64,
        record: JobRecord,
        commands: &mut Vec<Command>,
    ) {
        let Some(known) = self.children.get_mut(child) else { return };
        if sequence > known.sequence {
            known.sequence = sequence;
            if self.is_late(&record) {
                commands.push(Command::Acknowledge { child: child.clone(), sequence });
                return;
            }
            if !self.config.root {
                commands.push(Command::Tell(Box::new(record.clone())));
            }
            self.learn(now, record, commands);
        }
        let sequence = self.children[child].sequence;
        commands.push(Command::Acknowledge { child: child.clone(), sequence });
    }

    /// True if more is known of the job already: news of a server may come through two agents, when it has gone from
    /// one to the other, and then those of the first one may be late.
    fn is_late(&self, record: &JobRecord) -> bool {
        self.jobs.get(&record.handle).is_some_and(|known| progress(known) > progress(record))
    }

    fn learn(&mut self, now: Time, record: JobRecord, commands: &mut Vec<Command>) {
        if record.state.is_final() {
            self.ended.push_back((now, record.handle.clone()));
            commands.push(Command::Archive(Box::new(record.clone())));
        }
        self.jobs.insert(record.handle.clone(), record);
    }

    /// Drops what ended long enough ago.
    pub(super) fn forget(&mut self, now: Time) {
        while let Some((at, handle)) = self.ended.front()
            && *at + KEPT_AFTER_END <= now
        {
            self.jobs.remove(handle);
            self.ended.pop_front();
        }
    }

    /// A job in memory: one that has not ended, or only just.
    pub fn job(&self, handle: &Handle) -> Option<&JobRecord> {
        self.jobs.get(handle)
    }

    /// The highest number of the jobs of a server in memory.
    pub fn last_number(&self, server: &Name) -> Option<u32> {
        let handle = |number| Handle { server: server.clone(), number };
        self.jobs.range(handle(0)..=handle(u32::MAX)).next_back().map(|(last, _)| last.number)
    }

    /// Every job in memory, by server and number.
    pub fn jobs(&self) -> impl Iterator<Item = &JobRecord> {
        self.jobs.values()
    }
}

/// How far a job is: a later state is never followed by an earlier one.
fn progress(record: &JobRecord) -> u8 {
    match record.state {
        JobState::New | JobState::Queued => 0,
        JobState::Active => 1,
        JobState::Completed | JobState::Failed | JobState::Canceled => 2,
    }
}
