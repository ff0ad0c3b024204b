//! What was submitted as a job, to show it and to submit it again.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use http::StatusCode;
use pliant_client::SubmitOrder;
use pliant_control::job::JobRecord;
use pliant_control::names::Handle;
use pliant_staging::{FileName, FileSpec};
use pliant_wire::{SubmittedJob, SubmittedWork};
use tempfile::TempDir;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::Json;
use super::calls::submitted_call;
use crate::extract::JobId;
use crate::problem::Problem;
use crate::state::{COPIES_MAX, Web};
use crate::types::{SubmittedView, SubmittedWorkView};

/// The most bytes of input files that go through this process for one submission. They are on its disk meanwhile.
const INPUT_BYTES_MAX: u64 = 256 << 20;
/// How many submissions of all users of this process send such files at a time.
const ALL_COPIES_MAX: usize = 8;
/// How long fetching such files may take, and sending them as a submission.
const COPY_TIME_MAX: Duration = Duration::from_secs(300);

static COPIES: Semaphore = Semaphore::const_new(ALL_COPIES_MAX);

/// What was submitted as a job, with the state of its input files; as long as the server keeps the folder of the job.
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
    let is_call = matches!(what, SubmittedWork::Call(_));
    let work = match what {
        SubmittedWork::Call(_) => submitted_call(&web, &handle).await,
        what => work(&web, what, &names),
    };
    let (work, why_not) = match work {
        Ok(work) => (Some(work), None),
        Err(problem) => (None, Some(problem.detail().to_owned())),
    };
    let server = pinned.then(|| record.server().to_string());
    let inputs = inputs.into_iter().map(Into::into).collect();
    Ok(Json(SubmittedView { work, why_not, is_call, server, inputs }))
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
        SubmittedWork::Call(_) | SubmittedWork::Batch(_) => {
            Err(Problem::unprocessable("a batch of instances has no form"))
        }
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
    _own: OwnedSemaphorePermit,
    _permit: SemaphorePermit<'static>,
}

impl EarlierInputs {
    /// Those of a job.
    pub(super) async fn of(web: &Web, job: &str) -> Result<EarlierInputs, Problem> {
        let handle = job.parse().map_err(|error| Problem::bad_request(format!("inputs_of: {error}")))?;
        let (record, SubmittedJob { inputs, .. }) = found(web, &handle).await?;
        Ok(EarlierInputs { record, files: inputs })
    }

    /// The same without those of these names.
    pub(super) fn without(mut self, names: &[FileName]) -> EarlierInputs {
        self.files.retain(|file| !names.contains(&file.name));
        self
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
        let (own, permit) = permits(&web.copies)?;
        let failed = |error: std::io::Error| {
            let problem = format!("no folder for the input files: {error}");
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, problem)
        };
        let folder = tempfile::tempdir().map_err(failed)?;
        let client = web.follower.client();
        let fetched = timeout(COPY_TIME_MAX, client.fetch_inputs(&self.record, &self.files, folder.path()));
        let fetched = fetched.await.map_err(|_| {
            let most = COPY_TIME_MAX.as_secs();
            Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("the input files did not arrive within {most} s"),
            )
            .hint(format!("pliant resubmit {}", self.record.handle))
        })??;
        order.inputs.extend(fetched);
        order.timeout = order.timeout.min(COPY_TIME_MAX);
        Ok(Some(Copies { _folder: folder, _own: own, _permit: permit }))
    }
}

/// The permits of a submission that sends files: one of its user, and one of all users.
fn permits(of_user: &Arc<Semaphore>) -> Result<(OwnedSemaphorePermit, SemaphorePermit<'static>), Problem> {
    let busy = |whose: &str, most: usize| {
        let problem =
            format!("{most} submissions{whose} with input files are being sent, which is the limit");
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, problem).hint("submit again in a moment")
    };
    let own = Arc::clone(of_user).try_acquire_owned().map_err(|_| busy(" of yours", COPIES_MAX))?;
    let all = COPIES.try_acquire().map_err(|_| busy("", ALL_COPIES_MAX))?;
    Ok((own, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_does_not_take_the_permits_of_others() {
        let [alice, bob] = [(); 2].map(|()| Arc::new(Semaphore::new(COPIES_MAX)));
        let taken: Vec<_> = (0..COPIES_MAX).map(|_| permits(&alice).unwrap()).collect();
        let refused = permits(&alice).unwrap_err();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(refused.detail().contains("of yours"), "{}", refused.detail());
        assert!(permits(&bob).is_ok());
        drop(taken);
        assert!(permits(&alice).is_ok());
    }
}
