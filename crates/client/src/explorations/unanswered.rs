//! What a server has not answered yet, which is sent again when the stream to it was made again.

use std::collections::BTreeMap;

use pliant_control::names::Name;
use pliant_control::optional::server::Standing;
use pliant_control::reason::Reason;
use pliant_wire::{Attempt, Call, Said, ToServer};

use super::line::Order;
use super::{Report, RequestEvent};

/// What a server has not answered yet, as far as is known here.
pub(super) struct Unanswered {
    server: Name,
    /// Requests that are not over.
    open: BTreeMap<u32, Call>,
    /// What was cancelled and not acknowledged.
    cancels: BTreeMap<u32, Attempt>,
    cancels_all: bool,
    /// It was asked what may be expected.
    expects: bool,
}

impl Unanswered {
    /// Nothing was asked of a server.
    pub(super) fn new(server: Name) -> Unanswered {
        Unanswered {
            server,
            open: BTreeMap::new(),
            cancels: BTreeMap::new(),
            cancels_all: false,
            expects: false,
        }
    }

    /// Nobody waits for anything.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.cancels.is_empty() && !self.cancels_all && !self.expects
    }

    /// All of it, as it is sent over a new stream.
    pub(super) fn all(&self) -> impl Iterator<Item = ToServer> {
        let wanted = self.open.values().filter(|call| !self.is_recalled(call));
        let calls = wanted.cloned().map(ToServer::Call);
        let cancels = self.cancels.values().copied().map(ToServer::Cancel);
        let cancels_all = self.cancels_all.then_some(ToServer::CancelAll);
        calls.chain(cancels).chain(cancels_all).chain(self.expects.then_some(ToServer::Expect))
    }

    /// Remembers an order; what is to be sent.
    pub(super) fn note(&mut self, order: Order) -> Option<ToServer> {
        match order {
            Order::Call(call) => {
                self.open.insert(call.number, call.clone());
                Some(ToServer::Call(call))
            }
            Order::Probe(number) => {
                let asked = self.open.get(&number).filter(|call| !self.is_recalled(call));
                asked.cloned().map(ToServer::Call)
            }
            Order::Recall(call) => {
                let id = call.id();
                self.cancels.insert(id.number, id);
                self.open.insert(id.number, call);
                Some(ToServer::Cancel(id))
            }
            Order::Cancel(id) => {
                self.open.remove(&id.number);
                self.cancels.insert(id.number, id);
                Some(ToServer::Cancel(id))
            }
            // One that gets lost is not missed: where the request is shows when the stream is made again.
            Order::Withdraw(id) => Some(ToServer::Withdraw(id)),
            Order::Expect => {
                self.expects = true;
                Some(ToServer::Expect)
            }
            Order::CancelAll => {
                self.open.clear();
                self.cancels_all = true;
                Some(ToServer::CancelAll)
            }
        }
    }

    /// Takes in what the server says.
    pub(super) fn told(&mut self, said: Said, report: &mut impl FnMut(Report)) {
        let server = self.server.clone();
        match said {
            Said::Stands { id, standing, output } => {
                if self.is_acknowledged(id, standing) {
                    self.cancels.remove(&id.number);
                    report(Report::Cancelled(server, Some(id.number)));
                }
                self.stands(id, standing, output, report);
            }
            Said::NotTaken { number, why } => {
                // Also said of a cancellation where too many are remembered: then the request is not there, and does not get in.
                let is_wanted = self.open.get(&number).is_some_and(|call| !self.is_recalled(call));
                if !is_wanted && self.cancels.remove(&number).is_some() {
                    report(Report::Cancelled(server.clone(), Some(number)));
                }
                if self.open.remove(&number).is_some() {
                    report(Report::Happened(RequestEvent::NotTaken { number, server, why }));
                }
            }
            Said::AllCancelled => {
                self.cancels_all = false;
                report(Report::Cancelled(server, None));
            }
            Said::Expected(prospects) => {
                self.expects = false;
                report(Report::Happened(RequestEvent::Expected { server, prospects }));
            }
            Said::Shared => {}
        }
    }

    /// Whether only what has become of a request is to be known: it is not to be run.
    fn is_recalled(&self, call: &Call) -> bool {
        self.cancels.get(&call.number) == Some(&call.id())
    }

    /// Whether that answers a cancellation, and not what was asked about the request before it: then the request is over. It
    /// is not if the server has a later attempt at it, but then that is wanted here too.
    fn is_acknowledged(&self, id: Attempt, standing: Standing) -> bool {
        let is_over = !matches!(standing, Standing::Waiting | Standing::Running);
        let is_wanted = self.open.get(&id.number).is_some_and(|call| call.attempt > id.attempt);
        self.cancels.get(&id.number) == Some(&id) && (is_over || is_wanted)
    }

    fn stands(&mut self, id: Attempt, standing: Standing, output: Vec<u8>, report: &mut impl FnMut(Report)) {
        let (number, server) = (id.number, self.server.clone());
        let was_open = match standing {
            Standing::Waiting | Standing::Running => return report(Report::Stands { number, standing }),
            Standing::Cancelled => {
                // What was asked about may have come back since.
                if self.open.get(&number).is_some_and(|call| call.id() == id) {
                    self.open.remove(&number);
                    report(Report::Happened(RequestEvent::Withdrawn { id, server }));
                }
                return;
            }
            Standing::Completed | Standing::Failed => self.open.remove(&number).is_some(),
        };
        // One that was given up here and has been run after all is news, one that was cancelled is not.
        if was_open || standing == Standing::Completed {
            report(Report::Happened(RequestEvent::Ended { number, server, standing, output }));
        }
    }

    /// The server takes none of the requests.
    pub(super) fn refused(&mut self, why: &Reason, report: &mut impl FnMut(Report)) {
        for (number, _) in std::mem::take(&mut self.open) {
            let (server, why) = (self.server.clone(), why.clone());
            report(Report::Happened(RequestEvent::NotTaken { number, server, why }));
        }
    }

    /// Nothing is waited for any more.
    pub(super) fn clear(&mut self) {
        *self = Unanswered::new(self.server.clone());
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

    /// What is waited for after all of these orders and answers, what was reported, and which cancellations were acknowledged.
    struct Line {
        unanswered: Unanswered,
        acknowledged: Vec<Option<u32>>,
        /// What was reported of requests.
        happened: Vec<String>,
    }

    impl Line {
        fn new(orders: impl IntoIterator<Item = Order>) -> Line {
            let mut unanswered = Unanswered::new("lyon".parse().unwrap());
            orders.into_iter().for_each(|order| drop(unanswered.note(order)));
            Line { unanswered, acknowledged: Vec::new(), happened: Vec::new() }
        }

        fn stands(&mut self, id: Attempt, standing: Standing) -> Vec<ToServer> {
            self.told(Said::Stands { id, standing, output: Vec::new() });
            self.unanswered.all().collect()
        }

        fn told(&mut self, said: Said) {
            self.unanswered.told(said, &mut |report| match report {
                Report::Cancelled(_, number) => self.acknowledged.push(number),
                Report::Happened(RequestEvent::Ended { standing, .. }) => {
                    self.happened.push(format!("ended {standing:?}"));
                }
                Report::Happened(RequestEvent::Withdrawn { .. }) => {
                    self.happened.push("withdrawn".to_owned())
                }
                _ => {}
            });
        }
    }

    #[test]
    fn a_cancellation_is_sent_again_until_it_was_answered_itself() {
        let id = Attempt { number: 7, attempt: 1 };
        let mut line = Line::new([Order::Call(call(7, 1)), Order::Cancel(id)]);
        let cancel = [ToServer::Cancel(id)];
        // That is said of the call; and if the stream breaks now, the server may have heard of no more.
        assert_eq!(line.stands(id, Standing::Waiting), cancel);
        assert_eq!(line.stands(id, Standing::Running), cancel);
        // That was an earlier attempt, which was withdrawn.
        assert_eq!(line.stands(Attempt { attempt: 0, ..id }, Standing::Cancelled), cancel);
        assert_eq!(line.acknowledged, []);
        assert_eq!(line.stands(id, Standing::Cancelled), []);
        assert_eq!(line.acknowledged, [Some(7)]);
        assert!(line.unanswered.is_empty());
    }

    #[test]
    fn a_cancellation_that_is_refused_is_not_sent_again() {
        let mut line = Line::new([Order::Cancel(7.into())]);
        let why = Cause::TooMany.because("too many are remembered");
        line.told(Said::NotTaken { number: 7, why });
        assert!(line.unanswered.is_empty());
        assert_eq!(line.acknowledged, [Some(7)]);
        // That is said of the later attempt, and nothing of the cancellation.
        let mut line = Line::new([Order::Cancel(7.into()), Order::Call(call(7, 1))]);
        line.told(Said::NotTaken { number: 7, why: Cause::TooMany.because("no room") });
        assert_eq!(line.unanswered.all().collect::<Vec<_>>(), [ToServer::Cancel(7.into())]);
    }

    #[test]
    fn what_is_recalled_is_cancelled_and_reported() {
        for (standing, expected) in [
            (Standing::Completed, "ended Completed"),
            (Standing::Failed, "ended Failed"),
            (Standing::Cancelled, "withdrawn"),
        ] {
            let mut line = Line::new([Order::Recall(call(7, 0))]);
            let id = Attempt { number: 7, attempt: 0 };
            assert_eq!(line.unanswered.all().collect::<Vec<_>>(), [ToServer::Cancel(id)]);
            assert_eq!(line.unanswered.note(Order::Probe(7)), None, "a probe would have it run");
            assert_eq!(line.stands(id, standing), []);
            assert_eq!(line.acknowledged, [Some(7)]);
            assert_eq!(line.happened, [expected]);
        }
    }

    #[test]
    fn a_cancellation_that_comes_too_late_is_answered_too() {
        for standing in [Standing::Completed, Standing::Failed] {
            let mut line = Line::new([Order::Call(call(7, 0)), Order::Cancel(7.into())]);
            assert_eq!(line.stands(7.into(), standing), []);
            assert_eq!(line.acknowledged, [Some(7)], "{standing:?}");
        }
        // The server goes on with a later attempt, which is wanted.
        let mut line = Line::new([Order::Cancel(7.into()), Order::Call(call(7, 1))]);
        assert_eq!(line.stands(7.into(), Standing::Running), [ToServer::Call(call(7, 1))]);
        assert_eq!(line.acknowledged, [Some(7)]);
    }
}
