//! Tests of the queue order.

use pliant_model::rng::Draws;
use pliant_model::{SpanMs, TimeMs};

use super::*;

const FAIR: Order = Order::Fair { fairness: Fairness::VirtualTime, grace: SpanMs::ZERO };

/// A server with short methods for events, and the order in which it starts requests.
struct Server {
    queue: Queue,
    draws: Draws,
    now: TimeMs,
}

impl Server {
    fn new(order: Order, cores: u32) -> Server {
        Server { queue: Queue::new(order, cores), draws: Draws::new(1, "ties"), now: TimeMs::ZERO }
    }

    fn at(&mut self, now: i64) -> &mut Server {
        self.now = TimeMs(now);
        self
    }

    fn submit(&mut self, id: u32, user: u32, kind: Kind) -> &mut Server {
        self.submit_weighted(id, user, kind, 1)
    }

    fn submit_weighted(&mut self, id: u32, user: u32, kind: Kind, weight: u32) -> &mut Server {
        let (id, user) = (RequestId(id), UserId(user));
        self.queue.submit(self.now, Request { id, user, weight, kind, deadline: None });
        self
    }

    fn over(&mut self, id: u32) -> &mut Server {
        self.queue.ended(self.now, RequestId(id), RunOutcome::Over);
        self
    }

    /// Decides and ends runs at once. Started requests as numbers, ended ones as negative numbers.
    fn decide(&mut self) -> Vec<i64> {
        let mut said = Vec::new();
        loop {
            let mut decisions = Vec::new();
            self.queue.decide(self.now, &mut self.draws, &mut decisions);
            let mut ended = false;
            for decision in decisions {
                match decision {
                    Decision::Start { request, .. } => said.push(i64::from(request.0)),
                    Decision::End { request } => {
                        said.push(-i64::from(request.0));
                        self.queue.ended(self.now, request, RunOutcome::Killed);
                        ended = true;
                    }
                }
            }
            if !ended {
                return said;
            }
        }
    }
}

use Kind::{Mandatory, Optional};

#[test]
fn g004_1_the_queue_is_in_the_order_of_the_five_rules() {
    let mut server = Server::new(FAIR, 1);
    // User 1 has used a second, user 2 nothing.
    server.submit(1, 1, Optional);
    assert_eq!(server.decide(), [1]);
    server.at(1_000).over(1);
    server.submit(2, 1, Optional).submit(3, 2, Optional).submit(4, 1, Mandatory).submit(5, 2, Mandatory);
    let mut order = Vec::new();
    for now in 1..=4 {
        let started = server.at(now * 1_000).decide();
        server.at(now * 1_000 + 1_000).over(started[0] as u32);
        order.extend(started);
    }
    assert_eq!(order, [4, 5, 3, 2], "mandatory by arrival, then optional by usage");
}

#[test]
fn g004_2_a_mandatory_request_ends_an_optional_one_which_returns_and_never_a_mandatory_one() {
    let mut server = Server::new(FAIR, 1);
    server.submit(1, 1, Optional);
    assert_eq!(server.decide(), [1]);
    assert_eq!(server.at(400).submit(2, 2, Optional).decide(), [], "an optional one does not");
    assert_eq!(server.submit(3, 2, Mandatory).decide(), [-1, 3]);
    assert!(server.queue.waits(RequestId(1)));
    assert_eq!(server.at(900).submit(4, 1, Mandatory).decide(), [], "not even for an older user");
    assert_eq!(server.at(1_400).over(3).decide(), [4]);
    assert_eq!(server.queue.usage(TimeMs(1_400), UserId(1)), SpanMs(400), "lost runs count as usage");
    // User 2 started at the virtual time of user 1 and has used 1,000 since; user 1 400, and 1,000 for the mandatory one.
    assert_eq!(server.at(2_400).over(4).decide(), [2]);
    assert_eq!(server.at(3_400).over(2).decide(), [1]);
}

#[test]
fn how_runs_have_ended_is_counted_for_their_users() {
    let mut queue = Queue::new(FAIR, 1);
    let mut draws = Draws::new(1, "ties");
    let mut decide = |queue: &mut Queue, now| queue.decide(TimeMs(now), &mut draws, &mut Vec::new());
    let deadline = Some(TimeMs(10));
    let request =
        |id, user, kind| Request { id: RequestId(id), user: UserId(user), weight: 1, kind, deadline };
    queue.submit(TimeMs(0), request(1, 1, Optional));
    decide(&mut queue, 0);
    queue.submit(TimeMs(4), request(2, 2, Mandatory));
    decide(&mut queue, 4);
    queue.ended(TimeMs(4), RequestId(1), RunOutcome::Killed);
    decide(&mut queue, 4);
    let late = |queue: &Queue, now| queue.share(TimeMs(now), UserId(2)).unwrap().late;
    assert_eq!((late(&queue, 10), late(&queue, 11)), (0, 1), "the deadline has passed, and it runs");
    queue.ended(TimeMs(12), RequestId(2), RunOutcome::Over);
    assert_eq!(late(&queue, 20), 1, "it was completed late");
    decide(&mut queue, 12);
    queue.ended(TimeMs(15), RequestId(1), RunOutcome::Over);
    queue.submit(TimeMs(15), request(3, 1, Optional));
    decide(&mut queue, 15);
    queue.ended(TimeMs(17), RequestId(3), RunOutcome::Failed);
    let share = queue.share(TimeMs(20), UserId(1)).unwrap();
    let Share { completed, useful, killed, late, usage, .. } = share;
    assert_eq!((completed, useful, killed, late, usage), (1, SpanMs(3), 1, 0, SpanMs(4 + 3 + 2)));
}

/// A server that was down notices the end of a run late.
#[test]
fn a_user_is_not_charged_for_the_time_after_a_run_has_ended() {
    let mut queue = Queue::new(FAIR, 1);
    let mut draws = Draws::new(1, "ties");
    let (user, deadline) = (UserId(1), Some(TimeMs(10)));
    queue.submit(TimeMs(0), Request { id: RequestId(1), user, weight: 1, kind: Mandatory, deadline });
    queue.decide(TimeMs(2), &mut draws, &mut Vec::new());
    queue.ended_at(TimeMs(50), TimeMs(9), RequestId(1), RunOutcome::Over);
    let Share { useful, late, usage, .. } = queue.share(TimeMs(60), user).unwrap();
    assert_eq!((useful, late, usage), (SpanMs(7), 0, SpanMs(7)));
    // The clock was set back meanwhile.
    queue.submit(TimeMs(60), Request { id: RequestId(2), user, weight: 1, kind: Optional, deadline });
    queue.decide(TimeMs(60), &mut draws, &mut Vec::new());
    queue.ended_at(TimeMs(70), TimeMs(20), RequestId(2), RunOutcome::Over);
    assert_eq!(queue.usage(TimeMs(70), user), SpanMs(7));
}

/// Failed requests and requests cancelled late have missed the deadline; those cancelled in time have not.
#[test]
fn mandatory_requests_that_fail_or_are_cancelled_late_stay_late() {
    let cancel = |queue: &mut Queue, now| {
        queue.cancel(TimeMs(now), RequestId(1));
    };
    let end = |queue: &mut Queue, now, how| {
        queue.ended(TimeMs(now), RequestId(1), how);
    };
    let check = |what: &str, kind, runs: bool, expected: u32, happens: &dyn Fn(&mut Queue)| {
        let mut queue = Queue::new(FAIR, 1);
        let deadline = Some(TimeMs(10));
        queue.submit(TimeMs(0), Request { id: RequestId(1), user: UserId(1), weight: 1, kind, deadline });
        if runs {
            queue.decide(TimeMs(0), &mut Draws::new(1, "ties"), &mut Vec::new());
        }
        happens(&mut queue);
        assert_eq!(queue.share(TimeMs(99), UserId(1)).unwrap().late, expected, "{what}");
    };
    check("completed in time", Mandatory, true, 0, &|queue| end(queue, 10, RunOutcome::Over));
    check("completed late", Mandatory, true, 1, &|queue| end(queue, 11, RunOutcome::Over));
    check("failed in time: it never comes", Mandatory, true, 1, &|queue| end(queue, 5, RunOutcome::Failed));
    check("failed late", Mandatory, true, 1, &|queue| end(queue, 11, RunOutcome::Failed));
    check("an optional one failed late", Optional, true, 0, &|queue| end(queue, 11, RunOutcome::Failed));
    check("cancelled in time while it waited", Mandatory, false, 0, &|queue| cancel(queue, 10));
    check("cancelled late while it waited", Mandatory, false, 1, &|queue| cancel(queue, 11));
    check("an optional one cancelled late", Optional, false, 0, &|queue| cancel(queue, 11));
    check("moved when it was late", Mandatory, false, 0, &|queue| {
        assert!(queue.take_back(TimeMs(11), RequestId(1)).is_some());
    });
    for how in [RunOutcome::Killed, RunOutcome::Over] {
        check("cancelled in time, and gone late", Mandatory, true, 0, &|queue| {
            cancel(queue, 10);
            assert_eq!(queue.share(TimeMs(20), UserId(1)).unwrap().late, 0, "while it is being ended");
            end(queue, 30, how);
        });
        check("cancelled late, twice", Mandatory, true, 1, &|queue| {
            cancel(queue, 11);
            cancel(queue, 12);
            end(queue, 30, how);
        });
    }
}

#[test]
fn unfairness_is_the_greatest_satisfaction_minus_the_least() {
    let share = |usage, fair_share| Share {
        usage: SpanMs(usage),
        fair_share: SpanMs(fair_share),
        ..Share::default()
    };
    assert_eq!(unfairness([share(3, 4), share(5, 4), share(4, 4), share(0, 0)].into_iter()), 0.5);
    assert_eq!(unfairness([share(0, 0)].into_iter()), 0.0);
    assert_eq!((share(3, 4) + share(1, 4)).satisfaction(), Some(0.5));
}

#[test]
fn a_run_that_is_being_ended_keeps_its_core_and_may_complete() {
    let mut queue = Queue::new(FAIR, 1);
    let mut draws = Draws::new(1, "ties");
    let request = |id, kind| Request { id: RequestId(id), user: UserId(id), weight: 1, kind, deadline: None };
    let decide = |queue: &mut Queue, draws: &mut Draws, now| {
        let mut decisions = Vec::new();
        queue.decide(TimeMs(now), draws, &mut decisions);
        decisions
    };
    queue.submit(TimeMs(0), request(1, Optional));
    assert_eq!(decide(&mut queue, &mut draws, 0), [Decision::Start { request: RequestId(1), core: 0 }]);
    queue.submit(TimeMs(5), request(2, Mandatory));
    assert_eq!(decide(&mut queue, &mut draws, 5), [Decision::End { request: RequestId(1) }]);
    assert_eq!(decide(&mut queue, &mut draws, 6), [], "asked once");
    assert!(!queue.ended(TimeMs(7), RequestId(1), RunOutcome::Over), "it was faster");
    assert_eq!(decide(&mut queue, &mut draws, 7), [Decision::Start { request: RequestId(2), core: 0 }]);
    assert_eq!(queue.counts(), (0, 1));
    // A request cancelled while it is being ended is not requeued.
    queue.submit(TimeMs(8), request(3, Optional));
    queue.ended(TimeMs(9), RequestId(2), RunOutcome::Over);
    assert_eq!(decide(&mut queue, &mut draws, 9), [Decision::Start { request: RequestId(3), core: 0 }]);
    queue.submit(TimeMs(10), request(4, Mandatory));
    decide(&mut queue, &mut draws, 10);
    assert_eq!(queue.cancel(TimeMs(10), RequestId(3)), Cancelled::Running);
    assert!(!queue.ended(TimeMs(11), RequestId(3), RunOutcome::Killed));
    assert_eq!(queue.cancel(TimeMs(11), RequestId(3)), Cancelled::Unknown);
    assert_eq!(queue.cancel(TimeMs(11), RequestId(4)), Cancelled::Withdrawn);
    assert_eq!(queue.counts(), (0, 0));
}

#[test]
fn with_several_cores_the_user_with_the_most_usage_is_preempted() {
    let mut server = Server::new(FAIR, 2);
    server.submit(1, 1, Optional);
    assert_eq!(server.decide(), [1]);
    assert_eq!(server.at(500).submit(2, 2, Optional).decide(), [2]);
    // User 2 started at the virtual time of user 1: 900 against 400.
    assert_eq!(server.at(900).submit(3, 3, Mandatory).decide(), [-1, 3]);
    assert_eq!(server.at(1_000).submit(4, 3, Mandatory).submit(5, 4, Mandatory).decide(), [-2, 4]);
}

/// Seconds used by two users in a minute of one-second requests, the second one arriving after 20 s.
fn shares(fairness: Fairness, weights: [u32; 2]) -> [i64; 2] {
    let order = Order::Fair { fairness, grace: SpanMs::ZERO };
    let mut server = Server::new(order, 1);
    server.submit_weighted(0, 0, Optional, weights[0]);
    let mut id = 2;
    for second in 0..60 {
        server.at(second * 1_000);
        if second == 20 {
            server.submit_weighted(1, 1, Optional, weights[1]);
        }
        let started = server.decide()[0] as u32;
        let user = usize::from(started % 2 == 1);
        server.at(second * 1_000 + 1_000).over(started);
        let next = id + user as u32;
        server.submit_weighted(next, user as u32, Optional, weights[user]);
        id += 2;
    }
    [0, 1].map(|user| server.queue.usage(TimeMs(60_000), UserId(user)).0 / 1_000)
}

#[test]
fn fairness_rules_differ_in_the_share_of_a_newcomer() {
    // A newcomer starts at the start tag of the present run, so it may be one request ahead.
    let check = |fairness, least: i64| {
        let [first, second] = shares(fairness, [1, 1]);
        assert_eq!(first + second, 60);
        assert!((least..=least + 1).contains(&second), "{fairness}: {first}, {second}");
    };
    check(Fairness::Cumulative, 30);
    check(Fairness::VirtualTime, 20);
    check(Fairness::Satisfaction, 20);
}

#[test]
fn shares_follow_weights() {
    let [first, second] = shares(Fairness::VirtualTime, [1, 3]);
    assert!((29..=31).contains(&second), "30 of the 40 seconds together: {first}, {second}");
    let [first, second] = shares(Fairness::Satisfaction, [1, 3]);
    assert!((29..=31).contains(&second), "{first}, {second}");
}

#[test]
fn a_mandatory_request_waits_for_a_nearly_complete_run_if_its_deadline_allows() {
    let check = |deadline: Option<i64>, at: i64, expected: &[i64], due: Option<i64>| {
        let grace = SpanMs(300);
        let mut server = Server::new(Order::Fair { fairness: Fairness::VirtualTime, grace }, 1);
        server.submit(1, 1, Optional).decide();
        server.at(1_000).over(1).submit(2, 1, Optional).decide();
        server.at(at);
        let deadline = deadline.map(TimeMs);
        let request = Request { id: RequestId(3), user: UserId(2), weight: 1, kind: Mandatory, deadline };
        server.queue.submit(server.now, request);
        assert_eq!(server.decide(), expected, "{deadline:?} at {at}");
        assert_eq!(server.queue.next_due(), due.map(TimeMs));
    };
    check(Some(3_000), 1_700, &[], Some(2_000));
    check(Some(2_999), 1_700, &[-2, 3], None);
    check(None, 1_700, &[-2, 3], None);
    check(Some(9_000), 1_699, &[-2, 3], None);
    check(Some(9_000), 2_000, &[-2, 3], None);
}

#[test]
fn fcfs_knows_no_kinds_and_ends_nothing() {
    let mut server = Server::new(Order::Fcfs, 1);
    server.submit(1, 1, Optional).submit(2, 1, Optional).submit(3, 2, Mandatory);
    assert_eq!(server.decide(), [1]);
    assert_eq!(server.at(10).over(1).decide(), [2]);
    assert_eq!(server.at(20).over(2).decide(), [3]);
}
