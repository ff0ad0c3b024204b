//! The file of a server.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use pliant_config::{ConfigError, read, resolve_relative};
use pliant_control::batch::embedded::HostResources;
use pliant_control::batch::external;
use pliant_control::names::Name;
use pliant_control::server::WaitingLimits;
use pliant_control::shared_folder::SharedFileSystems;
use pliant_model::{Procs, Speed, Time};
use pliant_policy::UnknownName;
use pliant_policy::batch::LocalPolicy;
use pliant_policy::batch::order::PrioritySettings;
use pliant_policy::tuning::{Tuner, TunerError};
use pliant_site::services::{Catalogue, Declared};
use pliant_site::{BatchSystemSettings, oar, slurm};
use pliant_transport::{AgentAddress, Credentials, MasterAddress};
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::agent::{audit_days, check_jobs_days, history_bytes, history_days};
use super::job_limits::{DiskQuota, JobLimitsFile};
use super::node::NodeFile;
use super::{
    ACCOUNTS, ADVERTISE, AccountsFile, HttpFile, LimitsFile, OptionalFile, Parents, PriorityFile,
    StoredDataFile, SummariesFile, WrongKey, check_advertised, check_shared, socket_address, wrong_value,
};

const HINT: &str = "a server's file has name, listen, [[parent]], state, [cluster] with procs or [cluster.slurm], [accounts] with map, \
     and [tls]";

/// The configuration of a server.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerFile {
    /// Its name; its certificate must say the same.
    pub name: Name,
    /// Where it listens.
    #[serde(deserialize_with = "socket_address")]
    pub listen: SocketAddr,
    /// Where clients reach it, if that is not where it listens.
    #[serde(default)]
    pub advertise: Option<String>,
    /// The agents to register with: the first one that answers is taken.
    #[serde(default)]
    pub parent: Vec<AgentAddress>,
    /// Masters side by side, in place of these.
    #[serde(default)]
    pub master: Vec<MasterAddress>,
    /// The folder of its journal and of its jobs' files.
    pub state: PathBuf,
    /// A PostgreSQL connection string, in front of an external batch system: the journal is there and not in `state`, and a second
    /// server with the same one waits until the first one is gone.
    #[serde(default)]
    pub postgres: Option<String>,
    /// Its cluster.
    pub cluster: ClusterFile,
    /// Cores for the requests of explorations.
    #[serde(default)]
    pub optional: Option<OptionalFile>,
    /// Weights and shares of queue orders by usage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<PriorityFile>,
    /// Decides between equal completions: the lower first.
    #[serde(default)]
    pub rank: u32,
    /// How many jobs of one user may wait.
    #[serde(default = "waiting_per_user")]
    pub waiting_per_user: u32,
    /// How many bytes the waiting jobs of one user may have.
    #[serde(default = "waiting_bytes_per_user")]
    pub waiting_bytes_per_user: u64,
    /// How many bytes the waiting jobs of all users may have.
    #[serde(default = "waiting_bytes")]
    pub waiting_bytes: u64,
    /// How long ended jobs' files are kept, in days.
    #[serde(default = "results_days")]
    pub results_days: u32,
    /// How many bytes of files of ended jobs each user may have.
    #[serde(default, skip_serializing_if = "DiskQuota::is_default")]
    pub results_bytes_per_user: DiskQuota,
    /// How many bytes of the disk are kept for the journal, and must be free for new work; 0 for none.
    #[serde(default = "journal_reserve_bytes")]
    pub journal_reserve_bytes: u64,
    /// How many days of history the journal keeps for replays.
    #[serde(default = "history_days")]
    pub history_days: u32,
    /// How many bytes of history the journal keeps for replays.
    #[serde(default = "history_bytes")]
    pub history_bytes: u64,
    /// How many days after their ends the journal keeps the records of jobs.
    #[serde(default = "jobs_days")]
    pub jobs_days: u32,
    /// How many days the journal keeps the audit trail.
    #[serde(default = "audit_days")]
    pub audit_days: u32,
    /// How long a restart with jobs waits for an agent to confirm that the journal is no older copy, in seconds.
    #[serde(default = "parent_wait_s")]
    pub parent_wait_s: u32,
    /// Whether users may run their own scripts.
    #[serde(default = "yes")]
    pub scripts: bool,
    /// As which accounts jobs run. It has to be said.
    #[serde(default)]
    accounts: Option<AccountsFile>,
    /// Its certificate.
    pub tls: Credentials,
    /// Metrics and health.
    #[serde(default)]
    pub http: Option<HttpFile>,
    /// Limits on its users.
    #[serde(default)]
    pub limits: LimitsFile,
    /// What calls may leave here.
    #[serde(default)]
    pub stored_data: StoredDataFile,
    /// How often it reports to its agent when work could start.
    #[serde(default)]
    pub summaries: SummariesFile,
    /// The file systems that its cluster shares with its users.
    #[serde(default)]
    pub shared: SharedFileSystems,
    /// What it offers, as it stands in the file.
    #[serde(default)]
    service: Vec<Spanned<Declared>>,
    /// What it offers.
    #[serde(skip)]
    pub catalogue: Catalogue,
}

/// The cluster behind a server, under the embedded batch system or under Slurm.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterFile {
    /// Processors. Slurm says itself how many there are.
    #[serde(default, skip_serializing_if = "pliant_control::is_zero")]
    pub procs: u32,
    /// How fast they are, relative to the federation's reference.
    #[serde(default = "reference")]
    pub speed: f64,
    /// The local batch policy.
    #[serde(default = "cbf")]
    pub batch: String,
    /// In which order waiting jobs are served; in order of submission without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// After which wait a job goes before all others: `none` or a time like `24h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aging: Option<String>,
    /// How moldable requests are sized.
    #[serde(default = "slack")]
    pub tuner: String,
    /// With `tuner = "slack"`: by how much the promised response may exceed the earliest possible one, relative to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slack: Option<f64>,
    /// With `tuner = "slack"`: the part of an equal share of the cluster that a request gets at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Whether jobs are bound to the processors they are given, by their numbers.
    #[serde(default)]
    pub pin: bool,
    /// The first processor of this host to bind to.
    #[serde(default)]
    pub first_core: u32,
    /// Emulates slower processors: each is worth this share of one of this host's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_share: Option<f64>,
    /// What one of them does, in MFlop/s, for launches; measured without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_mflops: Option<f64>,
    /// Whether what else runs on this host counts as its load, for launches.
    #[serde(default = "yes")]
    pub host_load: bool,
    /// What each job may use.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limits: JobLimitsFile,
    /// What the host has besides processors. Without it only processors are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeFile>,
    /// How long a job may take to end once it was asked to, in seconds.
    #[serde(default = "grace_s")]
    pub grace_s: u32,
    /// The Slurm cluster in front of which the server stands, in place of the embedded batch system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm: Option<slurm::Settings>,
    /// The OAR cluster in front of which the server stands, in place of the embedded batch system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oar: Option<oar::Settings>,
}

fn is_default(limits: &JobLimitsFile) -> bool {
    *limits == JobLimitsFile::default()
}

fn waiting_per_user() -> u32 {
    10_000
}

fn waiting_bytes_per_user() -> u64 {
    64 << 20
}

fn waiting_bytes() -> u64 {
    1 << 30
}

fn results_days() -> u32 {
    30
}

fn jobs_days() -> u32 {
    90
}

fn journal_reserve_bytes() -> u64 {
    64 << 20
}

fn parent_wait_s() -> u32 {
    60
}

fn yes() -> bool {
    true
}

fn reference() -> f64 {
    1.0
}

fn cbf() -> String {
    "cbf".to_owned()
}

fn slack() -> String {
    Tuner::default().name().to_owned()
}

fn grace_s() -> u32 {
    5
}

impl ServerFile {
    /// Reads and checks the file.
    pub fn read(path: &Path) -> Result<ServerFile, ConfigError> {
        let (mut file, source): (ServerFile, _) = read(path, HINT)?;
        file.tls.beside(path);
        resolve_relative(path, &mut file.state);
        if let Some(slurm) = &mut file.cluster.slurm {
            slurm.conf.iter_mut().chain(&mut slurm.commands).for_each(|named| resolve_relative(path, named));
        }
        if let Some(commands) = file.cluster.oar.as_mut().and_then(|oar| oar.commands.as_mut()) {
            resolve_relative(path, commands);
        }
        if let Some(accounts) = &mut file.accounts {
            accounts.beside(path);
        }
        file.catalogue =
            Catalogue::new(&file.service, file.scripts, &source).map_err(ConfigError::Content)?;
        file.check().map_err(|(key, message)| wrong_value(path, key, message))?;
        Ok(file)
    }

    /// Its parents.
    pub(crate) fn parents(&self) -> Parents {
        Parents::of(&self.parent, &self.master)
    }

    fn check(&self) -> Result<(), WrongKey> {
        if self.parents().is_empty() {
            return Err((
                "parent",
                "expected at least one [[parent]] with name and address, found none".into(),
            ));
        }
        Parents::check(&self.parent, &self.master)?;
        self.check_address()?;
        self.check_resident_services()?;
        self.stored_data.check()?;
        match &self.cluster.external() {
            Some(settings) => self.cluster.check_external(settings)?,
            None if !(1..=1_000_000).contains(&self.cluster.procs) => {
                return Err((
                    "cluster.procs",
                    format!("expected 1 to 1000000, found {}", self.cluster.procs),
                ));
            }
            None => {}
        }
        if self.postgres.is_some() && self.cluster.external().is_none() {
            let why = "expected [cluster.slurm] or [cluster.oar], whose jobs a server on another host can take over, found the embedded \
                       batch system, whose jobs run on this host";
            return Err(("postgres", why.to_owned()));
        }
        check_shared(&self.shared)?;
        check_jobs_days(self.jobs_days)?;
        self.summaries.check()?;
        if self.jobs_days < self.results_days {
            let why = format!(
                "expected at least `results_days` ({}), since files are fetched by the record of their job, found {}",
                self.results_days, self.jobs_days
            );
            return Err(("jobs_days", why));
        }
        match &self.accounts {
            None => {
                let why = "expected a table that says as whom jobs run, found none";
                return Err((ACCOUNTS, why.to_owned()));
            }
            Some(accounts) => {
                accounts.check(self.cluster.cpu_share.is_some())?;
            }
        }
        self.optional.as_ref().map_or(Ok(()), OptionalFile::check)?;
        self.cluster.speed()?;
        self.cluster.tuner()?;
        self.cluster.local_policy()?;
        self.cluster.check_node()?;
        self.check_priority(&self.cluster.policy())?;
        self.cluster.limits.check()?;
        if let Some(share) = self.cluster.cpu_share
            && !(0.01..=1.0).contains(&share)
        {
            return Err(("cluster.cpu_share", format!("expected 0.01 to 1, found {share}")));
        }
        if let Some(power) = self.cluster.power_mflops
            && !pliant_wire::bounds::POWER_MFLOPS.contains(&power)
        {
            let (least, most) =
                (pliant_wire::bounds::POWER_MFLOPS.start(), pliant_wire::bounds::POWER_MFLOPS.end());
            return Err((
                "cluster.power_mflops",
                format!("expected {least} to {most} MFlop/s, found {power}"),
            ));
        }
        Ok(())
    }

    /// Weights and shares of an order that does not use them are a mistake.
    fn check_priority(&self, policy: &str) -> Result<(), WrongKey> {
        let Some(priority) = &self.priority else { return Ok(()) };
        priority.of_federation()?;
        match policy.parse::<LocalPolicy>() {
            Ok(local) if local.ordering().order.by_usage() => Ok(()),
            _ => Err((
                "priority",
                format!(
                    "expected it with `order = \"multifactor\"` or `\"fair-share\"` only, found it with {policy}"
                ),
            )),
        }
    }

    /// What queue orders by usage are set by.
    pub fn priority(&self) -> PrioritySettings {
        // The table was checked when the file was read.
        self.priority.as_ref().and_then(|table| table.of_federation().ok()).unwrap_or_default()
    }

    /// Clients must be able to go where they are sent.
    fn check_address(&self) -> Result<(), WrongKey> {
        let Some(address) = &self.advertise else {
            return match self.listen.ip().is_unspecified() {
                true => Err((
                    ADVERTISE,
                    format!(
                        "expected it, since `listen` ({}) is every address of the host, found none",
                        self.listen
                    ),
                )),
                false => Ok(()),
            };
        };
        check_advertised(address)
    }

    /// As which accounts jobs run.
    pub fn accounts(&self) -> AccountsFile {
        // The file was checked when it was read; one made in memory has no accounts.
        self.accounts.clone().unwrap_or_else(AccountsFile::own)
    }

    /// The bounds of what waits.
    pub fn waiting_limits(&self) -> WaitingLimits {
        WaitingLimits {
            jobs_per_user: self.waiting_per_user,
            bytes_per_user: self.waiting_bytes_per_user,
            bytes: self.waiting_bytes,
        }
    }

    /// Where clients reach it.
    pub fn address(&self) -> String {
        self.advertise.clone().unwrap_or_else(|| self.listen.to_string())
    }
}

impl ClusterFile {
    /// The batch system in front of which the server stands; none if it is the embedded one.
    pub(crate) fn external(&self) -> Option<BatchSystemSettings> {
        let slurm = self.slurm.clone().map(BatchSystemSettings::Slurm);
        slurm.or_else(|| self.oar.clone().map(BatchSystemSettings::Oar))
    }

    /// The host of the embedded batch system, if what jobs need besides processors is counted.
    pub fn host(&self) -> Option<HostResources> {
        // The table was checked when the file was read.
        self.node.as_ref()?.host(self.procs()).ok()
    }

    /// The host, and that the policy plans with what it has.
    fn check_node(&self) -> Result<(), WrongKey> {
        let Some(node) = &self.node else { return Ok(()) };
        let host = node.host(self.procs())?;
        if self.limits.bounds_memory() {
            let why = "expected none together with [cluster.node], by which each job has a memory of its own, found one";
            return Err(("cluster.limits.memory_bytes_per_core", why.to_owned()));
        }
        let wrong = |error: &dyn std::fmt::Display| {
            ("cluster.batch", format!("{error}, since there is a [cluster.node]"))
        };
        let policy: LocalPolicy = self.local_policy()?.parse().map_err(|error: UnknownName| wrong(&error))?;
        policy.scheduler_on(&host.nodes, Time::ZERO).map(drop).map_err(|error| wrong(&error))
    }

    /// What the batch system does itself is not said here.
    fn check_external(&self, settings: &BatchSystemSettings) -> Result<(), WrongKey> {
        let ClusterFile { procs, batch, order, aging, pin, first_core, cpu_share, limits, .. } = self;
        let said = [
            ("cluster.procs", *procs != 0),
            ("cluster.batch", *batch != cbf()),
            ("cluster.order", order.is_some()),
            ("cluster.aging", aging.is_some()),
            ("cluster.pin", *pin),
            ("cluster.first_core", *first_core != 0),
            ("cluster.cpu_share", cpu_share.is_some()),
            ("cluster.limits", !is_default(limits)),
            ("cluster.node", self.node.is_some()),
            ("cluster.oar", self.oar.is_some() && self.slurm.is_some()),
        ];
        let table = match settings {
            BatchSystemSettings::Slurm(_) => "cluster.slurm",
            BatchSystemSettings::Oar(_) => "cluster.oar",
        };
        if let Some((key, _)) = said.iter().find(|(_, said)| *said) {
            return Err((
                key,
                format!("expected none together with [{table}], which decides that, found one"),
            ));
        }
        settings.check().map_err(|problem| (table, problem.to_string()))
    }

    /// The name of the policy by which the cluster is planned.
    pub fn policy(&self) -> String {
        match self.external() {
            Some(BatchSystemSettings::Slurm(_)) => external::SLURM.to_owned(),
            Some(BatchSystemSettings::Oar(_)) => external::OAR.to_owned(),
            None => self.local_policy().unwrap_or_else(|_| self.batch.clone()),
        }
    }

    /// The local policy, with its queue order and aging.
    fn local_policy(&self) -> Result<String, WrongKey> {
        let (order, aging) = (self.order.as_deref(), self.aging.as_deref());
        let wrong = |(key, problem)| match key {
            "order" => ("cluster.order", problem),
            "aging" => ("cluster.aging", problem),
            _ => ("cluster.batch", problem),
        };
        pliant_policy::batch::order::local_policy(&self.batch, order, aging).map_err(wrong)
    }

    /// Processors.
    pub fn procs(&self) -> Procs {
        Procs(self.procs)
    }

    /// How fast they are.
    pub fn speed(&self) -> Result<Speed, WrongKey> {
        Speed::new(self.speed).map_err(|error| ("cluster.speed", error.to_string()))
    }

    /// How requests are sized.
    pub fn tuner(&self) -> Result<Tuner, WrongKey> {
        let tuner = self.tuner.parse().map_err(|error: TunerError| ("cluster.tuner", error.to_string()))?;
        let given = [("cluster.slack", "slack", self.slack), ("cluster.share", "share", self.share)];
        given.into_iter().try_fold(tuner, |tuner: Tuner, (span, key, value)| match value {
            None => Ok(tuner),
            Some(value) => tuner.with(key, value).map_err(|error| (span, error.to_string())),
        })
    }
}

mod resident_services;
#[cfg(test)]
mod tests;
