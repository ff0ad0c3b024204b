//! OAR: submits, withdraws, ends and lists jobs through its own commands.
//!
//! Every command is a list of words, runs within a deadline, and answers one question for all jobs: there is one
//! oarstat per listing and never one for each job. It prints JSON; what it means is checked when it is read.
//!
//! Facts of OAR 2.5 that shape this:
//! - Its commands write their requests into a database and notify the server (Almighty). The server does one
//!   thing at a time: it plans, or treats such requests, never both. So a job that a listing shows *held* does not start
//!   before it is resumed; one that waits may start while a request is on its way.
//! - `oardel` has no state filter, and ends a job that has started meanwhile. So a job is withdrawn in steps: it is held,
//!   and it is waited until a listing says that it is ([`Oar::prevent_start`]); then the folder of the job at this server
//!   is removed, which fails if a supervisor has claimed it; only then it is deleted ([`Oar::delete`]), and it is waited
//!   until a listing says that it is over. Should it be resumed in between, what starts finds no folder, and runs nothing:
//!   the claim decides, not OAR's state, which others may change.
//! - A request that was not answered may have been carried out. A submission is found again by its tag
//!   ([`Oar::submit_unless_there`]).
//! - When a node does not answer, OAR ends the job and submits a copy of it, with the same name and another id. The claim
//!   in the folder lets one of them run; while OAR has not decided yet, the job counts as waiting.
//! - A job may be submitted in several sizes. OAR takes the one that would end first, and says which by the walltime of
//!   its plan, and by the resources of the job when it runs.
//! - It takes no jobs of root's.
//!
//! Cost: a command takes 0.15 s to 0.3 s; OAR asks its database several questions for each job of a listing.

#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod any_text;
mod call;
mod error;
mod hierarchy;
mod jobs;
mod number;
mod requested;
mod resources;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use pliant_control::listing::{CountedResources, DefaultMemory, ListedJob, Listing, Phase, State};
use pliant_control::names::Name;
use pliant_model::{Mebibytes, Time};

pub use settings::{NodeProperties, Settings};

use crate::batch_system::commands::{Call, CommandRunner};
use crate::batch_system::error::{BatchSystemError, System, Unreadable};
use crate::batch_system::search::JointSearch;
use crate::batch_system::submitter::{Submitter, Submitters};
use crate::batch_system::{ListedJobs, PrintedJobs, StartPrevention, Submission};
use resources::Resources;

/// An OAR cluster.
#[derive(Debug)]
pub struct Oar {
    settings: Settings,
    runner: CommandRunner,
    submitter: Submitter<String>,
    /// The resources, and when they were listed.
    resources: Mutex<Option<(Instant, Resources)>>,
    /// Jobs that may have been submitted before.
    searches: JointSearch,
}

/// How long ours stay in listings after their end, in seconds.
const REMEMBERED_S: i64 = 3600;
/// What is expected of what its commands print.
const EXPECTED: &str = "what oar 2.5 prints";
/// Names or ids in one command: more would make its arguments too long.
const NAMES_MAX: usize = 500;
/// Between two looks whether OAR's server has done what it was asked.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

impl Oar {
    /// Looks who we are to OAR. `server` is the name that goes into the tags.
    ///
    /// # Errors
    /// OAR does not answer. The settings are not checked: see [`Settings::check`].
    pub async fn connect(settings: Settings, server: &Name) -> Result<Oar, BatchSystemError> {
        Oar::connect_as(settings, server, Submitters::default()).await
    }

    /// The same for a server that submits jobs as the accounts of their users.
    ///
    /// # Errors
    /// As for [`Oar::connect`].
    pub async fn connect_as(
        settings: Settings,
        server: &Name,
        accounts: Submitters,
    ) -> Result<Oar, BatchSystemError> {
        let user = match &settings.user {
            Some(user) => user.clone(),
            None => user_name().await?,
        };
        let (runner, submitter) =
            (runner(&settings), Submitter { prefix: format!("pliant:{server}:"), user, accounts });
        let oar = Oar {
            settings,
            runner,
            submitter,
            resources: Mutex::default(),
            searches: JointSearch::default(),
        };
        oar.resources(Duration::ZERO).await?;
        Ok(oar)
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Submits a job that was certainly not submitted before, and gives its id.
    ///
    /// # Errors
    /// Where [`BatchSystemError::leaves_open`] there may be, or come to be, a job: ask again with
    /// [`Oar::submit_unless_there`]. After any other error there is none.
    pub async fn submit(&self, job: &Submission<'_>) -> Result<String, BatchSystemError> {
        let cluster = self.resources(Duration::MAX).await?;
        let resources = hierarchy::request(job.shape, job.resources, &cluster).ok_or_else(|| {
            let needed = job.resources.map_or_else(String::new, ToString::to_string);
            let why = format!("no number of equal nodes has {} processors with {needed}", job.shape.cores);
            BatchSystemError::Refused { system: System::Oar, command: "oarsub", why }
        })?;
        let call = call::submit(&self.settings, &self.submitter.tag(job.number), job, &resources);
        let printed = self.run(&self.as_its_account(job.number, call)).await?;
        let id = printed.lines().find_map(|line| line.trim().strip_prefix("OAR_JOB_ID="));
        match id.filter(|id| is_id(id)) {
            Some(id) => Ok(id.to_owned()),
            None => Err(Unreadable::new("oarsub", "its answer", "OAR_JOB_ID", &printed).into()),
        }
    }

    /// Submits a job that may have been submitted before: looks for its tag first, also among jobs that are over, in one
    /// listing for all that are looked for at the time. Gives the ids of what there is, the last one last.
    ///
    /// # Errors
    /// As for [`Oar::submit`].
    pub async fn submit_unless_there(&self, job: &Submission<'_>) -> Result<Vec<String>, BatchSystemError> {
        let search = async |numbers: &[u32]| self.find_by_tag(numbers).await;
        let failed = |why| System::Oar.no_answer("oarstat", why);
        let mut found = self.searches.find(job.number, search, failed).await?;
        if found.is_empty() {
            return Ok(vec![self.submit(job).await?]);
        }
        found.sort_by_key(|job| (job.id.len(), job.id.clone()));
        Ok(found.into_iter().map(|job| job.id).collect())
    }

    /// The jobs that carry the tags of these numbers, waiting, running or over. OAR never forgets any.
    ///
    /// # Errors
    /// OAR does not answer, or not as expected.
    pub async fn find_by_tag(&self, numbers: &[u32]) -> Result<Vec<ListedJob>, BatchSystemError> {
        let mut found = Vec::new();
        let tags: Vec<String> = numbers.iter().map(|&number| self.submitter.tag(number)).collect();
        for tags in tags.chunks(NAMES_MAX) {
            let jobs = self.jobs(&call::jobs(&call::named(tags))).await?.jobs;
            found.extend(jobs.into_iter().filter(|job| job.job_number.is_some()));
        }
        Ok(found)
    }

    /// Sees to it that a job does not start any more; one that has started is left alone. Asked again after an error or a
    /// crash, it goes on where it was.
    ///
    /// # Errors
    /// Where [`BatchSystemError::may_pass`], the job may be held, or be held later. Ask again.
    pub async fn prevent_start(&self, number: u32, id: &str) -> Result<StartPrevention, BatchSystemError> {
        let begin = Instant::now();
        let mut asked = false;
        loop {
            let Some(job) = self.status_of(number, id).await? else { return Ok(StartPrevention::Unknown) };
            match job.phase() {
                _ if job.ever_started() => return Ok(StartPrevention::Started(Box::new(job))),
                Phase::Ended => return Ok(StartPrevention::Prevented),
                _ if job.state == State::Held => return Ok(StartPrevention::Prevented),
                _ if !asked => {
                    // Refused of a job that waits no more: the next look says so.
                    match self.run(&self.as_its_account(number, call::hold(id))).await {
                        Ok(_) | Err(BatchSystemError::Refused { .. }) => asked = true,
                        Err(error) => return Err(error),
                    }
                }
                _ if begin.elapsed() > self.runner.deadline => {
                    return Err(undone("oarhold", &job, self.runner.deadline));
                }
                _ => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }

    /// Deletes a job that was held back and that has nothing to run any more, and waits until OAR says that it is over.
    ///
    /// # Errors
    /// Where [`BatchSystemError::may_pass`], it may be deleted later. Ask again.
    pub async fn delete(&self, number: u32, id: &str) -> Result<(), BatchSystemError> {
        let begin = Instant::now();
        let mut asked = false;
        loop {
            match self.status_of(number, id).await? {
                None => return Ok(()),
                Some(job) if job.phase() == Phase::Ended => return Ok(()),
                Some(_) if !asked => {
                    self.terminate(number, id).await?;
                    asked = true;
                }
                Some(job) if begin.elapsed() > self.runner.deadline => {
                    return Err(undone("oardel", &job, self.runner.deadline));
                }
                Some(_) => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }

    /// Lets a job start that was submitted held, and waits until it may. Done again, or to a job that has started, it
    /// changes nothing.
    ///
    /// # Errors
    /// [`BatchSystemError::UnknownJob`]; where [`BatchSystemError::may_pass`], it may be resumed later.
    pub async fn release(&self, number: u32, id: &str) -> Result<(), BatchSystemError> {
        let begin = Instant::now();
        let mut asked = None;
        loop {
            let Some(job) = self.status_of(number, id).await? else {
                return Err(System::Oar.unknown_job(id));
            };
            match (&job.state, asked) {
                (State::Held, None) => {
                    asked = Some(self.run(&self.as_its_account(number, call::resume(id))).await.map(drop))
                }
                // Refused since an earlier request was worked off late, it is held no more.
                (State::Held, Some(Err(error))) => return Err(error),
                (State::Held, Some(Ok(()))) if begin.elapsed() > self.runner.deadline => {
                    return Err(undone("oarresume", &job, self.runner.deadline));
                }
                (State::Held, Some(Ok(()))) => {
                    tokio::time::sleep(POLL_INTERVAL).await;
                    asked = Some(Ok(()));
                }
                _ => return Ok(()),
            }
        }
    }

    /// Ends a job, whether it runs or waits. OAR gives it no time. A later listing shows how it ended.
    ///
    /// # Errors
    /// OAR does not answer. That a job is unknown or over is no error.
    pub async fn terminate(&self, number: u32, id: &str) -> Result<(), BatchSystemError> {
        match self.status_of(number, id).await? {
            Some(job) if job.phase() != Phase::Ended => {
                match self.run(&self.as_its_account(number, call::delete(id))).await {
                    // It was asked before, or is over by now.
                    Ok(_) | Err(BatchSystemError::Refused { .. }) => Ok(()),
                    Err(error) => Err(error),
                }
            }
            _ => Ok(()),
        }
    }

    /// Lists all jobs, and the nodes as of at most `nodes_every_s` ago. `now` is noted in the listing.
    ///
    /// # Errors
    /// OAR does not answer, or not as expected.
    pub async fn list(&self, now: Time) -> Result<ListedJobs, BatchSystemError> {
        let every = Duration::from_secs(self.settings.nodes_every_s.into());
        let Resources { nodes, licences, unread: not_understood, .. } = self.resources(every).await?;
        let condition = call::present(&self.submitter.prefix, now.0.saturating_sub(REMEMBERED_S));
        let PrintedJobs { jobs, mut unread } = self.jobs(&call::jobs(&condition)).await?;
        unread.extend(not_understood);
        let counted = CountedResources {
            memory: self.settings.node.memory.is_some(),
            // A job that asks for none may run on any node, as long as no other has it to itself.
            default_memory: match self.settings.node.memory {
                Some(_) => DefaultMemory::PerCore(Mebibytes::ZERO),
                None => DefaultMemory::default(),
            },
            licences,
        };
        Ok(ListedJobs { listing: Listing { counted, ..Listing::new(now, nodes, jobs) }, unread })
    }

    /// The outcomes of these jobs, by ID: of those that have ended.
    ///
    /// # Errors
    /// OAR does not answer.
    pub async fn ended(&self, ids: &[&str]) -> Result<BTreeMap<String, ListedJob>, BatchSystemError> {
        let mut ended = BTreeMap::new();
        let ids: BTreeSet<&str> = ids.iter().copied().filter(|id| is_id(id)).collect();
        for ids in ids.into_iter().collect::<Vec<_>>().chunks(NAMES_MAX) {
            let jobs = self.jobs(&call::jobs(&call::with_ids(ids))).await?.jobs;
            let over = jobs.into_iter().filter(|job| job.job_number.is_some() && job.phase() == Phase::Ended);
            ended.extend(over.map(|job| (job.id.clone(), job)));
        }
        Ok(ended)
    }

    /// A job as it stands; none if OAR knows no such id, or if that is another's.
    async fn status_of(&self, number: u32, id: &str) -> Result<Option<ListedJob>, BatchSystemError> {
        if !is_id(id) {
            return Ok(None);
        }
        let jobs = self.jobs(&call::jobs(&call::with_ids(&[id]))).await?.jobs;
        Ok(jobs.into_iter().find(|job| job.id == id && job.job_number == Some(number)))
    }

    /// A command about a job, as the account as which it is submitted.
    fn as_its_account(&self, number: u32, call: Call) -> Call {
        call.run_by(self.submitter.accounts.launcher(number))
    }

    /// Runs a command, and gives what it printed.
    async fn run(&self, call: &Call) -> Result<String, BatchSystemError> {
        self.runner.run(call, []).await.map(|printed| printed.stdout)
    }

    async fn jobs(&self, call: &Call) -> Result<PrintedJobs, BatchSystemError> {
        let resources = self.resources(Duration::MAX).await?;
        Ok(jobs::read(&self.run(call).await?, &self.submitter, &resources)?)
    }

    /// The resources as of at most `age` ago.
    async fn resources(&self, age: Duration) -> Result<Resources, BatchSystemError> {
        let known = self.resources.lock().clone();
        if let Some((at, resources)) = known
            && at.elapsed() < age
        {
            return Ok(resources);
        }
        let call = call::resources(&self.settings);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
        let resources = Resources::read(&self.run(&call).await?, Time(now), &self.settings)?;
        let read = Some((Instant::now(), resources.clone()));
        *self.resources.lock() = read;
        Ok(resources)
    }
}

fn runner(settings: &Settings) -> CommandRunner {
    CommandRunner::new(System::Oar, settings.commands.clone(), settings.deadline_s, error::failed)
}

/// What goes into a condition of SQL, and is an id.
fn is_id(text: &str) -> bool {
    !text.is_empty() && text.len() < 19 && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn undone(command: &'static str, job: &ListedJob, waited: Duration) -> BatchSystemError {
    let why = format!("job {} is still {:?} after {} s", job.id, job.state, waited.as_secs());
    System::Oar.no_answer(command, why)
}

/// The name of the user that this process runs as: OAR knows no numbers.
async fn user_name() -> Result<String, BatchSystemError> {
    let printed = runner(&Settings::default()).run(&Call::new("id", &["-un"]), []).await?;
    Ok(printed.stdout.trim().to_owned())
}
