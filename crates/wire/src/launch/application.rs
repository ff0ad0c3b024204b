//! What users launch, and what they add to that.

use pliant_control::coallocation::{Application, LaunchId, Mapping, Spawn, Spawned, Talk, Wanted, Wish};
use pliant_control::names::{Key, Name, User};
use pliant_model::Span;

use super::super::proto::{self, launch_request, spawn_request};
use super::super::{Malformed, bounds, read, write};
use super::program::{payload_of, sent};
use super::{A_LAUNCH, task_name};

/// A launch as a client asks for it. Whose it is comes from the certificate. Whether its tasks can be mapped is not checked
/// here.
#[derive(Clone, PartialEq, Debug)]
pub struct LaunchRequest {
    /// What makes it unique.
    pub key: Key,
    /// What it is called.
    pub name: String,
    /// What is launched.
    pub application: Application,
    /// How long the tasks may run.
    pub walltime: Span,
    /// How long parts may be held until all are.
    pub patience: Span,
    /// The server that is the user's LAN; none takes the first.
    pub user_lan: Option<Name>,
    /// The threshold of the clustering; none takes the agent's.
    pub threshold: Option<f64>,
    /// How the tasks get their machines.
    pub mapping: Mapping,
    /// Only map it, and reserve nothing.
    pub dry_run: bool,
}

impl LaunchRequest {
    /// The launch of that user, with the agent's own threshold unless it says one.
    pub fn of(self, owner: User, threshold: f64) -> Wanted {
        let LaunchRequest { key, name, application, walltime, patience, user_lan, mapping, dry_run, .. } =
            self;
        let threshold = self.threshold.unwrap_or(threshold);
        Wanted { key, owner, name, application, walltime, patience, user_lan, threshold, mapping, dry_run }
    }
}

/// Tasks that a client adds to a launch.
#[derive(Clone, PartialEq, Debug)]
pub struct SpawnRequest {
    /// The launch.
    pub launch: LaunchId,
    /// The tasks.
    pub spawn: Spawn,
}

/// A number above 0.
fn positive(field: &str, found: f64) -> Result<f64, Malformed> {
    if found > 0.0 && found.is_finite() {
        return Ok(found);
    }
    Err(Malformed::new(field, "a number above 0", found))
}

// Nothing that comes from a user is cut: they are to be told.

impl From<&LaunchRequest> for proto::LaunchRequest {
    fn from(request: &LaunchRequest) -> proto::LaunchRequest {
        proto::LaunchRequest {
            key: request.key.0.to_vec(),
            name: request.name.clone(),
            application: Some((&request.application).into()),
            walltime_s: request.walltime.0,
            patience_s: request.patience.0,
            user_lan: write::optional_name(request.user_lan.as_ref()),
            threshold: request.threshold,
            mapping: mapping_to(request.mapping).into(),
            dry_run: request.dry_run,
        }
    }
}

impl TryFrom<proto::LaunchRequest> for LaunchRequest {
    type Error = Malformed;
    fn try_from(message: proto::LaunchRequest) -> Result<LaunchRequest, Malformed> {
        let patience = read::number("patience_s", "seconds", &bounds::HELD_S, message.patience_s)?;
        Ok(LaunchRequest {
            key: read::key("key", &message.key)?,
            name: read::text("name", message.name, bounds::NAME_BYTES_MAX)?,
            application: read::required("application", "an application", message.application)?,
            walltime: read::walltime("walltime_s", message.walltime_s)?,
            patience: Span(patience),
            user_lan: read::optional_name("user_lan", &message.user_lan)?,
            threshold: message
                .threshold
                .map(|found| read::number("threshold", "a number", &(0.0..=1.0), found))
                .transpose()?,
            mapping: mapping_of("mapping", message.mapping)?,
            dry_run: message.dry_run,
        })
    }
}

fn mapping_to(mapping: Mapping) -> launch_request::Mapping {
    match mapping {
        Mapping::Wase => launch_request::Mapping::Wase,
        Mapping::BestFit => launch_request::Mapping::BestFit,
        Mapping::Random => launch_request::Mapping::Random,
        Mapping::Refined => launch_request::Mapping::Refined,
    }
}

fn mapping_of(field: &str, number: i32) -> Result<Mapping, Malformed> {
    match launch_request::Mapping::try_from(number) {
        Ok(launch_request::Mapping::Wase) => Ok(Mapping::Wase),
        Ok(launch_request::Mapping::BestFit) => Ok(Mapping::BestFit),
        Ok(launch_request::Mapping::Random) => Ok(Mapping::Random),
        Ok(launch_request::Mapping::Refined) => Ok(Mapping::Refined),
        Err(_) => Err(Malformed::new(field, "0 (wase), 1 (best-fit), 2 (random) or 3 (refined)", number)),
    }
}

impl From<&Application> for proto::Application {
    fn from(application: &Application) -> proto::Application {
        let Application { mcr_mflops, bandwidth_mbps, tasks, edges } = application;
        proto::Application {
            mcr_mflops: *mcr_mflops,
            bandwidth_mbps: *bandwidth_mbps,
            tasks: tasks.iter().map(proto::TaskWish::from).collect(),
            edges: edges.iter().map(proto::Talk::from).collect(),
        }
    }
}

impl TryFrom<proto::Application> for Application {
    type Error = Malformed;
    fn try_from(message: proto::Application) -> Result<Application, Malformed> {
        let tasks = message.tasks.len();
        let talk = |talk: proto::Talk| {
            let talk = Talk::try_from(talk)?;
            match talk.between.iter().zip(["one", "other"]).find(|(at, _)| **at as usize >= tasks) {
                Some((at, end)) => {
                    Err(Malformed::new(end, format!("the position of one of {tasks} tasks, from 0"), at))
                }
                None => Ok(talk),
            }
        };
        Ok(Application {
            mcr_mflops: positive("mcr_mflops", message.mcr_mflops)?,
            bandwidth_mbps: message
                .bandwidth_mbps
                .map(|mbps| positive("bandwidth_mbps", mbps))
                .transpose()?,
            tasks: read::list("tasks", message.tasks, bounds::TASKS_MAX, Wish::try_from)?,
            edges: read::list("edges", message.edges, bounds::TALKS_MAX, talk)?,
        })
    }
}

impl From<&Wish> for proto::TaskWish {
    fn from(wish: &Wish) -> proto::TaskWish {
        let (program, inputs) = sent(&wish.payload);
        proto::TaskWish { name: wish.name.clone(), rcr: wish.rcr, program, inputs }
    }
}

impl TryFrom<proto::TaskWish> for Wish {
    type Error = Malformed;
    fn try_from(message: proto::TaskWish) -> Result<Wish, Malformed> {
        Ok(Wish {
            name: task_name("name", message.name)?,
            rcr: positive("rcr", message.rcr)?,
            payload: payload_of(message.program, message.inputs)?,
        })
    }
}

impl From<&Talk> for proto::Talk {
    fn from(talk: &Talk) -> proto::Talk {
        let [one, other] = talk.between;
        proto::Talk { one, other, rqoc: talk.rqoc }
    }
}

impl TryFrom<proto::Talk> for Talk {
    type Error = Malformed;
    fn try_from(message: proto::Talk) -> Result<Talk, Malformed> {
        Ok(Talk { between: [message.one, message.other], rqoc: positive("rqoc", message.rqoc)? })
    }
}

impl From<&Spawned> for spawn_request::Spawned {
    fn from(spawned: &Spawned) -> spawn_request::Spawned {
        let talk = |(task, rqoc): &(String, f64)| spawn_request::TalksTo { task: task.clone(), rqoc: *rqoc };
        spawn_request::Spawned {
            task: Some((&spawned.task).into()),
            talks: spawned.talks.iter().map(talk).collect(),
        }
    }
}

impl TryFrom<spawn_request::Spawned> for Spawned {
    type Error = Malformed;
    fn try_from(message: spawn_request::Spawned) -> Result<Spawned, Malformed> {
        let talk =
            |talk: spawn_request::TalksTo| Ok((task_name("task", talk.task)?, positive("rqoc", talk.rqoc)?));
        Ok(Spawned {
            task: read::required("task", "a task", message.task)?,
            talks: read::list("talks", message.talks, bounds::TASKS_MAX, talk)?,
        })
    }
}

impl From<&SpawnRequest> for proto::SpawnRequest {
    fn from(request: &SpawnRequest) -> proto::SpawnRequest {
        let SpawnRequest { launch, spawn: Spawn { key, tasks } } = request;
        let mut tasks = tasks.iter().map(spawn_request::Spawned::from);
        let spawn_request::Spawned { task, talks } = tasks.next().unwrap_or_default();
        proto::SpawnRequest {
            launch: Some(launch.into()),
            key: key.0.to_vec(),
            task,
            talks,
            more: tasks.collect(),
        }
    }
}

impl TryFrom<proto::SpawnRequest> for SpawnRequest {
    type Error = Malformed;
    fn try_from(message: proto::SpawnRequest) -> Result<SpawnRequest, Malformed> {
        let proto::SpawnRequest { launch, key, task, talks, more } = message;
        let launch = read::required("launch", A_LAUNCH, launch)?;
        let key = read::key("key", &key)?;
        let first = Spawned::try_from(spawn_request::Spawned { task, talks })?;
        let more = read::list("more", more, bounds::TASKS_MAX, Spawned::try_from)?;
        let tasks = std::iter::once(first).chain(more).collect();
        Ok(SpawnRequest { launch, spawn: Spawn { key, tasks } })
    }
}
