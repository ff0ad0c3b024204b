//! Jobs that no cluster could take: how many for which reason, and when that makes a platform impossible.

use std::ops::RangeInclusive;

use pliant_model::{Platform, Procs, RefusalCause, Run};

use crate::failure::Failure;
use crate::table::{counted, grouped};

/// Refused jobs are worth a warning from one in so many.
const WARN_FROM: u64 = 10;
/// Clusters that a message lists; the others are counted.
const SHOWN: usize = 8;

/// How many jobs were refused for which reason.
#[derive(Default)]
pub(crate) struct Refusals {
    /// More processors than any cluster has.
    larger_than_all: u64,
    /// More processors than the cluster that the job's user chose.
    larger_than_cluster: u64,
    /// In need of resources that no nodes have.
    no_nodes: u64,
    /// Bound to a cluster that the platform has not.
    no_origin: u64,
    /// True if there is but one cluster.
    one_cluster: bool,
    /// The fewest and the most processors that one of them asked for.
    asked: Option<(Procs, Procs)>,
}

impl Refusals {
    pub(crate) fn of(run: &Run) -> Refusals {
        let one_cluster = run.platform.clusters().len() == 1;
        let mut all = Refusals { one_cluster, ..Refusals::default() };
        for (_, cause) in &run.refused {
            let requested = match cause {
                RefusalCause::LargerThanAll { requested, .. } => {
                    all.larger_than_all += 1;
                    *requested
                }
                RefusalCause::LargerThanCluster { requested, .. } => {
                    all.larger_than_cluster += 1;
                    *requested
                }
                RefusalCause::InsufficientResources => {
                    all.no_nodes += 1;
                    continue;
                }
                RefusalCause::NoOrigin => {
                    all.no_origin += 1;
                    continue;
                }
            };
            let (least, most) = all.asked.unwrap_or((requested, requested));
            all.asked = Some((least.min(requested), most.max(requested)));
        }
        all
    }

    pub(crate) fn total(&self) -> u64 {
        self.larger_than_all + self.larger_than_cluster + self.no_nodes + self.no_origin
    }

    /// The reasons, each with its number if there are several.
    pub(crate) fn reasons(&self) -> String {
        let reasons = [
            (self.larger_than_all, "larger than every cluster"),
            (
                self.larger_than_cluster,
                if self.one_cluster { "larger than the cluster" } else { "larger than the user's cluster" },
            ),
            (self.no_nodes, "in need of resources that no nodes have"),
            (self.no_origin, "bound to no cluster of the platform"),
        ];
        let met: Vec<_> = reasons.into_iter().filter(|(count, _)| *count > 0).collect();
        if let [(_, reason)] = met[..] {
            return reason.to_owned();
        }
        met.iter()
            .map(|(count, reason)| format!("{} {reason}", grouped(*count)))
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// The error if every job was refused; `location` says where the platform was given.
    pub(crate) fn impossible(&self, run: &Run, location: &str, moldable: bool) -> Option<Failure> {
        if self.total() == 0 || !run.jobs.is_empty() {
            return None;
        }
        let jobs =
            if self.total() == 1 { "the only job" } else { &format!("all {} jobs", grouped(self.total())) };
        let problem = format!(
            "{location}: expected a platform that some job fits, found {jobs} refused: {}{}",
            self.reasons(),
            self.sizes(&run.platform)
        );
        let hint = match (self.asked, moldable) {
            (None, _) => "--mapping mct lets the federation choose the cluster",
            (Some(_), false) => "give larger clusters, or let jobs shrink with --moldable paper",
            (Some(_), true) => {
                "give larger clusters; jobs that do not come through the federation cannot shrink"
            }
        };
        Some(Failure::input(problem).hint(hint))
    }

    /// A warning if so many were refused that the results say little about the workload.
    pub(crate) fn warning(&self, run: &Run) -> Option<String> {
        let all = self.total() + run.jobs.len() as u64;
        (self.total() * WARN_FROM > all).then(|| {
            format!(
                "{} of {} are refused ({:.0} %): {}{}; the results cover the other jobs only",
                grouped(self.total()),
                counted(all, "job"),
                100.0 * self.total() as f64 / all as f64,
                self.reasons(),
                self.sizes(&run.platform)
            )
        })
    }

    /// What they asked for, and what there is.
    fn sizes(&self, platform: &Platform) -> String {
        let clusters = platform.clusters();
        if let [only] = clusters {
            return format!("{}; the cluster has {}", self.requested(), grouped(only.procs.0.into()));
        }
        let mut listed: Vec<String> = clusters
            .iter()
            .take(SHOWN)
            .map(|one| format!("{} ({})", grouped(one.procs.0.into()), one.name))
            .collect();
        if clusters.len() > SHOWN {
            listed.push(format!("{} more", clusters.len() - SHOWN));
        }
        format!("{}; the clusters have {}", self.requested(), listed.join(", "))
    }

    fn requested(&self) -> String {
        self.asked.map_or_else(String::new, |(least, most)| {
            let plural = if most.0 == 1 { "" } else { "s" };
            format!(" (asked for: {} processor{plural})", range(least.0..=most.0))
        })
    }
}

fn range(numbers: RangeInclusive<u32>) -> String {
    let (least, most) = (grouped((*numbers.start()).into()), grouped((*numbers.end()).into()));
    if least == most { least } else { format!("{least} to {most}") }
}
