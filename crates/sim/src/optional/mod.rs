//! Simulation of optional computations (paper 004): users with a few mandatory and many optional requests, on servers
//! that run one request per core.
//!
//! [`simulate`] is the direct simulation: the clients' machines call the servers' queues. [`simulate_network`] has the
//! machines exchange messages over a network with faults and checks invariants. A [`Schedule`] is one such run, drawn from a
//! seed.

mod direct;
mod network;
mod overheads;
mod scenario;
mod schedule;
mod tally;

use pliant_control::optional::explore::Plan;
use pliant_model::{TimeMs, rng::stream_seed};

pub use direct::{simulate, simulate_with};
pub use network::{Bug, FaultCounts, NetworkFaults, NetworkRun, simulate_faulty, simulate_network};
pub use overheads::Overheads;
pub use scenario::{Arrivals, Outages, Scenario, System, UserDraw};
pub use schedule::{Schedule, ScheduleCounts};

/// The plan of each user's client.
fn plans<'a>(
    scenario: &'a Scenario,
    system: &'a System,
    seed: u64,
    users: &'a [UserDraw],
) -> impl Iterator<Item = Plan> + 'a {
    users.iter().enumerate().map(move |(number, user)| Plan {
        mandatory: scenario.mandatory,
        most: scenario.most,
        deadline: user.arrival + scenario.deadline,
        weight: user.weight,
        dispatch: system.dispatch,
        reallocation: system.reallocation,
        seed: stream_seed(seed, &format!("client {number}")),
    })
}

/// The deadline of the last user.
fn last_deadline(scenario: &Scenario, users: &[UserDraw]) -> TimeMs {
    users.iter().map(|user| user.arrival + scenario.deadline).max().unwrap_or(TimeMs::ZERO)
}
