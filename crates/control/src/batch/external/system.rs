//! The batch systems that a snapshot can be of, and how they differ.

use pliant_model::Span;
use pliant_policy::nodes::Rules;
use serde::{Deserialize, Serialize};

/// The name of the policy of a server in front of Slurm.
pub const SLURM: &str = "slurm";
/// The name of the policy of a server in front of OAR.
pub const OAR: &str = "oar";

/// How often Slurm plans unless it says otherwise.
const INTERVAL: Span = Span(30);
/// How long OAR keeps cores free after a job unless it says otherwise.
const PAUSE: Span = Span(60);

/// A batch system that is not Pliant's.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// Slurm: it plans again and again, and what it announces is not what it does.
    #[default]
    Slurm,
    /// OAR: it publishes its plan, and chooses itself among the sizes that a job is submitted with.
    Oar,
}

impl System {
    /// The name of the policy of a server in front of it.
    pub fn name(self) -> &'static str {
        match self {
            System::Slurm => SLURM,
            System::Oar => OAR,
        }
    }

    /// How it plans, as long as it has not said otherwise.
    pub fn rules(self) -> Rules {
        match self {
            System::Slurm => Rules::slurm(INTERVAL),
            System::Oar => Rules::oar(PAUSE),
        }
    }

    /// Whether a job can be submitted to it in several sizes.
    pub fn is_moldable(self) -> bool {
        self == System::Oar
    }
}
