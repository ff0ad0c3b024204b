//! The hierarchy of agents between the clients and the clusters.

use std::fmt;

use pliant_model::{ClusterId, Platform};

/// A child of an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Node {
    /// The server of a cluster.
    Cluster(ClusterId),
    /// A local agent with its children.
    Agent(Vec<Node>),
}

/// The hierarchy of a federation: the master agent and its children.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hierarchy {
    below: Vec<Node>,
}

/// A hierarchy that does not match the platform's clusters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HierarchyError {
    /// The cluster is attached to no agent.
    Missing(ClusterId),
    /// The cluster is attached to two agents.
    Twice(ClusterId),
    /// The platform has no such cluster.
    Unknown(ClusterId),
}

impl fmt::Display for HierarchyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected every cluster of the platform once in the hierarchy of agents, ")?;
        match self {
            Self::Missing(cluster) => write!(f, "found cluster {cluster} nowhere"),
            Self::Twice(cluster) => write!(f, "found cluster {cluster} twice"),
            Self::Unknown(cluster) => write!(f, "found cluster {cluster}, which the platform does not have"),
        }
    }
}

impl std::error::Error for HierarchyError {}

/// A hierarchy with its agents numbered from the master agent, parents first.
pub(crate) struct Layout {
    /// All agents.
    pub(crate) agents: Vec<AgentPosition>,
    /// The agent to which the server of each cluster is attached.
    pub(crate) servers: Vec<usize>,
    /// The number of links between the master agent and the deepest server.
    pub(crate) height: usize,
}

/// The position of an agent.
#[derive(Clone, Copy)]
pub(crate) struct AgentPosition {
    /// Its parent; none for the master agent.
    pub(crate) parent: Option<usize>,
    /// The number of links between it and the master agent.
    pub(crate) depth: usize,
}

impl Hierarchy {
    /// A master agent with these children.
    pub fn new(below: Vec<Node>) -> Hierarchy {
        Hierarchy { below }
    }

    /// One agent with all servers.
    pub fn flat(platform: &Platform) -> Hierarchy {
        Self::regular(platform, 1, 1)
    }

    /// Agents on `depth` levels, the master agent's included. Each has `branching` child agents as long as there are clusters for
    /// them. The clusters are distributed evenly, in order.
    pub fn regular(platform: &Platform, branching: usize, depth: usize) -> Hierarchy {
        let clusters: Vec<ClusterId> = platform.ids().collect();
        Hierarchy { below: distribute(&clusters, branching.max(1), depth) }
    }

    /// Numbers the agents and finds the parents.
    pub(crate) fn layout(&self, platform: &Platform) -> Result<Layout, HierarchyError> {
        let mut agents = vec![AgentPosition { parent: None, depth: 0 }];
        let mut parents: Vec<Option<usize>> = vec![None; platform.clusters().len()];
        let mut height = 1;
        let mut open: Vec<(usize, &Node)> = self.below.iter().map(|node| (0, node)).rev().collect();
        while let Some((parent, node)) = open.pop() {
            let depth = agents[parent].depth + 1;
            match node {
                Node::Cluster(cluster) => {
                    let entry = parents.get_mut(cluster.index()).ok_or(HierarchyError::Unknown(*cluster))?;
                    if entry.replace(parent).is_some() {
                        return Err(HierarchyError::Twice(*cluster));
                    }
                    height = height.max(depth);
                }
                Node::Agent(below) => {
                    let agent = agents.len();
                    agents.push(AgentPosition { parent: Some(parent), depth });
                    open.extend(below.iter().map(|node| (agent, node)).rev());
                }
            }
        }
        let found = |(id, parent): (ClusterId, Option<usize>)| parent.ok_or(HierarchyError::Missing(id));
        let servers = platform.ids().zip(parents).map(found).collect::<Result<Vec<_>, HierarchyError>>()?;
        Ok(Layout { agents, servers, height })
    }
}

fn distribute(clusters: &[ClusterId], branching: usize, depth: usize) -> Vec<Node> {
    if depth <= 1 {
        return clusters.iter().copied().map(Node::Cluster).collect();
    }
    let size = clusters.len().div_ceil(branching).max(1);
    clusters.chunks(size).map(|share| Node::Agent(distribute(share, branching, depth - 1))).collect()
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
            nodes: None,
        };
        Platform::new((0..clusters).map(cluster).collect()).unwrap()
    }

    /// Agents as (parent, depth), the agent of each server, and the height.
    fn check(
        hierarchy: &Hierarchy,
        clusters: u32,
        agents: &[(Option<usize>, usize)],
        servers: &[usize],
        height: usize,
    ) {
        let layout = hierarchy.layout(&platform(clusters)).unwrap_or_else(|error| panic!("{error}"));
        let placed: Vec<_> = layout.agents.iter().map(|one| (one.parent, one.depth)).collect();
        assert_eq!((&placed[..], &layout.servers[..], layout.height), (agents, servers, height));
    }

    #[test]
    fn clusters_are_distributed_in_order() {
        check(&Hierarchy::flat(&platform(3)), 3, &[(None, 0)], &[0, 0, 0], 1);
        let two_levels = Hierarchy::regular(&platform(5), 2, 2);
        check(&two_levels, 5, &[(None, 0), (Some(0), 1), (Some(0), 1)], &[1, 1, 1, 2, 2], 2);
        let three_levels = Hierarchy::regular(&platform(3), 2, 3);
        let agents = [(None, 0), (Some(0), 1), (Some(1), 2), (Some(1), 2), (Some(0), 1), (Some(4), 2)];
        check(&three_levels, 3, &agents, &[2, 3, 5], 3);
    }

    #[test]
    fn every_cluster_is_attached_to_one_agent() {
        let cluster = |id| Node::Cluster(ClusterId(id));
        let error = |below: Vec<Node>| Hierarchy::new(below).layout(&platform(2)).err();
        assert_eq!(error(vec![cluster(1), Node::Agent(vec![cluster(0)]), Node::Agent(vec![])]), None);
        assert_eq!(error(vec![cluster(1)]), Some(HierarchyError::Missing(ClusterId(0))));
        assert_eq!(
            error(vec![cluster(0), cluster(1), cluster(2)]),
            Some(HierarchyError::Unknown(ClusterId(2)))
        );
        let twice = vec![cluster(0), Node::Agent(vec![cluster(1), cluster(0)])];
        assert_eq!(error(twice), Some(HierarchyError::Twice(ClusterId(0))));
    }
}
