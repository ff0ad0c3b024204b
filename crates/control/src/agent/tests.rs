mod bounds;
mod discovery;

use pliant_model::{Estimate, Procs, Speed, Speedup, Time};
use pliant_policy::reallocation::{Algorithm, Heuristic, Reallocation};

use super::*;
use crate::job::{Exit, Hop, JobRecord, JobState};
use crate::names::{Key, User};
use crate::reason::{Cause, DiscoverySummary};
use crate::server_info::{OfferedWork, ServerInfo};

pub(super) fn name(text: &str) -> Name {
    text.parse().unwrap()
}

pub(super) fn info(server: &str) -> ServerInfo {
    ServerInfo {
        name: name(server),
        address: "127.0.0.1:1".to_owned(),
        rank: 0,
        procs: Procs(4),
        speed: Speed::REFERENCE,
        policy: "cbf".to_owned(),
        services: Vec::new(),
        scripts: true,
        optional_cores: 0,
        optional_per_core: 0,
    }
}

fn vector(server: &str, rank: u32, start: i64) -> EstimationVector {
    EstimationVector {
        server: name(server),
        address: String::new(),
        rank,
        estimate: Estimate { procs: Procs(1), walltime: Span(10), start: Time(start) },
        speed: Speed::REFERENCE,
        procs: Procs(4),
        free: Procs(4),
        queue_length: 0,
        partition: None,
    }
}

fn ask(best: u32) -> Box<DiscoveryQuery> {
    let work = Work::new(Procs(1), Span(10), Speedup::Rigid);
    let caller = Caller { user: "alice".parse().unwrap(), operator: false };
    Box::new(DiscoveryQuery {
        subject: DiscoverySubject::Work(work),
        caller,
        best,
        only: None,
        timeout: None,
        latest: None,
    })
}

pub(super) fn record(number: u32, state: JobState) -> Box<JobRecord> {
    let estimate = vector("a", 0, 0).estimate;
    Box::new(JobRecord {
        handle: Handle { server: name("a"), number },
        key: Key([number as u8; 16]),
        owner: "alice".parse().unwrap(),
        name: "test".to_owned(),
        work: Work::new(Procs(1), Span(10), Speedup::Rigid),
        state,
        submitted: Time(0),
        expected: estimate,
        procs: Procs(1),
        walltime: Span(10),
        started: None,
        ended: state.is_final().then_some(Time(5)),
        exit: state.is_final().then_some(Exit::Code(0)),
        requeues: 0,
        compared: Vec::new(),
        discovery: DiscoverySummary::default(),
        pinned: false,
        hops: Vec::new(),
        unit_runtime: None,
        runtime: None,
        size_choice: None,
        gpus: None,
        estimates: Vec::new(),
        claim: None,
    })
}

pub(super) struct Bench {
    pub(super) agent: Agent,
    pub(super) now: Time,
}

impl Bench {
    pub(super) fn new(root: bool) -> Bench {
        let config = AgentConfig { name: name("master"), root, timeout: Span(3), reallocation: None };
        Bench { agent: Agent::new(config), now: Time(0) }
    }

    pub(super) fn handle(&mut self, event: Event) -> Vec<Command> {
        let mut commands = Vec::new();
        self.agent.on(self.now, event, &mut commands);
        commands
    }

    pub(super) fn attach(&mut self, child: &str) -> Vec<Command> {
        self.attach_with(child, 1)
    }

    pub(super) fn attach_with(&mut self, child: &str, journal: u64) -> Vec<Command> {
        let servers = vec![info(child)];
        self.handle(Event::Attached { child: name(child), kind: ChildKind::Server, journal, servers })
    }

    fn asked(&mut self, ask: Box<DiscoveryQuery>) -> Vec<String> {
        let commands = self.handle(Event::Queried { requester: Requester::Client(Token(7)), query: ask });
        let child = |command: &Command| match command {
            Command::Query { child, query, .. } => format!("{child} {}", query.timeout.unwrap()),
            other => format!("{other:?}"),
        };
        commands.iter().map(child).collect()
    }

    fn answers(&mut self, child: &str, vectors: Vec<EstimationVector>) -> Option<DiscoveryResult> {
        let found = DiscoveryResult { vectors, ..DiscoveryResult::default() };
        let event = Event::Answered { child: name(child), discovery: 1, found };
        answer(self.handle(event))
    }

    pub(super) fn report(&mut self, sequence: u64, record: Box<JobRecord>) -> Vec<Command> {
        self.handle(Event::StatusUpdate { child: name("a"), sequence, record })
    }
}

fn answer(commands: Vec<Command>) -> Option<DiscoveryResult> {
    commands.into_iter().find_map(|command| match command {
        Command::Answer { to: Requester::Client(Token(7)), found } => Some(found),
        _ => None,
    })
}

fn names(found: &DiscoveryResult) -> Vec<&str> {
    found.vectors.iter().map(|vector| vector.server.as_str()).collect()
}

#[test]
fn a_status_update_is_kept_passed_on_and_acknowledged_once() {
    let mut bench = Bench::new(false);
    assert_eq!(
        bench.attach("a"),
        [Command::Acknowledge { child: name("a"), sequence: 0 }, Command::Announce]
    );
    let queued = record(1, JobState::Queued);
    let acknowledged = |sequence| Command::Acknowledge { child: name("a"), sequence };
    assert_eq!(bench.report(1, queued.clone()), [Command::ReportStatus(queued.clone()), acknowledged(1)]);
    let ended = record(1, JobState::Completed);
    let commands = bench.report(2, ended.clone());
    assert_eq!(commands, [Command::ReportStatus(ended.clone()), Command::Archive(ended), acknowledged(2)]);
    // Over a new connection the child repeats what was not acknowledged.
    assert_eq!(bench.report(1, queued), [acknowledged(2)]);
    assert_eq!(bench.agent.job(&"a.1".parse().unwrap()).unwrap().state, JobState::Completed);
    assert_eq!(bench.attach("a")[0], acknowledged(2));
    assert_eq!(bench.attach_with("a", 2)[0], acknowledged(0), "a new journal restarts the sequence");
    assert_eq!(
        bench.handle(Event::Freed { child: name("a") }),
        [Command::Freed],
        "its parent may start a cycle"
    );
    bench.now = Time(60);
    bench.handle(Event::Due);
    assert!(bench.agent.job(&"a.1".parse().unwrap()).is_none(), "the archive has it by then");
}

#[test]
fn a_restored_agent_behaves_the_same() {
    use crate::replay::Machine;
    let mut bench = Bench::new(false);
    bench.attach("a");
    bench.attach("b");
    bench.report(1, record(1, JobState::Active));
    let text = serde_json::to_string(&bench.agent.dump(bench.now)).unwrap();
    let state: AgentState = serde_json::from_str(&text).unwrap();
    let mut again = Bench { agent: Agent::from_state(bench.agent.config().clone(), state), now: bench.now };
    for bench in [&mut bench, &mut again] {
        bench.asked(ask(2));
        assert_eq!(bench.answers("b", vec![vector("b", 0, 1)]), None);
    }
    let last = vec![vector("a", 0, 0)];
    assert_eq!(bench.answers("a", last.clone()), again.answers("a", last));
    assert_eq!(bench.report(2, record(1, JobState::Failed)), again.report(2, record(1, JobState::Failed)));
}

#[test]
fn a_late_status_update_changes_nothing() {
    let mut bench = Bench::new(false);
    bench.attach("a");
    bench.report(1, record(1, JobState::Completed));
    let acknowledged = vec![Command::Acknowledge { child: name("a"), sequence: 2 }];
    assert_eq!(bench.report(2, record(1, JobState::Active)), acknowledged);
    let handle = record(1, JobState::Active).handle;
    assert_eq!(bench.agent.job(&handle).unwrap().state, JobState::Completed);
}

#[test]
fn the_last_number_of_a_server_is_known() {
    let mut bench = Bench::new(true);
    bench.attach("a");
    assert_eq!((bench.agent.last_number(&name("a")), bench.agent.journal_of(&name("a"))), (None, Some(1)));
    for number in [3, 12, 7] {
        let queued = record(number, JobState::Queued);
        bench.report(u64::from(number), queued);
    }
    assert_eq!(bench.agent.last_number(&name("a")), Some(12));
    assert_eq!((bench.agent.last_number(&name("b")), bench.agent.journal_of(&name("b"))), (None, None));
}

pub(super) fn hop(from: &str, to: &str, attempt: u32) -> Hop {
    let expected = vector(to, 0, 0).estimate;
    let reason = pliant_model::MoveReason::EarlierCompletion;
    Hop {
        from: name(from),
        to: name(to),
        attempt,
        at: Time(0),
        before: Time(50),
        expected,
        reason,
        signed: None,
    }
}

/// A local agent gets a status update that a job has gone to another agent's server, and no later one.
#[test]
fn a_job_moved_to_another_agents_server_is_archived() {
    for (root, to, kept) in [(false, "c", false), (false, "b", true), (true, "c", true)] {
        let mut bench = Bench::new(root);
        for server in ["a", "b"] {
            bench.attach(server);
        }
        let update = |sequence, record| Event::StatusUpdate { child: name("a"), sequence, record };
        bench.handle(update(1, record(7, JobState::Queued)));
        let moved = JobRecord { hops: vec![hop("a", to, 1)], ..*record(7, JobState::Queued) };
        let commands = bench.handle(update(2, Box::new(moved.clone())));
        assert_eq!(commands.contains(&Command::ReportStatus(Box::new(moved.clone()))), !root, "to {to}");
        assert_eq!(commands.contains(&Command::Archive(Box::new(moved.clone()))), !kept, "to {to}");
        assert_eq!(bench.agent.job(&moved.handle).is_some(), kept, "to {to}");
        assert_eq!(bench.agent.jobs.waiting(), usize::from(kept), "to {to}");
    }
}

/// A server reports late what a job that has departed did there before.
#[test]
fn a_late_status_update_does_not_restore_a_departed_job() {
    use crate::replay::Machine;
    let mut bench = Bench::new(false);
    for server in ["a", "b"] {
        bench.attach(server);
    }
    let update = |child: &str, sequence, hops: &[(&str, &str)]| {
        let hops = hops.iter().zip(1..).map(|((from, to), at)| hop(from, to, at)).collect();
        let record = Box::new(JobRecord { hops, ..*record(7, JobState::Queued) });
        Event::StatusUpdate { child: name(child), sequence, record }
    };
    let handle = record(7, JobState::Queued).handle;
    let departed = [("a", "b"), ("b", "a"), ("a", "c")];
    bench.handle(update("a", 1, &departed));
    for restored in [false, true] {
        if restored {
            let state = serde_json::to_string(&bench.agent.dump(bench.now)).unwrap();
            bench.agent =
                Agent::from_state(bench.agent.config.clone(), serde_json::from_str(&state).unwrap());
        }
        for (sequence, hops) in [(1, 1), (2, 2)] {
            let sequence = sequence + 2 * u64::from(restored);
            let commands = bench.handle(update("b", sequence, &departed[..hops]));
            assert_eq!(commands, [Command::Acknowledge { child: name("b"), sequence }]);
        }
        assert_eq!((bench.agent.job(&handle), bench.agent.jobs.waiting()), (None, 0));
    }
    // It comes back, and departs once more.
    let returned = [departed[0], departed[1], departed[2], ("c", "b"), ("b", "c")];
    bench.now = Time(100);
    bench.handle(update("b", 5, &returned[..4]));
    assert!(bench.agent.job(&handle).is_some());
    bench.handle(update("b", 6, &returned));
    // Each departure is forgotten after a week, the first one without the second.
    let week = 7 * 86_400;
    for (at, is_forgotten) in [(week, false), (week + 100, true)] {
        assert_eq!(bench.agent.next_due(), Some(Time(at)));
        bench.now = Time(at);
        bench.handle(Event::Due);
        assert_eq!(bench.agent.departed.is_empty(), is_forgotten, "at {at}");
        bench.handle(update("a", 2 + u64::from(is_forgotten), &returned[..4]));
        assert_eq!(bench.agent.job(&handle).is_some(), is_forgotten, "at {at}");
    }
}

/// Cycles are not journaled: a current cycle must not change when the next one is due.
#[test]
fn cycles_leave_no_state_that_is_not_in_the_journal() {
    for algorithm in [Algorithm::Regular, Algorithm::Siblings] {
        check_cycles(algorithm);
    }
}

fn check_cycles(algorithm: Algorithm) {
    use crate::replay::{JournalEvent, Machine, replay};
    let policy = Reallocation { period: Span(2), ..Reallocation::new(algorithm, Heuristic::Mct) };
    let reallocation = Some(ReallocationConfig { policy, early: Some(Span(1)) });
    let config = AgentConfig { name: name("master"), root: true, timeout: Span(5), reallocation };
    let make = || Agent::new(config.clone());
    let mut bench = Bench { agent: make(), now: Time(0) };
    let mut journal = Vec::new();
    let mut handle = |bench: &mut Bench, event: Event| {
        let is_question = Agent::is_question(&event);
        if !is_question {
            journal.push(JournalEvent { at: bench.now, event: event.clone() });
        }
        let commands = bench.handle(event);
        let mut again = make();
        replay(&mut again, journal.clone());
        let state = bench.agent.dump(bench.now);
        assert_eq!(again.dump(bench.now), state, "at {}", bench.now);
        for again in [again, Agent::from_state(config.clone(), state)] {
            assert_eq!(again.next_cycle(), bench.agent.next_cycle(), "at {}", bench.now);
        }
        commands
    };
    let servers = vec![info("a")];
    handle(&mut bench, Event::Attached { child: name("a"), kind: ChildKind::Server, journal: 1, servers });
    handle(
        &mut bench,
        Event::StatusUpdate { child: name("a"), sequence: 1, record: record(7, JobState::Queued) },
    );
    for now in 0..40 {
        bench.now = Time(now);
        if now % 11 == 3 {
            // A local user's job has ended early.
            handle(&mut bench, Event::Freed { child: name("a") });
            assert!(bench.agent.next_cycle().is_some_and(|at| at <= bench.now + Span(1)), "at {now}");
        }
        if now % 7 == 5 {
            // A job of the federation has ended early.
            let record = JobRecord { started: Some(Time(0)), ..*record(now as u32, JobState::Completed) };
            handle(
                &mut bench,
                Event::StatusUpdate { child: name("a"), sequence: 2 + now as u64, record: Box::new(record) },
            );
        }
        while bench.agent.next_due().is_some_and(|due| due <= bench.now) {
            for command in handle(&mut bench, Event::Due) {
                // Only every third query is answered, and a caller requests a cycle as well.
                if let Command::Query { child, discovery, .. } = command
                    && discovery % 3 == 0
                {
                    handle(
                        &mut bench,
                        Event::Answered { child, discovery, found: DiscoveryResult::default() },
                    );
                    handle(&mut bench, Event::Reallocate { reply: Token(1), dry_run: false, policy: None });
                }
            }
        }
    }
}

#[test]
fn each_exploration_gets_its_share_of_the_servers() {
    let mut bench = Bench::new(true);
    for number in 0..9 {
        let server = format!("s{number}");
        let services = vec![("pi".to_owned(), String::new())];
        let optional_cores = if number == 0 { 0 } else { 2 };
        let servers = vec![ServerInfo { services, optional_cores, ..info(&server) }];
        bench.handle(Event::Attached { child: name(&server), kind: ChildKind::Server, journal: 1, servers });
    }
    let offers = |service: &str, most, exploration| -> Vec<String> {
        bench
            .agent
            .offers(&OfferedWork::Service(service.to_owned()), most, Key([exploration; 16]))
            .into_iter()
            .map(|offer| offer.server.to_string())
            .collect()
    };
    assert_eq!(offers("e", 100, 1), [""; 0]);
    let mut all = offers("pi", 100, 1);
    assert_eq!(offers("pi", 3, 1), all[..3]);
    let chosen: std::collections::BTreeSet<String> = (0..20).flat_map(|key| offers("pi", 1, key)).collect();
    assert!(chosen.len() > 4, "{chosen:?}");
    all.sort();
    assert_eq!(all, (1..9).map(|number| format!("s{number}")).collect::<Vec<_>>());
}

#[test]
fn a_master_forgets_the_jobs_of_other_masters_users_and_does_not_take_them_to_be_lost() {
    let masters = crate::masters::Masters::new(["north", "south"].map(name));
    let share = masters.share(&name("north"));
    let users: Vec<User> = (0..20).map(|number| format!("user{number}").parse().unwrap()).collect();
    let own: Vec<u32> =
        (1..).zip(&users).filter(|(_, user)| share.has(user.owner())).map(|(number, _)| number).collect();
    assert!((1..users.len()).contains(&own.len()), "both have users");
    let mut bench = Bench::new(true);
    bench.attach_with("a", 1);
    for (number, owner) in (1..).zip(&users) {
        let record = JobRecord { owner: owner.clone(), ..*record(number, JobState::Queued) };
        let sequence = u64::from(number);
        bench.handle(Event::StatusUpdate { child: name("a"), sequence, record: Box::new(record) });
    }
    let known = |agent: &Agent| agent.jobs().map(|job| job.handle.number).collect::<Vec<_>>();
    assert_eq!(known(&bench.agent).len(), users.len(), "alone it has all of them");
    let Bench { agent, now } = bench;
    let mut bench = Bench { agent: agent.with_share(share), now };
    assert_eq!(known(&bench.agent), own);
    // With other masters the number of a server's journal is another one, and it reports again what belongs here: in this test, nothing.
    bench.attach_with("a", 2);
    bench.now = Time(10_000);
    let lost = bench.handle(Event::Due);
    let ended = lost.iter().filter(|command| matches!(command, Command::Archive(_))).count();
    assert_eq!(ended, own.len());
}

#[test]
fn a_server_is_found_below_each_child_that_has_it() {
    let mut bench = Bench::new(true);
    let of = |bench: &Bench, server: &str| {
        let below = bench.agent.below.of(&name(server)).map(Name::to_string).collect::<Vec<_>>();
        (below.join(" "), bench.agent.server(&name(server)).map(|(_, attached)| attached))
    };
    let agent = |child: &str, servers: &[&str]| Event::Attached {
        child: name(child),
        kind: ChildKind::Agent,
        journal: 1,
        servers: servers.iter().map(|server| info(server)).collect(),
    };
    bench.handle(agent("north", &["a", "b"]));
    bench.handle(agent("south", &["b", "c"]));
    assert_eq!(of(&bench, "b"), ("north south".to_owned(), Some(true)), "announced by both for a moment");
    bench.handle(Event::Announced { child: name("north"), servers: vec![info("a"), info("d")] });
    assert_eq!(of(&bench, "b"), ("south".to_owned(), Some(true)));
    bench.handle(Event::Detached { child: name("south") });
    assert_eq!(of(&bench, "c"), ("south".to_owned(), Some(false)));
    bench.handle(agent("north", &["a", "c"]));
    assert_eq!(of(&bench, "c"), ("north".to_owned(), Some(true)), "it has gone to another agent");
    assert_eq!(of(&bench, "d"), (String::new(), None));
    let restored = Agent::from_state(
        bench.agent.config().clone(),
        crate::replay::Machine::dump(&mut bench.agent, bench.now),
    );
    bench.agent = restored;
    assert_eq!(of(&bench, "c").0, "north");
    assert_eq!(of(&bench, "b").0, "south");
}
