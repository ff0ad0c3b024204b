//! What real daemons add to the time that requests take, as measured.

use pliant_model::SpanMs;
use pliant_model::rng::stream_seed;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// What daemons add, as samples of which one is drawn each time; nothing where there are none.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Overheads {
    /// How long it takes from a user's arrival until the mandatory requests are at their servers.
    pub begin: Vec<SpanMs>,
    /// By how much longer a request keeps its core than it was asked to run: it is started, ends, and that is noticed.
    pub run: Vec<SpanMs>,
    /// How long it takes from there until the client has been told, and its next request is there.
    pub turn: Vec<SpanMs>,
}

/// The same, being drawn from.
pub(super) struct Drawn {
    overheads: Overheads,
    rng: ChaCha8Rng,
}

impl Drawn {
    pub(super) fn new(overheads: &Overheads, seed: u64) -> Drawn {
        let rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, "overheads"));
        Drawn { overheads: overheads.clone(), rng }
    }

    pub(super) fn begin(&mut self) -> SpanMs {
        draw(&self.overheads.begin, &mut self.rng)
    }

    pub(super) fn run(&mut self) -> SpanMs {
        draw(&self.overheads.run, &mut self.rng)
    }

    pub(super) fn turn(&mut self) -> SpanMs {
        draw(&self.overheads.turn, &mut self.rng)
    }
}

fn draw(samples: &[SpanMs], rng: &mut ChaCha8Rng) -> SpanMs {
    match samples.len() {
        0 => SpanMs::ZERO,
        some => samples[rng.random_range(0..some)],
    }
}
