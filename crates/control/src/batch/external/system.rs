//! The external batch systems, and their differences.

use pliant_model::Span;
use pliant_policy::nodes::Rules;
use serde::{Deserialize, Serialize};

/// The policy name of a server with Slurm.
pub const SLURM: &str = "slurm";
/// The policy name of a server with OAR.
pub const OAR: &str = "oar";

/// Default interval of Slurm's planning passes.
const INTERVAL: Span = Span(30);
/// Default time for which OAR keeps cores free after a job.
const PAUSE: Span = Span(60);

/// An external batch system.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// Slurm: plans periodically; its announced starts are not reliable.
    #[default]
    Slurm,
    /// OAR: publishes its plan, and chooses among the sizes of a moldable job.
    Oar,
}

impl System {
    /// The policy name of a server with this batch system.
    pub fn name(self) -> &'static str {
        match self {
            System::Slurm => SLURM,
            System::Oar => OAR,
        }
    }

    /// Default planning rules.
    pub fn rules(self) -> Rules {
        match self {
            System::Slurm => Rules::slurm(INTERVAL),
            System::Oar => Rules::oar(PAUSE),
        }
    }

    /// Whether it accepts moldable jobs.
    pub fn is_moldable(self) -> bool {
        self == System::Oar
    }
}
