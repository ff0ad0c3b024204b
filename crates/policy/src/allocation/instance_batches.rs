//! The number of instances in a batch, and the number of batches of a server.
//!
//! Short instances are submitted in batches: one job that runs them one after the other. A batch takes about [`BATCH_MS`];
//! towards the end of a server's share it takes half of the remaining work per processor (guided self-scheduling:
//! Polychronopoulos and Kuck, IEEE Trans. Computers C-36(12), 1987), so that all processors end at about the same time. A
//! server has few more batches than it runs at a time.

use pliant_model::SpanMs;

use super::Free;

/// The target duration of a batch in milliseconds: much longer than the overhead of a job.
pub const BATCH_MS: i64 = 30_000;
/// The largest batch while no job of the service has shown the runtime of an instance.
const UNKNOWN_MOST: u64 = 4;
/// The largest number of batches of a server.
const OPEN_MOST: usize = 1_000;

/// The inputs for the size of a server's next batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NextBatch {
    /// Instances left for the server.
    pub share: u64,
    /// Instances that run at a time.
    pub slots: u32,
    /// The expected runtime of an instance.
    pub instance: SpanMs,
    /// True if the expectation comes from jobs of the same service.
    pub is_known: bool,
    /// The largest size of any batch.
    pub most: u32,
    /// The largest size that the server accepts, if it states one.
    pub taken: Option<u32>,
}

impl NextBatch {
    /// The size; none if the server has no instances left.
    pub fn size(self) -> Option<u64> {
        let NextBatch { share, slots, instance, is_known, most, taken } = self;
        if share == 0 || slots == 0 {
            return None;
        }
        let in_time = (BATCH_MS / instance.0.max(1)).max(1) as u64;
        let guided = share.div_ceil(2 * u64::from(slots));
        let most = u64::from(most);
        let known_most = if is_known { most } else { UNKNOWN_MOST };
        let taken = taken.map_or(u64::MAX, |taken| u64::from(taken.max(1)));
        Some(in_time.min(guided).min(known_most).min(taken).min(most))
    }
}

/// Number of processors that become free within the duration of a batch, from moments in milliseconds.
pub fn free_soon(free: impl IntoIterator<Item = Free>) -> u32 {
    let soon = free.into_iter().filter(|free| free.at.0 <= BATCH_MS);
    soon.map(|free| free.processors).fold(0, u32::saturating_add)
}

/// The number of batches for a server that can soon run so many at a time: a few wait, so that no processor is idle until the
/// next one arrives. A busy server has one in its queue; instances not submitted can still go elsewhere.
pub fn window(soon: u32) -> usize {
    let soon = soon as usize;
    if soon == 0 { 1 } else { (soon + (soon / 2).max(2)).min(OPEN_MOST) }
}

#[cfg(test)]
mod tests {
    use pliant_model::Span;

    use super::*;

    #[test]
    fn a_batch_takes_its_target_time_and_half_of_the_rest_towards_the_end() {
        let batch = NextBatch {
            share: 1_000_000,
            slots: 10,
            instance: SpanMs(10),
            is_known: true,
            most: 100_000,
            taken: None,
        };
        let check = |batch: NextBatch, expected| assert_eq!(batch.size(), expected, "{batch:?}");
        check(batch, Some(3_000));
        check(NextBatch { instance: SpanMs(0), ..batch }, Some(30_000));
        check(NextBatch { instance: SpanMs(90_000), ..batch }, Some(1));
        check(NextBatch { share: 1_001, ..batch }, Some(51));
        check(NextBatch { share: 1, ..batch }, Some(1));
        check(NextBatch { is_known: false, ..batch }, Some(4));
        check(NextBatch { is_known: false, most: 2, ..batch }, Some(2));
        check(NextBatch { most: 500, ..batch }, Some(500));
        check(NextBatch { taken: Some(70), ..batch }, Some(70));
        check(NextBatch { taken: Some(0), ..batch }, Some(1));
        check(NextBatch { share: 0, ..batch }, None);
        check(NextBatch { slots: 0, ..batch }, None);
    }

    #[test]
    fn a_few_batches_wait_beside_those_that_run() {
        assert_eq!([0, 1, 2, 10, 600, 700].map(window), [1, 3, 4, 15, 900, 1_000]);
        let free = [(0, 2), (BATCH_MS, 3), (BATCH_MS + 1, 5)];
        let free = free.map(|(at, processors)| Free { at: Span(at), processors });
        assert_eq!(free_soon(free), 5);
    }
}
