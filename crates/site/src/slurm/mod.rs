//! Slurm: submits, withdraws, ends and lists jobs through its own commands.
//!
//! Every command is a list of words, runs within a deadline, and answers one question for all jobs: there is one
//! squeue per listing and never one for each job. What Slurm prints is asked for in formats that no job's name can
//! break (`queue.rs`), with instants as seconds, and checked when it is read.
//!
//! Facts of Slurm 22.05 that shape this:
//! - `scancel` succeeds whatever becomes of it, and looks at a job's state before it sends its request: a job that
//!   starts between the two is killed. So a job is withdrawn in steps ([`Slurm::prevent_start`]): held, which the
//!   controller does in one step with regard to its scheduler; looked at; cancelled if it waits; looked at again.
//! - A controller that hangs works off later what it was sent: a submission without an answer may still become a
//!   job. It is found again by its tag ([`Slurm::submit_unless_there`]).
//! - A controller that is killed forgets what it took in during the last seconds: that a job started, or that there
//!   is one, although it had given it an id. The id may then be given to another job. So whatever is done to a job is
//!   done to its id *and* its tag, and a job that vanished is looked up in its folder.
//! - The tasks of an array that wait are one record of squeue, whatever differs between them; asked for one of them it
//!   applies to that task alone. So a listing does not show that a single task of ours is held.
//! - A job's plan is in squeue; `sbatch --test-only` is not it.
//!
//! Cost, measured with 1000 jobs: a listing 20 ms, any other command 4 ms.

mod accounts;
mod amounts;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod any_text;
mod arrays;
mod call;
mod configuration;
mod ended;
mod error;
mod grouping;
mod hostlist;
mod listing;
mod mark;
mod nodes;
mod preemption;
mod queue;
mod requests;
mod reservations;
mod resource_options;
mod settings;
mod states;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::time::Instant;

use parking_lot::Mutex;
use pliant_control::listing::{CoreLayout, ListedJob, Phase, State};
use pliant_control::names::Name;
use pliant_model::{Span, Time};

pub use arrays::block;
pub use call::ArraySubmission;
pub use configuration::{ClusterConfiguration, Scheduler};
pub use settings::Settings;

use crate::accounts::own_user;
use crate::batch_system::commands::{Call, CommandRunner, Printed};
use crate::batch_system::error::{BatchSystemError, System, Unreadable};
use crate::batch_system::search::JointSearch;
use crate::batch_system::submitter::{Submitter, Submitters};
use crate::batch_system::{PrintedJobs, StartPrevention, Submission};
use call::AccountsOf;
use grouping::GroupedSubmissions;
use mark::Mark;
use nodes::Nodes;

/// A Slurm cluster.
#[derive(Debug)]
pub struct Slurm {
    settings: Settings,
    runner: CommandRunner,
    submitter: Submitter<u32>,
    about: ClusterConfiguration,
    /// The server's user sees the jobs of all users.
    sees_all: bool,
    sees_reservations: bool,
    /// Those of the server's partitions whose jobs are stopped for jobs of other partitions, for operators.
    stopped_partitions: Vec<String>,
    /// Nodes, and when they were listed.
    nodes: Mutex<Option<(Instant, Nodes)>>,
    /// How running jobs are spread over their nodes, by job and start: that never changes.
    spreads: Mutex<BTreeMap<(String, Time), BTreeMap<String, nodes::Share>>>,
    /// Others' jobs that were over in the last listing; none before the first.
    over: Mutex<Option<BTreeSet<String>>>,
    /// Jobs that may have been submitted before.
    searches: JointSearch,
    /// Jobs that are submitted with others.
    joined: GroupedSubmissions,
}

/// Ids in one command: more would make its arguments too long.
const IDS_MAX: usize = 500;
/// How far back accounts are searched for a tag.
const SEARCH_DAYS: u32 = 30;

impl Slurm {
    /// Asks the controller of a cluster who it is. `server` is the name that goes into the tags.
    ///
    /// # Errors
    /// It does not answer, or not as expected. The settings are not checked: see [`Settings::check`].
    pub async fn connect(settings: Settings, server: &Name) -> Result<Slurm, BatchSystemError> {
        Slurm::connect_as(settings, server, Submitters::default()).await
    }

    /// The same for a server that submits jobs as the accounts of their users.
    ///
    /// # Errors
    /// As for [`Slurm::connect`]; or it hides the jobs of accounts from the server's user.
    pub async fn connect_as(
        settings: Settings,
        server: &Name,
        accounts: Submitters,
    ) -> Result<Slurm, BatchSystemError> {
        let runner =
            CommandRunner::new(System::Slurm, settings.commands.clone(), settings.deadline_s, error::failed);
        let configuration = call::configuration();
        let about = ClusterConfiguration::read(
            &runner.run(&configuration, variables(&settings, &configuration)).await?.stdout,
        )?;
        let user = rustix::process::geteuid().as_raw();
        let submitter = Submitter { prefix: format!("pliant:{server}:"), user, accounts };
        let mut slurm = Slurm {
            settings,
            runner,
            submitter,
            about,
            sees_all: true,
            sees_reservations: true,
            stopped_partitions: Vec::new(),
            nodes: Mutex::default(),
            spreads: Mutex::default(),
            over: Mutex::default(),
            searches: JointSearch::default(),
            joined: GroupedSubmissions::default(),
        };
        let (jobs, reservations) = (slurm.about.hides_jobs(), slurm.about.hides_reservations());
        if jobs || reservations {
            let is_privileged = slurm.is_privileged().await?;
            slurm.sees_all = is_privileged || !jobs;
            slurm.sees_reservations = is_privileged || !reservations;
        }
        if slurm.about.preempts_by_partition() {
            let partitions = preemption::read(&slurm.run(&call::partitions()).await?.stdout)?;
            slurm.stopped_partitions = preemption::stopped(&partitions, &slurm.settings);
        }
        if !slurm.sees_all && slurm.submitter.accounts.has_accounts() {
            return Err(BatchSystemError::Hidden(format!(
                "slurm hides the jobs of accounts from the server's user {own} (PrivateData={}): make it an operator (`sacctmgr modify \
                 user {own} set adminlevel=operator`)",
                slurm.about.private.join(","),
                own = own_user()
            )));
        }
        Ok(slurm)
    }

    /// Whether the server's user sees what Slurm hides from others: root, Slurm's own user, and operators do.
    async fn is_privileged(&self) -> Result<bool, BatchSystemError> {
        let own = own_user();
        if self.submitter.user == 0 || own == self.about.slurm_user {
            return Ok(true);
        }
        if !self.about.accounts {
            return Ok(false);
        }
        let level = self.run(&call::level_of(&own)).await?.stdout;
        Ok(matches!(level.trim(), "Operator" | "Administrator"))
    }

    /// Whether the server's user sees the jobs of all users.
    pub fn sees_all(&self) -> bool {
        self.sees_all
    }

    /// Whether the server's user sees reservations.
    pub fn sees_reservations(&self) -> bool {
        self.sees_reservations
    }

    /// How jobs of the server may be stopped for others, as of [`Slurm::connect`]; none if they are not.
    pub fn preemption(&self) -> Option<String> {
        let configured = self.about.preemption.as_ref()?;
        match (self.about.preempts_by_partition(), self.stopped_partitions.is_empty()) {
            (true, true) => None,
            (true, false) => Some(format!("{configured}, partitions {}", self.stopped_partitions.join(", "))),
            (false, _) => Some(configured.clone()),
        }
    }

    /// What it was connected with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What the cluster is configured to do, as of [`Slurm::connect`].
    pub fn about(&self) -> &ClusterConfiguration {
        &self.about
    }

    /// The tag of a job, which it carries as its name and its comment.
    pub fn tag(&self, number: u32) -> String {
        self.submitter.tag(number)
    }

    /// Submits a job that was certainly not submitted before, and gives its id.
    ///
    /// # Errors
    /// [`BatchSystemError::NoAnswer`] and [`BatchSystemError::Unreadable`] leave it open whether there is, or will be, a job: ask
    /// again with [`Slurm::submit_unless_there`]. After any other error there is none.
    pub async fn submit(&self, job: &Submission<'_>) -> Result<String, BatchSystemError> {
        let node_cores = self.node_cores(job.resources, job.partition).await?;
        let call = call::submit(&self.settings, &self.tag(job.number), job, node_cores);
        self.submitted(&self.as_its_account(job.number, call)).await
    }

    /// Submits several jobs that were certainly not submitted before, as the tasks of one array, and gives their ids.
    /// Only where [`ClusterConfiguration::takes_arrays`]. All are of one account.
    ///
    /// # Errors
    /// As for [`Slurm::submit`], for all of them.
    pub async fn submit_array(&self, jobs: &ArraySubmission<'_>) -> Result<Vec<String>, BatchSystemError> {
        let first = jobs.numbers.first().copied().unwrap_or(0);
        let node_cores = self.node_cores(jobs.resources, jobs.partition).await?;
        let call = call::submit_array(&self.settings, &self.submitter.array_tag(first), jobs, node_cores);
        let id = self.submitted(&self.as_its_account(first, call)).await?;
        Ok(jobs.numbers.iter().map(|number| format!("{id}_{}", number - block(*number))).collect())
    }

    async fn submitted(&self, call: &Call) -> Result<String, BatchSystemError> {
        let printed = self.run(call).await?;
        // With a cluster's name behind it in a federation of Slurm's own.
        let id = printed.stdout.trim().split(';').next().unwrap_or_default();
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Unreadable::new("sbatch", "its answer", "a job's id", &printed.stdout).into());
        }
        Ok(id.to_owned())
    }

    /// Submits a job that may have been submitted before: looks for its tag first, also among jobs that are over, in one
    /// listing for all that are looked for at the time. Gives the ids of what there is; more than one if an earlier
    /// submission was carried out twice. Of those at most
    /// one runs the job, since the supervisor claims its folder; the others are to be withdrawn.
    ///
    /// # Errors
    /// As for [`Slurm::submit`].
    pub async fn submit_unless_there(&self, job: &Submission<'_>) -> Result<Vec<String>, BatchSystemError> {
        // Whatever is said to the question, it says nothing of the job.
        let search = async |numbers: &[u32]| self.find_by_tag(numbers).await;
        let failed = |why| System::Slurm.no_answer("squeue", why);
        let found =
            self.searches.find(job.number, search, failed).await.map_err(BatchSystemError::left_open)?;
        if found.is_empty() {
            return Ok(vec![self.submit(job).await?]);
        }
        Ok(found.into_iter().map(|job| job.id).collect())
    }

    /// The jobs that carry the tags of these numbers: in the queue, over but still remembered, and, where there are
    /// accounts, over in those of the last days. What waits or runs the controller alone knows: the accounts go on with
    /// jobs that it has forgotten.
    ///
    /// # Errors
    /// The controller, or the accounts, do not answer, or not as expected.
    pub async fn find_by_tag(&self, numbers: &[u32]) -> Result<Vec<ListedJob>, BatchSystemError> {
        let wanted: BTreeSet<u32> = numbers.iter().copied().collect();
        let is_wanted = |job: &ListedJob| job.job_number.is_some_and(|number| wanted.contains(&number));
        let mut found = self.queue(None).await?.jobs;
        found.retain(is_wanted);
        if self.about.accounts {
            let tag = |&number: &u32| [self.tag(number), self.submitter.array_tag(number)];
            let tags: BTreeSet<String> = wanted.iter().flat_map(tag).collect();
            let tags: Vec<String> = tags.into_iter().collect();
            for tags in tags.chunks(IDS_MAX) {
                let accounted = self.accounts(&AccountsOf::Names(tags.join(","), SEARCH_DAYS)).await?;
                let listed: BTreeSet<String> = found.iter().map(|job| job.id.clone()).collect();
                let is_further = |job: &ListedJob| job.phase() == Phase::Ended && !listed.contains(&job.id);
                found.extend(accounted.into_iter().filter(is_further).filter(is_wanted));
            }
        }
        Ok(found)
    }

    /// Withdraws a job if it waits; one that has started is left alone. Asked again after an error or a crash, it goes
    /// on where it was.
    ///
    /// # Errors
    /// [`BatchSystemError::NoAnswer`] leaves it open; the job may be held then. Ask again.
    pub async fn prevent_start(&self, number: u32, id: &str) -> Result<StartPrevention, BatchSystemError> {
        match self.status_of(number, id).await? {
            None => return Ok(StartPrevention::Unknown),
            Some(job) if job.state == State::Held && job.wait_reason.is_some() => {
                return Ok(StartPrevention::HeldByAdministrator);
            }
            Some(_) => {}
        }
        match self.run(&self.as_its_account(number, call::hold(id))).await {
            // That one is over does not say whether it ever ran.
            Ok(_) | Err(BatchSystemError::NotWaiting { .. }) => {}
            Err(BatchSystemError::UnknownJob { .. }) => return Ok(StartPrevention::Unknown),
            Err(error) => return Err(error),
        }
        // From here on it does not start: a job that waits is held.
        let Some(job) = self.status_of(number, id).await? else { return Ok(StartPrevention::Unknown) };
        match job.phase() {
            Phase::Waiting => self.cancel(&self.as_its_account(number, call::cancel_waiting(id))).await?,
            Phase::Running => {
                // It was held in vain, which only would matter if it were requeued.
                let _ = self.run(&self.as_its_account(number, call::release(id))).await;
            }
            Phase::Ended => {}
        }
        let job = match job.phase() {
            Phase::Waiting => self.status_of(number, id).await?,
            Phase::Running | Phase::Ended => Some(job),
        };
        Ok(match job {
            None => StartPrevention::Unknown,
            Some(job) if job.ever_started() => StartPrevention::Started(Box::new(job)),
            Some(job) if job.phase() == Phase::Ended => StartPrevention::Prevented,
            Some(job) => {
                let why = format!("job {id} still waits ({:?}) after it was cancelled", job.state);
                return Err(System::Slurm.no_answer("scancel", why));
            }
        })
    }

    /// Lets a job start that was submitted held. Done again, or to a job that has started, it changes nothing.
    ///
    /// # Errors
    /// [`BatchSystemError::UnknownJob`]; [`BatchSystemError::NotWaiting`] if it is over already.
    pub async fn release(&self, number: u32, id: &str) -> Result<(), BatchSystemError> {
        self.check_known(number, id).await?;
        self.run(&self.as_its_account(number, call::release(id))).await.map(drop)
    }

    /// Gives a waiting job another shape and walltime, wholly or not at all. It keeps its position in the queue.
    ///
    /// # Errors
    /// [`BatchSystemError::NotWaiting`] if it has started meanwhile; [`BatchSystemError::Refused`] if the cluster does not allow it.
    pub async fn reshape(
        &self,
        number: u32,
        id: &str,
        shape: CoreLayout,
        walltime: Span,
    ) -> Result<(), BatchSystemError> {
        self.check_known(number, id).await?;
        self.run(&self.as_its_account(number, call::reshape(id, shape, walltime))).await.map(drop)
    }

    /// Ends a job, whether it runs or waits: a polite signal, after the cluster's KillWait an impolite one. A later
    /// listing shows how it ended.
    ///
    /// # Errors
    /// The controller does not answer. That a job is unknown or over is no error.
    pub async fn terminate(&self, number: u32, id: &str) -> Result<(), BatchSystemError> {
        let Some(job) = self.status_of(number, id).await? else { return Ok(()) };
        if job.phase() == Phase::Waiting && arrays::is_task(id) {
            // Cancelled among those that wait, a task is gone without a trace. Held, it is a job of its own. If it has
            // started meanwhile, or cannot be held, it is ended all the same.
            let _ = self.run(&self.as_its_account(number, call::hold(id))).await;
        }
        self.cancel(&self.as_its_account(number, call::cancel(id))).await
    }

    /// A command about a job, as the account as which it is submitted.
    fn as_its_account(&self, number: u32, call: Call) -> Call {
        call.run_by(self.submitter.accounts.launcher(number))
    }

    async fn run(&self, call: &Call) -> Result<Printed, BatchSystemError> {
        self.runner.run(call, variables(&self.settings, call)).await
    }

    /// A job as squeue has it; none if it knows no such id, or if that is another job by now.
    async fn status_of(&self, number: u32, id: &str) -> Result<Option<ListedJob>, BatchSystemError> {
        match self.queue(Some(id)).await {
            Err(BatchSystemError::UnknownJob { .. }) => Ok(None),
            queue => Ok(queue?.jobs.into_iter().find(|job| job.id == id && job.job_number == Some(number))),
        }
    }

    async fn check_known(&self, number: u32, id: &str) -> Result<(), BatchSystemError> {
        let found = self.status_of(number, id).await?;
        found.map(drop).ok_or_else(|| System::Slurm.unknown_job(id))
    }

    async fn queue(&self, id: Option<&str>) -> Result<PrintedJobs, BatchSystemError> {
        let mark = Mark::draw();
        let format = queue::format(&mark);
        let call = id.map_or_else(|| call::jobs(&format), |id| call::job(id, &format));
        Ok(queue::read(&self.run(&call).await?.stdout, &mark, &self.submitter)?)
    }

    /// Scancel always succeeds; only its error messages show that the controller did not answer.
    async fn cancel(&self, call: &Call) -> Result<(), BatchSystemError> {
        let Printed { stderr, .. } = match self.run(call).await {
            Err(BatchSystemError::UnknownJob { .. } | BatchSystemError::NotWaiting { .. }) => return Ok(()),
            printed => printed?,
        };
        match error::failed(call, 0, &stderr) {
            error @ BatchSystemError::NoAnswer { .. } => Err(error),
            _ => Ok(()),
        }
    }
}

/// The variables of a command.
fn variables(settings: &Settings, call: &Call) -> Vec<(&'static str, OsString)> {
    let mut variables = Vec::new();
    if let Some(conf) = &settings.conf {
        variables.push(("SLURM_CONF", conf.into()));
    }
    if call.command != "sbatch" {
        // Instants as seconds since the epoch, arrays with all of their tasks. Not for jobs, which would inherit it.
        variables.extend([
            ("TZ", "UTC".into()),
            ("SLURM_TIME_FORMAT", "%s".into()),
            ("SLURM_BITSTR_LEN", "0".into()),
        ]);
    }
    variables.extend(call.variable.clone());
    variables
}
