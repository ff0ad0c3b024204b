//! Clusters and federations of them.

use std::fmt;

use crate::{ClusterId, Procs};

/// How fast a cluster's processors are, relative to the reference (1.0). Times are divided by it.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct Speed(f64);

impl Speed {
    /// The reference speed.
    pub const REFERENCE: Speed = Speed(1.0);

    /// A speed; none unless it is finite and positive.
    pub fn new(speed: f64) -> Option<Speed> {
        (speed.is_finite() && speed > 0.0).then_some(Speed(speed))
    }

    /// The factor.
    pub const fn get(self) -> f64 {
        self.0
    }
}

/// Processors of one speed behind one batch system.
#[derive(Clone, PartialEq, Debug)]
pub struct Cluster {
    /// Its name, unique in the platform.
    pub name: String,
    /// How many processors it has.
    pub procs: Procs,
    /// How fast they are.
    pub speed: Speed,
    /// The local batch policy, by its registered name (`cbf`, `easy`, ...).
    pub batch: String,
}

/// A federation of clusters. [`ClusterId`]s are positions in it.
#[derive(Clone, PartialEq, Debug)]
pub struct Platform {
    clusters: Vec<Cluster>,
}

/// A platform that cannot be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PlatformError {
    /// There is no cluster.
    Empty,
    /// A cluster has no processors.
    NoProcessors(String),
    /// Two clusters share a name.
    DuplicateName(String),
}

impl fmt::Display for PlatformError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "expected at least one cluster, found none"),
            Self::NoProcessors(name) => write!(f, "expected cluster `{name}` to have processors, found 0"),
            Self::DuplicateName(name) => write!(f, "expected unique cluster names, found `{name}` twice"),
        }
    }
}

impl std::error::Error for PlatformError {}

impl Platform {
    /// Checks and keeps the clusters.
    pub fn new(clusters: Vec<Cluster>) -> Result<Platform, PlatformError> {
        if clusters.is_empty() {
            return Err(PlatformError::Empty);
        }
        for (index, cluster) in clusters.iter().enumerate() {
            if cluster.procs.0 == 0 {
                return Err(PlatformError::NoProcessors(cluster.name.clone()));
            }
            if clusters[..index].iter().any(|other| other.name == cluster.name) {
                return Err(PlatformError::DuplicateName(cluster.name.clone()));
            }
        }
        Ok(Platform { clusters })
    }

    /// One cluster of `procs` processors at reference speed under a local batch policy.
    pub fn single(procs: Procs, batch: &str) -> Result<Platform, PlatformError> {
        let name = String::from("cluster");
        Platform::new(vec![Cluster { name, procs, speed: Speed::REFERENCE, batch: batch.to_owned() }])
    }

    /// The clusters, by [`ClusterId`].
    pub fn clusters(&self) -> &[Cluster] {
        &self.clusters
    }

    /// One cluster.
    pub fn cluster(&self, id: ClusterId) -> &Cluster {
        &self.clusters[id.index()]
    }

    /// The cluster of that name.
    pub fn find(&self, name: &str) -> Option<ClusterId> {
        let position = self.clusters.iter().position(|cluster| cluster.name == name)?;
        Some(ClusterId(position as u32))
    }

    /// All ids in order.
    pub fn ids(&self) -> impl Iterator<Item = ClusterId> + use<> {
        (0..self.clusters.len() as u32).map(ClusterId)
    }

    /// Processors of all clusters together.
    pub fn total_procs(&self) -> u64 {
        self.clusters.iter().map(|cluster| u64::from(cluster.procs.0)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(name: &str, procs: u32) -> Cluster {
        let batch = String::from("cbf");
        Cluster { name: name.to_owned(), procs: Procs(procs), speed: Speed::REFERENCE, batch }
    }

    #[test]
    fn impossible_platforms_are_refused() {
        assert_eq!(Platform::new(vec![]), Err(PlatformError::Empty));
        let no_processors = Platform::new(vec![cluster("a", 1), cluster("b", 0)]);
        assert_eq!(no_processors, Err(PlatformError::NoProcessors("b".to_owned())));
        let twice = Platform::new(vec![cluster("a", 1), cluster("b", 2), cluster("a", 3)]);
        assert_eq!(twice, Err(PlatformError::DuplicateName("a".to_owned())));
    }

    #[test]
    fn speeds_are_positive_and_finite() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Speed::new(bad), None, "{bad}");
        }
        assert_eq!(Speed::new(1.4).map(Speed::get), Some(1.4));
    }

    #[test]
    fn clusters_are_numbered_by_position() {
        let platform = Platform::new(vec![cluster("a", 3), cluster("b", 4)]).unwrap();
        assert_eq!(platform.find("b"), Some(ClusterId(1)));
        assert_eq!(platform.find("c"), None);
        assert_eq!(platform.ids().map(|id| platform.cluster(id).procs.0).collect::<Vec<_>>(), [3, 4]);
        assert_eq!(platform.total_procs(), 7);
    }
}
