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

use super::field::*;
use super::proto;
use super::table::message;

pub use application::{LaunchRequest, SpawnRequest};
pub use files::{LaunchTask, TaskDownload};
pub use held::HeldParts;
pub use part::{Decided, Stands, survey_reply, surveyed};
pub use program::{Program, TaskProgram};
pub use record::{LaunchesPage, LaunchesQuery, launch_answer, launch_reply};

const A_LAUNCH: &str = "a launch";
const A_PART: &str = "a part";
const A_STANDING: &str = "how the part stands";

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
