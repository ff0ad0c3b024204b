//! Mapping: which cluster an arriving request is sent to (paper 000, section 3.1; spec A.0.4).

use std::cmp::Ordering;

use pliant_model::{ClusterId, Estimate, MapReason, Procs, RefusalCause, Request, Time};
use rand::Rng;

use crate::federation::Federation;

crate::named_enum! {
    /// How the agent chooses the cluster of an arriving request.
    Mapping, "mapping", {
        /// Minimum completion time (paper 000, section 3.1): the earliest ECT, ties to the first cluster.
        Mct = "mct",
        /// Uniformly among the clusters that can run it.
        Random = "random",
        /// The cluster that the log's user chose.
        Given = "given",
    }
}

/// Where a request goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapped {
    /// The cluster.
    pub cluster: ClusterId,
    /// In which shape, and when.
    pub estimate: Estimate,
    /// Why there.
    pub reason: MapReason,
}

/// The order of preference under MCT: earliest completion, ties to the lower rank (a cluster's number, or
/// whatever else tells candidates apart).
pub fn earliest_first<Rank: Ord>(a: &(Rank, Estimate), b: &(Rank, Estimate)) -> Ordering {
    (a.1.completion(), &a.0).cmp(&(b.1.completion(), &b.0))
}

/// Chooses among candidates, each with what it would give the request now: the position of one and why, or
/// none if there is nothing to choose. `origin` is the one that the user chose. O(candidates).
///
/// An agent chooses by this among the estimation vectors that came up its tree. [`map`] does too; under MCT
/// it has [`Federation::earliest`] find the same cluster without asking every one (a test compares).
pub fn choose<Rank: Ord>(
    mapping: Mapping,
    candidates: &[(Rank, Estimate)],
    origin: Option<&Rank>,
    rng: &mut impl Rng,
) -> Option<(usize, MapReason)> {
    match mapping {
        Mapping::Mct => {
            let all = candidates.iter().enumerate();
            let (index, _) = all.min_by(|(_, a), (_, b)| earliest_first(a, b))?;
            Some((index, MapReason::EarliestCompletion))
        }
        Mapping::Random if candidates.is_empty() => None,
        Mapping::Random => Some((rng.random_range(0..candidates.len()), MapReason::Drawn)),
        Mapping::Given => {
            let origin = origin?;
            let index = candidates.iter().position(|(rank, _)| rank == origin)?;
            Some((index, MapReason::Given))
        }
    }
}

/// Chooses the cluster of a request; a request that fits nowhere is refused with the reason.
pub fn map(
    mapping: Mapping,
    federation: &mut Federation,
    now: Time,
    request: &Request,
    rng: &mut impl Rng,
) -> Result<Mapped, RefusalCause> {
    match mapping {
        Mapping::Mct => {
            let found = federation.earliest(now, request, None, Time::MAX);
            let (cluster, estimate) = found.ok_or_else(|| too_large(federation, request))?;
            Ok(Mapped { cluster, estimate, reason: MapReason::EarliestCompletion })
        }
        Mapping::Random => {
            let fitting: Vec<(ClusterId, Estimate)> = federation
                .ids()
                .filter_map(|id| Some((id, federation.estimate(now, request, id)?)))
                .collect();
            mapped(mapping, &fitting, None, rng).ok_or_else(|| too_large(federation, request))
        }
        Mapping::Given => {
            let only = (federation.len() == 1).then_some(ClusterId(0));
            let known = request.origin.filter(|origin| origin.index() < federation.len());
            let cluster = known.or(only).ok_or(RefusalCause::NoOrigin)?;
            let fitting = federation.estimate(now, request, cluster).map(|estimate| (cluster, estimate));
            mapped(mapping, fitting.as_slice(), Some(cluster), rng).ok_or_else(|| {
                let (requested, available) = (request.procs, federation.procs(cluster));
                RefusalCause::LargerThanCluster { cluster, requested, available }
            })
        }
    }
}

fn mapped(
    mapping: Mapping,
    fitting: &[(ClusterId, Estimate)],
    origin: Option<ClusterId>,
    rng: &mut impl Rng,
) -> Option<Mapped> {
    let (index, reason) = choose(mapping, fitting, origin.as_ref(), rng)?;
    let (cluster, estimate) = fitting[index];
    Some(Mapped { cluster, estimate, reason })
}

fn too_large(federation: &Federation, request: &Request) -> RefusalCause {
    let available = federation.ids().map(|id| federation.procs(id)).max().unwrap_or(Procs(0));
    RefusalCause::LargerThanAll { requested: request.procs, available }
}

#[cfg(test)]
mod tests {
    use pliant_model::{Cluster, JobId, Owner, Platform, Reason, Span, Speed, Speedup};
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::federation::Tracked;
    use crate::tuning::Tuner;

    fn offer(rank: u32, start: i64, walltime: i64) -> (u32, Estimate) {
        (rank, Estimate { procs: Procs(1), walltime: Span(walltime), start: Time(start) })
    }

    #[test]
    fn the_earliest_is_chosen_then_the_lowest_rank() {
        let rng = &mut ChaCha8Rng::seed_from_u64(1);
        let offers = [offer(9, 50, 50), offer(7, 90, 10), offer(8, 0, 100), offer(1, 0, 101)];
        assert_eq!(choose(Mapping::Mct, &offers, None, rng), Some((1, MapReason::EarliestCompletion)));
        let mut sorted = offers;
        sorted.sort_by(earliest_first);
        assert_eq!(sorted.map(|(rank, _)| rank), [7, 8, 9, 1]);
        assert_eq!(choose(Mapping::Given, &offers, Some(&8), rng), Some((2, MapReason::Given)));
        assert_eq!(choose(Mapping::Given, &offers, Some(&2), rng), None);
        assert_eq!(choose(Mapping::Given, &offers, None, rng), None);
        for mapping in Mapping::ALL {
            assert_eq!(choose::<u32>(*mapping, &[], Some(&1), rng), None, "{mapping}");
        }
        let drawn = (0..100).map(|_| choose(Mapping::Random, &offers, None, rng).unwrap());
        let mut drawn: Vec<usize> = drawn
            .map(|(index, reason)| {
                assert_eq!(reason, MapReason::Drawn);
                index
            })
            .collect();
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn, [0, 1, 2, 3]);
    }

    /// Few sizes, speeds and walltimes, so that completions tie.
    fn platforms() -> impl Strategy<Value = Platform> {
        let cluster = (1..9_u32, prop::sample::select(vec![0.5, 1.0, 1.0, 2.0]), prop::bool::ANY);
        prop::collection::vec(cluster, 1..12).prop_map(|clusters| {
            let cluster = |(index, (procs, speed, easy)): (usize, (u32, f64, bool))| Cluster {
                name: format!("c{index}"),
                procs: Procs(procs),
                speed: Speed::new(speed).unwrap(),
                batch: String::from(if easy { "easy" } else { "cbf" }),
            };
            Platform::new(clusters.into_iter().enumerate().map(cluster).collect()).unwrap()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Every mapping of a federation is a choice among what all its clusters offer.
        #[test]
        fn a_federation_is_mapped_onto_by_the_same_choice(
            platform in platforms(),
            asked in prop::collection::vec(
                (1..10_u32, 1..5_i64, any::<bool>(), 0..12_u32, 0..3_usize),
                1..60,
            ),
        ) {
            let mut federation = Federation::new(&platform, Tuner::Exact, Time::ZERO).unwrap();
            let mut rng = ChaCha8Rng::seed_from_u64(7);
            for (number, (procs, walltime, moldable, origin, mapping)) in (0..).zip(asked) {
                let (mapping, now) = (Mapping::ALL[mapping], Time(number / 8));
                let amdahl = Speedup::Amdahl { parallel: 1.0, limit: Procs(8) };
                let request = Request {
                    id: JobId(number as u32),
                    submit: now,
                    procs: Procs(procs),
                    walltime: Span(walltime * 10),
                    speedup: if moldable { amdahl } else { Speedup::Rigid },
                    origin: Some(ClusterId(origin % federation.len() as u32)), owner: Owner::UNKNOWN };
                let mut copy = federation.clone();
                let offer = |id| Some((id, copy.estimate(now, &request, id)?));
                let offers: Vec<(ClusterId, Estimate)> = federation.ids().filter_map(offer).collect();
                let chosen = choose(mapping, &offers, request.origin.as_ref(), &mut rng.clone());
                let expected = chosen.map(|(index, reason)| (offers[index], reason));
                let mapped = map(mapping, &mut federation, now, &request, &mut rng).ok();
                prop_assert_eq!(mapped.map(|one| ((one.cluster, one.estimate), one.reason)), expected);
                let Some(Mapped { cluster, estimate, reason }) = mapped else { continue };
                let tracked = Tracked { request, cluster, moves: 0, reason: Reason::Mapped(reason) };
                federation.submit(now, tracked, estimate);
            }
        }
    }
}
