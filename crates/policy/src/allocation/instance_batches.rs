//! How many instances go out in one pack, and how many packs a server has.
//!
//! Short instances go out in packs, of which each is one job that runs them one after the other. A pack takes about
//! [`BATCH_MS`], and towards the end of a server's share half of what its processors have left to do (guided
//! self-scheduling: Polychronopoulos and Kuck, IEEE Trans. Computers C-36(12), 1987), so that all of them end at about the same
//! time. No server has many more packs than it runs at a time.

use pliant_model::SpanMs;

use super::Free;

/// How long a pack is to take, in milliseconds: much longer than a job's own cost, and no longer than one waits gladly.
pub const BATCH_MS: i64 = 30_000;
/// As long as no job of the service says how long an instance takes, a pack has no more than so many.
const UNKNOWN_MOST: u64 = 4;
/// A server has at most so many packs, however large it is.
const OPEN_MOST: usize = 1_000;

/// What decides the size of a server's next pack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NextBatch {
    /// Instances that the server is still to get.
    pub share: u64,
    /// How many instances run there at a time.
    pub places: u32,
    /// How long one is expected to take there.
    pub instance: SpanMs,
    /// True if jobs of the same service say so.
    pub is_known: bool,
    /// The most instances of any pack.
    pub most: u32,
    /// The most that the server takes in one, if there is such a limit.
    pub taken: Option<u32>,
}

impl NextBatch {
    /// How many instances it has; none if the server has no share left.
    pub fn size(self) -> Option<u64> {
        let NextBatch { share, places, instance, is_known, most, taken } = self;
        if share == 0 || places == 0 {
            return None;
        }
        let in_time = (BATCH_MS / instance.0.max(1)).max(1) as u64;
        let guided = share.div_ceil(2 * u64::from(places));
        let most = u64::from(most);
        let known_most = if is_known { most } else { UNKNOWN_MOST };
        let taken = taken.map_or(u64::MAX, |taken| u64::from(taken.max(1)));
        Some(in_time.min(guided).min(known_most).min(taken).min(most))
    }
}

/// How many processors come free within the time of a pack, of moments in milliseconds.
pub fn free_soon(free: impl IntoIterator<Item = Free>) -> u32 {
    let soon = free.into_iter().filter(|free| free.at.0 <= BATCH_MS);
    soon.map(|free| free.processors).fold(0, u32::saturating_add)
}

/// How many packs a server may have that can soon run so many at a time: some wait, so that nothing is idle until the next
/// one comes. One that is busy for long has one in its queue, to have its turn there; what is not handed out can go
/// elsewhere.
pub fn window(soon: u32) -> usize {
    let soon = soon as usize;
    if soon == 0 { 1 } else { (soon + (soon / 2).max(2)).min(OPEN_MOST) }
}

#[cfg(test)]
mod tests {
    use pliant_model::Span;

    use super::*;

    #[test]
    fn a_pack_takes_its_time_and_towards_the_end_half_of_what_is_left() {
        let pack = NextBatch {
            share: 1_000_000,
            places: 10,
            instance: SpanMs(10),
            is_known: true,
            most: 100_000,
            taken: None,
        };
        let check = |pack: NextBatch, expected| assert_eq!(pack.size(), expected, "{pack:?}");
        check(pack, Some(3_000));
        check(NextBatch { instance: SpanMs(0), ..pack }, Some(30_000));
        check(NextBatch { instance: SpanMs(90_000), ..pack }, Some(1));
        check(NextBatch { share: 1_001, ..pack }, Some(51));
        check(NextBatch { share: 1, ..pack }, Some(1));
        check(NextBatch { is_known: false, ..pack }, Some(4));
        check(NextBatch { is_known: false, most: 2, ..pack }, Some(2));
        check(NextBatch { most: 500, ..pack }, Some(500));
        check(NextBatch { taken: Some(70), ..pack }, Some(70));
        check(NextBatch { taken: Some(0), ..pack }, Some(1));
        check(NextBatch { share: 0, ..pack }, None);
        check(NextBatch { places: 0, ..pack }, None);
    }

    #[test]
    fn a_few_packs_wait_beside_those_that_run() {
        assert_eq!([0, 1, 2, 10, 600, 700].map(window), [1, 3, 4, 15, 900, 1_000]);
        let free = [(0, 2), (BATCH_MS, 3), (BATCH_MS + 1, 5)];
        let free = free.map(|(at, processors)| Free { at: Span(at), processors });
        assert_eq!(free_soon(free), 5);
    }
}
