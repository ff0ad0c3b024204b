//! Identifiers as newtypes: no bare integer crosses a boundary.

use std::fmt;

use crate::Fnv;

/// A job ID given by the driver (dense from 0 in a simulation). The driver keeps the number in the log
/// ([`crate::Job::log_id`]) with it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct JobId(pub u32);

/// A cluster: its position in the [`crate::Platform`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ClusterId(pub u32);

/// The user who owns a job. Queue orders only compare owners for equality.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Owner(pub u64);

/// A count of processors.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Procs(pub u32);

impl JobId {
    /// Position in the driver's table.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl ClusterId {
    /// Position in the platform.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl Owner {
    /// All unknown users.
    pub const UNKNOWN: Owner = Owner(u64::MAX);

    /// The user with that number in a log; negative numbers mean unknown.
    pub const fn numbered(user: i32) -> Owner {
        if user < 0 { Owner::UNKNOWN } else { Owner(user as u64) }
    }

    /// The user with that name: its 64-bit FNV-1a hash, the same in every process and release.
    pub fn named(name: &str) -> Owner {
        Owner(Fnv::of(name.as_bytes()))
    }
}

impl Procs {
    /// One processor.
    pub const ONE: Procs = Procs(1);
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for Procs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Journals and snapshots of queues depend on it.
    #[test]
    fn users_are_identified_by_the_hash_of_their_name() {
        assert_eq!(Owner::named("a"), Owner(0xaf63_dc4c_8601_ec8c));
        assert_eq!([-1, -2].map(Owner::numbered), [Owner::UNKNOWN; 2]);
        assert_eq!([0, 7].map(Owner::numbered), [Owner(0), Owner(7)]);
    }

    #[test]
    fn ids_are_positions_and_are_written_as_numbers() {
        assert_eq!((JobId(7).index(), ClusterId(5).index()), (7, 5));
        assert_eq!(format!("{} {} {}", JobId(7), ClusterId(5), Procs(3)), "7 5 3");
    }
}
