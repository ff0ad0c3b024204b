//! A request that can be run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pliant_control::job::Work;
use pliant_model::{Procs, Span};
use pliant_staging::{FileName, FileSpec};
use serde::{Deserialize, Serialize};

use super::call::PreparedCall;
use super::refusal::Refusal;
use crate::processes::Streams;
use crate::word::Word;

/// Everything that is known of a job's program before its job is placed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Prepared {
    /// The service, or the script's name.
    pub name: String,
    /// The command: the program and its words. Never through a shell.
    pub command: Vec<Word>,
    /// Variables that the program gets beside those of every job.
    pub environment: BTreeMap<String, Word>,
    /// The shape that policies see.
    pub work: Work,
    /// Inputs that its arguments name.
    pub inputs: Vec<FileName>,
    /// How much longer this request takes than the runtime that the service states or learns: a finished run's
    /// time is divided by it before it is learned. 1 if the service does not scale.
    pub scale: f64,
    /// How much it may send and leave behind.
    pub bounds: Bounds,
    /// The folder of the user's own in which it runs, on this cluster; the job's work folder if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// Its standard input, and where its standard error goes.
    #[serde(default, skip_serializing_if = "Streams::are_default")]
    pub streams: Streams,
    /// The call of a typed service that it carries out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Box<PreparedCall>>,
}

/// How much a job may send and leave behind; as much as the server takes where nothing is said.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Bounds {
    /// Bytes of all inputs.
    pub max_input_bytes: Option<u64>,
    /// Bytes of all results.
    pub max_output_bytes: Option<u64>,
}

impl Prepared {
    /// Whether a resident process carries it out.
    pub fn is_resident(&self) -> bool {
        self.call.as_ref().is_some_and(|call| call.resident.is_some())
    }

    /// The same with that much more walltime.
    pub fn with_margin(mut self, margin: Span) -> Prepared {
        self.work.walltime = self.work.walltime + margin;
        self
    }

    /// The command of a job that starts on `procs` processors for `walltime`.
    pub fn argv(&self, procs: Procs, walltime: Span) -> Vec<String> {
        self.command.iter().map(|word| word.at_start(procs, walltime)).collect()
    }

    /// The variables of a job that starts so, `PLIANT_PROCS` and `PLIANT_WALLTIME_S` among them.
    pub fn variables(&self, procs: Procs, walltime: Span) -> BTreeMap<String, String> {
        let own = self.environment.iter();
        let mut all: BTreeMap<_, _> =
            own.map(|(name, word)| (name.clone(), word.at_start(procs, walltime))).collect();
        all.insert("PLIANT_PROCS".to_owned(), procs.0.to_string());
        all.insert("PLIANT_WALLTIME_S".to_owned(), walltime.seconds().to_string());
        all
    }

    /// Checks that it can run on processors alone, outside the queue of a batch system.
    ///
    /// # Errors
    /// [`Refusal::OnlyJobs`].
    pub fn check_needs_no_job(&self) -> Result<(), Refusal> {
        match &self.work.resources {
            None => Ok(()),
            Some(resources) => {
                Err(Refusal::OnlyJobs { service: self.name.clone(), resources: resources.to_string() })
            }
        }
    }

    /// Checks the inputs of a submission.
    ///
    /// # Errors
    /// One that an argument names is missing, or they are too large.
    pub fn check_inputs(&self, files: &[FileSpec]) -> Result<(), Refusal> {
        if let Some(name) = self.inputs.iter().find(|name| files.iter().all(|file| file.name != **name)) {
            return Err(Refusal::MissingInput { name: name.clone() });
        }
        if self.folder.is_some() && !files.is_empty() {
            return Err(Refusal::InputsInPlace);
        }
        let found = files.iter().fold(0, |sum: u64, file| sum.saturating_add(file.size));
        match self.bounds.max_input_bytes.filter(|allowed| found > *allowed) {
            Some(allowed) => Err(Refusal::InputBytes { allowed, found }),
            None => Ok(()),
        }
    }
}
