//! Questions go down the hierarchy, and answers come up.

use super::*;
use crate::estimation_vector::keep_best;

#[test]
fn the_best_answers_come_up_once_all_have_answered() {
    let mut bench = Bench::new(true);
    for child in ["a", "b", "c"] {
        bench.attach(child);
    }
    assert_eq!(bench.asked(ask(2)), ["a 2 s", "b 2 s", "c 2 s"]);
    assert_eq!(bench.answers("a", vec![vector("a", 0, 30)]), None);
    assert_eq!(bench.answers("c", vec![vector("c", 0, 20)]), None);
    assert_eq!(bench.answers("c", vec![vector("c", 0, 0)]), None, "a duplicate answer does not count");
    let found = bench.answers("b", vec![vector("b", 0, 10)]).unwrap();
    assert_eq!(names(&found), ["b", "c"]);
    assert_eq!(found.silent, []);
    assert_eq!(bench.agent.next_due(), None);
}

/// Who has the key of one server would otherwise have all jobs sent nowhere.
#[test]
fn a_child_answers_for_its_own_servers_alone() {
    let mut bench = Bench::new(true);
    bench.attach("a");
    bench.attach("thief");
    let servers = vec![info("c"), info("d")];
    bench.handle(Event::Attached { child: name("local"), kind: ChildKind::Agent, journal: 1, servers });
    bench.asked(ask(9));
    assert_eq!(bench.answers("a", vec![vector("a", 0, 30)]), None);
    let refusals = |servers: &[&str]| -> Vec<_> {
        servers.iter().map(|server| (name(server), Cause::Busy.because("full".to_owned()))).collect()
    };
    let forged = DiscoveryResult {
        vectors: ["a", "c", "thief"].map(|server| vector(server, 0, 0)).into(),
        refusals: refusals(&["a", "thief"]),
        silent: vec![name("a")],
        down: vec![name("d")],
        more: 7,
        ..DiscoveryResult::default()
    };
    let event = Event::Answered { child: name("thief"), discovery: 1, found: forged };
    assert_eq!(answer(bench.handle(event)), None);
    let below = DiscoveryResult {
        vectors: ["c", "a"].map(|server| vector(server, 0, 10)).into(),
        refusals: refusals(&["d", "a"]),
        silent: vec![name("e")],
        servers: 3,
        answered: 2,
        ..DiscoveryResult::default()
    };
    let found =
        answer(bench.handle(Event::Answered { child: name("local"), discovery: 1, found: below })).unwrap();
    assert_eq!(names(&found), ["thief", "c", "a"]);
    assert_eq!(found.refusals, refusals(&["d", "thief"]));
    assert_eq!((found.silent, found.down, found.more), (vec![name("e")], Vec::new(), 0));
    assert_eq!((found.servers, found.answered), (5, 4));
}

/// The client then discovers again, and does not take refusals of other servers for those of all.
#[test]
fn an_agent_with_estimates_of_unknown_servers_alone_is_silent() {
    let mut bench = Bench::new(true);
    let servers = vec![info("c")];
    bench.handle(Event::Attached { child: name("local"), kind: ChildKind::Agent, journal: 1, servers });
    bench.asked(ask(9));
    let found = DiscoveryResult {
        vectors: vec![vector("new", 0, 10)],
        servers: 2,
        answered: 1,
        not_asked: 1,
        ..DiscoveryResult::default()
    };
    let found = answer(bench.handle(Event::Answered { child: name("local"), discovery: 1, found })).unwrap();
    assert_eq!((names(&found).len(), found.silent), (0, vec![name("local")]));
}

#[test]
fn equal_completions_go_by_rank_and_then_by_name() {
    let mut vectors = vec![vector("a", 2, 5), vector("c", 1, 5), vector("b", 1, 5), vector("z", 9, 4)];
    keep_best(&mut vectors, 3);
    assert_eq!(vectors.iter().map(|one| one.server.as_str()).collect::<Vec<_>>(), ["z", "b", "c"]);
}

#[test]
fn a_silent_child_is_left_out_and_named() {
    let mut bench = Bench::new(true);
    bench.attach("a");
    bench.attach("b");
    bench.attach("c");
    bench.asked(ask(3));
    assert_eq!(answer(bench.handle(Event::Detached { child: name("b") })), None);
    assert_eq!(bench.answers("a", vec![vector("a", 0, 0)]), None);
    bench.now = Time(2);
    assert_eq!(answer(bench.handle(Event::Due)), None, "timeout is 3 s");
    assert_eq!(bench.agent.next_due(), Some(Time(3)));
    bench.now = Time(3);
    let found = answer(bench.handle(Event::Due)).unwrap();
    assert_eq!((names(&found), found.silent.clone()), (vec!["a"], vec![name("b"), name("c")]));
    assert_eq!(bench.answers("c", vec![vector("c", 0, 0)]), None, "too late");
}

#[test]
fn without_servers_the_answer_comes_at_once() {
    let mut bench = Bench::new(true);
    let commands = bench.handle(Event::Queried { requester: Requester::Client(Token(7)), query: ask(1) });
    assert_eq!(answer(commands), Some(DiscoveryResult::default()));
}

#[test]
fn a_chosen_server_is_the_only_one_asked() {
    let mut bench = Bench::new(true);
    bench.attach("a");
    bench.attach("b");
    let chosen = Box::new(DiscoveryQuery { only: Some(name("b")), ..*ask(1) });
    assert_eq!(bench.asked(chosen), ["b 2 s"]);
}

#[test]
fn an_answer_lists_only_the_first_refusals() {
    let mut bench = Bench::new(true);
    let below = |child: &str| (0..30).map(|server| format!("{child}{server}")).collect::<Vec<_>>();
    for child in ["a", "b"] {
        let servers = below(child).iter().map(|server| info(server)).collect();
        bench.handle(Event::Attached { child: name(child), kind: ChildKind::Agent, journal: 1, servers });
    }
    bench.asked(ask(2));
    let refusals = |child: &str| {
        below(child).iter().map(|server| (name(server), Cause::TooLarge.because("no"))).collect()
    };
    let mut answered = |child: &str, more| {
        let found = DiscoveryResult { refusals: refusals(child), more, ..DiscoveryResult::default() };
        answer(bench.handle(Event::Answered { child: name(child), discovery: 1, found }))
    };
    assert_eq!(answered("b", 5), None);
    let found = answered("a", 0).unwrap();
    assert_eq!((found.refusals.len(), found.more), (8, 57));
}

#[test]
fn a_result_counts_known_servers_and_answers() {
    let mut bench = Bench::new(true);
    for child in ["a", "b", "c"] {
        bench.attach(child);
    }
    let servers = ["x", "y", "z"].map(info).to_vec();
    bench.handle(Event::Attached { child: name("below"), kind: ChildKind::Agent, journal: 1, servers });
    bench.handle(Event::Detached { child: name("c") });
    bench.asked(ask(2));
    assert_eq!(bench.answers("a", vec![vector("a", 0, 0)]), None);
    let below =
        DiscoveryResult { servers: 4, answered: 2, down: vec![name("z")], ..DiscoveryResult::default() };
    let below = Event::Answered { child: name("below"), discovery: 1, found: below };
    assert_eq!(answer(bench.handle(below)), None);
    bench.now = Time(3);
    let found = answer(bench.handle(Event::Due)).unwrap();
    assert_eq!((found.servers, found.answered), (1 + 1 + 1 + 4, 1 + 2), "a, b, c and four below");
    assert_eq!((found.down, found.silent), (vec![name("c"), name("z")], vec![name("b")]));

    // A silent agent counts as one for each server that it has announced.
    bench.asked(ask(2));
    bench.handle(Event::Detached { child: name("below") });
    bench.now = Time(6);
    let found = answer(bench.handle(Event::Due)).unwrap();
    assert_eq!((found.servers, found.answered, found.silent.len()), (6, 0, 3));
}

#[test]
fn equal_questions_of_one_second_share_an_answer() {
    let mut bench = Bench::new(true);
    bench.attach("a");
    let queried = |token, query| Event::Queried { requester: Requester::Client(Token(token)), query };
    assert_eq!(bench.asked(ask(1)), ["a 2 s"]);
    assert_eq!(bench.handle(queried(8, ask(1))), []);
    let other = Caller { user: "bob".parse().unwrap(), operator: false };
    for another in [ask(2), Box::new(DiscoveryQuery { caller: other, ..*ask(1) })] {
        assert_eq!(bench.handle(queried(9, another)).len(), 1, "it is another question");
    }
    bench.now = Time(1);
    assert_eq!(bench.handle(queried(9, ask(1))).len(), 1, "an answer to the first one may be too old");
    let found = DiscoveryResult { vectors: vec![vector("a", 0, 0)], ..DiscoveryResult::default() };
    let answers = bench.handle(Event::Answered { child: name("a"), discovery: 1, found });
    let answered = |command: &Command| match command {
        Command::Answer { to: Requester::Client(token), found } => Some((token.0, found.vectors.len())),
        _ => None,
    };
    assert_eq!(answers.iter().map(answered).collect::<Vec<_>>(), [Some((7, 1)), Some((8, 1))]);
}
