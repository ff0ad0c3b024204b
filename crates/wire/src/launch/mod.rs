//! Applications of communicating tasks: what users launch ([`application`]) and their tasks run ([`program`]), how that
//! stands ([`record`]), what agents and servers say of their parts ([`part`]) and people are told of them ([`held`]), and what
//! tasks left ([`files`]).

mod application;
mod files;
mod held;
mod part;
mod program;
mod record;

use pliant_control::coallocation::{LaunchId, PartId};

use super::proto;
use super::{Malformed, bounds, read};

pub use application::{LaunchRequest, SpawnRequest};
pub use files::{LaunchTask, TaskDownload};
pub use held::HeldParts;
pub use part::{Decided, Stands, survey_reply, surveyed};
pub use program::{Program, TaskProgram};
pub use record::{LaunchesPage, LaunchesQuery, launch_answer, launch_reply};

const A_LAUNCH: &str = "a launch";
const A_PART: &str = "a part";

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
