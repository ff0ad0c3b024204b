//! Fault schedules of explorations: small platforms under faults that are drawn from a seed. The tests run some
//! of them, and `cargo xtask soak` as many more as one likes.
//!
//! A schedule has few users on few servers. In some of them servers refuse more than one or two mandatory requests of a user,
//! of many, so that clients run out of servers and look for others while they have requests. What is checked is said in `network::checks`, and here that users who were there
//! together have had their shares: nearly equal ones in calm faults, and in rough faults, where messages are lost and clients,
//! servers and the agent crash now and then, within a looser bound. The same seed gives the same schedule.

use pliant_control::optional::explore::Dispatch;
use pliant_model::rng::stream_seed;
use pliant_model::{ExplorationRun, SpanMs, TimeMs};
use pliant_policy::optional::{Fairness, Order, Reallocation};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::network::{Bug, NetworkFaults, Seen, simulate_faulty};
use super::{Arrivals, Scenario, System};
use crate::counters::add_each;

/// The most by which the satisfactions of users may differ who come together, without what faults excuse (`network/excused.rs`). It
/// is two requests of the least shares on every server, if that is more. Of the 7,866 schedules among the seeds from 50,000,000
/// to 50,020,000 that are to be fair, all are at least 0.07 below their bounds.
const UNFAIRNESS_MOST: f64 = 0.25;

/// One fault schedule.
#[derive(Clone, PartialEq, Debug)]
pub struct Schedule {
    /// Who comes, and to which servers.
    pub scenario: Scenario,
    /// How servers order requests, and how clients give them out.
    pub system: System,
    /// What befalls them.
    pub faults: NetworkFaults,
    /// How far apart their shares may be of users who were there together and always wanted requests at every server, without what
    /// faults excuse; none if they cannot be held to have had equal ones.
    pub unfairness_most: Option<f64>,
    seed: u64,
}

/// What became of schedules.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Tried {
    /// Schedules.
    pub schedules: u32,
    /// Messages that were sent.
    pub messages: u64,
    /// Those that were checked for equal shares, and the least equal ones.
    pub fair: u32,
    /// The greatest unfairness among them.
    pub unfairness: f64,
    /// What happened in them.
    pub seen: Seen,
}

impl Schedule {
    /// The schedule of a seed.
    pub fn draw(seed: u64) -> Schedule {
        let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, "schedule"));
        let rng = &mut rng;
        let is_fair = rng.random_bool(0.4);
        let is_rough = is_fair && rng.random_bool(0.5);
        let is_crowded = !is_fair && rng.random_bool(0.5);
        let weights = rng.random_bool(0.5).then_some(vec![1, 3, 2]).unwrap_or_default();
        let window = rng.random_range(if weights.is_empty() { 1..=2 } else { 2..=3 });
        let mandatory = rng.random_range(if is_crowded { 4..=10 } else { 1..=4 });
        let speeds: Vec<f64> = match is_fair {
            true => vec![1.0; rng.random_range(1..=5)],
            false => {
                let servers = rng.random_range(1..=if is_crowded { 2 } else { 5 });
                (0..servers).map(|_| one_of(rng, &[0.5, 1.0, 2.0])).collect()
            }
        };
        let arrivals = one_of(rng, &[Arrivals::Simultaneous, Arrivals::Consecutive, Arrivals::Regular]);
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
        let mut faults = Schedule::fault_rates(rng, &scenario, is_fair, is_rough);
        if is_crowded {
            faults.mandatory_per_user = Some(rng.random_range(1..=2));
        }
        // Shares cannot be told more finely than by requests, and each server shares by itself.
        let requests = two_requests(&scenario);
        let on_all_servers = requests * scenario.speeds.len() as f64;
        let most = UNFAIRNESS_MOST.max(on_all_servers);
        let most = most + unfairness_of_mandatory(&scenario);
        Schedule { scenario, system, faults, unfairness_most: is_fair.then_some(most), seed }
    }

    fn system(rng: &mut ChaCha8Rng, window: u32, is_fair: bool) -> System {
        let fairness = match is_fair {
            true => Fairness::VirtualTime,
            false => one_of(rng, &[Fairness::Cumulative, Fairness::VirtualTime, Fairness::Satisfaction]),
        };
        let grace = SpanMs(one_of(rng, &[0, 500, 1_500]));
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
        is_rough: bool,
    ) -> NetworkFaults {
        let share = |rng: &mut ChaCha8Rng, most: u32| match rng.random_bool(0.6) {
            true => rng.random_range(1..=most),
            false => 0,
        };
        let deadline = scenario.deadline.0;
        let is_calm = is_fair && !is_rough;
        let crashes = is_rough || (!is_fair && rng.random_bool(0.8));
        let drawn = NetworkFaults {
            latency: SpanMs(rng.random_range(1..=40)),
            spread: SpanMs(i64::from(share(rng, if is_fair { 100 } else { 400 }))),
            lost: if is_calm { 0 } else { share(rng, if is_rough { 60 } else { 150 }) },
            doubled: share(rng, 100),
            crash_every: match crashes {
                true if is_rough => SpanMs(rng.random_range(5_000..=20_000)),
                true => SpanMs(rng.random_range(500..=5_000)),
                false => SpanMs::ZERO,
            },
            clients_stay: rng.random_bool(0.3),
            away: SpanMs(rng.random_range(500..=if is_rough { 3_000 } else { 6_000 })),
            cut_short: if crashes && !is_rough { share(rng, 10) } else { 0 },
            unnamed: if is_fair { 0 } else { share(rng, 700) },
            timeout: SpanMs(if is_fair { 0 } else { i64::from(share(rng, 8_000)) }),
            mandatory_per_user: rng.random_bool(0.6).then(|| rng.random_range(1..=scenario.mandatory)),
            until: TimeMs(rng.random_range(deadline / 4..=deadline * 3 / 2)),
        };
        // A client that gives a server up before an answer can arrive never gets an answer.
        let round_trip = SpanMs(2 * (drawn.latency.0 + drawn.spread.0) + 1);
        let timeout =
            if drawn.timeout == SpanMs::ZERO { SpanMs::ZERO } else { drawn.timeout.max(round_trip) };
        NetworkFaults { timeout, ..drawn }
    }

    /// Runs it, with a mistake in it or without: what happened, and what was found wrong. `unfairness` is the metric of that
    /// name of a run.
    pub fn run(&self, bug: Option<Bug>, unfairness: impl Fn(&ExplorationRun) -> f64) -> (Tried, Vec<String>) {
        let found = simulate_faulty(&self.scenario, &self.system, self.faults, bug, self.seed);
        let mut violations = found.violations;
        let mut tried =
            Tried { schedules: 1, messages: found.messages, seen: found.seen, ..Tried::default() };
        if let Some(most) = self.unfairness_most {
            let most = most + self.excused(&found.excused);
            (tried.fair, tried.unfairness) = (1, unfairness(&found.run));
            if tried.unfairness > most {
                let found = tried.unfairness;
                violations.push(format!("expected an unfairness of at most {most:.3}, found {found:.3}"));
            }
        }
        (tried, violations)
    }

    /// By how much the satisfactions of users may differ because of faults. Users are there from the beginning to the deadline.
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

/// What a request of each of the two users with the least weights is of all that they deserve, on servers of speed 1: how far the
/// services of two users may differ where requests are served whole (start-time fair queueing; Goyal, Vin and Cheng 1997).
fn two_requests(scenario: &Scenario) -> f64 {
    let mut weights: Vec<f64> =
        (0..scenario.users as usize).map(|user| f64::from(scenario.weight(user))).collect();
    let sum: f64 = weights.iter().sum();
    weights.sort_by(f64::total_cmp);
    let cores = scenario.speeds.len() as f64 * f64::from(scenario.cores);
    let all = scenario.deadline.seconds() * cores;
    weights.iter().take(2).map(|weight| scenario.runtime.seconds() * sum / (all * weight)).sum()
}

/// The least unfairness that is possible: every user's mandatory requests are completed, also where they take more than the user
/// deserves, and the others share what is left.
fn unfairness_of_mandatory(scenario: &Scenario) -> f64 {
    let users = scenario.users as usize;
    let mut weights: Vec<f64> = (0..users).map(|user| f64::from(scenario.weight(user))).collect();
    weights.sort_by(|a, b| b.total_cmp(a));
    let sum: f64 = weights.iter().sum();
    let cores = scenario.speeds.len() as f64 * f64::from(scenario.cores);
    let all = scenario.deadline.seconds() * cores;
    let mandatory = f64::from(scenario.mandatory) * scenario.runtime.seconds();
    // The satisfaction of the heaviest users where the mandatory requests are all that the others get.
    let shared = |heaviest: usize| {
        let weight: f64 = weights[..heaviest].iter().sum();
        (all - mandatory * (users - heaviest) as f64) * sum / (all * weight)
    };
    let level = (1..=users).map(shared).fold(1.0, f64::min).max(0.0);
    let most = weights.last().map_or(0.0, |lightest| mandatory * sum / (all * lightest));
    (most - level).max(0.0)
}

fn one_of<T: Copy>(rng: &mut ChaCha8Rng, values: &[T]) -> T {
    *values.choose(rng).expect("there is something to choose from")
}

impl std::ops::Add for Tried {
    type Output = Tried;

    fn add(self, other: Tried) -> Tried {
        Tried {
            schedules: self.schedules + other.schedules,
            messages: self.messages + other.messages,
            fair: self.fair + other.fair,
            unfairness: self.unfairness.max(other.unfairness),
            seen: self.seen + other.seen,
        }
    }
}

add_each!(Seen { crashes, crashed_looking, cut_short, given_up, refused, cancelled, unanswered, in_time });

impl std::fmt::Display for Tried {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Seen { crashes, crashed_looking, cut_short, given_up, refused, cancelled, unanswered, in_time } =
            self.seen;
        write!(
            f,
            "{} messages, {crashes} crashes ({cut_short} between word and deed, {crashed_looking} of clients with requests who \
             looked for servers), {given_up} servers given up, {refused} requests refused and {cancelled} cancelled, \
             {unanswered} questions unanswered, {in_time} users held to be in time, {} schedules to be fair, unfairness \
             {:.3} at most",
            self.messages, self.fair, self.unfairness
        )
    }
}
