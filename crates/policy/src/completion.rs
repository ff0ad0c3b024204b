//! Comparison of completions: the choice among offers, and the time until which an offer is valid.
//!
//! The rule is minimum completion time (MCT; paper 000, section 3.1): the earliest completion, ties to the lower rank, as the
//! order of [`Preference`]. The federation ([`crate::federation`]), agents that merge offers, clients that try servers in turn
//! and the moves of mandatory requests ([`crate::optional`]) all choose by it. A server checks at submission that its
//! offer still holds: [`is_late`] against [`tolerated`] or [`latest_with_gain`].

use std::collections::BTreeSet;

use pliant_model::{Estimate, Span, Time};

/// The sort key of a candidate under MCT: the smallest is preferred.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Preference<Completion, Rank> {
    /// The completion, compared first.
    pub completion: Completion,
    /// The tie breaker: the number of a cluster, or a server's rank from its operators, then its name.
    pub rank: Rank,
}

/// The candidate with the smallest [`Preference`] among those offered one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Earliest<Rank> {
    latest: Time,
    best: Option<(Preference<Time, Rank>, Estimate)>,
}

impl<Rank: Ord + Copy> Earliest<Rank> {
    /// No candidate yet; candidates that complete after `latest` are rejected.
    pub fn until(latest: Time) -> Earliest<Rank> {
        Earliest { latest, best: None }
    }

    /// Keeps the candidate if it is better than all before it.
    pub fn offer(&mut self, rank: Rank, estimate: Estimate) {
        let offered = Preference { completion: estimate.completion(), rank };
        let is_better = self.best.is_none_or(|(best, _)| offered < best);
        if is_better && offered.completion <= self.latest {
            self.best = Some((offered, estimate));
        }
    }

    /// No candidate that completes later can be kept.
    pub fn latest(&self) -> Time {
        self.best.map_or(self.latest, |(best, _)| best.completion)
    }

    /// False if no candidate that completes at `bound` or later can be kept.
    pub fn may_take_from(&self, bound: Time) -> bool {
        bound <= self.latest()
    }

    /// False if no candidate can be kept to which `bound` is preferred, or that is equal to it.
    pub fn may_take(&self, bound: &Preference<Time, Rank>) -> bool {
        self.may_take_from(bound.completion) && self.best.is_none_or(|(best, _)| *bound <= best)
    }

    /// The best candidate.
    pub fn taken(self) -> Option<(Rank, Estimate)> {
        self.best.map(|(best, estimate)| (best.rank, estimate))
    }
}

/// A server's offer for a request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Offer<Server> {
    /// The rank given by the federation's operators: the lower one breaks ties of completion.
    pub rank: u32,
    /// The server: the lower one breaks ties of completion and rank.
    pub server: Server,
    /// The estimate.
    pub estimate: Estimate,
}

/// The positions of the `best` most preferred offers (at least one), the most preferred first. A server that moved between
/// agents may have answered through both: its better offer counts. O(n log n).
pub fn merge_offers<Server: Ord>(offers: &[Offer<Server>], best: usize) -> Vec<usize> {
    let preference = |at: &usize| {
        let Offer { rank, server, estimate } = &offers[*at];
        Preference { completion: estimate.completion(), rank: (*rank, server) }
    };
    let mut order: Vec<usize> = (0..offers.len()).collect();
    order.sort_by(|one, other| preference(one).cmp(&preference(other)));
    let mut seen = BTreeSet::new();
    order.retain(|at| seen.insert(&offers[*at].server));
    order.truncate(best.max(1));
    order
}

/// The latest completion that is not stale for a request promised `promised`: a tenth of the promised response later, and at
/// least a minute, the precision of plans of batch systems.
pub fn tolerated(promised: &Estimate, now: Time) -> Time {
    let response = promised.completion() - now;
    promised.completion() + Span((response.0 / 10).max(60))
}

/// True if a request that was promised `promised` on submission was at most as late as is [`tolerated`], at its start or at its
/// completion.
pub fn is_promise_kept(promised: &Estimate, submitted: Time, late_by: Span) -> bool {
    promised.completion() + late_by <= tolerated(promised, submitted)
}

/// The latest completion at another cluster that is `gain` earlier than `current`.
pub fn latest_with_gain(current: Time, gain: Span) -> Time {
    current - gain
}

/// True if an offer completes the request after `latest`.
pub fn is_late(offered: &Estimate, latest: Time) -> bool {
    offered.completion() > latest
}

/// True if one shape of a request completes before the other.
pub fn is_earlier(one: &Estimate, other: &Estimate) -> bool {
    one.completion() < other.completion()
}

#[cfg(test)]
mod tests {
    use pliant_model::Procs;
    use proptest::prelude::*;

    use super::*;

    fn estimate(start: i64, walltime: i64) -> Estimate {
        Estimate { procs: Procs(1), walltime: Span(walltime), start: Time(start) }
    }

    #[test]
    fn offers_are_merged_by_completion_then_rank_then_server() {
        let offer = |rank, server, start| Offer { rank, server, estimate: estimate(start, 100) };
        let check = |offers: &[Offer<char>], best, expected: &str| {
            let servers: String =
                merge_offers(offers, best).into_iter().map(|at| offers[at].server).collect();
            assert_eq!(servers, expected, "{offers:?}");
        };
        check(&[], 3, "");
        check(&[offer(0, 'a', 5), offer(0, 'b', 0), offer(9, 'c', 4)], 9, "bca");
        check(&[offer(2, 'a', 0), offer(1, 'b', 0), offer(1, 'c', 0)], 9, "bca");
        check(&[offer(1, 'b', 0), offer(1, 'a', 0), offer(0, 'c', 1)], 2, "ab");
        // The better one of two answers of a server; at least one offer is kept.
        check(&[offer(0, 'a', 9), offer(0, 'b', 5), offer(0, 'a', 1)], 9, "ab");
        check(&[offer(0, 'a', 9), offer(0, 'b', 5)], 0, "b");
    }

    #[test]
    fn the_earliest_is_taken_then_the_lowest_rank() {
        let offers = [(9, 50, 50), (7, 90, 10), (8, 0, 100), (1, 0, 101)];
        let mut earliest = Earliest::until(Time::MAX);
        offers.iter().for_each(|(rank, start, walltime)| earliest.offer(*rank, estimate(*start, *walltime)));
        assert_eq!(earliest.taken(), Some((7, estimate(90, 10))));
        assert_eq!(Earliest::<u32>::until(Time::MAX).taken(), None);
        let offer = |(rank, start, walltime)| Offer { rank, server: (), estimate: estimate(start, walltime) };
        let sorted =
            offers.map(offer).map(|one| Preference { completion: one.estimate.completion(), rank: one.rank });
        let mut sorted = sorted.map(|one| (one, one.rank));
        sorted.sort();
        assert_eq!(sorted.map(|(_, rank)| rank), [7, 8, 9, 1]);
    }

    #[test]
    fn a_tenth_of_the_response_and_a_minute_at_least_are_tolerated() {
        let check = |start, walltime, now, expected| {
            assert_eq!(tolerated(&estimate(start, walltime), Time(now)), Time(expected));
        };
        check(0, 100, 0, 160);
        check(0, 6_000, 0, 6_600);
        check(1_000, 6_000, 1_000, 7_600);
        let latest = tolerated(&estimate(0, 100), Time(0));
        assert!(!is_late(&estimate(60, 100), latest) && is_late(&estimate(61, 100), latest));
    }

    /// Bounds spare the exact estimates of clusters that cannot be taken.
    #[test]
    fn a_bound_after_the_latest_or_the_best_completion_is_not_worth_an_estimate() {
        let mut earliest = Earliest::until(Time(100));
        assert!(earliest.may_take_from(Time(100)) && !earliest.may_take_from(Time(101)));
        earliest.offer(5, estimate(0, 70));
        assert!(earliest.may_take_from(Time(70)) && !earliest.may_take_from(Time(71)));
        let bound = |rank| Preference { completion: Time(70), rank };
        assert!(earliest.may_take(&bound(4)) && !earliest.may_take(&bound(6)));
    }

    #[test]
    fn an_offer_elsewhere_must_be_earlier_by_the_gain() {
        let latest = latest_with_gain(Time(1_000), Span(60));
        assert!(!is_late(&estimate(900, 40), latest) && is_late(&estimate(900, 41), latest));
        let (one, other) = (estimate(0, 100), estimate(50, 60));
        assert!(is_earlier(&one, &other) && !is_earlier(&other, &one) && !is_earlier(&one, &one));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Candidates offered in any order, with any valid bounds, give the minimum of all.
        #[test]
        fn the_earliest_of_many_is_the_least_of_all(
            offered in prop::collection::vec((0..4_i64, 1..4_i64, 0..3_i64), 0..12),
            latest in 0..8_i64,
        ) {
            let mut earliest = Earliest::until(Time(latest));
            for (rank, (start, walltime, slack)) in offered.iter().enumerate() {
                let bound = Preference { completion: Time(start + walltime - slack), rank };
                if earliest.may_take(&bound) {
                    earliest.offer(rank, estimate(*start, *walltime));
                }
            }
            let all = offered.iter().enumerate().map(|(rank, (start, walltime, _))| (start + walltime, rank));
            let expected = all.filter(|(completion, _)| *completion <= latest).min();
            let found = earliest.taken().map(|(rank, estimate)| (estimate.completion().0, rank));
            prop_assert_eq!(found, expected);
        }
    }
}
