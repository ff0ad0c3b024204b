//! Clusters and federations of them.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::{ClusterId, ClusterNodes, NodesError, Procs};

/// The speed of a cluster's processors relative to the reference (1.0). Times are divided by it.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "f64", into = "f64"))]
pub struct Speed(f64);

/// A speed outside [`Speed::RANGE`].
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
#[error("expected a speed of {} to {}, found {found}", Speed::RANGE.start(), Speed::RANGE.end())]
pub struct SpeedError {
    /// The value found.
    pub found: f64,
}

impl Speed {
    /// The reference speed.
    pub const REFERENCE: Speed = Speed(1.0);

    /// The valid speeds. The range keeps scaled times far from the limits of integers.
    pub const RANGE: RangeInclusive<f64> = 0.001..=1_000.0;

    /// A speed within [`Speed::RANGE`].
    pub fn new(speed: f64) -> Result<Speed, SpeedError> {
        if Speed::RANGE.contains(&speed) { Ok(Speed(speed)) } else { Err(SpeedError { found: speed }) }
    }

    /// The factor.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Speed {
    type Error = SpeedError;
    fn try_from(speed: f64) -> Result<Speed, SpeedError> {
        Speed::new(speed)
    }
}

impl From<Speed> for f64 {
    fn from(speed: Speed) -> f64 {
        speed.0
    }
}

/// Processors of one speed behind one batch system.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Cluster {
    /// The name, unique in the platform; [`check_name`] says which names are valid.
    pub name: String,
    /// How many processors it has.
    pub procs: Procs,
    /// How fast they are.
    pub speed: Speed,
    /// The local batch policy by its registered name, followed by queue order and aging where they are not the defaults
    /// (`cbf`, `easy`, `easy/f1`, `easy/f1/none`, ...).
    pub batch: String,
    /// Its nodes, where a scheduler distinguishes them; `procs` are all of theirs.
    pub nodes: Option<Arc<ClusterNodes>>,
}

/// A federation of clusters. [`ClusterId`]s are positions in it.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Platform {
    clusters: Vec<Cluster>,
}

/// An invalid platform.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PlatformError {
    /// There is no cluster.
    #[error("expected at least one cluster, found none")]
    Empty,
    /// A cluster has no processors.
    #[error("expected cluster `{0}` to have processors, found 0")]
    NoProcessors(String),
    /// Two clusters share a name.
    #[error("expected unique cluster names, found `{0}` twice")]
    DuplicateName(String),
    /// A cluster has an invalid name.
    #[error(transparent)]
    Name(NameError),
    /// A cluster has invalid nodes.
    #[error("cluster `{cluster}`: {error}")]
    Nodes {
        /// The cluster.
        cluster: String,
        /// The fault.
        error: NodesError,
    },
    /// A cluster has another number of processors than its nodes.
    #[error("expected the {nodes} processors of its nodes, found {procs} for cluster `{cluster}`")]
    OtherProcessors {
        /// The cluster.
        cluster: String,
        /// Its processors.
        procs: Procs,
        /// Those of its nodes.
        nodes: Procs,
    },
}

/// An invalid name of a cluster.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "expected a name of 1 to {NAME_MAX} printable characters, none of them a comma, semicolon or double quote, \
     found `{}`",
    shown(found)
)]
pub struct NameError {
    /// The name found.
    pub found: String,
}

/// The longest name of a cluster, in characters.
pub const NAME_MAX: usize = 64;

/// Checks a cluster's name, which appears in tables, logs and pages: 1 to [`NAME_MAX`] printable characters except
/// comma, semicolon and double quote, without white space at the ends.
pub fn check_name(name: &str) -> Result<(), NameError> {
    let filled = !name.is_empty() && name.trim() == name && name.chars().count() <= NAME_MAX;
    if filled && name.chars().all(may_be_in_name) {
        return Ok(());
    }
    Err(NameError { found: name.to_owned() })
}

fn may_be_in_name(letter: char) -> bool {
    // Invisible characters, line ends and marks of writing direction.
    let invisible = letter.is_control()
        || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    !invisible && !matches!(letter, ',' | ';' | '"')
}

/// The name cut to a printable length, with control characters escaped.
fn shown(found: &str) -> String {
    found.chars().take(NAME_MAX + 1).flat_map(char::escape_debug).collect()
}

impl Platform {
    /// Checks and keeps the clusters.
    pub fn new(clusters: Vec<Cluster>) -> Result<Platform, PlatformError> {
        if clusters.is_empty() {
            return Err(PlatformError::Empty);
        }
        for (index, cluster) in clusters.iter().enumerate() {
            check_name(&cluster.name).map_err(PlatformError::Name)?;
            if cluster.procs.0 == 0 {
                return Err(PlatformError::NoProcessors(cluster.name.clone()));
            }
            if let Some(nodes) = &cluster.nodes {
                let name = || cluster.name.clone();
                nodes.check().map_err(|error| PlatformError::Nodes { cluster: name(), error })?;
                if nodes.procs() != cluster.procs {
                    let (procs, nodes) = (cluster.procs, nodes.procs());
                    return Err(PlatformError::OtherProcessors { cluster: name(), procs, nodes });
                }
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
        let (speed, batch) = (Speed::REFERENCE, batch.to_owned());
        Platform::new(vec![Cluster { name, procs, speed, batch, nodes: None }])
    }

    /// The same clusters, all under one local batch policy.
    #[must_use]
    pub fn with_batch(&self, batch: &str) -> Platform {
        let under = |cluster: &Cluster| Cluster { batch: batch.to_owned(), ..cluster.clone() };
        Platform { clusters: self.clusters.iter().map(under).collect() }
    }

    /// The same clusters, each under the local batch policy that `choose` returns for the one it has. Errors of `choose` are passed on.
    pub fn with_batches<E>(&self, choose: impl Fn(&str) -> Result<String, E>) -> Result<Platform, E> {
        let under = |cluster: &Cluster| Ok(Cluster { batch: choose(&cluster.batch)?, ..cluster.clone() });
        Ok(Platform { clusters: self.clusters.iter().map(under).collect::<Result<_, E>>()? })
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

    /// Processors times speed, summed over the clusters: the work in processor seconds of the reference speed that the
    /// platform completes in a second. Offered load is relative to it.
    pub fn capacity(&self) -> f64 {
        self.clusters.iter().map(|cluster| f64::from(cluster.procs.0) * cluster.speed.get()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(name: &str, procs: u32) -> Cluster {
        let batch = String::from("cbf");
        Cluster { name: name.to_owned(), procs: Procs(procs), speed: Speed::REFERENCE, batch, nodes: None }
    }

    #[test]
    fn invalid_platforms_are_refused() {
        assert_eq!(Platform::new(vec![]), Err(PlatformError::Empty));
        let no_processors = Platform::new(vec![cluster("a", 1), cluster("b", 0)]);
        assert_eq!(no_processors, Err(PlatformError::NoProcessors("b".to_owned())));
        let twice = Platform::new(vec![cluster("a", 1), cluster("b", 2), cluster("a", 3)]);
        assert_eq!(twice, Err(PlatformError::DuplicateName("a".to_owned())));
    }

    #[test]
    fn speeds_are_within_their_range() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300, 0.000_9, 1_000.1, 1e300] {
            let error = Speed::new(bad).unwrap_err().to_string();
            assert_eq!(error, format!("expected a speed of 0.001 to 1000, found {bad}"));
        }
        for good in [0.001, 1.4, 1_000.0] {
            assert_eq!(Speed::new(good).map(Speed::get), Ok(good));
        }
    }

    #[test]
    fn speeds_are_read_and_written_as_numbers() {
        assert_eq!(Speed::try_from(1.4).map(f64::from), Ok(1.4));
        assert!(Speed::try_from(0.0).is_err());
    }

    #[test]
    fn a_single_cluster_has_the_reference_speed() {
        let platform = Platform::single(Procs(9), "easy").unwrap();
        let [Cluster { procs: Procs(9), speed: Speed::REFERENCE, batch, .. }] = platform.clusters() else {
            panic!("{platform:?}")
        };
        assert_eq!(batch, "easy");
        assert!(Platform::single(Procs(0), "easy").is_err());
    }

    #[test]
    fn cluster_names_are_printable() {
        let longest = "x".repeat(NAME_MAX);
        for good in ["a", "ctc", "Genève 2", "tr-1.bull_x/gpu@site (old)", "<b>&'", "超算", &longest] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        let longer = "x".repeat(NAME_MAX + 1);
        for bad in
            ["", " ", " a", "a ", "a\nb", "a\rb", "a\tb", "a\0", "\u{1b}[31m", "a,b", "a;b", "a\"b", &longer]
        {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
        assert!(check_name("a\u{202e}b").is_err() && check_name("a\u{2028}b").is_err());
        let error = Platform::new(vec![cluster("a\nb", 1)]).unwrap_err().to_string();
        assert!(error.contains(r"1 to 64 printable") && error.ends_with(r"found `a\nb`"), "{error}");
    }

    #[test]
    fn a_batch_policy_for_all_changes_nothing_else() {
        let platform = Platform::new(vec![cluster("a", 3), cluster("b", 4)]).unwrap();
        let easy = platform.with_batch("easy");
        assert!(easy.clusters().iter().all(|cluster| cluster.batch == "easy"));
        assert_ne!(easy, platform);
        assert_eq!(easy.with_batch(&platform.clusters()[0].batch), platform);
        let aged = easy.with_batches(|batch| Ok::<_, ()>(format!("{batch}/f1"))).unwrap();
        assert_eq!(aged, platform.with_batch("easy/f1"));
        assert_eq!(easy.with_batches(|_| Err("unknown")), Err("unknown"));
    }

    #[test]
    fn clusters_are_numbered_by_position() {
        let platform = Platform::new(vec![cluster("a", 3), cluster("b", 4)]).unwrap();
        assert_eq!(platform.find("b"), Some(ClusterId(1)));
        assert_eq!(platform.find("c"), None);
        assert_eq!(platform.ids().map(|id| platform.cluster(id).procs.0).collect::<Vec<_>>(), [3, 4]);
        assert_eq!(platform.total_procs(), 7);
        let faster = |speed| Cluster { speed: Speed::new(speed).unwrap(), ..cluster(&speed.to_string(), 10) };
        assert_eq!(Platform::new(vec![faster(1.5), faster(0.5)]).unwrap().capacity(), 20.0);
    }
}
