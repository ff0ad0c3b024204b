//! Names of things, as newtypes: no bare integer crosses a boundary.

use std::fmt;

/// A job, numbered by whoever drives the policies (dense from 0 in a simulation). The number that a log
/// gave the job is kept beside it by the driver ([`crate::Job::log_id`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct JobId(pub u32);

/// A cluster: its position in the [`crate::Platform`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClusterId(pub u32);

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

impl Procs {
    /// One processor.
    pub const ONE: Procs = Procs(1);

    /// The count.
    pub const fn count(self) -> u32 {
        self.0
    }
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
