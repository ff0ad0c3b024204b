//! Requests that their client takes back: cancelled, or withdrawn because another server is better.

use pliant_model::TimeMs;
use pliant_policy::optional::{Cancelled, RequestId};

use super::{Answer, Command, Exploration, RequestKey, Requests, Standing, not_yours};
use crate::names::{Key, User};

impl Requests {
    /// As [`Requests::cancel`], but for what runs.
    pub(super) fn withdraw(
        &mut self,
        now: TimeMs,
        key: RequestKey,
        attempt: u32,
        commands: &mut Vec<Command>,
    ) -> Standing {
        match self.stands(key) {
            Some(Standing::Running) => Standing::Running,
            _ => self.cancel(now, key, attempt, commands),
        }
    }

    /// Its user wants a request no more, up to that attempt. One that runs is ended.
    pub(super) fn cancel(
        &mut self,
        now: TimeMs,
        key: RequestKey,
        attempt: u32,
        commands: &mut Vec<Command>,
    ) -> Standing {
        let Some(exploration) = self.explorations.get_mut(&key.exploration) else {
            return Standing::Cancelled;
        };
        let here = exploration.here.get(&key.number).copied();
        if here.and_then(|here| self.requests.get(&here)).is_some_and(|kept| kept.attempt > attempt) {
            // Of an earlier attempt: this one is wanted.
            return here.map_or(Standing::Cancelled, |here| self.standing(here));
        }
        if attempt > 0 {
            let up_to = exploration.given_back.entry(key.number).or_default();
            *up_to = attempt.max(*up_to);
        }
        if let Some(standing) = exploration.over.get(&key.number) {
            return *standing;
        }
        let Some(request) = here else {
            // It may come yet.
            exploration.over.insert(key.number, Standing::Cancelled);
            return Standing::Cancelled;
        };
        self.changed = true;
        match self.queue.cancel(now, request) {
            Cancelled::Running => {
                if let Some(kept) = self.requests.get_mut(&request).filter(|kept| !kept.cancelled) {
                    kept.cancelled = true;
                    commands.push(Command::End { request });
                }
            }
            Cancelled::Withdrawn | Cancelled::Unknown => {
                self.over(request, Standing::Cancelled);
            }
        }
        Standing::Cancelled
    }

    /// Nothing of the exploration is wanted any more.
    pub(super) fn cancel_all(
        &mut self,
        now: TimeMs,
        key: Key,
        user: &User,
        commands: &mut Vec<Command>,
    ) -> Answer {
        let Some(exploration) = self.exploration(now, key, user) else { return not_yours() };
        exploration.cancelled = true;
        let numbers: Vec<(u32, RequestId)> =
            exploration.here.iter().map(|(number, request)| (*number, *request)).collect();
        for (number, request) in numbers {
            let attempt = self.requests.get(&request).map_or(0, |kept| kept.attempt);
            self.cancel(now, RequestKey { exploration: key, number }, attempt, commands);
        }
        Answer::AllCancelled
    }
}

impl Exploration {
    /// True if that is an attempt of a request later than those that were cancelled or withdrawn.
    pub(super) fn comes_back(&self, number: u32, attempt: u32) -> bool {
        !self.cancelled && attempt > self.given_back.get(&number).copied().unwrap_or_default()
    }
}
