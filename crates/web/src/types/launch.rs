//! Launches: applications of communicating tasks on several clusters.

use pliant_control::coallocation::{LaunchRecord, Link, TaskRecord};
use pliant_control::names::Name;
use serde::Serialize;
use utoipa::ToSchema;

use super::ExitView;

/// A launch.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct LaunchView {
    /// Its ID: the agent that leads it, a slash, and its key.
    #[schema(example = "master/8f871341dd2655c0fa73cf81cdc3e725")]
    launch: String,
    /// The name of the application.
    name: String,
    /// The user who started it.
    owner: String,
    /// `mapping`, `reserving`, `running`, `ending` or `over`.
    state: &'static str,
    /// How it ended, in a word; none if it has not.
    outcome: Option<&'static str>,
    /// The same for people.
    why: Option<String>,
    /// When it was accepted.
    submitted_s: i64,
    /// Its tasks, in the order of the application; spawned ones come last.
    tasks: Vec<TaskView>,
    /// Servers that have not acknowledged the decision about it.
    unacknowledged: Vec<String>,
}

/// A task of a launch.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct TaskView {
    /// Its name.
    task: String,
    /// The server of its machine, once it is mapped.
    server: Option<String>,
    /// Its machine, once it is mapped.
    machine: Option<String>,
    /// The remaining power of the machine over the power that the task needs, when it was mapped.
    affinity: Option<f64>,
    /// Its address, once known.
    address: Option<String>,
    /// How it ended.
    exit: Option<ExitView>,
    /// Why it was not spawned.
    not_spawned: Option<String>,
}

/// Launches.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct LaunchesView {
    /// The launches, the newest first.
    pub(crate) launches: Vec<LaunchView>,
}

/// The link between two servers, as it was measured.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct LinkView {
    /// The two servers.
    between: [String; 2],
    /// Its speed in megabits per second, over all measures.
    mbps: f64,
    /// The last round trip in milliseconds.
    round_trip_ms: f64,
    /// When it was measured last.
    measured_s: i64,
}

/// Links between servers.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct LinksView {
    /// The links that were measured.
    pub(crate) links: Vec<LinkView>,
}

impl From<&Link> for LinkView {
    fn from(link: &Link) -> LinkView {
        let (one, other) = &link.between;
        LinkView {
            between: [one.to_string(), other.to_string()],
            mbps: link.mbps,
            round_trip_ms: f64::from(link.last.round_trip_us) / 1e3,
            measured_s: link.last.at.0,
        }
    }
}

impl From<&LaunchRecord> for LaunchView {
    fn from(record: &LaunchRecord) -> LaunchView {
        LaunchView {
            launch: record.id.to_string(),
            name: record.name.clone(),
            owner: record.owner.to_string(),
            state: record.state.word(),
            outcome: record.end.as_ref().map(|end| end.word()),
            why: record.end.as_ref().map(ToString::to_string),
            submitted_s: record.submitted.0,
            tasks: record.tasks.iter().map(Into::into).collect(),
            unacknowledged: record.unacknowledged.iter().map(Name::to_string).collect(),
        }
    }
}

impl From<&TaskRecord> for TaskView {
    fn from(task: &TaskRecord) -> TaskView {
        let (server, machine) = task.allocation.clone().unzip();
        TaskView {
            task: task.name.clone(),
            server: server.map(|server| server.to_string()),
            machine,
            affinity: task.affinity,
            address: task.address.clone(),
            exit: task.exit.as_ref().map(Into::into),
            not_spawned: task.not_spawned.clone(),
        }
    }
}
