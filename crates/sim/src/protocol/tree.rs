//! Which agents stand between the clients and the clusters.

use std::fmt;

use pliant_model::{ClusterId, Platform};

/// What hangs on an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Node {
    /// The server of a cluster.
    Cluster(ClusterId),
    /// A local agent, with what hangs on it.
    Agent(Vec<Node>),
}

/// The agents of a federation: the master agent, and whatever hangs on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree {
    below: Vec<Node>,
}

/// A tree that is not one of the platform's clusters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TreeError {
    /// The cluster hangs nowhere.
    Missing(ClusterId),
    /// The cluster hangs in two places.
    Twice(ClusterId),
    /// The platform has no such cluster.
    Unknown(ClusterId),
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected every cluster of the platform once in the tree of agents, ")?;
        match self {
            Self::Missing(cluster) => write!(f, "found cluster {cluster} nowhere"),
            Self::Twice(cluster) => write!(f, "found cluster {cluster} twice"),
            Self::Unknown(cluster) => write!(f, "found cluster {cluster}, which the platform does not have"),
        }
    }
}

impl std::error::Error for TreeError {}

/// A tree with its agents numbered from the root, parents first.
pub(crate) struct Layout {
    /// Every agent.
    pub(crate) agents: Vec<Placed>,
    /// The agent that the server of each cluster hangs on.
    pub(crate) servers: Vec<usize>,
    /// Links between the master agent and the server furthest away from it.
    pub(crate) height: usize,
}

/// Where an agent is.
#[derive(Clone, Copy)]
pub(crate) struct Placed {
    /// The agent above it; none if it is the master.
    pub(crate) parent: Option<usize>,
    /// Links between it and the master agent.
    pub(crate) depth: usize,
}

impl Tree {
    /// A master agent with that below it.
    pub fn new(below: Vec<Node>) -> Tree {
        Tree { below }
    }

    /// One agent, with every server below it.
    pub fn flat(platform: &Platform) -> Tree {
        Self::regular(platform, 1, 1)
    }

    /// Agents on `depth` levels, the master agent's included; each has `branching` agents below it, as far as
    /// there are clusters for them. The clusters are shared out evenly, in order.
    pub fn regular(platform: &Platform, branching: usize, depth: usize) -> Tree {
        let clusters: Vec<ClusterId> = platform.ids().collect();
        Tree { below: share_out(&clusters, branching.max(1), depth) }
    }

    /// Numbers the agents and finds the parents.
    pub(crate) fn layout(&self, platform: &Platform) -> Result<Layout, TreeError> {
        let mut agents = vec![Placed { parent: None, depth: 0 }];
        let mut parents: Vec<Option<usize>> = vec![None; platform.clusters().len()];
        let mut height = 1;
        let mut open: Vec<(usize, &Node)> = self.below.iter().map(|node| (0, node)).rev().collect();
        while let Some((parent, node)) = open.pop() {
            let depth = agents[parent].depth + 1;
            match node {
                Node::Cluster(cluster) => {
                    let place = parents.get_mut(cluster.index()).ok_or(TreeError::Unknown(*cluster))?;
                    if place.replace(parent).is_some() {
                        return Err(TreeError::Twice(*cluster));
                    }
                    height = height.max(depth);
                }
                Node::Agent(below) => {
                    let agent = agents.len();
                    agents.push(Placed { parent: Some(parent), depth });
                    open.extend(below.iter().map(|node| (agent, node)).rev());
                }
            }
        }
        let found = |(id, parent): (ClusterId, Option<usize>)| parent.ok_or(TreeError::Missing(id));
        let servers = platform.ids().zip(parents).map(found).collect::<Result<Vec<_>, TreeError>>()?;
        Ok(Layout { agents, servers, height })
    }
}

fn share_out(clusters: &[ClusterId], branching: usize, depth: usize) -> Vec<Node> {
    if depth <= 1 {
        return clusters.iter().copied().map(Node::Cluster).collect();
    }
    let size = clusters.len().div_ceil(branching).max(1);
    clusters.chunks(size).map(|share| Node::Agent(share_out(share, branching, depth - 1))).collect()
}

#[cfg(test)]
mod tests {
    use pliant_model::{Cluster, Procs, Speed};

    use super::*;

    fn platform(clusters: u32) -> Platform {
        let cluster = |index| Cluster {
            name: format!("c{index}"),
            procs: Procs::ONE,
            speed: Speed::REFERENCE,
            batch: "cbf".to_owned(),
        };
        Platform::new((0..clusters).map(cluster).collect()).unwrap()
    }

    /// Agents as (parent, depth), the agent of each server, and the height.
    fn check(
        tree: &Tree,
        clusters: u32,
        agents: &[(Option<usize>, usize)],
        servers: &[usize],
        height: usize,
    ) {
        let layout = tree.layout(&platform(clusters)).unwrap_or_else(|error| panic!("{error}"));
        let placed: Vec<_> = layout.agents.iter().map(|one| (one.parent, one.depth)).collect();
        assert_eq!((&placed[..], &layout.servers[..], layout.height), (agents, servers, height));
    }

    #[test]
    fn clusters_are_shared_out_in_order() {
        check(&Tree::flat(&platform(3)), 3, &[(None, 0)], &[0, 0, 0], 1);
        let two_levels = Tree::regular(&platform(5), 2, 2);
        check(&two_levels, 5, &[(None, 0), (Some(0), 1), (Some(0), 1)], &[1, 1, 1, 2, 2], 2);
        let three_levels = Tree::regular(&platform(3), 2, 3);
        let agents = [(None, 0), (Some(0), 1), (Some(1), 2), (Some(1), 2), (Some(0), 1), (Some(4), 2)];
        check(&three_levels, 3, &agents, &[2, 3, 5], 3);
    }

    #[test]
    fn every_cluster_hangs_in_one_place() {
        let cluster = |id| Node::Cluster(ClusterId(id));
        let error = |below: Vec<Node>| Tree::new(below).layout(&platform(2)).err();
        assert_eq!(error(vec![cluster(1), Node::Agent(vec![cluster(0)]), Node::Agent(vec![])]), None);
        assert_eq!(error(vec![cluster(1)]), Some(TreeError::Missing(ClusterId(0))));
        assert_eq!(error(vec![cluster(0), cluster(1), cluster(2)]), Some(TreeError::Unknown(ClusterId(2))));
        let twice = vec![cluster(0), Node::Agent(vec![cluster(1), cluster(0)])];
        assert_eq!(error(twice), Some(TreeError::Twice(ClusterId(0))));
    }
}
