//! The scenarios of paper 004 (section 5) and further ones.

use pliant_control::optional::explore::Dispatch;
use pliant_model::rng::stream_seed;
use pliant_model::{SpanMs, TimeMs};
use pliant_policy::UnknownName;
use pliant_policy::optional::{Fairness, Order, Reallocation};
use pliant_trace::generate::diurnal_arrivals;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The arrival pattern of users.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrivals {
    /// All at once (section 5.1.1).
    Simultaneous,
    /// One every 0.1 s (section 5.1.2).
    Consecutive,
    /// One every 10 s (section 5.1.3).
    Regular,
    /// Over a working day of 100 s (section 5.1.4).
    Diurnal,
    /// As `Diurnal`, each user with requests of 0.75 to 2 s (section 5.1.4).
    DiurnalRandom,
}

impl Arrivals {
    /// All patterns, in the order of the paper.
    pub const ALL: [Arrivals; 5] =
        [Self::Simultaneous, Self::Consecutive, Self::Regular, Self::Diurnal, Self::DiurnalRandom];

    /// The stable name, as in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Simultaneous => "simultaneous",
            Self::Consecutive => "consecutive",
            Self::Regular => "regular",
            Self::Diurnal => "diurnal",
            Self::DiurnalRandom => "diurnal-random",
        }
    }
}

impl std::str::FromStr for Arrivals {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Arrivals, UnknownName> {
        let expected = Self::ALL.map(Self::name).to_vec();
        let found = Self::ALL.into_iter().find(|one| one.name() == text);
        found.ok_or_else(|| UnknownName { what: "pattern of arrivals", found: text.to_owned(), expected })
    }
}

/// A scenario: users and servers.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// The arrival pattern of users.
    pub arrivals: Arrivals,
    /// The number of users; drawn for diurnal arrivals.
    pub users: u32,
    /// Their weights, repeated in this order; empty if all weights are equal.
    pub weights: Vec<u32>,
    /// Mandatory requests of each user (n_min).
    pub mandatory: u32,
    /// All requests of each user (n_max).
    pub most: u32,
    /// The deadline of each user after the arrival (d). The paper's section 3.3 has it as a moment, but its results
    /// (section 5.1.3) need a duration.
    pub deadline: SpanMs,
    /// The runtime of a request on a server of speed 1 (T).
    pub runtime: SpanMs,
    /// The speed of each server.
    pub speeds: Vec<f64>,
    /// Cores of each server.
    pub cores: u32,
    /// How long a client takes to send a submission or a cancellation. Messages of clients that arrive together interleave
    /// (section 5.1.1). The paper's clients sent 14,100 submissions in 13 s (section 5.2).
    pub pace: SpanMs,
    /// The outages of servers; none if servers are always up.
    pub outages: Option<Outages>,
}

/// Independent outages of servers, with exponentially distributed times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outages {
    /// The mean time for which a server is up.
    pub up: SpanMs,
    /// The mean time for which it is down then.
    pub down: SpanMs,
}

impl Scenario {
    /// The paper's scenario: 10 servers, 10 users, 3 to 1,000 requests of 1 s in 100 s.
    pub fn paper(arrivals: Arrivals) -> Scenario {
        Scenario {
            arrivals,
            users: 10,
            weights: Vec::new(),
            mandatory: 3,
            most: 1_000,
            deadline: SpanMs(100_000),
            runtime: SpanMs(1_000),
            speeds: vec![1.0; 10],
            cores: 1,
            pace: SpanMs(1),
            outages: None,
        }
    }

    /// The paper's scalability experiment (section 5.2): 138 servers, 100 users at once, up to 10,000 requests. `setup` is the
    /// time in which all users submit their first requests: 13 s in the paper.
    pub fn scalability(setup: SpanMs) -> Scenario {
        let paper = Scenario::paper(Arrivals::Simultaneous);
        let pace = SpanMs(setup.0 / (3 + 138));
        Scenario { users: 100, most: 10_000, speeds: vec![1.0; 138], pace, ..paper }
    }

    /// The weight of a user.
    pub(super) fn weight(&self, number: usize) -> u32 {
        self.weights.get(number % self.weights.len().max(1)).copied().unwrap_or(1)
    }

    /// Draws the users, in the order of arrival.
    pub fn draw_users(&self, seed: u64) -> Vec<UserDraw> {
        let spaced = |gap: i64| (0..i64::from(self.users)).map(|user| TimeMs(user * gap)).collect();
        let arrivals: Vec<TimeMs> = match self.arrivals {
            Arrivals::Simultaneous => spaced(0),
            Arrivals::Consecutive => spaced(100),
            Arrivals::Regular => spaced(10_000),
            Arrivals::Diurnal | Arrivals::DiurnalRandom => diurnal_arrivals(100, seed)
                .into_iter()
                .map(|second| TimeMs(i64::from(second) * 1_000))
                .collect(),
        };
        let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, "runtimes"));
        let draw = |(number, arrival): (usize, TimeMs)| UserDraw {
            arrival,
            runtime: match self.arrivals {
                Arrivals::DiurnalRandom => SpanMs(self.runtime.0 * rng.random_range(750..=2_000) / 1_000),
                _ => self.runtime,
            },
            weight: self.weight(number),
        };
        arrivals.into_iter().enumerate().map(draw).collect()
    }

    /// Draws when each server goes down (false) and up (true), until `until`, in order.
    pub(super) fn draw_outages(&self, until: TimeMs, seed: u64) -> Vec<(TimeMs, usize, bool)> {
        let Some(Outages { up, down }) = self.outages else { return Vec::new() };
        let mut changes = Vec::new();
        for server in 0..self.speeds.len() {
            let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, &format!("outages of {server}")));
            let mut now = TimeMs::ZERO;
            let mut is_up = true;
            loop {
                let mean = if is_up { up } else { down };
                let drawn = -(1.0 - rng.random::<f64>()).ln() * mean.0 as f64;
                now += SpanMs((drawn as i64).max(1));
                if now >= until {
                    break;
                }
                is_up = !is_up;
                changes.push((now, server, is_up));
            }
        }
        changes.sort();
        changes
    }
}

/// A drawn user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UserDraw {
    /// When the user arrives.
    pub arrival: TimeMs,
    /// The runtime of each request on a server of speed 1.
    pub runtime: SpanMs,
    /// The user's weight.
    pub weight: u32,
}

/// A system to compare: how servers order requests, and how clients dispatch them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct System {
    /// The servers' order.
    pub order: Order,
    /// The clients' dispatch.
    pub dispatch: Dispatch,
    /// How clients move waiting mandatory requests; none in the paper.
    pub reallocation: Option<Reallocation>,
}

impl System {
    /// The paper's system, with rule 4 under this fairness.
    pub const fn ethic(fairness: Fairness) -> System {
        let order = Order::Fair { fairness, grace: SpanMs::ZERO };
        System { order, dispatch: Dispatch::Window(1), reallocation: None }
    }

    /// The legacy system: one queue, and every user submits a guessed number of requests.
    pub const fn legacy(submit: u32) -> System {
        System { order: Order::Fcfs, dispatch: Dispatch::Guess(submit), reallocation: None }
    }
}
