//! How launches stand.

use pliant_control::coallocation::{End, LaunchRecord, LaunchState, TaskRecord};
use pliant_control::names::Name;

use super::super::proto::{self, launch, launch_reply::Answer};
use super::super::{Malformed, bounds, read, write};
use super::{A_LAUNCH, task_name};

/// Which launches are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaunchesQuery {
    /// Everybody's.
    pub all: bool,
    /// At most so many.
    pub limit: u32,
}

/// Launches, newest first.
#[derive(Clone, PartialEq, Debug)]
pub struct LaunchesPage(pub Vec<LaunchRecord>);

impl From<&LaunchesQuery> for proto::LaunchesRequest {
    fn from(query: &LaunchesQuery) -> proto::LaunchesRequest {
        proto::LaunchesRequest { all: query.all, limit: query.limit }
    }
}

impl TryFrom<proto::LaunchesRequest> for LaunchesQuery {
    type Error = Malformed;
    fn try_from(message: proto::LaunchesRequest) -> Result<LaunchesQuery, Malformed> {
        let most = 1..=bounds::JOBS_MAX as u32;
        let limit =
            read::or_else(bounds::JOBS_DEFAULT, "limit", "a number of launches", &most, message.limit)?;
        Ok(LaunchesQuery { all: message.all, limit })
    }
}

impl From<&LaunchesPage> for proto::LaunchesReply {
    fn from(page: &LaunchesPage) -> proto::LaunchesReply {
        proto::LaunchesReply { launches: write::list(&page.0, bounds::JOBS_MAX) }
    }
}

impl TryFrom<proto::LaunchesReply> for LaunchesPage {
    type Error = Malformed;
    fn try_from(message: proto::LaunchesReply) -> Result<LaunchesPage, Malformed> {
        let launches = read::list("launches", message.launches, bounds::JOBS_MAX, LaunchRecord::try_from)?;
        Ok(LaunchesPage(launches))
    }
}

/// A launch as it stands, or why it is not accepted.
pub fn launch_reply(answer: &Result<LaunchRecord, String>) -> proto::LaunchReply {
    let answer = match answer {
        Ok(record) => Answer::Launch(record.into()),
        Err(why) => Answer::Refused(write::text(why, bounds::TEXT_BYTES_MAX)),
    };
    proto::LaunchReply { answer: Some(answer) }
}

/// What was answered.
///
/// # Errors
///
/// [`Malformed`], with a path from [`proto::LaunchReply`].
pub fn launch_answer(reply: proto::LaunchReply) -> Result<Result<LaunchRecord, String>, Malformed> {
    match reply.answer {
        Some(Answer::Launch(launch)) => {
            LaunchRecord::try_from(launch).map(Ok).map_err(|malformed| malformed.under("launch"))
        }
        Some(Answer::Refused(why)) => Ok(Err(read::text("refused", why, bounds::TEXT_BYTES_MAX)?)),
        None => Err(Malformed::missing("", "a launch or a refusal")),
    }
}

impl From<&LaunchRecord> for proto::Launch {
    fn from(record: &LaunchRecord) -> proto::Launch {
        proto::Launch {
            id: Some((&record.id).into()),
            owner: record.owner.to_string(),
            name: write::text(&record.name, bounds::NAME_BYTES_MAX),
            submitted: write::time(record.submitted),
            state: state_to(record.state).into(),
            end: record.end.as_ref().map(launch::End::from),
            tasks: write::list(&record.tasks, bounds::TASKS_MAX),
            unacknowledged: record
                .unacknowledged
                .iter()
                .take(bounds::SERVERS_MAX)
                .map(Name::to_string)
                .collect(),
        }
    }
}

impl TryFrom<proto::Launch> for LaunchRecord {
    type Error = Malformed;
    fn try_from(message: proto::Launch) -> Result<LaunchRecord, Malformed> {
        let server = |name: String| read::name("", &name);
        Ok(LaunchRecord {
            id: read::required("id", A_LAUNCH, message.id)?,
            owner: read::user("owner", &message.owner)?,
            name: read::text("name", message.name, bounds::NAME_BYTES_MAX)?,
            submitted: read::time("submitted", message.submitted)?,
            state: state_of("state", message.state)?,
            end: read::optional("end", message.end)?,
            tasks: read::list("tasks", message.tasks, bounds::TASKS_MAX, TaskRecord::try_from)?,
            unacknowledged: read::list(
                "unacknowledged",
                message.unacknowledged,
                bounds::SERVERS_MAX,
                server,
            )?,
        })
    }
}

fn state_to(state: LaunchState) -> launch::State {
    match state {
        LaunchState::Mapping => launch::State::Mapping,
        LaunchState::Reserving => launch::State::Reserving,
        LaunchState::Running => launch::State::Running,
        LaunchState::Ending => launch::State::Ending,
        LaunchState::Over => launch::State::Over,
    }
}

fn state_of(field: &str, number: i32) -> Result<LaunchState, Malformed> {
    match launch::State::try_from(number) {
        Ok(launch::State::Mapping) => Ok(LaunchState::Mapping),
        Ok(launch::State::Reserving) => Ok(LaunchState::Reserving),
        Ok(launch::State::Running) => Ok(LaunchState::Running),
        Ok(launch::State::Ending) => Ok(LaunchState::Ending),
        Ok(launch::State::Over) => Ok(LaunchState::Over),
        Ok(launch::State::Unspecified) | Err(_) => {
            Err(Malformed::new(field, "the state of a launch, from 1 to 5", number))
        }
    }
}

impl From<&End> for launch::End {
    fn from(end: &End) -> launch::End {
        use launch::end::How;
        let why = |why: &str| write::text(why, bounds::TEXT_BYTES_MAX);
        let how = match end {
            End::Completed => How::Completed(true),
            End::Mapped => How::Mapped(true),
            End::NotMapped(reason) => How::NotMapped(why(reason)),
            End::NotReserved(reason) => How::NotReserved(why(reason)),
            End::Cancelled => How::Cancelled(true),
            End::Failed(what) => How::Failed(why(what)),
        };
        launch::End { how: Some(how) }
    }
}

impl TryFrom<launch::End> for End {
    type Error = Malformed;
    fn try_from(message: launch::End) -> Result<End, Malformed> {
        use launch::end::How;
        const HOW: &str = "completed, mapped, not_mapped, not_reserved, cancelled or failed";
        let why = |field, text| read::text(field, text, bounds::TEXT_BYTES_MAX);
        match message.how.ok_or_else(|| Malformed::missing("", HOW))? {
            How::Completed(_) => Ok(End::Completed),
            How::Mapped(_) => Ok(End::Mapped),
            How::NotMapped(reason) => why("not_mapped", reason).map(End::NotMapped),
            How::NotReserved(reason) => why("not_reserved", reason).map(End::NotReserved),
            How::Cancelled(_) => Ok(End::Cancelled),
            How::Failed(what) => why("failed", what).map(End::Failed),
        }
    }
}

impl From<&TaskRecord> for proto::LaunchedTask {
    fn from(task: &TaskRecord) -> proto::LaunchedTask {
        let (server, machine) = match &task.place {
            Some((server, machine)) => (server.to_string(), write::text(machine, bounds::NAME_BYTES_MAX)),
            None => Default::default(),
        };
        proto::LaunchedTask {
            name: task.name.clone(),
            server,
            machine,
            affinity: task.affinity.map(|affinity| write::measured(&bounds::AFFINITY, affinity)),
            address: task.address.clone().unwrap_or_default(),
            exit: task.exit.as_ref().map(proto::Exit::from),
            not_spawned: write::optional_text(task.not_spawned.as_deref()),
        }
    }
}

impl TryFrom<proto::LaunchedTask> for TaskRecord {
    type Error = Malformed;
    fn try_from(message: proto::LaunchedTask) -> Result<TaskRecord, Malformed> {
        let machine = read::text("machine", message.machine, bounds::NAME_BYTES_MAX)?;
        let server = read::optional_name("server", &message.server)?;
        let affinity = |found| read::number("affinity", "a number", &bounds::AFFINITY, found);
        Ok(TaskRecord {
            name: task_name("name", message.name)?,
            place: server.map(|server| (server, machine)),
            affinity: message.affinity.map(affinity).transpose()?,
            address: read::unless_empty(message.address, |address| read::address("address", address))?,
            exit: read::optional("exit", message.exit)?,
            not_spawned: read::optional_text("not_spawned", message.not_spawned)?,
        })
    }
}
