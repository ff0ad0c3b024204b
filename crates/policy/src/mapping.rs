//! Mapping: which cluster an arriving request is sent to (paper 000, section 3.1).

use pliant_model::{ClusterId, Estimate, MapReason, Procs, RefusalCause, Request, Span, Time};
use rand::Rng;

use crate::failure::{Failure, PolicyError, position};
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

/// The mapping of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MappingDecision {
    /// The cluster.
    pub cluster: ClusterId,
    /// Its processors and its walltime there.
    pub shape: (Procs, Span),
    /// The reason.
    pub reason: MapReason,
}

/// A mapping: which cluster takes an arriving request.
pub trait MappingRule: Send + Sync {
    /// The position of the offer that the request takes. There is at least one offer.
    ///
    /// # Errors
    ///
    /// The mapping failed.
    fn choose(
        &self,
        now: Time,
        request: &Request,
        offers: &[(ClusterId, Estimate)],
    ) -> Result<usize, PolicyError>;
}

/// Chooses the cluster of a request; a request that fits no cluster is refused with the reason.
pub fn map(
    mapping: Mapping,
    federation: &mut Federation,
    now: Time,
    request: &Request,
    rng: &mut impl Rng,
) -> Result<MappingDecision, RefusalCause> {
    match mapping {
        Mapping::Mct => {
            let (cluster, estimate) = earliest(federation, now, request)?;
            Ok(MappingDecision { cluster, shape: estimate.shape(), reason: MapReason::EarliestCompletion })
        }
        Mapping::Random => {
            let shapes = federation.ids().filter_map(|id| Some((id, federation.shape(now, request, id)?)));
            let fitting: Vec<(ClusterId, (Procs, Span))> = shapes.collect();
            if fitting.is_empty() {
                return Err(too_large(federation, request));
            }
            let (cluster, shape) = fitting[rng.random_range(0..fitting.len())];
            Ok(MappingDecision { cluster, shape, reason: MapReason::Drawn })
        }
        Mapping::Given => {
            let only = (federation.len() == 1).then_some(ClusterId(0));
            let known = request.origin.filter(|origin| origin.index() < federation.len());
            let cluster = known.or(only).ok_or(RefusalCause::NoOrigin)?;
            let Some(shape) = federation.shape(now, request, cluster) else {
                let (requested, available) = (request.procs, federation.procs(cluster));
                return Err(match requested <= available && request.resources.is_some() {
                    true => RefusalCause::InsufficientResources,
                    false => RefusalCause::LargerThanCluster { cluster, requested, available },
                });
            };
            Ok(MappingDecision { cluster, shape, reason: MapReason::Given })
        }
    }
}

/// Chooses the cluster of a request by a custom rule among all clusters that accept it. After a failure it is the first of them.
pub fn map_by(
    rule: &dyn MappingRule,
    failure: &Failure,
    federation: &mut Federation,
    now: Time,
    request: &Request,
) -> Result<MappingDecision, RefusalCause> {
    let ids = federation.ids();
    let offer = |id| Some((id, federation.estimate(now, request, id)?));
    let offers: Vec<(ClusterId, Estimate)> = ids.filter_map(offer).collect();
    if offers.is_empty() {
        return Err(too_large(federation, request));
    }
    let chosen = failure.decision(|| {
        let found = rule.choose(now, request, &offers)?;
        position("the position of an offer", now, offers.len(), found)
    });
    let (cluster, estimate) = offers[chosen.unwrap_or(0)];
    Ok(MappingDecision { cluster, shape: estimate.shape(), reason: MapReason::Given })
}

/// The cluster that completes a request first, with its estimate.
///
/// # Errors
///
/// No cluster can ever run it.
pub fn earliest(
    federation: &mut Federation,
    now: Time,
    request: &Request,
) -> Result<(ClusterId, Estimate), RefusalCause> {
    let found = federation.earliest(now, request, None, Time::MAX);
    found.ok_or_else(|| too_large(federation, request))
}

fn too_large(federation: &Federation, request: &Request) -> RefusalCause {
    let available = federation.ids().map(|id| federation.procs(id)).max().unwrap_or(Procs(0));
    match request.procs <= available && request.resources.is_some() {
        true => RefusalCause::InsufficientResources,
        false => RefusalCause::LargerThanAll { requested: request.procs, available },
    }
}

#[cfg(test)]
mod tests {
    use pliant_model::{Cluster, JobId, Owner, Platform, Reason, Speed, Speedup};
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::federation::Tracked;
    use crate::tuning::Tuner;

    /// The reference implementation: asks every cluster.
    fn choose(
        mapping: Mapping,
        offers: &[(ClusterId, Estimate)],
        origin: Option<ClusterId>,
        rng: &mut impl rand::Rng,
    ) -> Option<MappingDecision> {
        let ((cluster, estimate), reason) = match mapping {
            Mapping::Mct => {
                let earliest = offers.iter().min_by_key(|(cluster, offer)| (offer.completion(), *cluster))?;
                (*earliest, MapReason::EarliestCompletion)
            }
            Mapping::Random if offers.is_empty() => return None,
            Mapping::Random => (offers[rng.random_range(0..offers.len())], MapReason::Drawn),
            Mapping::Given => {
                let given = offers.iter().find(|(cluster, _)| Some(*cluster) == origin)?;
                (*given, MapReason::Given)
            }
        };
        Some(MappingDecision { cluster, shape: estimate.shape(), reason })
    }

    #[test]
    fn every_cluster_is_drawn_and_only_the_users_own_is_given() {
        let cluster = |index| Cluster {
            name: format!("c{index}"),
            procs: Procs(1),
            speed: Speed::REFERENCE,
            batch: String::from("cbf"),
            nodes: None,
        };
        let platform = Platform::new((0..4).map(cluster).collect()).unwrap();
        let mut federation = Federation::new(&platform, Tuner::Exact, Time::ZERO).unwrap();
        let rng = &mut ChaCha8Rng::seed_from_u64(1);
        let request = |origin, procs| Request {
            id: JobId(0),
            submit: Time::ZERO,
            procs: Procs(procs),
            walltime: Span(10),
            speedup: Speedup::Rigid,
            origin,
            owner: Owner::UNKNOWN,
            fixed_time: false,
            resources: None,
        };
        let mut map = |mapping, request: &Request| {
            map(mapping, &mut federation, Time::ZERO, request, rng).map(|found| (found.cluster, found.reason))
        };
        let mut drawn: Vec<_> = (0..100).map(|_| map(Mapping::Random, &request(None, 1)).unwrap()).collect();
        drawn.sort_by_key(|(cluster, _)| *cluster);
        drawn.dedup();
        assert_eq!(drawn, [0, 1, 2, 3].map(|index| (ClusterId(index), MapReason::Drawn)));
        let given = map(Mapping::Given, &request(Some(ClusterId(2)), 1));
        assert_eq!(given, Ok((ClusterId(2), MapReason::Given)));
        for origin in [None, Some(ClusterId(4))] {
            assert_eq!(map(Mapping::Given, &request(origin, 1)), Err(RefusalCause::NoOrigin));
        }
        for mapping in Mapping::ALL {
            assert!(map(*mapping, &request(Some(ClusterId(1)), 2)).is_err(), "{mapping}");
        }
    }

    /// Few sizes, speeds and walltimes, so that completions tie often.
    fn platforms() -> impl Strategy<Value = Platform> {
        let cluster = (1..9_u32, prop::sample::select(vec![0.5, 1.0, 1.0, 2.0]), prop::bool::ANY);
        prop::collection::vec(cluster, 1..12).prop_map(|clusters| {
            let cluster = |(index, (procs, speed, easy)): (usize, (u32, f64, bool))| Cluster {
                name: format!("c{index}"),
                procs: Procs(procs),
                speed: Speed::new(speed).unwrap(),
                batch: String::from(if easy { "easy" } else { "cbf" }),
                nodes: None,
            };
            Platform::new(clusters.into_iter().enumerate().map(cluster).collect()).unwrap()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Every mapping equals that of the reference implementation.
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
                    fixed_time: walltime % 3 == 0,
                    speedup: if moldable { amdahl } else { Speedup::Rigid },
                    origin: Some(ClusterId(origin % federation.len() as u32)), owner: Owner::UNKNOWN, resources: None };
                let mut copy = federation.clone();
                let offer = |id| Some((id, copy.estimate(now, &request, id)?));
                let offers: Vec<(ClusterId, Estimate)> = federation.ids().filter_map(offer).collect();
                let expected = choose(mapping, &offers, request.origin, &mut rng.clone());
                let mapped = map(mapping, &mut federation, now, &request, &mut rng).ok();
                prop_assert_eq!(mapped, expected);
                let Some(MappingDecision { cluster, shape, reason }) = mapped else { continue };
                let tracked = Tracked { request, cluster, moves: 0, reason: Reason::Mapped(reason) };
                federation.submit(now, tracked, shape);
            }
        }
    }
}
