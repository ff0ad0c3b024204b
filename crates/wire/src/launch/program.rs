//! The programs of tasks of launches, and their files.

use std::collections::BTreeMap;

use pliant_control::exact_text::ExactText;
use pliant_control::payload::Payload;
use pliant_staging::FileSpec;
use serde::{Deserialize, Serialize};

use super::super::field::*;
use super::super::table::one_of;
use super::super::{Malformed, bounds, proto};

pub(super) const A_PROGRAM: &str = "a service or a script";

/// What a task of a launch runs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// A service of its server. Whether it is offered and takes these arguments is not checked here.
    Service {
        /// Its name.
        name: String,
        /// Its arguments.
        arguments: BTreeMap<String, String>,
    },
    /// The user's own script.
    Script {
        /// What it is called.
        name: String,
        /// Its text; the first line says what runs it (`#!`).
        text: ExactText,
        /// What it is started with.
        arguments: Vec<String>,
    },
}

/// What a task runs, and on which files: the payload of a task in `pliant_control::coallocation`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskProgram {
    /// What it runs.
    #[serde(flatten)]
    pub program: Program,
    /// What it finds in its folder.
    pub inputs: Vec<FileSpec>,
}

impl TaskProgram {
    /// The name of an uploaded input file: its checksum, so that a server gets it once for all tasks.
    pub fn uploaded(file: &FileSpec) -> FileSpec {
        let name = file.sha256.to_string().parse().expect("hexadecimal digits are the name of a file");
        FileSpec { name, ..file.clone() }
    }
}

/// A program without input files.
impl From<Program> for TaskProgram {
    fn from(program: Program) -> TaskProgram {
        TaskProgram { program, inputs: Vec::new() }
    }
}

impl Program {
    /// The payload of a task that runs it without input files.
    pub fn payload(&self) -> Payload {
        Payload::of(&TaskProgram::from(self.clone()))
    }
}

// What comes from a user is not cut: the user is informed if there is too much of it.
one_of! {
    proto::Program { what: proto::program::What } <=> Program {
        Service(proto::ServiceCall) <=> Service { name: SERVICE, arguments: ARGUMENTS },
        Script(proto::program::Script) <=> Script {
            name: word("the name of a script", bounds::NAME_BYTES_MAX).exact(),
            text: SCRIPT,
            arguments: list(ARGUMENT, bounds::ARGUMENTS_MAX).exact(),
        },
    } => (expected: "a service or a script")
}

/// The program and the input files that a payload describes; no program if it describes none, which the other end refuses.
pub(crate) fn program_and_inputs(payload: &Payload) -> (Option<Program>, Vec<FileSpec>) {
    match payload.read() {
        Ok(TaskProgram { program, inputs }) => (Some(program), inputs),
        Err(_) => (None, Vec::new()),
    }
}

/// The payload of a task that was sent.
pub(super) fn payload((program, inputs): (Option<Program>, Vec<FileSpec>)) -> Result<Payload, Malformed> {
    let program = program.ok_or_else(|| Malformed::missing("program", A_PROGRAM))?;
    Ok(Payload::of(&TaskProgram { program, inputs }))
}
