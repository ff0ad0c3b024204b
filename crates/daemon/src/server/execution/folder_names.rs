//! The names of the folders of explorations and subjobs.
//!
//! They stand in the arguments of supervisors and in the names of cgroups, where every user of the host reads them. The key of an
//! exploration or of a launch is secret: who knows it can take it at other servers before its owner does. So the names have a
//! digest of the key.

use std::fmt;
use std::str::FromStr;

use pliant_control::coallocation::{LaunchId, SubjobId};
use pliant_control::names::{Key, Name};
use pliant_staging::Checksum;

/// The digest of a key in the name of a folder: the first half of its SHA-256 checksum.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::server) struct FolderKey([u8; 16]);

impl FolderKey {
    /// The digest of a key.
    pub(in crate::server) fn of(key: Key) -> FolderKey {
        let Checksum(digest) = Checksum::of(&key.0);
        FolderKey(std::array::from_fn(|index| digest[index]))
    }
}

impl fmt::Display for FolderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The text of a digest is like that of a key.
        Key(self.0).fmt(f)
    }
}

impl FromStr for FolderKey {
    type Err = <Key as FromStr>::Err;
    fn from_str(text: &str) -> Result<FolderKey, Self::Err> {
        text.parse().map(|Key(digest)| FolderKey(digest))
    }
}

/// The name of a subjob's folder: `AGENT.DIGEST.NUMBER`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::server) struct SubjobFolder {
    agent: Name,
    launch: FolderKey,
    number: u32,
}

impl SubjobFolder {
    /// The name for a subjob.
    pub(in crate::server) fn of(id: &SubjobId) -> SubjobFolder {
        let LaunchId { agent, key } = &id.launch;
        SubjobFolder { agent: agent.clone(), launch: FolderKey::of(*key), number: id.number }
    }

    /// Whether the folder is of a subjob of that launch.
    pub(in crate::server) fn is_of(&self, launch: &LaunchId) -> bool {
        self.agent == launch.agent && self.launch == FolderKey::of(launch.key)
    }
}

impl fmt::Display for SubjobFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.agent, self.launch, self.number)
    }
}

/// A name that is not that of a subjob's folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::server) struct NotSubjob;

impl FromStr for SubjobFolder {
    type Err = NotSubjob;
    fn from_str(text: &str) -> Result<SubjobFolder, NotSubjob> {
        // The name of an agent has no points.
        let [agent, launch, number] =
            text.split('.').collect::<Vec<_>>().try_into().map_err(|_| NotSubjob)?;
        Ok(SubjobFolder {
            agent: agent.parse().map_err(|_| NotSubjob)?,
            launch: launch.parse().map_err(|_| NotSubjob)?,
            number: number.parse().map_err(|_| NotSubjob)?,
        })
    }
}
