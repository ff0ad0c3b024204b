//! Launches: applications ([`application`]), programs of tasks ([`program`]), records ([`record`]), messages between agents and
//! servers about subjobs ([`part`]), listings of subjobs ([`held_parts`]) and files of tasks ([`files`]).

mod application;
mod files;
mod held_parts;
mod part;
mod program;
mod record;

use pliant_control::coallocation::{LaunchId, PartId};

use super::field::*;
use super::proto;
use super::table::message;

pub use application::{LaunchRequest, SpawnRequest};
pub use files::{LaunchTask, TaskDownload};
pub use held_parts::HeldParts;
pub use part::{PartDecision, PartReport, survey_reply, surveyed};
pub use program::{Program, TaskProgram};
pub use record::{LaunchesPage, LaunchesQuery, launch_answer, launch_reply};

const A_LAUNCH: &str = "a launch";
const A_PART: &str = "a part";
const A_STANDING: &str = "the state of the part";

message! {
    proto::LaunchId <=> LaunchId {
        agent: NAME,
        key: KEY,
    }

    proto::PartId <=> PartId {
        launch: required(A_LAUNCH),
        number,
    }
}
