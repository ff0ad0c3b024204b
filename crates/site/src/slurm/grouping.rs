//! Jobs that are alike and are submitted at about the same time become the tasks of one array.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use pliant_control::listing::CoreLayout;
use pliant_model::{Resources, Span};
use tokio::sync::oneshot;

use super::Slurm;
use super::arrays::block;
use super::call::{self, ArraySubmission};
use crate::accounts::AccountName;
use crate::batch_system::Submission;
use crate::batch_system::error::{BatchSystemError, System};

/// How long others may join before an array is submitted.
const GATHERS: Duration = Duration::from_millis(100);

/// Jobs that wait to be submitted together.
#[derive(Default, Debug)]
pub(super) struct GroupedSubmissions(Mutex<Vec<Waiting>>);

/// The outcome: the job's id, or none if it is to be submitted alone.
type Outcome = Result<Option<String>, BatchSystemError>;

#[derive(Debug)]
struct Waiting {
    number: u32,
    alike: ArrayKey,
    done: oneshot::Sender<Outcome>,
}

/// What all tasks of an array have in common.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct ArrayKey {
    block: u32,
    /// The account as which they are submitted; none if that is the server's own user.
    account: Option<AccountName>,
    /// The beginning of their folders' names.
    folders: PathBuf,
    program: Vec<OsString>,
    cores: u32,
    nodes: Option<u32>,
    exclusive: bool,
    minutes: i64,
    /// What each needs besides cores.
    resources: Option<Resources>,
    partition: Option<String>,
}

impl ArrayKey {
    /// None if the job cannot be a task: the name of its folder does not end with its number.
    fn of(job: &Submission<'_>, account: Option<AccountName>) -> Option<ArrayKey> {
        let (folder, program) = job.program.split_last()?;
        let bytes = job.folder.as_os_str().as_bytes();
        let beginning = bytes.strip_suffix(job.number.to_string().as_bytes())?;
        // The number is all of the name, or stands behind a word.
        let is_its = Path::new(folder) == job.folder && matches!(beginning.last(), Some(b'/' | b'-'));
        (is_its && !job.held && job.nice == 0).then(|| ArrayKey {
            block: block(job.number),
            account,
            folders: OsStr::from_bytes(beginning).into(),
            program: program.to_vec(),
            cores: job.shape.cores,
            nodes: job.shape.nodes,
            exclusive: job.shape.exclusive,
            minutes: call::minutes(job.walltime),
            resources: job.resources.cloned(),
            partition: job.partition.map(str::to_owned),
        })
    }
}

impl Slurm {
    /// Submits a job that was certainly not submitted before, in an array with others like it that come at the same time,
    /// in whichever order, and gives its id.
    ///
    /// # Errors
    /// As for [`Slurm::submit`].
    pub async fn submit_joined(&self, job: &Submission<'_>) -> Result<String, BatchSystemError> {
        let account = self.submitter.accounts.account(job.number).map(|account| account.name);
        let alike = ArrayKey::of(job, account).filter(|_| self.about().takes_arrays());
        let Some(alike) = alike else { return self.submit(job).await };
        let (done, outcome) = oneshot::channel();
        let is_first = {
            let mut waiting = self.joined.0.lock();
            waiting.push(Waiting { number: job.number, alike, done });
            waiting.len() == 1
        };
        if is_first {
            tokio::time::sleep(GATHERS).await;
            let waiting = std::mem::take(&mut *self.joined.0.lock());
            self.submit_together(waiting).await;
        }
        // The task that was to submit them has gone: before it did or after.
        let gone = || System::Slurm.no_answer("sbatch", "it was given up");
        match outcome.await.unwrap_or_else(|_| Err(gone()))? {
            Some(id) => Ok(id),
            None => self.submit(job).await,
        }
    }

    async fn submit_together(&self, waiting: Vec<Waiting>) {
        let mut arrays: BTreeMap<ArrayKey, Vec<(u32, oneshot::Sender<Outcome>)>> = BTreeMap::new();
        for Waiting { number, alike, done } in waiting {
            arrays.entry(alike).or_default().push((number, done));
        }
        for (alike, mut tasks) in arrays {
            tasks.sort_by_key(|(number, _)| *number);
            let numbers: Vec<u32> = tasks.iter().map(|(number, _)| *number).collect();
            let ArrayKey { folders, program, cores, nodes, exclusive, minutes, resources, partition, .. } =
                &alike;
            let jobs = ArraySubmission {
                numbers: &numbers,
                folders,
                program,
                shape: CoreLayout { cores: *cores, nodes: *nodes, exclusive: *exclusive },
                resources: resources.as_ref(),
                partition: partition.as_deref(),
                walltime: Span(minutes.saturating_mul(60)),
            };
            let submitted = match numbers.len() {
                1 => Ok(Vec::new()),
                _ => self.submit_array(&jobs).await,
            };
            let ids = match submitted {
                Ok(ids) => ids,
                Err(error) if error.leaves_open() => {
                    // There may be an array all the same: each task is looked for by its tag.
                    for (_, done) in tasks {
                        let why = format!("for an array: {error}");
                        let _ = done.send(Err(System::Slurm.no_answer("sbatch", why)));
                    }
                    continue;
                }
                Err(error) => {
                    tracing::warn!(jobs = numbers.len(), %error, "not queued as an array: submitted one by one");
                    Vec::new()
                }
            };
            let mut ids = ids.into_iter();
            for (_, done) in tasks {
                // A caller that has gone finds it by its tag.
                let _ = done.send(Ok(ids.next()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_different_accounts_are_in_no_array_together() {
        let key = |account: Option<&str>, number: u32| {
            let folder = PathBuf::from(format!("/spool/lyon-job-{number}"));
            let program = ["/usr/bin/pliant".into(), "run-job".into(), folder.clone().into_os_string()];
            let shape = CoreLayout { cores: 1, ..CoreLayout::default() };
            let job = Submission::new(number, &folder, &program, shape, Span(60));
            ArrayKey::of(&job, account.map(|name| name.parse().unwrap()))
        };
        let of_alice = key(Some("alice"), 7).unwrap();
        assert_eq!(Some(&of_alice), key(Some("alice"), 8).as_ref());
        assert_ne!(Some(&of_alice), key(Some("bob"), 8).as_ref());
        assert_ne!(Some(&of_alice), key(None, 8).as_ref(), "nor with those of the server's own user");
    }
}
