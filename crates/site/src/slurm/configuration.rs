//! What a cluster is configured to do, as far as it matters for submissions and plans.

use pliant_control::listing::DefaultMemory;
use pliant_model::Span;
use serde::{Deserialize, Serialize};

use super::amounts::mebibytes;
use super::arrays::BLOCK;
use crate::batch_system::error::Unreadable;

/// A Slurm cluster, as its controller describes itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClusterConfiguration {
    /// Slurm's version: `22.05.8`.
    pub version: String,
    /// The name of the cluster.
    pub cluster: String,
    /// How its scheduler plans.
    pub scheduler: Scheduler,
    /// What is handed out: `select/cons_tres CR_CPU`.
    pub select: String,
    /// How priorities come about: `priority/basic` is the order of submission.
    pub priority: String,
    /// How long jobs that are over stay listed.
    pub min_job_age: Span,
    /// How long a job has between SIGTERM and SIGKILL.
    pub kill_wait: Span,
    /// Whether it keeps accounts that sacct reads.
    pub accounts: bool,
    /// How many tasks an array may have, by the highest index that is allowed (`MaxArraySize`); 0 if arrays are not.
    pub array_most: u32,
    /// What users may not see of each other. A server that does not see others' jobs cannot estimate.
    pub private: Vec<String>,
    /// The user of its controller.
    #[serde(default)]
    pub slurm_user: String,
    /// The memory of a job that does not mention memory, unless its partition says otherwise.
    #[serde(default)]
    pub default_memory: DefaultMemory,
    /// How it stops running jobs for others, `preempt/partition_prio REQUEUE`; none if it does not.
    #[serde(default)]
    pub preemption: Option<String>,
    /// Whether it has licences.
    #[serde(default)]
    pub has_licences: bool,
}

/// How Slurm's backfill scheduler plans: what of `SchedulerParameters` a mirror needs, with Slurm's defaults.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Scheduler {
    /// Whether it plans at all: `sched/backfill`.
    pub backfill: bool,
    /// Between two passes (`bf_interval`).
    pub interval: Span,
    /// How far ahead it plans (`bf_window`).
    pub window: Span,
    /// To what it rounds times (`bf_resolution`).
    pub resolution: Span,
    /// How many waiting jobs it looks at (`bf_max_job_test`).
    pub jobs_max: u32,
    /// The parameters as they are written.
    pub parameters: String,
}

impl ClusterConfiguration {
    /// Reads what `scontrol show config` printed.
    pub(super) fn read(printed: &str) -> Result<ClusterConfiguration, Unreadable> {
        let setting = |key: &str| {
            let lines = printed.lines().filter_map(|line| line.split_once('='));
            let mut found = lines.filter(|(name, _)| name.trim() == key).map(|(_, value)| value.trim());
            found.next().ok_or_else(|| Unreadable::new(COMMAND, key, "a setting", "nothing"))
        };
        let seconds = |key: &str| {
            let value = setting(key)?;
            let number = value.split(' ').next().and_then(|number| number.parse().ok());
            number.map(Span).ok_or_else(|| Unreadable::new(COMMAND, key, "seconds", value))
        };
        let number = |key: &str| {
            let value = setting(key)?;
            value.parse().map_err(|_| Unreadable::new(COMMAND, key, "a number", value))
        };
        let private = setting("PrivateData")?.split(',').filter(|word| *word != "none");
        Ok(ClusterConfiguration {
            version: setting("SLURM_VERSION")?.to_owned(),
            cluster: setting("ClusterName")?.to_owned(),
            scheduler: Scheduler::read(setting("SchedulerType")?, setting("SchedulerParameters")?)?,
            select: format!("{} {}", setting("SelectType")?, setting("SelectTypeParameters")?),
            priority: setting("PriorityType")?.to_owned(),
            min_job_age: seconds("MinJobAge")?,
            kill_wait: seconds("KillWait")?,
            accounts: setting("AccountingStorageType")?.ends_with("/slurmdbd"),
            array_most: number("MaxArraySize")?,
            private: private.map(str::to_owned).collect(),
            // `slurm(64030)`.
            default_memory: default_memory(setting("DefMemPerCPU"), setting("DefMemPerNode"))?,
            preemption: setting("PreemptType")
                .ok()
                .filter(|kind| *kind != "preempt/none")
                .map(|kind| format!("{kind} {}", setting("PreemptMode").unwrap_or_default())),
            has_licences: setting("Licenses")? != "(null)",
            slurm_user: setting("SlurmUser")?.split('(').next().unwrap_or_default().to_owned(),
        })
    }

    /// Whether jobs that are over may be gone from two listings in a row, each of which must have shown them: how they
    /// ended is then known from their folders alone. Accounts know them for longer.
    pub fn forgets_within(&self, period: Span) -> bool {
        !self.accounts && self.min_job_age < period + period
    }

    /// Whether partitions say whose jobs are stopped for others. Qualities of service, which say it otherwise, are not listed.
    pub(super) fn preempts_by_partition(&self) -> bool {
        self.preemption.as_ref().is_some_and(|kind| kind.starts_with("preempt/partition_prio"))
    }

    /// Whether memory is handed out: `CR_Core_Memory`.
    pub fn counts_memory(&self) -> bool {
        self.select.to_ascii_uppercase().contains("MEMORY")
    }

    /// Whether jobs can ask for GPUs in all, and for each task.
    pub fn counts_gpus(&self) -> bool {
        self.select.starts_with("select/cons_tres")
    }

    /// Whether its version is one whose documentation the commands and the formats follow: 21.08 to 24.11.
    pub fn is_documented(&self) -> bool {
        let mut numbers = self.version.split('.').map(str::parse::<u32>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(year)), Some(Ok(month))) => ((21, 8)..=(24, 11)).contains(&(year, month)),
            _ => false,
        }
    }

    /// Whether jobs can be submitted as the tasks of an array of Pliant's.
    pub fn takes_arrays(&self) -> bool {
        self.array_most >= BLOCK
    }

    /// Whether this server sees only its own jobs, and so does not know the jobs before them.
    pub fn hides_jobs(&self) -> bool {
        self.hides("jobs")
    }

    /// Whether this server sees no reservations, and so plans as if there were none.
    pub(super) fn hides_reservations(&self) -> bool {
        self.hides("reservations")
    }

    /// Whether it hides what plans need from all but operators.
    pub(crate) fn hides_any(&self) -> bool {
        self.hides_jobs() || self.hides_reservations()
    }

    fn hides(&self, what: &str) -> bool {
        self.private.iter().any(|hidden| hidden == what || hidden == "all")
    }
}

const COMMAND: &str = "scontrol show config";

/// The default memory: of the two settings there is one.
fn default_memory(
    per_core: Result<&str, Unreadable>,
    per_node: Result<&str, Unreadable>,
) -> Result<DefaultMemory, Unreadable> {
    let amount = |value: &str| {
        let amount =
            mebibytes(value).ok_or_else(|| Unreadable::new(COMMAND, "DefMemPer", "an amount", value));
        amount.map(Some)
    };
    let of = |value: &str| if value == "UNLIMITED" { Ok(None) } else { amount(value) };
    let per_core = per_core.map_or(Ok(None), of)?.map(DefaultMemory::PerCore);
    let per_node = per_node.map_or(Ok(None), of)?.map(DefaultMemory::PerNode);
    Ok(per_core.or(per_node).unwrap_or(DefaultMemory::All))
}

impl Scheduler {
    fn read(kind: &str, parameters: &str) -> Result<Scheduler, Unreadable> {
        let number = |name: &str, default: u32| {
            let mut found = parameters.split(',').filter_map(|pair| pair.trim().split_once('='));
            let Some((_, value)) = found.find(|(key, _)| *key == name) else { return Ok(default) };
            value.parse().map_err(|_| Unreadable::new(COMMAND, name, "a number", value))
        };
        // Seconds, but for the window.
        Ok(Scheduler {
            backfill: kind == "sched/backfill",
            interval: Span(number("bf_interval", 30)?.into()),
            window: Span(i64::from(number("bf_window", 1440)?) * 60),
            resolution: Span(number("bf_resolution", 60)?.into()),
            jobs_max: number("bf_max_job_test", 500)?,
            parameters: parameters.to_owned(),
        })
    }
}
