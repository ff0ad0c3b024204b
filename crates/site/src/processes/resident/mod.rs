//! Resident processes: each is started once and takes the calls of one service in turn.
//!
//! A *supervisor of a resident process* (`pliant run-resident FOLDER`, [`run_resident`]) is started by the server with the first
//! call ([`Residents`]). It starts the process, hands it one call after the other ([`pliant_calls::frame`]) and starts it anew if it
//! has died. The folder of a call is that of any job (the module above): the supervisor takes its lock, creates `started.json`, and
//! writes `exit.json` at its end. So a restarted server finds a call as it finds a job.
//!
//! # Between the server and the supervisor
//!
//! The server writes a call, a line of JSON ([`HandedCall`]), to the supervisor's standard input, and the supervisor answers with a line
//! on its standard output once it is done with the call ([`EndedCall`]). One call at a time: [`Residents::turn`] is the queue, so a call that
//! waits can be withdrawn at once. When the standard input ends, the server is gone: the supervisor finishes its call, ends the process,
//! and begins no other call, even if one is in the pipe: a new server may have started it elsewhere.
//!
//! The folder of a call that has no files is made by the supervisor, from what is in the line. The answer has what the supervisor has
//! recorded there, so that the server reads the folder only if it was restarted, or the supervisor has died.

mod outcomes;
mod pool;
mod process;
mod supervisor;

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use pliant_control::exact_text::ExactText;
use pliant_staging::{TASKS, WORK};
use serde::{Deserialize, Serialize};

use super::limits::JobLimits;
use super::record::Exit;
use super::tasks::{CallSpec, TaskList};

pub(super) use pool::ResidentTurn;
pub use pool::{Residents, TurnHolder};
pub use supervisor::run_resident;

/// The file in the folder of a resident process that says what it is.
const RESIDENT: &str = "resident.json";

/// A resident process, as the server writes it and the supervisor reads it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResidentSpec {
    /// Program and arguments; no shell is involved.
    pub program: Vec<String>,
    /// The environment, on top of `PATH`, `HOME` and `LANG`.
    pub env: BTreeMap<String, String>,
    /// After how many seconds without a call it is ended.
    pub idle_s: u64,
    /// Seconds between TERM and KILL.
    pub grace_s: u64,
    /// Bytes that are kept of what it writes to standard error during a call.
    pub max_output_bytes: u64,
    /// What it may use.
    pub limits: JobLimits,
}

/// A call without files, whose folder its supervisor makes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NewCall {
    /// The call.
    pub call: CallSpec,
    /// What the folder keeps of the submission, if it keeps any of it.
    pub submitted: Option<String>,
}

/// What the server writes to the supervisor, in one line.
#[derive(Serialize, Deserialize)]
struct HandedCall {
    /// The folder of the call.
    dir: PathBuf,
    /// The call, if the supervisor is to make the folder.
    new: Option<NewCall>,
}

/// What the supervisor answers, in one line.
#[derive(Serialize, Deserialize)]
struct EndedCall {
    /// The folder of the call.
    dir: PathBuf,
    /// How the call has ended; none if the supervisor has not carried it out.
    exit: Option<Exit>,
    /// Its outcome, if it is short.
    outcome: Option<ExactText>,
}

/// Makes the folder of a call for a resident process, with its work folder. May be called again. It need not outlive a failure of the
/// host: a call that was not begun is prepared anew.
///
/// # Errors
/// The folder cannot be written.
pub fn put_call(dir: &Path, call: CallSpec) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir.join(WORK))?;
    fs::write(dir.join(TASKS), TaskList::Call(Box::new(call)).text())
}
