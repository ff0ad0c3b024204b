//! The program of an execution, as its machine keeps it from acceptance on.

use std::collections::BTreeMap;

use pliant_control::batch::HeldResources;
use pliant_control::exact_text::ExactText;
use pliant_control::names::{Key, User};
use pliant_control::payload::Payload;
use pliant_model::{Mebibytes, Span, SpanMs};
use pliant_site::processes::{JobLimits, RunSpec, Streams};
use pliant_site::services::{Batch, Prepared};
use pliant_staging::FileSpec;
use pliant_wire::SubmittedWork;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::{Allocation, Host};

/// How much of standard output and of standard error is kept of a job whose service does not say.
const OUTPUT_BYTES_MAX: u64 = 256 << 20;

/// What a job, a task of a launch or a request of an exploration runs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Program {
    /// The command and its variables.
    pub(crate) prepared: Prepared,
    /// What was submitted: the text of a script, and what another server needs to run a job. None of a batch of instances,
    /// which goes to no other server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) submitted: Option<SubmittedWork>,
    /// The script that it runs, if it is a request of an exploration: one of the files of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) script: Option<FileSpec>,
    /// The instances that it runs, if it is a batch of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) batch: Option<Batch>,
    /// Files that it finds in its work folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) inputs: Vec<FileSpec>,
    /// The key of the uploads that it shares with other batches of its multi-job; those of the submission if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shared: Option<Key>,
    /// The operating-system account as which it runs; the server's own if there is none. What was chosen at acceptance stays, even
    /// if the mapping of users to accounts changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) account: Option<String>,
    /// Ties the log lines of one submission together.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) request: String,
}

/// What a request of an exploration runs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::server) enum RequestWork {
    /// Nothing, for so long.
    Pause(SpanMs),
    /// A program, on one core.
    Program {
        /// The program.
        program: Box<Program>,
        /// After how long it is ended.
        walltime: Span,
        /// Whose it is.
        owner: User,
    },
}

/// What of a program says that it is a call of a resident process.
#[derive(Deserialize)]
struct ResidentMark {
    prepared: PreparedMark,
}

#[derive(Deserialize)]
struct PreparedMark {
    call: Option<CallMark>,
}

#[derive(Deserialize)]
struct CallMark {
    resident: Option<IgnoredAny>,
}

impl Program {
    /// Whether a program is a call of a resident process. Little of it is read.
    pub(in crate::server) fn is_resident_call(payload: &Payload) -> bool {
        let mark = payload.read::<ResidentMark>();
        mark.is_ok_and(|mark| mark.prepared.call.is_some_and(|call| call.resident.is_some()))
    }

    /// The text of the script that a job, a task or the instances of a batch run, if they run one.
    pub(in crate::server) fn script_text(&self) -> Option<&ExactText> {
        match &self.submitted {
            Some(SubmittedWork::Script(script)) => Some(&script.text),
            _ => self.batch.as_ref().and_then(Batch::script),
        }
    }

    /// How many bytes of each of its outputs are kept.
    pub(in crate::server) fn max_output_bytes(&self) -> u64 {
        self.prepared.bounds.max_output_bytes.unwrap_or(OUTPUT_BYTES_MAX)
    }

    /// What a supervisor runs, with some variables beside those of the program.
    pub(super) fn spec<const N: usize>(
        &self,
        host: &Host,
        allocation: &Allocation,
        own: [(&str, String); N],
    ) -> RunSpec {
        let Allocation { procs, walltime, .. } = *allocation;
        let mut env = self.prepared.variables(procs, walltime);
        env.insert("PLIANT_REQUEST".to_owned(), self.request.clone());
        // What the work was sized for is PLIANT_PROCS; a folded job has fewer processors than that.
        env.insert("PLIANT_CORES".to_owned(), allocation.cores.to_string());
        env.extend(own.map(|(name, value)| (name.to_owned(), value)));
        env.extend(allocation.variables(host));
        let program = self.prepared.argv(procs, walltime);
        let folder = self.prepared.folder.clone();
        let streams = self.prepared.streams.clone();
        let max_output_bytes = self.max_output_bytes();
        RunSpec { program, env, max_output_bytes, folder, streams, ..allocation.spec(host) }
    }
}

impl Allocation {
    /// The variables that say what something has of a host besides processors.
    pub(in crate::server) fn variables(&self, host: &Host) -> BTreeMap<String, String> {
        let HeldResources { memory, gpus } = self.held.clone().unwrap_or_default();
        let mut variables = BTreeMap::new();
        if memory > Mebibytes::ZERO {
            variables.insert("PLIANT_MEMORY_MIB".to_owned(), memory.0.to_string());
        }
        if host.cluster.node.as_ref().is_some_and(|node| !node.gpus.is_empty()) {
            variables.insert("PLIANT_GPUS".to_owned(), gpus.len().to_string());
            // Without one it is to see none.
            variables.insert("CUDA_VISIBLE_DEVICES".to_owned(), gpus.join(","));
        }
        variables
    }

    /// What it may use of a host.
    fn limits(&self, host: &Host) -> JobLimits {
        let limits = host.cluster.limits.of(self.cores);
        let memory = self.held.as_ref().map(|held| held.memory).filter(|memory| *memory > Mebibytes::ZERO);
        let memory_bytes =
            memory.map(|memory| u64::from(memory.0) << 20).into_iter().chain(limits.memory_bytes).min();
        JobLimits { memory_bytes, ..limits }
    }

    /// How anything is run with it on a host; what is not said.
    pub(in crate::server) fn spec(&self, host: &Host) -> RunSpec {
        RunSpec {
            program: Vec::new(),
            account: None,
            env: BTreeMap::new(),
            walltime_s: self.walltime.0.max(1) as u64,
            grace_s: u64::from(host.cluster.grace_s),
            cores: self.pinned.clone(),
            cpu_share: host.cluster.cpu_share.map(|share| share * f64::from(self.cores)),
            max_output_bytes: OUTPUT_BYTES_MAX,
            folder: None,
            streams: Streams::default(),
            limits: self.limits(host),
            keeps_user: false,
        }
    }
}
