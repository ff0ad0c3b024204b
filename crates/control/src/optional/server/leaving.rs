//! Requests that their client takes back: cancelled, or withdrawn because another server is better.

use pliant_model::TimeMs;
use pliant_policy::optional::{Cancelled, RequestId};

use super::{Answer, Command, RequestKey, RequestState, Requests};
use crate::names::{Key, User};

/// Why a request is taken back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    /// Nobody wants it any more.
    Unwanted,
    /// Another server is to run it: whether it is late shows there.
    Moved,
}

impl Requests {
    /// As [`Requests::cancel`], but for what runs.
    pub(super) fn withdraw(
        &mut self,
        now: TimeMs,
        key: RequestKey,
        attempt: u32,
        user: &User,
        commands: &mut Vec<Command>,
    ) -> Answer {
        let is_own = self.owner(key.exploration) == Some(user);
        match self.stands(key) {
            Some(RequestState::Running) if is_own => {
                self.explorations.hear(now, key.exploration, user);
                Answer::Stands(RequestState::Running)
            }
            _ => self.take_back(now, key, attempt, user, Why::Moved, commands),
        }
    }

    /// Its user wants a request no more, up to that attempt. One that runs is ended; one that is not here does not come
    /// any more.
    pub(super) fn cancel(
        &mut self,
        now: TimeMs,
        key: RequestKey,
        attempt: u32,
        user: &User,
        commands: &mut Vec<Command>,
    ) -> Answer {
        self.take_back(now, key, attempt, user, Why::Unwanted, commands)
    }

    fn take_back(
        &mut self,
        now: TimeMs,
        key: RequestKey,
        attempt: u32,
        user: &User,
        why: Why,
        commands: &mut Vec<Command>,
    ) -> Answer {
        let RequestKey { exploration, number } = key;
        if let Err(why) = self.explorations.admits(exploration, user) {
            return Answer::Refused(why);
        }
        let known = self.explorations.get(exploration);
        let here = known.and_then(|known| known.here(number));
        let over = known.and_then(|known| known.stands(number));
        if here.is_none()
            && over.is_none()
            && let Err(why) = self.explorations.admits_cancelled(user)
        {
            return Answer::Refused(why);
        }
        self.explorations.hear(now, exploration, user);
        Answer::Stands(match (here, over) {
            // Of an earlier attempt: this one is wanted.
            (Some(here), _) if self.is_later(here, attempt) => self.state(here),
            (Some(here), _) => {
                self.explorations.give_back(exploration, number, attempt);
                self.end(now, here, why, commands);
                RequestState::Cancelled
            }
            (None, Some(state @ (RequestState::Completed | RequestState::Failed))) => state,
            (None, over) => {
                self.explorations.give_back(exploration, number, attempt);
                if over.is_none() {
                    self.explorations.bar(exploration, number);
                }
                RequestState::Cancelled
            }
        })
    }

    /// Nothing of the exploration is wanted any more.
    pub(super) fn cancel_all(
        &mut self,
        now: TimeMs,
        key: Key,
        user: &User,
        commands: &mut Vec<Command>,
    ) -> Answer {
        if let Err(why) = self.explorations.admits(key, user) {
            return Answer::Refused(why);
        }
        self.explorations.hear(now, key, user);
        for request in self.explorations.cancel_all(key) {
            self.end(now, request, Why::Unwanted, commands);
        }
        Answer::AllCancelled
    }

    /// True if a request that is here is of a later attempt than that.
    fn is_later(&self, here: RequestId, attempt: u32) -> bool {
        self.requests.get(&here).is_some_and(|kept| kept.attempt > attempt)
    }

    /// Ends a request that is here: at once if it waits.
    fn end(&mut self, now: TimeMs, request: RequestId, why: Why, commands: &mut Vec<Command>) {
        self.changed = true;
        if why == Why::Moved && self.queue.take_back(now, request).is_some() {
            self.over(now, request, RequestState::Cancelled);
            return;
        }
        match self.queue.cancel(now, request) {
            Cancelled::Running => {
                if let Some(kept) = self.requests.get_mut(&request).filter(|kept| !kept.cancelled) {
                    kept.cancelled = true;
                    commands.push(Command::End { request });
                }
            }
            Cancelled::Withdrawn | Cancelled::Unknown => {
                self.over(now, request, RequestState::Cancelled);
            }
        }
    }
}
