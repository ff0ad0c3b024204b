//! Why the state of a batch system is refused.

use std::fmt;

use pliant_model::JobId;
use pliant_policy::UnknownName;
use pliant_policy::batch;

/// Why a batch system cannot be restored from its dump.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RestoreError {
    /// The policy is not registered.
    Policy(UnknownName),
    /// The policy cannot take the dump.
    Scheduler(batch::RestoreError),
    /// The dump is of a batch system of another kind.
    Kind,
    /// A running job has a processor that another job has.
    Core {
        /// The job.
        job: JobId,
        /// The processor.
        core: u32,
    },
    /// A running job has a GPU that another job has.
    Gpu {
        /// The job.
        job: JobId,
        /// The GPU.
        gpu: String,
    },
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(error) => write!(f, "{error}"),
            Self::Scheduler(error) => write!(f, "{error}"),
            Self::Kind => f.write_str(
                "expected the state of the batch system that is configured, found that of one of another kind",
            ),
            Self::Gpu { job, gpu } => {
                write!(f, "expected job {job} on GPUs of its own, found GPU {gpu} of another job")
            }
            Self::Core { job, core } => {
                write!(f, "expected job {job} on processors of its own, found processor {core} of another job")
            }
        }
    }
}

impl std::error::Error for RestoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Policy(error) => Some(error),
            Self::Scheduler(error) => Some(error),
            Self::Kind | Self::Core { .. } | Self::Gpu { .. } => None,
        }
    }
}
