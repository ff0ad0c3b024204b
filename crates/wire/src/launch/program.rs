//! What a task of a launch runs, and on which files.

use std::collections::BTreeMap;

use pliant_control::payload::Payload;
use pliant_staging::FileSpec;
use serde::{Deserialize, Serialize};

use super::super::discovery::{called, service_call};
use super::super::proto::{self, program::What};
use super::super::{Malformed, bounds, read};

const A_PROGRAM: &str = "a service or a script";

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
        text: String,
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
    /// How an input file is called where it is uploaded: by its content, so that it goes to a server once, however many tasks
    /// have it and under whatever names.
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

impl From<&Program> for proto::Program {
    fn from(program: &Program) -> proto::Program {
        let what = match program {
            Program::Service { name, arguments } => What::Service(service_call(name, arguments)),
            Program::Script { name, text, arguments } => What::Script(proto::program::Script {
                name: name.clone(),
                text: text.clone(),
                arguments: arguments.clone(),
            }),
        };
        proto::Program { what: Some(what) }
    }
}

impl TryFrom<proto::Program> for Program {
    type Error = Malformed;
    fn try_from(message: proto::Program) -> Result<Program, Malformed> {
        match message.what.ok_or_else(|| Malformed::missing("", A_PROGRAM))? {
            What::Service(call) => {
                let (name, arguments) = called(call).map_err(|malformed| malformed.under("service"))?;
                Ok(Program::Service { name, arguments })
            }
            What::Script(script) => script_of(script).map_err(|malformed| malformed.under("script")),
        }
    }
}

fn script_of(script: proto::program::Script) -> Result<Program, Malformed> {
    let argument = |argument| read::text("", argument, bounds::ARGUMENT_BYTES_MAX);
    let text = super::super::submission::script_text("text", script.text.into_bytes())?;
    Ok(Program::Script {
        name: read::word("name", "the name of a script", script.name, bounds::NAME_BYTES_MAX)?,
        // It was text, and nothing of it was changed.
        text: String::from_utf8_lossy(&text).into_owned(),
        arguments: read::list("arguments", script.arguments, bounds::ARGUMENTS_MAX, argument)?,
    })
}

/// The payload of a task, as it is sent; no program if it describes none, which the other end refuses.
pub(super) fn sent(payload: &Payload) -> (Option<proto::Program>, Vec<proto::InputFile>) {
    match payload.read::<TaskProgram>() {
        Ok(TaskProgram { program, inputs }) => {
            (Some((&program).into()), inputs.iter().map(proto::InputFile::from).collect())
        }
        Err(_) => (None, Vec::new()),
    }
}

/// The payload of a task that was sent.
pub(super) fn payload_of(
    program: Option<proto::Program>,
    inputs: Vec<proto::InputFile>,
) -> Result<Payload, Malformed> {
    let program = read::required("program", A_PROGRAM, program)?;
    let inputs = read::list("inputs", inputs, bounds::INPUTS_MAX, FileSpec::try_from)?;
    Ok(Payload::of(&TaskProgram { program, inputs }))
}
