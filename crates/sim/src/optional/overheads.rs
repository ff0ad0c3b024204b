//! The measured time that real daemons add to requests.

use pliant_model::SpanMs;
use pliant_model::rng::stream_seed;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Samples of overheads. Each use draws one; an empty list adds nothing.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Overheads {
    /// From a user's arrival until the mandatory requests are at their servers.
    pub submission: Vec<SpanMs>,
    /// The time for which a request keeps its core in addition to its runtime: its start and the detection of its end.
    pub execution: Vec<SpanMs>,
    /// From the detected end until the client is notified and its next request has arrived.
    pub next_request: Vec<SpanMs>,
}

/// Draws from samples of overheads.
pub(super) struct OverheadSampler {
    overheads: Overheads,
    rng: ChaCha8Rng,
}

impl OverheadSampler {
    pub(super) fn new(overheads: &Overheads, seed: u64) -> OverheadSampler {
        let rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, "overheads"));
        OverheadSampler { overheads: overheads.clone(), rng }
    }

    pub(super) fn submission(&mut self) -> SpanMs {
        draw(&self.overheads.submission, &mut self.rng)
    }

    pub(super) fn execution(&mut self) -> SpanMs {
        draw(&self.overheads.execution, &mut self.rng)
    }

    pub(super) fn next_request(&mut self) -> SpanMs {
        draw(&self.overheads.next_request, &mut self.rng)
    }
}

fn draw(samples: &[SpanMs], rng: &mut ChaCha8Rng) -> SpanMs {
    match samples.len() {
        0 => SpanMs::ZERO,
        some => samples[rng.random_range(0..some)],
    }
}
