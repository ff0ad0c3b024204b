//! Applications of communicating tasks: what users launch ([`application`]), how that stands ([`record`]), and what agents
//! and servers say of their parts ([`part`]).

mod application;
mod part;
mod record;

use std::collections::BTreeMap;

use pliant_control::coallocation::{LaunchId, PartId};
use serde::{Deserialize, Serialize};

use super::discovery::{called, service_call};
use super::proto::{self, program::What};
use super::{Malformed, bounds, read};

pub use application::{LaunchRequest, SpawnRequest};
pub use part::{Decided, Stands, survey_reply, surveyed};
pub use record::{LaunchesPage, LaunchesQuery, launch_answer, launch_reply};

const A_PROGRAM: &str = "a service or a script";
const A_LAUNCH: &str = "a launch";
const A_PART: &str = "a part";

/// What a task of a launch runs: the note that stands for it in `pliant_control::coallocation`, as JSON.
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

impl Program {
    /// The note of it.
    pub fn note(&self) -> String {
        serde_json::to_string(self).expect("a program is plain data with text keys")
    }

    /// What a note says.
    ///
    /// # Errors
    /// It says nothing of the kind.
    pub fn of_note(note: &str) -> Result<Program, serde_json::Error> {
        serde_json::from_str(note)
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
    let text = super::submission::script_text("text", script.text.into_bytes())?;
    Ok(Program::Script {
        name: read::word("name", "the name of a script", script.name, bounds::NAME_BYTES_MAX)?,
        // It was text, and nothing of it was changed.
        text: String::from_utf8_lossy(&text).into_owned(),
        arguments: read::list("arguments", script.arguments, bounds::ARGUMENTS_MAX, argument)?,
    })
}

/// The program that a note says; none if it says nothing, which nobody takes at the other end.
fn program_of(note: &str) -> Option<proto::Program> {
    Program::of_note(note).ok().as_ref().map(proto::Program::from)
}

/// The note of a program.
fn note_of(field: &str, program: Option<proto::Program>) -> Result<String, Malformed> {
    read::required::<_, Program>(field, A_PROGRAM, program).map(|program| program.note())
}

/// The name of a task: it stands in variables and names a folder.
fn task_name(field: &str, found: String) -> Result<String, Malformed> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let is_name = (1..=bounds::TASK_NAME_BYTES_MAX).contains(&found.len())
        && found.starts_with(|first: char| first.is_ascii_alphanumeric())
        && found.chars().all(plain);
    if is_name {
        return Ok(found);
    }
    let expected =
        "the name of a task, 1 to 64 letters, digits and `. _ -` of which the first is a letter or digit";
    Err(Malformed::text(field, expected, &found))
}

impl From<&LaunchId> for proto::LaunchId {
    fn from(id: &LaunchId) -> proto::LaunchId {
        proto::LaunchId { agent: id.agent.to_string(), key: id.key.0.to_vec() }
    }
}

impl TryFrom<proto::LaunchId> for LaunchId {
    type Error = Malformed;
    fn try_from(message: proto::LaunchId) -> Result<LaunchId, Malformed> {
        Ok(LaunchId { agent: read::name("agent", &message.agent)?, key: read::key("key", &message.key)? })
    }
}

impl From<&PartId> for proto::PartId {
    fn from(id: &PartId) -> proto::PartId {
        proto::PartId { launch: Some((&id.launch).into()), number: id.number }
    }
}

impl TryFrom<proto::PartId> for PartId {
    type Error = Malformed;
    fn try_from(message: proto::PartId) -> Result<PartId, Malformed> {
        Ok(PartId { launch: read::required("launch", A_LAUNCH, message.launch)?, number: message.number })
    }
}
