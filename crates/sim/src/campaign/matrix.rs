//! The matrix of a campaign: its runs, their order and their keys.
//!
//! The runs of one (workload, platform, moldable, share, seed) form a [`Group`]: they have the same jobs and share one
//! reference run. Groups, and policies inside them, come in the order of the campaign file.

use super::{Moldable, SimulationCampaign};

/// The runs that share a reference: all parameters but the policy.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Group {
    /// Position in [`SimulationCampaign::workloads`].
    pub workload: usize,
    /// Position in the workload's platforms.
    pub platform: usize,
    /// Which jobs are moldable.
    pub moldable: Moldable,
    /// The share of jobs that go through the federation.
    pub share: f64,
    /// The seed of job types, of locality and of random policies.
    pub seed: u64,
}

impl SimulationCampaign {
    /// All groups, in order.
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

    /// All keys, in order.
    pub fn keys(&self) -> Vec<String> {
        let of_group =
            |group: &Group| (0..self.policies.len()).map(|at| self.key(group, at)).collect::<Vec<_>>();
        self.groups().iter().flat_map(of_group).collect()
    }
}
