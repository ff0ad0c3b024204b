//! Launches: applications ([`application`]), programs of tasks ([`program`]), records ([`record`]), messages between agents and
//! servers about subjobs ([`subjob`]), signatures for tasks ([`signed_tasks`]), listings of subjobs ([`held_subjobs`]) and files of tasks ([`files`]).

mod application;
mod files;
mod held_subjobs;
mod program;
mod record;
mod signed_tasks;
mod subjob;

use pliant_control::coallocation::{LaunchId, SubjobId};

use super::field::*;
use super::proto;
use super::table::message;

pub use application::{LaunchRequest, SpawnRequest};
pub use files::{LaunchTask, TaskDownload};
pub use held_subjobs::HeldSubjobs;
pub(super) use program::program_and_inputs;
pub use program::{Program, TaskProgram};
pub use record::{LaunchesPage, LaunchesQuery, launch_answer, launch_reply};
pub use subjob::{DecidedSubjob, SubjobReport, listed_machines, machines_reply};

const A_LAUNCH: &str = "a launch";
const A_SUBJOB: &str = "a subjob";
const A_SUBJOB_STATE: &str = "the state of the subjob";

message! {
    proto::LaunchId <=> LaunchId {
        agent: NAME,
        key: KEY,
    }

    proto::SubjobId <=> SubjobId {
        launch: required(A_LAUNCH),
        number,
    }
}
