//! The machine with simulated servers that run, refuse or lose batches.

mod endings;

use std::collections::VecDeque;

use pliant_model::SpanMs;
use pliant_policy::allocation::Strategy;
use pliant_policy::runtimes::Level;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::*;
use crate::reason::Cause;

mod arrays;
mod late;
mod refused;

fn plan(instances: u32, retries: u8) -> Plan {
    Plan {
        instances,
        retries,
        strategy: Strategy::Statistics,
        batch_most: 1_000,
        once: false,
        at_once: None,
        lost_only: false,
    }
}

fn prospects(slots: u32, instance_ms: i64, source: RuntimeSource) -> InstanceProspects {
    let free = vec![FreeSlots { at: SpanMs::ZERO, slots }];
    InstanceProspects {
        free,
        instance: SpanMs(instance_ms),
        scale: 1.0,
        source,
        jobs: 0,
        failures: 0,
        batch_most: None,
        waiting: Vec::new(),
        refused: Vec::new(),
    }
}

fn found_all(servers: Vec<(Name, InstanceProspects)>) -> Event {
    Event::Found { servers, waiting: BTreeSet::new(), late: BTreeSet::new() }
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// Servers that run their batches one after the other, with faults.
struct Bench {
    machine: MultiJob,
    rng: ChaCha8Rng,
    /// The recorded events, for a restarted client.
    journal: Vec<Event>,
    open: VecDeque<(u32, Name, Vec<u32>)>,
    /// How often each instance completed.
    runs: Vec<u32>,
    batches: Vec<usize>,
    most_open: BTreeMap<Name, usize>,
    done: bool,
    unplaced: Vec<u32>,
    /// The machine says that the deadline cannot be kept.
    too_late: bool,
    /// Cancelled batches.
    cancelled: Vec<u32>,
}

impl Bench {
    fn new(plan: Plan, seed: u64) -> Bench {
        Bench {
            runs: vec![0; plan.instances as usize],
            machine: MultiJob::new(plan),
            rng: ChaCha8Rng::seed_from_u64(seed),
            journal: Vec::new(),
            open: VecDeque::new(),
            batches: Vec::new(),
            most_open: BTreeMap::new(),
            done: false,
            unplaced: Vec::new(),
            too_late: false,
            cancelled: Vec::new(),
        }
    }

    fn handle(&mut self, event: Event) {
        let mut commands = Vec::new();
        self.machine.on(event.clone(), &mut self.rng, &mut commands);
        if !matches!(event, Event::Begin | Event::Found { .. }) {
            self.journal.push(event);
        }
        for command in commands {
            match command {
                Command::QueryServers | Command::Withdraw { .. } => {}
                Command::Cancel { batch } => self.cancelled.push(batch),
                Command::Unplaced { instance } => self.unplaced.push(instance),
                Command::Done => self.done = true,
                Command::TooLate => self.too_late = true,
                Command::RecordShares { shares } => self.journal.push(Event::SharesRestored { shares }),
                Command::Submit { batch, server, instances } => {
                    assert!(!instances.is_empty());
                    let instances_again = instances.clone();
                    self.journal.push(Event::BatchRestored {
                        batch,
                        server: server.clone(),
                        instances: instances_again,
                    });
                    self.batches.push(instances.len());
                    self.open.push_back((batch, server, instances));
                }
            }
        }
        let mut open: BTreeMap<Name, usize> = BTreeMap::new();
        self.open.iter().for_each(|(_, server, _)| *open.entry(server.clone()).or_default() += 1);
        for (server, count) in open {
            let most = self.most_open.entry(server).or_default();
            *most = count.max(*most);
        }
    }

    /// Ends the oldest batch: `failing` selects its failing instances, and after `lost` of them the batch is lost.
    fn step(&mut self, lost: Option<usize>, failing: impl Fn(u32) -> bool, took_ms: i64) {
        let Some((batch, _, instances)) = self.open.pop_front() else { return };
        for (at, instance) in instances.into_iter().enumerate() {
            if lost.is_some_and(|lost| at >= lost) {
                break;
            }
            self.runs[instance as usize] += 1;
            let (completed, took) = (!failing(instance), SpanMs(took_ms));
            self.handle(Event::InstanceEnded { batch, instance, completed, took, scale: 1.0 });
        }
        self.handle(Event::BatchEnded { batch, unbegun: false, lost: lost.is_some() });
    }

    /// Restarts the client from the recorded events.
    fn restart(&mut self) {
        let mut machine = MultiJob::new(self.machine.plan().clone());
        let mut ignored = Vec::new();
        for event in self.journal.clone() {
            machine.on(event, &mut self.rng, &mut ignored);
        }
        assert_eq!(machine.progress(), self.machine.progress());
        assert_eq!(machine.waiting(), self.machine.waiting());
        assert_eq!(machine.fixed_shares, self.machine.fixed_shares);
        let open: Vec<u32> = machine.open_batches().map(|(batch, _)| batch).collect();
        let mut expected: Vec<u32> = self.open.iter().map(|(batch, ..)| *batch).collect();
        expected.sort_unstable();
        assert_eq!(open, expected);
        self.machine = machine;
        self.handle(Event::Begin);
    }
}

#[test]
fn every_instance_is_done_once_despite_faults() {
    for seed in 0..20 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut bench = Bench::new(Plan { once: seed % 2 == 1, ..plan(3_000, 2) }, seed);
        let servers = [("lyon", 4, 20), ("nancy", 2, 10), ("rennes", 1, 40)];
        let statistics = |jobs| RuntimeSource::Statistics { jobs };
        let all = || {
            let one = |(server, slots, ms): &(&str, u32, i64)| {
                (name(server), prospects(*slots, *ms, statistics(5)))
            };
            servers.iter().map(one).collect::<Vec<_>>()
        };
        bench.handle(Event::Begin);
        bench.handle(found_all(all()));
        let mut steps = 0;
        while !bench.done {
            match random.next_u32() % 12 {
                0 => bench.handle(found_all(all())),
                // A server is down for a while.
                1 => bench.handle(found_all(all().into_iter().skip(1).collect())),
                2 => bench.restart(),
                3 => {
                    if let Some((batch, ..)) = bench.open.pop_back() {
                        bench.handle(Event::Refused { batch, cause: Cause::TooMany });
                        bench.handle(found_all(all()));
                    }
                }
                _ => bench.step(None, |_| false, 15),
            }
            if bench.open.is_empty() {
                bench.handle(found_all(all()));
            }
            steps += 1;
            assert!(steps < 20_000, "no end: {:?}", bench.machine.progress());
        }
        assert!(bench.runs.iter().all(|runs| *runs == 1), "seed {seed}");
        assert_eq!(bench.machine.progress().done, 3_000);
        for (server, slots, _) in servers {
            assert!(bench.most_open[&name(server)] <= slots as usize + 2, "{server} is flooded");
        }
    }
}

#[test]
fn a_failing_instance_is_retried_up_to_the_limit() {
    let mut bench = Bench::new(plan(100, 2), 1);
    bench.handle(found_all(vec![(name("lyon"), prospects(2, 10, RuntimeSource::Walltime))]));
    let mut step = 0;
    while !bench.done {
        // Every third batch is lost after one instance; 7 always fails.
        let lost = (step % 3 == 2).then_some(1);
        bench.step(lost, |instance| instance == 7, 10);
        step += 1;
        assert!(step < 1_000);
    }
    let progress = bench.machine.progress();
    assert_eq!(progress.done + progress.failed, 100);
    assert!(bench.machine.given_up().any(|instance| instance == 7), "{progress:?}");
    assert!(bench.runs[7] <= 3 && !bench.machine.is_done(7));
    assert!(progress.retried > 2);
    // No completed instance runs again.
    assert!((0..100).all(|instance| instance == 7 || bench.runs[instance] <= 1), "{:?}", bench.runs);
}

#[test]
fn shares_follow_learned_runtimes() {
    let mut bench = Bench::new(plan(10_000, 0), 1);
    let found = |source| {
        vec![(name("lyon"), prospects(2, 10_000, source)), (name("nancy"), prospects(2, 10_000, source))]
    };
    bench.handle(found_all(found(RuntimeSource::Walltime)));
    let (shares, _) = bench.machine.shares();
    let first: Vec<u64> = shares.iter().map(|share| share.instances).collect();
    assert!(first[0].abs_diff(first[1]) < 20, "{first:?}");
    assert!(bench.batches.iter().all(|size| *size <= 4), "nothing is known yet: {:?}", bench.batches);
    // Instances on lyon take a third of the time.
    for _ in 0..8 {
        let took = if bench.open[0].1 == name("lyon") { 100 } else { 300 };
        bench.step(None, |_| false, took);
    }
    bench.handle(found_all(found(RuntimeSource::Walltime)));
    let (shares, makespan) = bench.machine.shares();
    assert_eq!(shares[0].instance, SpanMs(100));
    assert!(matches!(shares[1].source, RuntimeSource::Own { instances } if instances >= 3));
    let ratio = shares[0].instances as f64 / shares[1].instances as f64;
    assert!((2.5..3.5).contains(&ratio), "{shares:?}");
    assert!(
        makespan < SpanMs(400_000)
            && bench.machine.left(SpanMs::ZERO, &BTreeMap::new()).unwrap() < SpanMs(500_000)
    );
    // Statistics of the service come from the server itself; those of the user's other jobs count less.
    let of_federation = |level| found(RuntimeSource::Federation { level, jobs: 9 });
    let source = |bench: &Bench| bench.machine.shares().0[1].source;
    let mut fresh = Bench::new(plan(10_000, 0), 1);
    fresh.handle(found_all(of_federation(Level::All)));
    assert!(fresh.batches.iter().all(|size| *size <= 4), "{:?}", fresh.batches);
    assert_eq!(source(&fresh), RuntimeSource::Federation { level: Level::All, jobs: 9 });
    for _ in 0..8 {
        fresh.step(None, |_| false, 100);
    }
    // No instance has ended on the other server.
    let servers =
        |level| vec![of_federation(level).remove(0), (name("rennes"), of_federation(level)[1].1.clone())];
    fresh.handle(found_all(servers(Level::User)));
    assert!(matches!(source(&fresh), RuntimeSource::Own { .. }), "{:?}", source(&fresh));
    fresh.handle(found_all(servers(Level::Executable)));
    assert_eq!(source(&fresh), RuntimeSource::Federation { level: Level::Executable, jobs: 9 });
    // With known short runtimes, batches are large: about half a minute.
    assert!(bench.batches.contains(&300) && bench.batches.contains(&100), "{:?}", bench.batches);
}

#[test]
fn the_last_batches_of_a_share_are_small() {
    let mut bench = Bench::new(plan(2_000, 0), 1);
    bench.handle(found_all(vec![(name("lyon"), prospects(4, 1, RuntimeSource::Statistics { jobs: 9 }))]));
    while !bench.done {
        bench.step(None, |_| false, 1);
    }
    assert_eq!(bench.batches[0], 250);
    assert_eq!(bench.batches.last(), Some(&1));
    assert!(bench.batches.windows(2).all(|pair| pair[0] >= pair[1]), "{:?}", bench.batches);
    assert!(bench.batches.len() < 60, "{}", bench.batches.len());
}

#[test]
fn a_preview_is_what_the_policy_allocates() {
    let mut machine = MultiJob::new(plan(90, 0));
    let busy = InstanceProspects {
        free: vec![FreeSlots { at: SpanMs(1_000), slots: 1 }],
        ..prospects(1, 100, RuntimeSource::Statistics { jobs: 3 })
    };
    let idle = prospects(1, 100, RuntimeSource::Statistics { jobs: 3 });
    let found = vec![(name("busy"), busy), (name("idle"), idle)];
    let (shares, makespan) = machine.preview(found, &mut ChaCha8Rng::seed_from_u64(1));
    let counts: Vec<u64> = shares.iter().map(|share| share.instances).collect();
    assert_eq!((counts, makespan), (vec![40, 50], SpanMs(5_000)));
}

#[test]
fn keys_of_batches_differ_and_are_found_again() {
    let own = Key([7; 16]);
    let keys: BTreeSet<Key> = (0..10_000).map(|batch| batch_key(own, batch)).collect();
    assert_eq!(keys.len(), 10_000);
    assert_eq!(batch_key(batch_key(own, 77), 77), own);
    assert_eq!(batch_key(own, 0), own);
    assert!(keys.iter().all(|key| common_key(*key) == common_key(own)));
    assert_ne!(common_key(inputs_key(own)), common_key(own));
}

fn free_at(at_ms: i64, slots: u32, instance_ms: i64) -> InstanceProspects {
    let free = vec![FreeSlots { at: SpanMs(at_ms), slots }];
    InstanceProspects { free, ..prospects(slots, instance_ms, RuntimeSource::Statistics { jobs: 9 }) }
}

/// The commands that follow from an event.
fn commands_after(machine: &mut MultiJob, event: Event) -> Vec<Command> {
    let mut commands = Vec::new();
    machine.on(event, &mut ChaCha8Rng::seed_from_u64(1), &mut commands);
    commands
}

/// The submitted batches: number, server, and number of instances.
fn submitted(commands: &[Command]) -> Vec<(u32, &str, usize)> {
    let mut found = Vec::new();
    for command in commands {
        if let Command::Submit { batch, server, instances } = command {
            found.push((*batch, server.as_str(), instances.len()));
        }
    }
    found
}

#[test]
fn a_waiting_batch_that_would_end_last_is_withdrawn_without_a_retry() {
    let mut machine = MultiJob::new(plan(400, 0));
    let servers =
        |busy_ms| vec![(name("busy"), free_at(busy_ms, 2, 1_000)), (name("idle"), free_at(0, 2, 1_000))];
    let first = commands_after(
        &mut machine,
        Event::Found { servers: servers(40_000), waiting: BTreeSet::new(), late: BTreeSet::new() },
    );
    let busy: Vec<(u32, &str, usize)> = submitted(&first).into_iter().filter(|one| one.1 == "busy").collect();
    let &[(batch, _, count)] = busy.as_slice() else { panic!("one batch waits there: {first:?}") };
    // As expected: it stays.
    let waiting = BTreeSet::from([batch]);
    let found = commands_after(
        &mut machine,
        Event::Found { servers: servers(40_000), waiting: waiting.clone(), late: BTreeSet::new() },
    );
    assert!(!found.contains(&Command::Withdraw { batch }), "{found:?}");
    // The busy server turns out to be busy for an hour.
    let found = commands_after(
        &mut machine,
        Event::Found { servers: servers(3_600_000), waiting: waiting.clone(), late: BTreeSet::new() },
    );
    assert!(found.contains(&Command::Withdraw { batch }), "{found:?}");
    let again = commands_after(
        &mut machine,
        Event::Found { servers: servers(3_600_000), waiting, late: BTreeSet::new() },
    );
    assert!(!again.contains(&Command::Withdraw { batch }), "once is enough: {again:?}");
    let before = machine.waiting();
    commands_after(&mut machine, Event::BatchEnded { batch, unbegun: true, lost: false });
    assert_eq!(machine.waiting(), before + count as u64);
    assert_eq!((machine.progress().failed, machine.progress().retried), (0, 0));
}

#[test]
fn batches_respect_the_longest_walltime_of_a_job() {
    let mut machine = MultiJob::new(plan(1_000, 0));
    let short = InstanceProspects { batch_most: Some(7), ..free_at(0, 2, 10) };
    let found = Event::Found {
        servers: vec![(name("idle"), short)],
        waiting: BTreeSet::new(),
        late: BTreeSet::new(),
    };
    let sizes: Vec<usize> = submitted(&commands_after(&mut machine, found)).iter().map(|one| one.2).collect();
    assert_eq!(sizes, [7, 7, 7, 7]);
}

#[test]
fn no_more_batches_are_open_than_the_plan_says() {
    let mut bench = Bench::new(Plan { at_once: Some(2), ..plan(40, 2) }, 1);
    let one = |server| (name(server), prospects(8, 1_000, RuntimeSource::Statistics { jobs: 5 }));
    let all = || found_all(["lyon", "nancy", "rennes"].map(one).into());
    bench.handle(Event::Begin);
    bench.handle(all());
    let mut steps = 0;
    while !bench.done {
        assert_eq!(bench.open.len(), 2.min(bench.machine.batches.len()));
        match steps % 5 {
            0 => bench.handle(all()),
            1 => bench.restart(),
            // An instance fails, and one that a server refuses goes to another one.
            2 => bench.step(None, |instance| instance % 7 == 0 && steps < 10, 1_000),
            3 => {
                if let Some((batch, ..)) = bench.open.pop_back() {
                    bench.handle(Event::Refused { batch, cause: Cause::Invalid });
                }
            }
            _ => bench.step(None, |_| false, 1_000),
        }
        steps += 1;
        assert!(steps < 1_000, "{:?}", bench.machine.progress());
    }
    assert_eq!(bench.machine.progress().done, 40);
    assert!(bench.most_open.values().all(|most| *most <= 2), "{:?}", bench.most_open);
}

#[test]
fn instances_stay_on_their_servers_if_the_plan_says_so() {
    let once = Plan { strategy: Strategy::Random, once: true, ..plan(1_000, 0) };
    let mut machine = MultiJob::new(once);
    let servers = vec![(name("busy"), free_at(3_600_000, 2, 100)), (name("idle"), free_at(0, 2, 100))];
    let found = || Event::Found { servers: servers.clone(), waiting: BTreeSet::new(), late: BTreeSet::new() };
    let shares = |machine: &MultiJob| -> Vec<u64> {
        let open = |server: &str| {
            let batches = machine.batches.values().filter(|batch| batch.server.as_str() == server);
            batches.map(|batch| batch.left.len() as u64).sum::<u64>()
        };
        machine.shares().0.iter().map(|share| share.instances + open(share.server.as_str())).collect()
    };
    commands_after(&mut machine, found());
    let first = shares(&machine);
    assert!(first.iter().sum::<u64>() == 1_000 && first.iter().all(|share| *share > 400), "{first:?}");
    // Those of the busy server end there, after the hour, and not on the other one.
    let left = |machine: &MultiJob| machine.left(SpanMs::ZERO, &BTreeMap::new());
    let of_busy = SpanMs(3_600_000 + 100 * first[0].div_ceil(2) as i64);
    assert_eq!(left(&machine), Some(of_busy));
    commands_after(&mut machine, found());
    assert_eq!(shares(&machine), first);
    // Fixed shares of a server that is down also stay.
    let idle =
        Event::Found { servers: servers[1..].to_vec(), waiting: BTreeSet::new(), late: BTreeSet::new() };
    commands_after(&mut machine, idle);
    assert_eq!((shares(&machine), left(&machine)), (first[1..].to_vec(), None));
    commands_after(&mut machine, found());
    assert_eq!(shares(&machine), first);
}

#[test]
fn own_instances_give_unit_runtimes_and_samples_the_remaining_units() {
    let mut machine = MultiJob::new(plan(1_000, 0));
    let at = |scale| InstanceProspects { scale, ..free_at(0, 1, 77) };
    let found = |scale| Event::Found {
        servers: vec![(name("lyon"), at(scale))],
        waiting: BTreeSet::new(),
        late: BTreeSet::new(),
    };
    let commands = commands_after(&mut machine, found(2.0));
    let submitted = submitted(&commands);
    let (batch, count) = (submitted[0].0, submitted[0].2 as u32);
    let expected = |machine: &MultiJob, scale| {
        let expected = machine.expected(&name("lyon"), &at(scale));
        (expected.time, expected.source)
    };
    assert!(count >= 3);
    assert_eq!(expected(&machine, 2.0), (SpanMs(77), RuntimeSource::Statistics { jobs: 9 }));
    for instance in 0..3 {
        // A unit takes 0.4 ms, whatever the units of an instance.
        let (scale, took) = (5.0 * f64::from(instance + 1), SpanMs(2 * i64::from(instance + 1)));
        commands_after(&mut machine, Event::InstanceEnded { batch, instance, completed: true, took, scale });
    }
    assert_eq!(expected(&machine, 2.0), (SpanMs(1), RuntimeSource::Own { instances: 3 }));
    assert_eq!(expected(&machine, 1_000.0), (SpanMs(400), RuntimeSource::Own { instances: 3 }));
}

#[test]
fn samples_cover_all_waiting_instances() {
    let few = MultiJob::new(plan(5, 0));
    assert_eq!(few.samples(), [0, 1, 2, 3, 4]);
    let mut machine = MultiJob::new(plan(64_100, 0));
    machine.on(
        Event::BatchRestored { batch: 0, server: name("lyon"), instances: (0..100).collect() },
        &mut ChaCha8Rng::seed_from_u64(1),
        &mut Vec::new(),
    );
    let samples = machine.samples();
    assert_eq!(samples.len(), 64);
    assert!(samples.iter().all(|one| (100..64_100).contains(one)));
    // The samples cover every period in the order of instances: an eighth in each eighth, of the whole and of each period
    // of ten.
    for (of, parts) in [(64_000, 8), (10, 5)] {
        for part in 0..parts {
            let within = |one: &&u32| (**one - 100) % of * parts / of == part;
            let count = samples.iter().filter(within).count() as u32;
            let even = 64 / parts;
            assert!((even / 2..=2 * even).contains(&count), "{count} in part {part} of {of}: {samples:?}");
        }
    }
    // Failed instances are waiting again.
    let mut again = MultiJob::new(plan(2, 1));
    let recalled = Event::BatchRestored { batch: 0, server: name("lyon"), instances: vec![0, 1] };
    for event in [recalled, Event::BatchEnded { batch: 0, unbegun: true, lost: false }] {
        again.on(event, &mut ChaCha8Rng::seed_from_u64(1), &mut Vec::new());
    }
    assert_eq!(again.samples(), [0, 1]);
}
