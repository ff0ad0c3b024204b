//! Fault schedules of explorations: small platforms under faults that are drawn from a seed. Tests run some of them, `cargo
//! xtask soak` more.
//!
//! A schedule has few users on few servers. In some schedules servers refuse all but one or two mandatory requests of a
//! user, so that clients with requests have to look for further servers. `network::checks` has the invariants. Users who
//! were present together must also have had nearly equal shares; the bound is looser in schedules with crashes and lost
//! messages. The same seed gives the same schedule.

use pliant_control::optional::explore::Dispatch;
use pliant_model::rng::stream_seed;
use pliant_model::{ExplorationRun, SpanMs, TimeMs};
use pliant_policy::optional::{Fairness, Order, Reallocation};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::network::{Bug, FaultCounts, NetworkFaults, simulate_faulty};
use super::{Arrivals, Scenario, System};
use crate::counters::add_each;

/// The maximal difference between the satisfactions of users who arrive together, without what faults excuse
/// (`network/excused.rs`). The bound is two requests of the least shares on every server, if that is more. Of the 7,866
/// fairness schedules among the seeds from 50,000,000 to 50,020,000, all are at least 0.07 below their bounds.
const UNFAIRNESS_MOST: f64 = 0.25;

/// A run may reach its bound exactly (seed 451,000,114). Sums of the same shares in another order differ by less than this.
const ROUNDING: f64 = 1e-9;

/// One fault schedule.
#[derive(Clone, PartialEq, Debug)]
pub struct Schedule {
    /// Users and servers.
    pub scenario: Scenario,
    /// How servers order requests, and how clients dispatch them.
    pub system: System,
    /// The fault model.
    pub faults: NetworkFaults,
    /// The maximal unfairness between users who were present together and always had requests at every server, without what
    /// faults excuse; none if the schedule is not checked for equal shares.
    pub unfairness_most: Option<f64>,
    seed: u64,
}

/// The counts of schedules.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct ScheduleCounts {
    /// Schedules that were run.
    pub schedules: u32,
    /// Messages that were sent.
    pub messages: u64,
    /// Schedules that were checked for equal shares.
    pub fair: u32,
    /// The maximal unfairness among them.
    pub unfairness: f64,
    /// What happened in the schedules.
    pub counts: FaultCounts,
}

impl Schedule {
    /// Draws the schedule of a seed.
    pub fn draw(seed: u64) -> Schedule {
        let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, "schedule"));
        let rng = &mut rng;
        let is_fair = rng.random_bool(0.4);
        let has_crashes = is_fair && rng.random_bool(0.5);
        let is_crowded = !is_fair && rng.random_bool(0.5);
        let weights = rng.random_bool(0.5).then_some(vec![1, 3, 2]).unwrap_or_default();
        let window = rng.random_range(if weights.is_empty() { 1..=2 } else { 2..=3 });
        let mandatory = rng.random_range(if is_crowded { 4..=10 } else { 1..=4 });
        let speeds: Vec<f64> = match is_fair {
            true => vec![1.0; rng.random_range(1..=5)],
            false => {
                let servers = rng.random_range(1..=if is_crowded { 2 } else { 5 });
                (0..servers).map(|_| draw_from(rng, &[0.5, 1.0, 2.0])).collect()
            }
        };
        let arrivals = draw_from(rng, &[Arrivals::Simultaneous, Arrivals::Consecutive, Arrivals::Regular]);
        let scenario = Scenario {
            arrivals: if is_fair { Arrivals::Simultaneous } else { arrivals },
            users: rng.random_range(2..=6),
            weights,
            mandatory,
            most: if is_fair { 10_000 } else { rng.random_range(20..=300) },
            deadline: SpanMs(rng.random_range(40..=120) * 1_000),
            runtime: SpanMs(rng.random_range(200..=1_500)),
            cores: rng.random_range(1..=2),
            pace: SpanMs(rng.random_range(1..=5)),
            speeds,
            outages: None,
        };
        let system = Schedule::system(rng, window, is_fair);
        let mut faults = Schedule::fault_rates(rng, &scenario, is_fair, has_crashes);
        if is_crowded {
            faults.mandatory_per_user = Some(rng.random_range(1..=2));
        }
        // Shares are no finer than requests, and each server shares by itself.
        let requests = two_requests(&scenario);
        let on_all_servers = requests * scenario.speeds.len() as f64;
        let most = UNFAIRNESS_MOST.max(on_all_servers);
        let most = most + unfairness_of_mandatory(&scenario);
        Schedule { scenario, system, faults, unfairness_most: is_fair.then_some(most), seed }
    }

    fn system(rng: &mut ChaCha8Rng, window: u32, is_fair: bool) -> System {
        let fairness = match is_fair {
            true => Fairness::VirtualTime,
            false => draw_from(rng, &[Fairness::Cumulative, Fairness::VirtualTime, Fairness::Satisfaction]),
        };
        let grace = SpanMs(draw_from(rng, &[0, 500, 1_500]));
        let every = SpanMs(rng.random_range(250..=2_000));
        let moves = rng.random_bool(0.4);
        System {
            order: Order::Fair { fairness, grace },
            dispatch: Dispatch::Window(window),
            reallocation: moves.then_some(Reallocation { every, least_gain: SpanMs(50) }),
        }
    }

    fn fault_rates(
        rng: &mut ChaCha8Rng,
        scenario: &Scenario,
        is_fair: bool,
        has_crashes: bool,
    ) -> NetworkFaults {
        let share = |rng: &mut ChaCha8Rng, most: u32| match rng.random_bool(0.6) {
            true => rng.random_range(1..=most),
            false => 0,
        };
        let deadline = scenario.deadline.0;
        let is_reliable = is_fair && !has_crashes;
        let crashes = has_crashes || (!is_fair && rng.random_bool(0.8));
        let drawn = NetworkFaults {
            latency: SpanMs(rng.random_range(1..=40)),
            spread: SpanMs(i64::from(share(rng, if is_fair { 100 } else { 400 }))),
            lost: if is_reliable { 0 } else { share(rng, if has_crashes { 60 } else { 150 }) },
            duplicated: share(rng, 100),
            crash_every: match crashes {
                true if has_crashes => SpanMs(rng.random_range(5_000..=20_000)),
                true => SpanMs(rng.random_range(500..=5_000)),
                false => SpanMs::ZERO,
            },
            clients_never_crash: rng.random_bool(0.3),
            downtime: SpanMs(rng.random_range(500..=if has_crashes { 3_000 } else { 6_000 })),
            after_commit: if crashes && !has_crashes { share(rng, 10) } else { 0 },
            omitted: if is_fair { 0 } else { share(rng, 700) },
            timeout: SpanMs(if is_fair { 0 } else { i64::from(share(rng, 8_000)) }),
            mandatory_per_user: rng.random_bool(0.6).then(|| rng.random_range(1..=scenario.mandatory)),
            until: TimeMs(rng.random_range(deadline / 4..=deadline * 3 / 2)),
        };
        // A timeout below the round-trip time would never let an answer arrive.
        let round_trip = SpanMs(2 * (drawn.latency.0 + drawn.spread.0) + 1);
        let timeout =
            if drawn.timeout == SpanMs::ZERO { SpanMs::ZERO } else { drawn.timeout.max(round_trip) };
        NetworkFaults { timeout, ..drawn }
    }

    /// Runs the schedule, perhaps with an injected bug. Returns its counts and violations. `unfairness` computes that metric of
    /// a run.
    pub fn run(
        &self,
        bug: Option<Bug>,
        unfairness: impl Fn(&ExplorationRun) -> f64,
    ) -> (ScheduleCounts, Vec<String>) {
        let found = simulate_faulty(&self.scenario, &self.system, self.faults, bug, self.seed);
        let mut violations = found.violations;
        let mut counts = ScheduleCounts {
            schedules: 1,
            messages: found.messages,
            counts: found.counts,
            ..ScheduleCounts::default()
        };
        if let Some(most) = self.unfairness_most {
            let most = most + self.excused(&found.excused);
            (counts.fair, counts.unfairness) = (1, unfairness(&found.run));
            if counts.unfairness > most + ROUNDING {
                let found = counts.unfairness;
                violations.push(format!("expected an unfairness of at most {most:.3}, found {found:.3}"));
            }
        }
        (counts, violations)
    }

    /// The difference of satisfactions that faults excuse. Users are present from the start to the deadline.
    fn excused(&self, excused: &[SpanMs]) -> f64 {
        let weights: f64 = (0..excused.len()).map(|user| f64::from(self.scenario.weight(user))).sum();
        let cores = self.scenario.speeds.len() as f64 * f64::from(self.scenario.cores);
        let all = self.scenario.deadline.seconds() * cores;
        let share = |(user, took): (usize, &SpanMs)| {
            took.seconds() * weights / (all * f64::from(self.scenario.weight(user)))
        };
        excused.iter().enumerate().map(share).fold(0.0, f64::max)
    }
}

/// Two requests, of the users with the least weights, as shares of what these users are entitled to on servers of speed 1.
/// The services of two users may differ so far if requests are served whole (start-time fair queueing; Goyal, Vin and Cheng
/// 1997).
fn two_requests(scenario: &Scenario) -> f64 {
    let mut weights: Vec<f64> =
        (0..scenario.users as usize).map(|user| f64::from(scenario.weight(user))).collect();
    let sum: f64 = weights.iter().sum();
    weights.sort_by(f64::total_cmp);
    let cores = scenario.speeds.len() as f64 * f64::from(scenario.cores);
    let all = scenario.deadline.seconds() * cores;
    weights.iter().take(2).map(|weight| scenario.runtime.seconds() * sum / (all * weight)).sum()
}

/// The least possible unfairness: every user's mandatory requests are completed, even above the user's fair share, and the
/// other users share the rest.
fn unfairness_of_mandatory(scenario: &Scenario) -> f64 {
    let users = scenario.users as usize;
    let mut weights: Vec<f64> = (0..users).map(|user| f64::from(scenario.weight(user))).collect();
    weights.sort_by(|a, b| b.total_cmp(a));
    let sum: f64 = weights.iter().sum();
    let cores = scenario.speeds.len() as f64 * f64::from(scenario.cores);
    let all = scenario.deadline.seconds() * cores;
    let mandatory = f64::from(scenario.mandatory) * scenario.runtime.seconds();
    // The satisfaction of the heaviest users if the others get their mandatory requests only.
    let shared = |heaviest: usize| {
        let weight: f64 = weights[..heaviest].iter().sum();
        (all - mandatory * (users - heaviest) as f64) * sum / (all * weight)
    };
    let level = (1..=users).map(shared).fold(1.0, f64::min).max(0.0);
    let most = weights.last().map_or(0.0, |lightest| mandatory * sum / (all * lightest));
    (most - level).max(0.0)
}

fn draw_from<T: Copy>(rng: &mut ChaCha8Rng, values: &[T]) -> T {
    *values.choose(rng).expect("there is something to choose from")
}

impl std::ops::Add for ScheduleCounts {
    type Output = ScheduleCounts;

    fn add(self, other: ScheduleCounts) -> ScheduleCounts {
        ScheduleCounts {
            schedules: self.schedules + other.schedules,
            messages: self.messages + other.messages,
            fair: self.fair + other.fair,
            unfairness: self.unfairness.max(other.unfairness),
            counts: self.counts + other.counts,
        }
    }
}

add_each!(FaultCounts {
    crashes,
    crashed_without_servers,
    after_commit,
    given_up,
    refused,
    cancelled,
    unanswered,
    in_time
});

impl std::fmt::Display for ScheduleCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let FaultCounts {
            crashes,
            crashed_without_servers,
            after_commit,
            given_up,
            refused,
            cancelled,
            unanswered,
            in_time,
        } = self.counts;
        write!(
            f,
            "{} messages, {crashes} crashes ({after_commit} right after a commit, {crashed_without_servers} of clients with requests that \
             looked for servers), {given_up} servers given up, {refused} requests refused and {cancelled} cancelled, \
             {unanswered} queries unanswered, {in_time} users checked for their deadlines, {} schedules checked for fairness, \
             unfairness {:.3} at most",
            self.messages, self.fair, self.unfairness
        )
    }
}
