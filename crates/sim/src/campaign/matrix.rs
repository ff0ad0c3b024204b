//! The matrix of a campaign: which runs there are, in which order, under which keys.
//!
//! Runs of one (workload, platform, moldable, share, seed) make a [`Group`]: they see the same jobs, so they
//! share one reference run. Groups and, inside them, policies come in the order of the campaign file.

use super::{Moldable, SimulationCampaign};

/// The runs that share a reference: everything but the policy.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Group {
    /// Position in [`SimulationCampaign::workloads`].
    pub workload: usize,
    /// Position in the workload's platforms.
    pub platform: usize,
    /// Which jobs are moldable.
    pub moldable: Moldable,
    /// Share of the jobs that come through the federation.
    pub share: f64,
    /// Seed of job types, of locality and of policies that draw.
    pub seed: u64,
}

impl SimulationCampaign {
    /// Every group, in order.
    pub fn groups(&self) -> Vec<Group> {
        let mut groups = Vec::new();
        for (workload, spec) in self.workloads.iter().enumerate() {
            for platform in 0..spec.platforms.len() {
                for &moldable in &self.moldable {
                    for &share in &self.dedicated_shares {
                        for &seed in &self.seeds {
                            groups.push(Group { workload, platform, moldable, share, seed });
                        }
                    }
                }
            }
        }
        groups
    }

    /// The key of a run: unique, stable, and a file name.
    pub fn key(&self, group: &Group, policy: usize) -> String {
        let workload = &self.workloads[group.workload];
        format!(
            "{}_{}_{}_share-{}_seed-{}_{}",
            workload.name,
            workload.platforms[group.platform].label(),
            group.moldable.name(),
            group.share,
            group.seed,
            self.policies[policy].name
        )
    }

    /// Every key, in order.
    pub fn keys(&self) -> Vec<String> {
        let of_group =
            |group: &Group| (0..self.policies.len()).map(|at| self.key(group, at)).collect::<Vec<_>>();
        self.groups().iter().flat_map(of_group).collect()
    }
}
