//! What the client of an exploration writes into its folder: its plan, and an event of every kind.

use pliant_control::names::Name;
use pliant_control::optional::explore::{Dispatch, Event, Plan, ServerOffer};
use pliant_control::optional::server::Prospects;
use pliant_model::{SpanMs, TimeMs};
use pliant_policy::optional::{Prospect, Reallocation};

/// A plan with everything that a plan may have.
pub(crate) fn plan() -> Plan {
    Plan {
        mandatory: 4,
        most: 100,
        deadline: TimeMs(1_700_000_600_000),
        weight: 2,
        dispatch: Dispatch::Window(1),
        reallocation: Some(Reallocation { every: SpanMs(60_000), least_gain: SpanMs(1_000) }),
        seed: 7,
    }
}

/// The events, in an order in which they may happen.
pub(crate) fn events() -> Vec<Event> {
    let server = |name: &str| -> Name { name.parse().expect("letters are a daemon's name") };
    let (lyon, nancy) = (|| server("lyon"), || server("nancy"));
    let offers = vec![
        ServerOffer { server: lyon(), cores: 2, per_core: Some(3) },
        ServerOffer { server: nancy(), cores: 1, per_core: None },
    ];
    let more = Prospect { wait: Some(SpanMs(5_000)), run: Some(SpanMs(20_000)) };
    let prospects = Prospects { more, waiting: vec![(1, Some(SpanMs(40_000))), (3, None)] };
    vec![
        Event::Begin,
        Event::Found(offers),
        Event::Refused { number: 2, server: nancy() },
        Event::Expected { server: lyon(), prospects },
        Event::Ended { number: 0, server: lyon(), completed: true },
        Event::Withdrawn { number: 1, attempt: 1, server: nancy() },
        Event::Lost(nancy()),
        Event::Resumed,
        Event::Due,
        Event::Interrupted,
    ]
}
