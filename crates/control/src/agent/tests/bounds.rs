//! Summaries of children say whom an agent asks first, and whom it does not ask.

use pliant_policy::discovery::{ClusterBounds, ServiceSet, Summary};
use pliant_policy::profile::{FreePlan, FreeStep};

use super::*;

/// The summary of a cluster of 4 processors on which nothing starts before `start`.
fn from(start: u32) -> Summary {
    let step = |after_s, procs| FreeStep { after_s, procs };
    let steps = if start == 0 { vec![step(0, 4)] } else { vec![step(0, 0), step(start, 4)] };
    let plan = FreePlan::from_lines(Time(0), steps, None);
    let cluster = ClusterBounds::unknown(Speed::REFERENCE);
    Summary::of(ClusterBounds { procs: Procs(4), counts_resources: false, plan, ..cluster })
}

impl Bench {
    /// Attaches a server and keeps its summary.
    fn attach_from(&mut self, child: &str, start: u32) {
        self.attach(child);
        self.summarise(child, from(start));
    }

    fn summarise(&mut self, child: &str, summary: Summary) -> Vec<Command> {
        self.handle(Event::Summarised { child: name(child), summary })
    }

    /// The children that are asked by the commands of an event.
    fn asks(&mut self, event: Event) -> Vec<String> {
        let child = |command: Command| match command {
            Command::Query { child, .. } => Some(child.to_string()),
            _ => None,
        };
        self.handle(event).into_iter().filter_map(child).collect()
    }

    fn discovers(&mut self, best: u32) -> Vec<String> {
        self.asks(Event::Queried { requester: Requester::Client(Token(7)), query: ask(best) })
    }
}

fn answered(discovery: u64, child: &str, start: i64) -> Event {
    let found = DiscoveryResult { vectors: vec![vector(child, 0, start)], ..DiscoveryResult::default() };
    Event::Answered { child: name(child), discovery, found }
}

#[test]
fn children_that_cannot_be_among_the_best_are_not_asked() {
    let mut bench = Bench::new(true);
    for (child, start) in [("a", 90), ("b", 20), ("c", 0), ("d", 40)] {
        bench.attach_from(child, start);
    }
    assert_eq!(bench.discovers(2), ["c", "b"]);
    assert_eq!(answer(bench.handle(answered(1, "c", 0))), None);
    let found = answer(bench.handle(answered(1, "b", 20))).unwrap();
    assert_eq!((names(&found), found.servers, found.answered, found.not_asked), (vec!["c", "b"], 4, 2, 2));
    // An estimate is later than its bound: the next child may be better.
    assert_eq!(bench.discovers(1), ["c"]);
    assert_eq!(bench.asks(answered(2, "c", 35)), ["b"]);
    let found = answer(bench.handle(answered(2, "b", 20))).unwrap();
    assert_eq!((names(&found), found.not_asked), (vec!["b"], 2));
    // Equal bounds: by rank and name.
    bench.summarise("b", from(0));
    assert_eq!(bench.discovers(1), ["b"]);
    assert_eq!(names(&answer(bench.handle(answered(3, "b", 0))).unwrap()), ["b"]);
}

#[test]
fn a_child_without_a_summary_is_always_asked() {
    let mut bench = Bench::new(true);
    bench.attach_from("a", 0);
    bench.attach_from("b", 10);
    bench.attach("new");
    assert_eq!(bench.discovers(1), ["new", "a"]);
    assert_eq!(bench.asks(answered(1, "a", 0)), [""; 0]);
    let found = answer(bench.handle(answered(1, "new", 50))).unwrap();
    assert_eq!((names(&found), found.not_asked), (vec!["a"], 1));
    // A summary counts for one connection, and for a child that is up.
    bench.attach("b");
    assert_eq!(bench.discovers(1), ["b", "new", "a"]);
    bench.now = Time(1);
    bench.handle(Event::Detached { child: name("b") });
    bench.summarise("b", from(0));
    bench.attach("b");
    assert_eq!(bench.discovers(1), ["b", "new", "a"]);
}

#[test]
fn what_an_agent_cannot_bound_goes_to_all_children() {
    let mut bench = Bench::new(true);
    bench.attach_from("a", 0);
    bench.attach_from("b", 90);
    let service = DiscoverySubject::Service { name: "wait".to_owned(), arguments: BTreeMap::new() };
    let query = Box::new(DiscoveryQuery { subject: service, ..*ask(1) });
    assert_eq!(bench.asks(Event::Queried { requester: Requester::Client(Token(7)), query }), ["a", "b"]);
    let query = Box::new(DiscoveryQuery { only: Some(name("b")), ..*ask(1) });
    assert_eq!(bench.asks(Event::Queried { requester: Requester::Client(Token(7)), query }), ["b"]);
}

#[test]
fn a_service_is_looked_for_where_it_is() {
    let mut bench = Bench::new(true);
    for (child, services) in [("a", &["fit", "sum"][..]), ("b", &["sum"]), ("c", &[])] {
        bench.attach(child);
        let services = ServiceSet::of(services.iter().copied());
        bench.summarise(child, Summary { services, ..from(0) });
    }
    bench.attach_from("unknown", 0);
    let asked = |bench: &mut Bench, service: &str, best: u32| {
        let subject = DiscoverySubject::Service { name: service.to_owned(), arguments: BTreeMap::new() };
        let query = Box::new(DiscoveryQuery { subject, ..*ask(best) });
        bench.asks(Event::Queried { requester: Requester::Client(Token(7)), query })
    };
    assert_eq!(asked(&mut bench, "sum", 2), ["a", "b", "unknown"]);
    assert_eq!(asked(&mut bench, "fit", 1), ["a", "unknown"]);
    assert_eq!(bench.asks(answered(2, "a", 0)), [""; 0]);
    let found = answer(bench.handle(answered(2, "unknown", 9))).unwrap();
    assert_eq!((names(&found), found.not_asked), (vec!["a"], 2));
    // A service that no summary has may be new.
    assert_eq!(asked(&mut bench, "new", 1), ["unknown"]);
    let refused = |child: &str| {
        let refusals = vec![(name(child), Cause::NotOffered.because("it has no such service"))];
        let found = DiscoveryResult { refusals, ..DiscoveryResult::default() };
        Event::Answered { child: name(child), discovery: 3, found }
    };
    assert_eq!(bench.asks(refused("unknown")), ["a", "b", "c"]);
    // What only accepts no work is not asked either.
    bench.summarise("a", Summary { services: ServiceSet::of(["fit"]), groups: Vec::new() });
    assert_eq!(asked(&mut bench, "fit", 3), ["unknown"]);
}

#[test]
fn children_that_would_refuse_are_asked_if_no_other_takes_it() {
    let mut bench = Bench::new(true);
    bench.attach_from("a", 0);
    bench.attach("drained");
    bench.summarise("drained", Summary::default());
    assert_eq!(bench.discovers(1), ["a"]);
    let refused = |discovery, child: &str| {
        let refusals = vec![(name(child), Cause::Busy.because("full"))];
        let found = DiscoveryResult { refusals, ..DiscoveryResult::default() };
        Event::Answered { child: name(child), discovery, found }
    };
    assert_eq!(bench.asks(refused(1, "a")), ["drained"]);
    let found = answer(bench.handle(refused(1, "drained"))).unwrap();
    assert_eq!((found.refusals.len(), found.answered, found.not_asked), (2, 2, 0));
    assert_eq!(bench.discovers(1), ["a"]);
    assert_eq!(answer(bench.handle(answered(2, "a", 0))).unwrap().not_asked, 1);
}

#[test]
fn a_silent_child_holds_up_a_discovery_for_two_seconds_at_most() {
    let mut bench = Bench::new(true);
    for (child, start) in [("a", 0), ("b", 20), ("c", 90)] {
        bench.attach_from(child, start);
    }
    assert_eq!(bench.discovers(1), ["a"]);
    assert_eq!(bench.agent.next_due(), Some(Time(2)));
    bench.now = Time(2);
    assert_eq!(bench.asks(Event::Due), ["b", "c"]);
    assert_eq!(bench.agent.next_due(), Some(Time(3)));
    bench.handle(answered(1, "b", 20));
    bench.handle(answered(1, "c", 90));
    bench.now = Time(3);
    let found = answer(bench.handle(Event::Due)).unwrap();
    assert_eq!((names(&found), &found.silent), (vec!["b"], &vec![name("a")]));
    // Nothing is expected of it before it answers again.
    assert_eq!(bench.discovers(1), ["a", "b"]);
    bench.handle(answered(2, "b", 20));
    assert_eq!(names(&answer(bench.handle(answered(2, "a", 0))).unwrap()), ["a"]);
    assert_eq!(bench.discovers(1), ["a"]);
    // Without a connection it is as one that does not answer: in its place more are asked at a time.
    assert_eq!(bench.asks(Event::Detached { child: name("a") }), ["b", "c"]);
}

#[test]
fn a_local_agent_joins_the_summaries_below_it_and_stops_where_its_parent_has_enough() {
    let mut bench = Bench::new(false);
    bench.attach("a");
    assert_eq!(bench.summarise("a", from(70)), [Command::Summarise]);
    bench.attach_from("b", 30);
    let both =
        Summary { groups: [70, 30].map(|start| from(start).groups.remove(0)).to_vec(), services: None };
    assert_eq!(bench.agent.summary(), both, "so few are passed on one by one");
    bench.attach("new");
    let known = bench.agent.summary();
    assert_eq!(known.groups.len(), 3, "of a server without a summary only the speed is known");
    bench.summarise("new", Summary::default());
    assert_eq!(bench.agent.summary(), both);
    bench.handle(Event::Detached { child: name("b") });
    assert_eq!(bench.agent.summary(), from(70));
    bench.attach_from("b", 30);
    let query = Box::new(DiscoveryQuery { latest: Some(Time(45)), ..*ask(2) });
    let queried = Event::Queried { requester: Requester::Parent(9), query };
    assert_eq!(bench.asks(queried), ["b"]);
    let commands = bench.handle(answered(1, "b", 30));
    let [Command::Answer { to: Requester::Parent(9), found }] = &commands[..] else { panic!("{commands:?}") };
    assert_eq!((names(found), found.not_asked), (vec!["b"], 2));
}

#[test]
fn children_are_asked_until_when_completions_are_of_use() {
    let mut bench = Bench::new(true);
    for (child, start) in [("a", 0), ("b", 20)] {
        bench.attach_from(child, start);
    }
    bench.discovers(1);
    let commands = bench.handle(answered(1, "a", 25));
    let [Command::Query { query, .. }] = &commands[..] else { panic!("{commands:?}") };
    assert_eq!(query.latest, Some(Time(35)));
}
