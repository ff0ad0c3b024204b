//! The commands that run a script many times.

/// A command that runs a script with parameters, and what it may need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Runs {
    /// Instances of a sweep, which are jobs.
    Instances,
    /// Requests of an exploration: one core, and no batch system.
    Requests,
}

impl Runs {
    /// The command's name.
    pub const fn verb(self) -> &'static str {
        match self {
            Runs::Instances => "sweep",
            Runs::Requests => "explore",
        }
    }
}
