//! Staging: input files go up before a submission, results come back after the run, both through the server.
//!
//! - [`FileName`] is the only way to name a file: relative, of printable letters, never out of its folder.
//! - [`Store`] takes uploads piece by piece, resumes them, checks them and hands them to a job ([`Store::adopt`]), or to many
//!   ([`Store::share`]).
//!   A caller that decides about those of a submission waits for its [`Store::lock`].
//! - [`receive_inputs`] and [`receive_shared`] put the same files into the folder of a job that runs as an account of its own.
//! - [`results`], [`open_result`] and [`seal`] read what a job left behind, and nothing that it only points at.
//! - [`Download`] is the client's end: results arrive in pieces, and are put in place when they are whole.
//!
//! No name is ever resolved by the kernel as a path: folders are opened one by one, each relative to the one
//! above it and never through a symbolic link, so that neither a client's names nor a job's links reach
//! anything else. Everything blocks; a daemon calls it from threads that may.
//!
//! ```text
//! <store>/incoming/<user>/<key>/<id>.meta   what was announced: name, size, checksum
//! <store>/incoming/<user>/<key>/<id>.part   what came so far
//! <store>/incoming/<user>/<key>/<id>.done   complete and verified
//! <store>/incoming/<user>/<key>_<server>/   the same of what that server sends for the user's submission
//! <job>/inputs.json    what was adopted, for telling results from inputs
//! <job>/work/          the working folder of the job: inputs, results
//! <job>/inputs/        the files that it shares with other batches of a multi-job, or with others of a launch: links to the store's
//! <job>/script         what the user brought to run, if it is not a service
//! <job>/tasks.json     the instances of a multi-job, or the tasks of a launch, if it runs several
//! <job>/stdout, stderr what it wrote
//! <job>/results.json   checksums of the results of an ended job
//! ```

mod adopt;
mod checksum;
mod download;
mod error;
mod folder;
mod incoming;
mod locks;
mod manifest;
mod names;
mod partial;
mod receive;
mod results;
mod script;
mod sealed;
mod share;
mod store;
mod upload_set;
mod usage;

pub use adopt::WORK;
pub use checksum::{Checksum, ChecksumError};
pub use download::Download;
pub use error::{QuotaKind, StagingError, may_pass};
pub use locks::UploadLock;
pub use manifest::{FileSpec, check_manifest};
pub use names::{FileName, NameError, NameProblem, is_unprintable};
pub use receive::{copy_inputs, receive_inputs, receive_shared};
pub use results::{
    LeftOut, LeftOutReason, ResultFile, ResultLimits, ResultName, ResultReader, Results, open_file,
    open_result, results,
};
pub use script::{SCRIPT, SUBMITTED, TASKS, put_script, put_submitted, put_tasks, submitted};
pub use sealed::{SealedFile, SealedResults, keep_sealed, seal, sealed, sum_up};
pub use share::SHARED;
pub use store::{Store, Upload};
pub use upload_set::{Sender, UploadSet};
pub use usage::{Limits, counted_bytes};
