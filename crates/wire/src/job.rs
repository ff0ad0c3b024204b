//! Jobs as the federation keeps them.

use pliant_control::job::{Compared, Exit, Hop, JobRecord, JobState, SizeChoice};
use pliant_control::names::Handle;

use super::proto::{self, exit::How};
use super::types::AN_ESTIMATE;
use super::{Malformed, bounds, read, write};

impl From<JobState> for proto::JobState {
    fn from(state: JobState) -> proto::JobState {
        match state {
            JobState::New => proto::JobState::New,
            JobState::Queued => proto::JobState::Queued,
            JobState::Active => proto::JobState::Active,
            JobState::Completed => proto::JobState::Completed,
            JobState::Failed => proto::JobState::Failed,
            JobState::Canceled => proto::JobState::Canceled,
        }
    }
}

/// The state of that number.
pub(super) fn state(field: &str, number: i32) -> Result<JobState, Malformed> {
    match proto::JobState::try_from(number) {
        Ok(proto::JobState::New) => Ok(JobState::New),
        Ok(proto::JobState::Queued) => Ok(JobState::Queued),
        Ok(proto::JobState::Active) => Ok(JobState::Active),
        Ok(proto::JobState::Completed) => Ok(JobState::Completed),
        Ok(proto::JobState::Failed) => Ok(JobState::Failed),
        Ok(proto::JobState::Canceled) => Ok(JobState::Canceled),
        Ok(proto::JobState::Unspecified) | Err(_) => {
            Err(Malformed::new(field, "a job state from 1 to 6", number))
        }
    }
}

impl From<&Exit> for proto::Exit {
    fn from(exit: &Exit) -> proto::Exit {
        let why = |why: &str| write::text(why, bounds::TEXT_BYTES_MAX);
        let how = match exit {
            Exit::Code(code) => How::Code(*code),
            Exit::Signal(signal) => How::Signal(*signal),
            Exit::OverWalltime => How::OverWalltime(true),
            Exit::Cancelled => How::Cancelled(true),
            Exit::NotStarted(reason) => How::NotStarted(why(reason)),
            Exit::Lost(reason) => How::Lost(why(reason)),
        };
        proto::Exit { how: Some(how) }
    }
}

impl TryFrom<proto::Exit> for Exit {
    type Error = Malformed;
    fn try_from(message: proto::Exit) -> Result<Exit, Malformed> {
        const HOW: &str = "code, signal, over_walltime, cancelled, not_started or lost";
        let how = message.how.ok_or_else(|| Malformed::missing("", HOW))?;
        let why = |field, text| read::text(field, text, bounds::TEXT_BYTES_MAX);
        match how {
            How::Code(code) => Ok(Exit::Code(code)),
            How::Signal(signal) => Ok(Exit::Signal(signal)),
            How::OverWalltime(true) => Ok(Exit::OverWalltime),
            How::Cancelled(true) => Ok(Exit::Cancelled),
            How::OverWalltime(false) => Err(Malformed::new("over_walltime", "true", false)),
            How::Cancelled(false) => Err(Malformed::new("cancelled", "true", false)),
            How::NotStarted(reason) => why("not_started", reason).map(Exit::NotStarted),
            How::Lost(reason) => why("lost", reason).map(Exit::Lost),
        }
    }
}

impl From<&JobRecord> for proto::Job {
    fn from(record: &JobRecord) -> proto::Job {
        proto::Job {
            handle: record.handle.to_string(),
            key: record.key.0.to_vec(),
            owner: record.owner.to_string(),
            name: write::text(&record.name, bounds::NAME_BYTES_MAX),
            work: Some((&record.work).into()),
            state: proto::JobState::from(record.state).into(),
            submitted: write::time(record.submitted),
            expected: Some((&record.expected).into()),
            procs: write::procs(record.procs),
            walltime_s: write::scaled_walltime(record.walltime),
            started: write::optional_time(record.started),
            ended: write::optional_time(record.ended),
            exit: record.exit.as_ref().map(proto::Exit::from),
            compared: write::list(&record.compared, bounds::COMPARED_MAX),
            survey: super::cause::survey(&record.survey),
            pinned: record.pinned,
            hops: write::list(&record.hops, bounds::HOPS_MAX),
            taught_ms: record.taught.map(write::span_ms),
            ran_ms: record.ran.map(write::span_ms),
            size_choice: record.size_choice.as_ref().map(proto::SizeChoice::from),
        }
    }
}

impl TryFrom<proto::Job> for JobRecord {
    type Error = Malformed;
    fn try_from(message: proto::Job) -> Result<JobRecord, Malformed> {
        Ok(JobRecord {
            handle: read::handle("handle", &message.handle)?,
            key: read::key("key", &message.key)?,
            owner: read::user("owner", &message.owner)?,
            name: read::text("name", message.name, bounds::NAME_BYTES_MAX)?,
            work: read::required("work", "the work", message.work)?,
            state: state("state", message.state)?,
            submitted: read::time("submitted", message.submitted)?,
            expected: read::required("expected", AN_ESTIMATE, message.expected)?,
            procs: read::procs("procs", message.procs)?,
            walltime: read::scaled_walltime("walltime_s", message.walltime_s)?,
            started: read::optional_time("started", message.started)?,
            ended: read::optional_time("ended", message.ended)?,
            exit: read::optional("exit", message.exit)?,
            compared: read::list("compared", message.compared, bounds::COMPARED_MAX, Compared::try_from)?,
            survey: read::optional("survey", message.survey)?.unwrap_or_default(),
            pinned: message.pinned,
            hops: read::list("hops", message.hops, bounds::HOPS_MAX, Hop::try_from)?,
            taught: message.taught_ms.map(|taught| read::span_ms("taught_ms", taught)).transpose()?,
            ran: message.ran_ms.map(|ran| read::span_ms("ran_ms", ran)).transpose()?,
            size_choice: read::optional("size_choice", message.size_choice)?,
        })
    }
}

impl From<&SizeChoice> for proto::SizeChoice {
    fn from(choice: &SizeChoice) -> proto::SizeChoice {
        proto::SizeChoice { earliest: Some((&choice.earliest).into()), other_jobs: choice.other_jobs }
    }
}

impl TryFrom<proto::SizeChoice> for SizeChoice {
    type Error = Malformed;
    fn try_from(message: proto::SizeChoice) -> Result<SizeChoice, Malformed> {
        let earliest = read::required("earliest", AN_ESTIMATE, message.earliest)?;
        Ok(SizeChoice { earliest, other_jobs: message.other_jobs })
    }
}

/// A question about one job.
pub fn job_request(handle: &Handle) -> proto::JobRequest {
    proto::JobRequest { handle: handle.to_string() }
}

/// The job that is asked about: [`proto::JobRequest`] and [`proto::FindJobRequest`] say nothing else.
///
/// # Errors
///
/// [`Malformed`] in `handle`.
pub fn handle_of(handle: &str) -> Result<Handle, Malformed> {
    read::handle("handle", handle)
}
