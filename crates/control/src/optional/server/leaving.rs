//! Requests that their client takes back: cancelled, or withdrawn in favour of another server.

use pliant_model::TimeMs;
use pliant_policy::optional::{Cancelled, RequestId};

use super::{Answer, Command, RequestKey, RequestState, Requests};
use crate::names::{Key, User};

/// The reason for taking a request back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TakeBackReason {
    /// The user has cancelled it.
    Cancelled,
    /// Another server will run it, and accounts for its lateness.
    Moved,
}

impl Requests {
    /// Like [`Requests::cancel`], except for running requests.
    pub(super) fn withdraw(
        &mut self,
        now: TimeMs,
        key: RequestKey,
        attempt: u32,
        user: &User,
        commands: &mut Vec<Command>,
    ) -> Answer {
        let is_own = self.owner(key.exploration) == Some(user);
        match self.request_state(key) {
            Some(RequestState::Running) if is_own => {
                self.explorations.touch(now, key.exploration, user);
                Answer::State(RequestState::Running)
            }
            _ => self.take_back(now, key, attempt, user, TakeBackReason::Moved, commands),
        }
    }

    /// Cancels a request up to this attempt. A running request is ended, and one that is not here will not be accepted
    /// later.
    pub(super) fn cancel(
        &mut self,
        now: TimeMs,
        key: RequestKey,
        attempt: u32,
        user: &User,
        commands: &mut Vec<Command>,
    ) -> Answer {
        self.take_back(now, key, attempt, user, TakeBackReason::Cancelled, commands)
    }

    fn take_back(
        &mut self,
        now: TimeMs,
        key: RequestKey,
        attempt: u32,
        user: &User,
        reason: TakeBackReason,
        commands: &mut Vec<Command>,
    ) -> Answer {
        let RequestKey { exploration, number } = key;
        if let Err(why) = self.explorations.admits(exploration, user) {
            return Answer::Refused(why);
        }
        let known = self.explorations.get(exploration);
        let here = known.and_then(|known| known.here(number));
        let over = known.and_then(|known| known.state(number));
        if here.is_none()
            && over.is_none()
            && let Err(why) = self.explorations.admits_cancelled(user)
        {
            return Answer::Refused(why);
        }
        self.explorations.touch(now, exploration, user);
        Answer::State(match (here, over) {
            // The request is of a later attempt and stays.
            (Some(here), _) if self.is_later(here, attempt) => self.state(here),
            (Some(here), _) => {
                self.explorations.record_taken_back(exploration, number, attempt);
                self.end(now, here, reason, commands);
                RequestState::Cancelled
            }
            (None, Some(state @ (RequestState::Completed | RequestState::Failed))) => state,
            (None, over) => {
                self.explorations.record_taken_back(exploration, number, attempt);
                if over.is_none() {
                    self.explorations.cancel_absent(exploration, number);
                }
                RequestState::Cancelled
            }
        })
    }

    /// Cancels all requests of an exploration.
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
        self.explorations.touch(now, key, user);
        for request in self.explorations.cancel_all(key) {
            self.end(now, request, TakeBackReason::Cancelled, commands);
        }
        Answer::AllCancelled
    }

    /// True if a present request is of a later attempt.
    fn is_later(&self, here: RequestId, attempt: u32) -> bool {
        self.requests.get(&here).is_some_and(|kept| kept.attempt > attempt)
    }

    /// Ends a present request: at once if it waits.
    fn end(&mut self, now: TimeMs, request: RequestId, reason: TakeBackReason, commands: &mut Vec<Command>) {
        self.changed = true;
        if reason == TakeBackReason::Moved && self.queue.take_back(now, request).is_some() {
            self.remove(now, request, RequestState::Cancelled);
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
                self.remove(now, request, RequestState::Cancelled);
            }
        }
    }
}
