//! The calls that a server has not answered yet. They are sent again over a new stream.

use std::collections::BTreeMap;

use pliant_control::names::Name;
use pliant_control::optional::server::RequestState;
use pliant_control::reason::Reason;
use pliant_wire::{Attempt, Call, ExplorationAnswer, ExplorationRequest};

use super::connection::ServerCommand;
use super::{ConnectionReport, RequestEvent};

/// The calls that a server has not answered yet.
pub(super) struct PendingCalls {
    server: Name,
    /// Requests that are not over.
    open: BTreeMap<u32, Call>,
    /// Cancellations that are not acknowledged.
    cancels: BTreeMap<u32, Attempt>,
    cancels_all: bool,
    /// A question about its prospects is open.
    expects: bool,
}

impl PendingCalls {
    /// No calls to that server.
    pub(super) fn new(server: Name) -> PendingCalls {
        PendingCalls {
            server,
            open: BTreeMap::new(),
            cancels: BTreeMap::new(),
            cancels_all: false,
            expects: false,
        }
    }

    /// True if no answer is awaited.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.cancels.is_empty() && !self.cancels_all && !self.expects
    }

    /// The messages to send over a new stream.
    pub(super) fn all(&self) -> impl Iterator<Item = ExplorationRequest> {
        let wanted = self.open.values().filter(|call| !self.is_recalled(call));
        let calls = wanted.cloned().map(ExplorationRequest::Call);
        let cancels = self.cancels.values().copied().map(ExplorationRequest::Cancel);
        let cancels_all = self.cancels_all.then_some(ExplorationRequest::CancelAll);
        calls.chain(cancels).chain(cancels_all).chain(self.expects.then_some(ExplorationRequest::Expect))
    }

    /// Remembers a command; returns the message to send.
    pub(super) fn add(&mut self, order: ServerCommand) -> Option<ExplorationRequest> {
        match order {
            ServerCommand::Call(call) => {
                self.open.insert(call.number, call.clone());
                Some(ExplorationRequest::Call(call))
            }
            ServerCommand::Probe(number) => {
                let asked = self.open.get(&number).filter(|call| !self.is_recalled(call));
                asked.cloned().map(ExplorationRequest::Call)
            }
            ServerCommand::Recall(call) => {
                let id = call.id();
                self.cancels.insert(id.number, id);
                self.open.insert(id.number, call);
                Some(ExplorationRequest::Cancel(id))
            }
            ServerCommand::Cancel(id) => {
                self.open.remove(&id.number);
                self.cancels.insert(id.number, id);
                Some(ExplorationRequest::Cancel(id))
            }
            // It may get lost: a new stream shows where the request is.
            ServerCommand::Withdraw(id) => Some(ExplorationRequest::Withdraw(id)),
            ServerCommand::Expect => {
                self.expects = true;
                Some(ExplorationRequest::Expect)
            }
            ServerCommand::CancelAll => {
                self.open.clear();
                self.cancels_all = true;
                Some(ExplorationRequest::CancelAll)
            }
        }
    }

    /// Takes in an answer of the server.
    pub(super) fn receive(&mut self, answer: ExplorationAnswer, report: &mut impl FnMut(ConnectionReport)) {
        let server = self.server.clone();
        match answer {
            ExplorationAnswer::Status { id, state, output } => {
                if self.is_acknowledged(id, state) {
                    self.cancels.remove(&id.number);
                    report(ConnectionReport::Cancelled(server, Some(id.number)));
                }
                self.status(id, state, output, report);
            }
            ExplorationAnswer::Refused { number, why } => {
                // It also answers a cancellation if the server remembers too many: then it will not run the request.
                let is_wanted = self.open.get(&number).is_some_and(|call| !self.is_recalled(call));
                if !is_wanted && self.cancels.remove(&number).is_some() {
                    report(ConnectionReport::Cancelled(server.clone(), Some(number)));
                }
                if self.open.remove(&number).is_some() {
                    report(ConnectionReport::Event(RequestEvent::Refused { number, server, why }));
                }
            }
            ExplorationAnswer::AllCancelled => {
                self.cancels_all = false;
                report(ConnectionReport::Cancelled(server, None));
            }
            ExplorationAnswer::Expected(prospects) => {
                self.expects = false;
                report(ConnectionReport::Event(RequestEvent::Expected { server, prospects }));
            }
            ExplorationAnswer::Shared => {}
        }
    }

    /// True if the request is only to be reported, not to be run.
    fn is_recalled(&self, call: &Call) -> bool {
        self.cancels.get(&call.number) == Some(&call.id())
    }

    /// True if that answers a cancellation, not an earlier call: then the request is over, or a later attempt at it is wanted.
    fn is_acknowledged(&self, id: Attempt, state: RequestState) -> bool {
        let is_over = !matches!(state, RequestState::Waiting | RequestState::Running);
        let is_wanted = self.open.get(&id.number).is_some_and(|call| call.attempt > id.attempt);
        self.cancels.get(&id.number) == Some(&id) && (is_over || is_wanted)
    }

    fn status(
        &mut self,
        id: Attempt,
        state: RequestState,
        output: Vec<u8>,
        report: &mut impl FnMut(ConnectionReport),
    ) {
        let (number, server) = (id.number, self.server.clone());
        let was_open = match state {
            RequestState::Waiting | RequestState::Running => {
                return report(ConnectionReport::Status { number, state });
            }
            RequestState::Cancelled => {
                // A later attempt may have been called since.
                if self.open.get(&number).is_some_and(|call| call.id() == id) {
                    self.open.remove(&number);
                    report(ConnectionReport::Event(RequestEvent::Withdrawn { id, server }));
                }
                return;
            }
            RequestState::Completed | RequestState::Failed => self.open.remove(&number).is_some(),
        };
        // A request that was given up here may still complete. A cancelled one is not reported.
        if was_open || state == RequestState::Completed {
            report(ConnectionReport::Event(RequestEvent::Ended { number, server, state, output }));
        }
    }

    /// The server refuses all requests.
    pub(super) fn refused(&mut self, why: &Reason, report: &mut impl FnMut(ConnectionReport)) {
        for (number, _) in std::mem::take(&mut self.open) {
            let (server, why) = (self.server.clone(), why.clone());
            report(ConnectionReport::Event(RequestEvent::Refused { number, server, why }));
        }
    }

    /// Forgets all calls.
    pub(super) fn clear(&mut self) {
        *self = PendingCalls::new(self.server.clone());
    }
}

#[cfg(test)]
mod tests {
    use pliant_control::reason::Cause;
    use pliant_policy::optional::Kind;

    use super::*;

    fn call(number: u32, attempt: u32) -> Call {
        Call { number, kind: Kind::Optional, attempt, arguments: BTreeMap::new() }
    }

    /// The pending calls after some commands and answers, with what was reported.
    struct Connection {
        pending: PendingCalls,
        acknowledged: Vec<Option<u32>>,
        /// Reported events of requests.
        happened: Vec<String>,
    }

    impl Connection {
        fn new(orders: impl IntoIterator<Item = ServerCommand>) -> Connection {
            let mut pending = PendingCalls::new("lyon".parse().unwrap());
            orders.into_iter().for_each(|order| drop(pending.add(order)));
            Connection { pending, acknowledged: Vec::new(), happened: Vec::new() }
        }

        fn status(&mut self, id: Attempt, state: RequestState) -> Vec<ExplorationRequest> {
            self.receive(ExplorationAnswer::Status { id, state, output: Vec::new() });
            self.pending.all().collect()
        }

        fn receive(&mut self, answer: ExplorationAnswer) {
            self.pending.receive(answer, &mut |report| match report {
                ConnectionReport::Cancelled(_, number) => self.acknowledged.push(number),
                ConnectionReport::Event(RequestEvent::Ended { state, .. }) => {
                    self.happened.push(format!("ended {state:?}"));
                }
                ConnectionReport::Event(RequestEvent::Withdrawn { .. }) => {
                    self.happened.push("withdrawn".to_owned())
                }
                _ => {}
            });
        }
    }

    #[test]
    fn a_cancellation_is_sent_again_until_it_was_answered_itself() {
        let id = Attempt { number: 7, attempt: 1 };
        let mut connection = Connection::new([ServerCommand::Call(call(7, 1)), ServerCommand::Cancel(id)]);
        let cancel = [ExplorationRequest::Cancel(id)];
        // The answer is about the call: the server may not have received the cancellation.
        assert_eq!(connection.status(id, RequestState::Waiting), cancel);
        assert_eq!(connection.status(id, RequestState::Running), cancel);
        // An earlier attempt was withdrawn.
        assert_eq!(connection.status(Attempt { attempt: 0, ..id }, RequestState::Cancelled), cancel);
        assert_eq!(connection.acknowledged, []);
        assert_eq!(connection.status(id, RequestState::Cancelled), []);
        assert_eq!(connection.acknowledged, [Some(7)]);
        assert!(connection.pending.is_empty());
    }

    #[test]
    fn a_cancellation_that_is_refused_is_not_sent_again() {
        let mut connection = Connection::new([ServerCommand::Cancel(7.into())]);
        let why = Cause::TooMany.because("too many are remembered");
        connection.receive(ExplorationAnswer::Refused { number: 7, why });
        assert!(connection.pending.is_empty());
        assert_eq!(connection.acknowledged, [Some(7)]);
        // The answer is about the later attempt, not about the cancellation.
        let mut connection =
            Connection::new([ServerCommand::Cancel(7.into()), ServerCommand::Call(call(7, 1))]);
        connection.receive(ExplorationAnswer::Refused {
            number: 7,
            why: Cause::TooMany.because("the queue is full"),
        });
        assert_eq!(connection.pending.all().collect::<Vec<_>>(), [ExplorationRequest::Cancel(7.into())]);
    }

    #[test]
    fn recalled_requests_are_cancelled_and_reported() {
        for (state, expected) in [
            (RequestState::Completed, "ended Completed"),
            (RequestState::Failed, "ended Failed"),
            (RequestState::Cancelled, "withdrawn"),
        ] {
            let mut connection = Connection::new([ServerCommand::Recall(call(7, 0))]);
            let id = Attempt { number: 7, attempt: 0 };
            assert_eq!(connection.pending.all().collect::<Vec<_>>(), [ExplorationRequest::Cancel(id)]);
            assert_eq!(connection.pending.add(ServerCommand::Probe(7)), None, "a probe would have it run");
            assert_eq!(connection.status(id, state), []);
            assert_eq!(connection.acknowledged, [Some(7)]);
            assert_eq!(connection.happened, [expected]);
        }
    }

    #[test]
    fn a_cancellation_that_comes_too_late_is_answered_too() {
        for state in [RequestState::Completed, RequestState::Failed] {
            let mut connection =
                Connection::new([ServerCommand::Call(call(7, 0)), ServerCommand::Cancel(7.into())]);
            assert_eq!(connection.status(7.into(), state), []);
            assert_eq!(connection.acknowledged, [Some(7)], "{state:?}");
        }
        // The server has a later attempt, which is wanted.
        let mut connection =
            Connection::new([ServerCommand::Cancel(7.into()), ServerCommand::Call(call(7, 1))]);
        assert_eq!(
            connection.status(7.into(), RequestState::Running),
            [ExplorationRequest::Call(call(7, 1))]
        );
        assert_eq!(connection.acknowledged, [Some(7)]);
    }
}
