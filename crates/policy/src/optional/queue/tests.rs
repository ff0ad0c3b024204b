//! Tests of the reports and forecasts of a queue.

use super::*;

const ONE: UserId = UserId(1);
const TWO: UserId = UserId(2);

/// A queue that runs what it can after each event. It has no deadlines, and users are equal.
struct Server(Queue, Draws);

impl Server {
    fn new(order: Order, cores: u32) -> Server {
        Server(Queue::new(order, cores), Draws::new(1, "ties"))
    }

    fn fair(cores: u32) -> Server {
        Server::new(Order::Fair { fairness: Fairness::VirtualTime, grace: SpanMs::ZERO }, cores)
    }

    fn submit(&mut self, now: i64, id: u32, user: UserId, kind: Kind) {
        self.0.submit(TimeMs(now), Request { id: RequestId(id), user, weight: 1, kind, deadline: None });
        self.0.decide(TimeMs(now), &mut self.1, &mut Vec::new());
    }

    fn over(&mut self, now: i64, id: u32) {
        self.0.ended(TimeMs(now), RequestId(id), RunOutcome::Over);
        self.0.decide(TimeMs(now), &mut self.1, &mut Vec::new());
    }

    /// The wait and the runtime of one more mandatory request, in milliseconds.
    fn prospect(&self, now: i64, user: Option<UserId>) -> (Option<i64>, Option<i64>) {
        let Prospect { wait, run } = self.0.prospect(TimeMs(now), user);
        (wait.map(|wait| wait.0), run.map(|run| run.0))
    }

    fn waits(&self, now: i64) -> Vec<(u32, Option<i64>)> {
        let waits = self.0.mandatory_waits(TimeMs(now)).into_iter();
        waits.map(|(id, wait)| (id.0, wait.map(|wait| wait.0))).collect()
    }
}

#[test]
fn a_mandatory_request_waits_for_those_before_it_as_long_as_their_users_longest_took() {
    let mut server = Server::fair(1);
    assert_eq!(server.prospect(0, None), (Some(0), None), "a free core, and nothing has ended");
    server.submit(0, 1, ONE, Kind::Mandatory);
    assert_eq!(server.prospect(50, Some(ONE)), (None, None), "nothing has ended");
    server.submit(50, 2, TWO, Kind::Mandatory);
    assert_eq!(server.waits(50), [(2, None)]);
    server.over(100, 1);
    server.over(140, 2);
    server.submit(200, 3, ONE, Kind::Mandatory);
    // User 1's took 100 ms, user 2's 40 ms; of another user, the longest is assumed.
    assert_eq!(server.prospect(230, Some(TWO)), (Some(70), Some(40)));
    assert_eq!(server.prospect(230, Some(UserId(3))), (Some(70), Some(100)));
    assert_eq!(server.prospect(230, None), (Some(70), Some(100)));
    server.submit(230, 4, TWO, Kind::Mandatory);
    server.submit(230, 5, ONE, Kind::Mandatory);
    server.submit(230, 6, ONE, Kind::Optional);
    assert_eq!(server.waits(230), [(4, Some(70)), (5, Some(110))]);
    assert_eq!(server.prospect(230, None).0, Some(210));
    assert_eq!(server.waits(330), [(4, Some(0)), (5, Some(40))], "it takes longer than any before it");
}

#[test]
fn the_core_that_is_free_first_takes_the_next_request() {
    let mut server = Server::fair(2);
    server.submit(0, 1, ONE, Kind::Mandatory);
    server.over(100, 1);
    server.submit(100, 2, ONE, Kind::Mandatory);
    server.submit(160, 3, ONE, Kind::Mandatory);
    server.submit(170, 4, ONE, Kind::Mandatory);
    assert_eq!(server.waits(170), [(4, Some(30))]);
    assert_eq!(server.prospect(170, None).0, Some(90));
}

#[test]
fn an_optional_request_keeps_a_core_only_under_fcfs() {
    let wait = |mut server: Server| {
        server.submit(0, 1, ONE, Kind::Mandatory);
        server.over(100, 1);
        server.submit(100, 2, ONE, Kind::Optional);
        server.prospect(130, None).0
    };
    assert_eq!(wait(Server::fair(1)), Some(0));
    assert_eq!(wait(Server::new(Order::Fcfs, 1)), Some(70));
}

#[test]
fn requests_are_counted_by_kind_and_state() {
    let mut server = Server::fair(2);
    server.submit(0, 1, ONE, Kind::Optional);
    server.submit(10, 2, TWO, Kind::Optional);
    server.submit(20, 3, TWO, Kind::Optional);
    server.submit(30, 4, ONE, Kind::Mandatory);
    let queue = &server.0;
    // One of the optional runs is being ended for request 4.
    assert_eq!((queue.cores(), queue.counts(), queue.optional()), (2, (2, 2), 3));
    let running: Vec<(u32, i64)> = queue.running().map(|run| (run.core, run.since.0)).collect();
    assert_eq!(running, [(0, 0), (1, 10)]);
    assert_eq!(queue.running().filter(|run| run.ending).count(), 1);
    let share = |user| queue.share(TimeMs(40), user).map(|share| (share.weight, share.requests, share.late));
    assert_eq!([ONE, TWO, UserId(3)].map(share), [Some((1, 2, 0)), Some((1, 2, 0)), None]);
}

#[test]
fn shares_on_two_servers_add_up_but_for_the_weight() {
    let one = Share {
        weight: 2,
        requests: 1,
        usage: SpanMs(20),
        fair_share: SpanMs(40),
        completed: 3,
        useful: SpanMs(10),
        killed: 4,
        late: 5,
    };
    let expected = Share {
        weight: 2,
        requests: 2,
        usage: SpanMs(40),
        fair_share: SpanMs(80),
        completed: 6,
        useful: SpanMs(20),
        killed: 8,
        late: 10,
    };
    assert_eq!(one + one, expected);
    assert_eq!((one + Share { weight: 9, ..Share::default() }).weight, 9);
}
