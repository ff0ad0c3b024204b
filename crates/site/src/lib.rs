//! What happens on a cluster: supervisors run jobs as processes ([`processes`]), services say what may be run ([`services`]),
//! [`accounts`] and the [`launcher`](accounts::Launcher) run jobs as their users, whose files are those of a [`JobFolder`],
//! and the commands of [`slurm`] and [`oar`] submit to batch systems that are there already.

mod batch_system;
mod call_values;
mod system;
mod word;

pub mod accounts;
pub mod oar;
pub mod processes;
pub mod services;
pub mod slurm;
#[cfg(test)]
mod testing;

pub use batch_system::{
    BATCH_OUTPUT, BatchSystemError, ListedJobs, SettingError, StartPrevention, Submission, Submitters,
    System, Unreadable,
};
pub use processes::job_folder::{
    AccountStream, FileStream, FilesError, JobFiles, JobFolder, JobGate, serve_call,
};
pub use system::{BatchSystem, BatchSystemSettings};
