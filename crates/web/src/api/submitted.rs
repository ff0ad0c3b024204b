//! What was submitted as a job, to show it and to submit it again.

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use pliant_client::SubmitOrder;
use pliant_control::job::JobRecord;
use pliant_control::names::Handle;
use pliant_staging::{FileName, FileSpec};
use pliant_wire::{SubmittedJob, SubmittedWork};
use tempfile::TempDir;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::Json;
use crate::extract::JobId;
use crate::problem::Problem;
use crate::state::Web;
use crate::types::{SubmittedView, SubmittedWorkView};

/// The most bytes of input files that go through this process for one submission. They are on its disk meanwhile.
const INPUT_BYTES_MAX: u64 = 256 << 20;
/// How many submissions send such files at a time.
const COPIES_MAX: usize = 4;

static COPIES: Semaphore = Semaphore::const_new(COPIES_MAX);

/// What was submitted as a job, with what became of its input files; as long as the server keeps the folder of the job.
#[utoipa::path(get, path = "/jobs/{id}/submitted", tag = "jobs", params(("id" = String, Path, description = "The job ID.")),
    responses(
        (status = 200, body = SubmittedView),
        (status = 404, body = Problem, description = "There is no such job, it is another user's, or what was submitted is not kept."),
        (status = 422, body = Problem, description = "The job is a batch of a multi-job."),
        (status = 503, body = Problem, description = "The server of the job does not answer."),
    ))]
pub(super) async fn submitted(
    State(web): State<Arc<Web>>,
    JobId(handle): JobId,
) -> Result<Json<SubmittedView>, Problem> {
    let (record, job) = found(&web, &handle).await?;
    let SubmittedJob { what, inputs, pinned } = job;
    let names: Vec<FileName> = inputs.iter().map(|file| file.name.clone()).collect();
    let inputs = web.follower.client().submitted_inputs(&record, &inputs).await?;
    let (work, why_not) = match work(&web, what, &names) {
        Ok(work) => (Some(work), None),
        Err(problem) => (None, Some(problem.detail().to_owned())),
    };
    let server = pinned.then(|| record.server().to_string());
    Ok(Json(SubmittedView { work, why_not, server, inputs: inputs.into_iter().map(Into::into).collect() }))
}

async fn found(web: &Web, handle: &Handle) -> Result<(JobRecord, SubmittedJob), Problem> {
    let client = web.follower.client();
    let record = client.job(handle).await?;
    let job = client.submitted(handle).await?;
    Ok((record, job))
}

fn work(web: &Web, what: SubmittedWork, inputs: &[FileName]) -> Result<SubmittedWorkView, Problem> {
    match what {
        SubmittedWork::Service { name, arguments } => Ok(SubmittedWorkView::Service { name, arguments }),
        SubmittedWork::Script(script) => {
            let typed = web.scripts.write(&script, inputs)?;
            let (name, text) = (typed.name, typed.text);
            Ok(SubmittedWorkView::Script { name, text, options: typed.options, arguments: typed.arguments })
        }
        SubmittedWork::Batch(_) => Err(Problem::unprocessable("a batch of instances has no form")),
    }
}

/// The input files of an earlier job, for another one.
pub(super) struct EarlierInputs {
    record: JobRecord,
    files: Vec<FileSpec>,
}

/// Files that are on the disk until they are sent.
pub(super) struct Copies {
    _folder: TempDir,
    _permit: SemaphorePermit<'static>,
}

impl EarlierInputs {
    /// Those of a job.
    pub(super) async fn of(web: &Web, job: &str) -> Result<EarlierInputs, Problem> {
        let handle = job.parse().map_err(|error| Problem::bad_request(format!("inputs_of: {error}")))?;
        let (record, SubmittedJob { inputs, .. }) = found(web, &handle).await?;
        Ok(EarlierInputs { record, files: inputs })
    }

    /// Their names in the folder of the job.
    pub(super) fn names(&self) -> Vec<FileName> {
        self.files.iter().map(|file| file.name.clone()).collect()
    }

    /// Adds the files to an order. They are there as long as the result is.
    pub(super) async fn add_to(&self, web: &Web, order: &mut SubmitOrder) -> Result<Option<Copies>, Problem> {
        if self.files.is_empty() {
            return Ok(None);
        }
        let bytes = self.files.iter().fold(0u64, |sum, file| sum.saturating_add(file.size));
        if bytes > INPUT_BYTES_MAX {
            let job = &self.record.handle;
            let problem =
                format!("inputs_of: expected input files of at most {INPUT_BYTES_MAX} bytes, found {bytes}");
            return Err(Problem::unprocessable(problem).hint(format!("pliant resubmit {job}")));
        }
        let busy = || {
            let problem =
                format!("{COPIES_MAX} submissions with input files are being sent, which is the limit");
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, problem).hint("submit again in a moment")
        };
        let permit = COPIES.try_acquire().map_err(|_| busy())?;
        let failed = |error: std::io::Error| {
            let problem = format!("no folder for the input files: {error}");
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, problem)
        };
        let folder = tempfile::tempdir().map_err(failed)?;
        order.inputs = web.follower.client().fetch_inputs(&self.record, &self.files, folder.path()).await?;
        Ok(Some(Copies { _folder: folder, _permit: permit }))
    }
}
