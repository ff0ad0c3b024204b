//! A cluster whose size or policy changes while it has jobs.

use pliant_policy::batch::order::PrioritySettings;

use super::*;
use crate::replay::Machine;

fn configure(bench: &mut Bench, procs: u32, policy: &str) {
    bench.deliver(Event::Configured { procs: Procs(procs), policy: policy.to_owned(), host: None });
    assert!(bench.commands.is_empty());
    assert_eq!(bench.server.configuration(), Some((Procs(procs), policy.to_owned(), None)));
}

fn planned_start(bench: &mut Bench, number: u32) -> Option<Time> {
    let caller = Caller { user: user("alice"), operator: true };
    Some(bench.server.explain(bench.now, number, &caller)?.waits?.plan.start)
}

pub(super) fn restored(bench: &mut Bench) {
    let text = serde_json::to_string(&bench.server.dump(bench.now)).unwrap();
    let state: ServerState = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&state).unwrap(), text);
    bench.server = Server::from_state(bench.server.config().clone(), state).unwrap();
}

#[test]
fn running_jobs_keep_the_processors_that_a_smaller_cluster_has_no_longer() {
    let mut bench = Bench::new("fcfs", 4);
    for (key, walltime) in [(1, 100), (2, 200), (3, 300)] {
        bench.accepted(rigid(key, 1, walltime));
    }
    assert_eq!(bench.at(100).len(), 3);
    bench.accepted(rigid(4, 2, 50));
    bench.accepted(rigid(5, 3, 50));
    bench.now = Time(110);
    configure(&mut bench, 2, "fcfs");
    restored(&mut bench);
    assert_eq!(planned_start(&mut bench, 4), Some(Time(400)), "when all three have ended");
    let caller = Caller { user: user("alice"), operator: false };
    let why = bench.server.explain(bench.now, 5, &caller).unwrap().unplanned.unwrap();
    assert!(why.starts_with("it needs 3 processors, and the cluster has only 2"), "{why}");
    bench.now = Time(150);
    bench.ended(1, Exit::Code(0));
    assert!(bench.at(150).is_empty(), "the two others still have both processors");
    bench.now = Time(160);
    bench.ended(3, Exit::Code(0));
    restored(&mut bench);
    assert_eq!(planned_start(&mut bench, 4), Some(Time(300)));
    bench.now = Time(170);
    bench.ended(2, Exit::Code(0));
    let runs = bench.at(170);
    assert_eq!(
        runs.iter().map(|run| (run.job.0, run.cores.as_slice())).collect::<Vec<_>>(),
        [(4, [0, 1].as_slice())]
    );
    bench.now = Time(180);
    configure(&mut bench, 4, "fcfs");
    restored(&mut bench);
    assert_eq!(planned_start(&mut bench, 5), Some(Time(220)));
    bench.ended(4, Exit::Code(0));
    assert_eq!(bench.at(180).iter().map(|run| run.cores.len()).collect::<Vec<_>>(), [3]);
}

#[test]
fn waiting_jobs_are_served_by_the_new_policy_with_their_own_submission_times() {
    let mut bench = Bench::new("cbf", 4);
    bench.accepted(rigid(1, 4, 100));
    bench.at(100);
    bench.accepted(rigid(2, 4, 60));
    bench.now = Time(150);
    bench.accepted(rigid(3, 4, 20));
    bench.now = Time(160);
    configure(&mut bench, 4, "easy/shortest/none");
    assert_eq!(
        (planned_start(&mut bench, 3), planned_start(&mut bench, 2)),
        (Some(Time(200)), Some(Time(220)))
    );
    // The second job has waited for 60 s, the third one for 10 s.
    configure(&mut bench, 4, "easy/shortest/30s");
    restored(&mut bench);
    assert_eq!(
        (planned_start(&mut bench, 2), planned_start(&mut bench, 3)),
        (Some(Time(200)), Some(Time(260)))
    );
    configure(&mut bench, 4, "cbf");
    assert_eq!(
        (planned_start(&mut bench, 2), planned_start(&mut bench, 3)),
        (Some(Time(200)), Some(Time(260)))
    );
}

#[test]
fn the_queue_order_decides_which_waiting_jobs_a_larger_cluster_starts() {
    let mut bench = bench_without_limit("fcfs/shortest/none", 2);
    bench.accepted(rigid(1, 2, 100));
    bench.at(100);
    for (key, walltime) in [(2, 60), (3, 20), (4, 40)] {
        bench.accepted(rigid(key, 2, walltime));
    }
    configure(&mut bench, 4, "fcfs/shortest/none");
    assert_eq!(bench.at(100).iter().map(|run| run.job.0).collect::<Vec<_>>(), [3]);
}

#[test]
fn a_job_that_is_too_large_can_be_cancelled() {
    let mut bench = Bench::new("easy", 4);
    bench.accepted(rigid(1, 4, 100));
    bench.at(100);
    bench.accepted(rigid(2, 3, 100));
    configure(&mut bench, 2, "easy");
    bench.cancel(2, "alice");
    assert_eq!(bench.state(2), JobState::Canceled);
}

/// A small generator: the same steps for the same seed.
pub(super) struct Steps(pub(super) u64);

impl Steps {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

const POLICIES: [&str; 6] = ["fcfs", "cbf", "easy", "h3", "easy/multifactor", "fcfs/shortest/20s"];

/// A server with its history.
struct Recorded {
    bench: Bench,
    events: Vec<(Time, Event)>,
    running: Vec<Run>,
}

impl Recorded {
    fn deliver(&mut self, event: Event) {
        self.events.push((self.bench.now, event.clone()));
        self.bench.deliver(event);
        self.running.extend(self.bench.commands.iter().filter_map(|command| match command {
            Command::Batch(batch::Command::Run(run)) => Some(run.clone()),
            _ => None,
        }));
        let mut cores: Vec<u32> = self.running.iter().flat_map(|run| run.cores.clone()).collect();
        cores.sort_unstable();
        assert!(cores.windows(2).all(|pair| pair[0] < pair[1]), "a processor with two jobs: {cores:?}");
    }

    fn configured(&mut self, procs: u32, policy: &str) {
        self.deliver(Event::Configured { procs: Procs(procs), policy: policy.to_owned(), host: None });
    }

    fn ended(&mut self, at: usize) {
        let Run { job, .. } = self.running.swap_remove(at);
        self.deliver(Event::Batch(batch::Event::Ended { job, exit: Exit::Code(0), elapsed_ms: None }));
    }
}

/// Submissions, ends and changes by a seed, until every job has ended on a cluster that is large enough.
fn history(seed: u64) -> Recorded {
    let mut steps = Steps(seed);
    let mut recorded =
        Recorded { bench: bench_without_limit("fcfs", 4), events: Vec::new(), running: Vec::new() };
    recorded.configured(4, "fcfs");
    let mut key = 0;
    for _ in 0..120 {
        match steps.below(6) {
            0 | 1 if key < 60 => {
                key += 1;
                let submit = rigid(key, 1 + steps.below(6) as u32, 1 + steps.below(60) as i64);
                recorded.deliver(Event::Submit { reply: Token(0), submit: Box::new(submit) });
            }
            2 | 3 if !recorded.running.is_empty() => {
                let at = steps.below(recorded.running.len() as u64) as usize;
                recorded.ended(at);
            }
            4 if steps.below(3) == 0 => {
                let policy = POLICIES[steps.below(POLICIES.len() as u64) as usize];
                recorded.configured(1 + steps.below(6) as u32, policy);
            }
            _ => recorded.deliver(Event::Due),
        }
        if steps.below(8) == 0 {
            restored(&mut recorded.bench);
        }
        recorded.bench.now += Span(steps.below(9) as i64);
    }
    recorded.configured(6, "easy");
    recorded.deliver(Event::Due);
    while !recorded.running.is_empty() {
        recorded.ended(0);
        recorded.deliver(Event::Due);
    }
    recorded
}

fn bench_without_limit(policy: &str, procs: u32) -> Bench {
    let mut bench = Bench::new(policy, procs);
    bench.server.config.waiting = WaitingLimits::of_jobs(u32::MAX);
    bench
}

#[test]
fn no_job_is_lost_by_changes_and_a_replay_gives_the_same() {
    let mut changes = 0;
    for seed in 0..300 {
        let Recorded { mut bench, events, .. } = history(seed);
        changes += events.iter().filter(|(_, event)| matches!(event, Event::Configured { .. })).count();
        let unfinished: Vec<u32> =
            bench.server.jobs().filter(|job| !job.state.is_final()).map(|job| job.handle.number).collect();
        assert!(unfinished.is_empty(), "seed {seed}: {unfinished:?}");
        // The file says something else by now.
        let mut again = bench_without_limit("cbf", 9);
        for (now, event) in events {
            again.now = now;
            again.deliver(event);
        }
        assert_eq!(again.server.dump(again.now), bench.server.dump(bench.now), "seed {seed}");
    }
    assert!(changes > 1_000, "{changes}");
}

#[test]
fn the_effect_of_a_change_is_known_before_it_is_made() {
    let mut bench = bench_without_limit("fcfs", 4);
    for key in 1..4 {
        bench.accepted(rigid(key, 1, 100));
    }
    bench.at(100);
    // On four processors they start at 200, 210 and 220; on two the second one does not fit, and the third one starts at 210.
    for (key, procs) in [(4, 2), (5, 3), (6, 2)] {
        bench.accepted(rigid(key, procs, 10));
    }
    let config = bench.server.config().clone();
    let config = ServerConfig { procs: Procs(2), policy: "fcfs".to_owned(), ..config };
    let effect = bench.server.try_configuration(Time(100), &config, &PrioritySettings::default());
    let expected = ChangeEffect { running: 3, waiting: 3, later: 0, earlier: 1, too_large: 1 };
    assert_eq!(effect, expected);
}
