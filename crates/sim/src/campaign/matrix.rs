//! The matrix of a campaign: which runs there are, in which order, under which keys.
//!
//! Runs of one (workload, platform, moldable, share, seed) make a [`Group`]: they see the same jobs, so they
//! share one reference run. Groups and, inside them, policies come in the order of the campaign file.

use std::fmt;
use std::str::FromStr;

use super::{Campaign, CampaignError, Moldable};

/// The runs that share a reference: everything but the policy.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Group {
    /// Position in [`Campaign::workloads`].
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

impl Campaign {
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

/// One of `count` equal parts of a campaign: every `count`-th group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    index: usize,
    count: usize,
}

impl Shard {
    /// The whole campaign.
    pub const WHOLE: Shard = Shard { index: 1, count: 1 };

    /// True if the group at this position belongs to the shard.
    pub fn holds(self, position: usize) -> bool {
        position % self.count == self.index - 1
    }
}

impl FromStr for Shard {
    type Err = CampaignError;

    fn from_str(text: &str) -> Result<Shard, CampaignError> {
        let wrong = || CampaignError::Shard(text.to_owned());
        let (index, count) = text.split_once('/').ok_or_else(wrong)?;
        let index = index.parse().map_err(|_| wrong())?;
        let count = count.parse().map_err(|_| wrong())?;
        if (1..=count).contains(&index) { Ok(Shard { index, count }) } else { Err(wrong()) }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::Shard;

    #[test]
    fn shards_split_every_group_once() {
        let shards: Vec<Shard> = (1..=3).map(|index| format!("{index}/3").parse().unwrap()).collect();
        for position in 0..20 {
            assert_eq!(shards.iter().filter(|shard| shard.holds(position)).count(), 1);
        }
        assert!((0..20).all(|position| Shard::WHOLE.holds(position)));
    }

    #[test]
    fn what_is_no_shard_is_refused() {
        for text in ["", "1", "0/2", "3/2", "1/0", "a/b", "1/2/3", "-1/2"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
        assert_eq!("2/16".parse::<Shard>().unwrap().to_string(), "2/16");
    }
}
