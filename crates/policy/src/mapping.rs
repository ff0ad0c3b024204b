//! Mapping: which cluster an arriving request is sent to (paper 000, section 3.1; spec A.0.4).

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
            if fitting.is_empty() {
                return Err(too_large(federation, request));
            }
            let (cluster, estimate) = fitting[rng.random_range(0..fitting.len())];
            Ok(Mapped { cluster, estimate, reason: MapReason::Drawn })
        }
        Mapping::Given => {
            let only = (federation.len() == 1).then_some(ClusterId(0));
            let known = request.origin.filter(|origin| origin.index() < federation.len());
            let cluster = known.or(only).ok_or(RefusalCause::NoOrigin)?;
            let estimate =
                federation.estimate(now, request, cluster).ok_or(RefusalCause::LargerThanCluster {
                    cluster,
                    requested: request.procs,
                    available: federation.procs(cluster),
                })?;
            Ok(Mapped { cluster, estimate, reason: MapReason::Given })
        }
    }
}

fn too_large(federation: &Federation, request: &Request) -> RefusalCause {
    let available = federation.ids().map(|id| federation.procs(id)).max().unwrap_or(Procs(0));
    RefusalCause::LargerThanAll { requested: request.procs, available }
}
