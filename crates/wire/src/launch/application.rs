//! Applications that users launch, and tasks that they add.

use pliant_control::coallocation::{
    Application, LaunchId, LaunchSpec, Mapping, SpawnSpec, SpawnedTask, TaskEdge, TaskSpec,
};
use pliant_control::names::{Key, Name, User};
use pliant_model::Span;
#[cfg(test)]
use proptest::prelude::*;

use super::super::field::*;
use super::super::proto::{self, spawn_request};
use super::super::table::{conversions, enumeration, message};
use super::super::{Malformed, SignedTasks, bounds};
use super::A_LAUNCH;
use super::program::{A_PROGRAM, payload, program_and_inputs};
use super::signed_tasks::{SIGNED_TASKS, signed_of, signed_payload};

message! {
    /// A launch as a client asks for it. Whose it is comes from the certificate. Whether its tasks can be mapped is not checked
    /// here.
    #[derive(Clone, PartialEq, Debug)]
    proto::LaunchRequest <=> pub struct LaunchRequest {
        /// The unique key.
        key: Key = KEY,
        /// Its name.
        name: String = text(bounds::NAME_BYTES_MAX).exact(),
        /// The application.
        application: Application = required("an application"),
        /// The walltime of the tasks.
        walltime_s <=> walltime: Span = WALLTIME.exact(),
        /// How long subjobs wait for each other.
        timeout_s <=> timeout: Span = seconds(bounds::HELD_S).exact(),
        /// The server that is the user's LAN; none takes the first.
        user_lan: Option<Name> = unless_empty(NAME),
        /// The threshold of the clustering; none takes the agent's.
        threshold: Option<f64> = optional(number("a number", 0.0..=1.0).exact()),
        /// The mapping algorithm.
        mapping: Mapping = enumeration(),
        /// Only map it, and reserve nothing.
        dry_run: bool,
        /// The user's signature for the tasks. None until the client signs, with each try anew.
        signed: Option<SignedTasks> = present(SIGNED_TASKS),
    }
}

impl LaunchRequest {
    /// The launch of that user, with the agent's own threshold unless it says one.
    pub fn of(self, owner: User, threshold: f64) -> LaunchSpec {
        let LaunchRequest { key, name, application, walltime, timeout, user_lan, mapping, dry_run, .. } =
            self;
        let (threshold, signed) = (self.threshold.unwrap_or(threshold), signed_payload(self.signed));
        LaunchSpec {
            key,
            owner,
            name,
            application,
            walltime,
            timeout,
            user_lan,
            threshold,
            mapping,
            dry_run,
            signed,
        }
    }
}

/// Tasks that a client adds to a launch.
#[derive(Clone, PartialEq, Debug)]
pub struct SpawnRequest {
    /// The launch.
    pub launch: LaunchId,
    /// The tasks. Their signature is a [`SignedTasks`].
    pub spawn: SpawnSpec,
}

// Nothing that comes from a user is cut: the user is informed if there is too much of it.
message! {
    proto::Application <=> Application {
        mcr_mflops: Positive,
        bandwidth_mbps: optional(Positive),
        tasks: list(nested(), bounds::TASKS_MAX).exact(),
        edges: list(nested(), bounds::TALKS_MAX).exact(),
    } => (check: between_its_tasks, fit: crate::tests::fit::application)

    proto::TaskSpec <=> TaskSpec {
        name: TASK_NAME,
        rcr: Positive,
        payload: join(program_and_inputs, payload) => (
            program: present(A_PROGRAM),
            inputs: list(nested(), bounds::INPUTS_MAX).exact(),
        ),
    }

    proto::TaskEdge <=> TaskEdge {
        between: [one, other],
        rqoc: Positive,
    }

    proto::spawn_request::Spawned <=> SpawnedTask {
        task: required("a task"),
        neighbours: list(nested(), bounds::TASKS_MAX).exact(),
    }

    proto::spawn_request::Neighbour <=> (String, f64) (task: TASK_NAME, rqoc: Positive)
}

enumeration! {
    proto::launch_request::Mapping <=> Mapping: "0 (wase), 1 (best-fit), 2 (random) or 3 (refined)" {
        Wase,
        BestFit,
        Random,
        Refined,
    }
}

/// An application whose edges are between its tasks.
fn between_its_tasks(application: Application) -> Result<Application, Malformed> {
    let tasks = application.tasks.len();
    for (index, edge) in application.edges.iter().enumerate() {
        let ends = edge.between.iter().zip(["one", "other"]);
        if let Some((at, end)) = ends.into_iter().find(|(at, _)| **at as usize >= tasks) {
            let expected = format!("the position of one of {tasks} tasks, from 0");
            return Err(Malformed::new(end, expected, at).at("edges", index));
        }
    }
    Ok(application)
}

/// By hand: the first of the tasks is in fields of the message, the others in a list.
impl HasMessage for SpawnRequest {
    type Message = proto::SpawnRequest;

    fn to_message(&self) -> proto::SpawnRequest {
        let SpawnRequest { launch, spawn: SpawnSpec { key, tasks, signed } } = self;
        let mut tasks = tasks.iter().map(spawn_request::Spawned::from);
        let spawn_request::Spawned { task, neighbours } = tasks.next().unwrap_or_default();
        let (launch, key, signed) = (Some(launch.into()), KEY.encode(key), signed_of(signed));
        let signed = present(SIGNED_TASKS).encode(&signed);
        proto::SpawnRequest { launch, key, task, neighbours, more: tasks.collect(), signed }
    }

    fn from_message(message: proto::SpawnRequest) -> Result<SpawnRequest, Malformed> {
        let proto::SpawnRequest { launch, key, task, neighbours, more, signed } = message;
        let launch = required(A_LAUNCH).decode("launch", launch)?;
        let key = KEY.decode("key", key)?;
        let first = SpawnedTask::try_from(spawn_request::Spawned { task, neighbours })?;
        let more = list(nested(), bounds::TASKS_MAX).decode("more", more)?;
        let tasks = std::iter::once(first).chain(more).collect();
        let signed = signed_payload(present(SIGNED_TASKS).decode("signed", signed)?);
        Ok(SpawnRequest { launch, spawn: SpawnSpec { key, tasks, signed } })
    }

    #[cfg(test)]
    fn strategy() -> BoxedStrategy<SpawnRequest> {
        let tasks = proptest::collection::vec(SpawnedTask::strategy(), 1..4);
        let drawn = (LaunchId::strategy(), KEY.strategy(), tasks, SignedTasks::strategy());
        let spawn = |(launch, key, tasks, signed)| {
            let signed = signed_payload(Some(signed));
            SpawnRequest { launch, spawn: SpawnSpec { key, tasks, signed } }
        };
        drawn.prop_map(spawn).boxed()
    }
}

conversions! { proto::SpawnRequest <=> SpawnRequest; }
