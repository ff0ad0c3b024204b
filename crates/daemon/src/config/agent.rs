//! The file of an agent.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use pliant_config::{ConfigError, read, resolve_relative};
use pliant_control::agent::ReallocationConfig;
use pliant_control::masters::{MasterShare, Masters};
use pliant_control::names::Name;
use pliant_model::Span;
use pliant_policy::UnknownName;
use pliant_policy::reallocation::{Algorithm, Heuristic, Reallocation};
use pliant_transport::{AgentAddress, Credentials, MasterAddress};
use serde::{Deserialize, Serialize};

use super::{
    HttpFile, LimitsFile, Parents, ProbesFile, SummariesFile, WrongKey, check_advertised, socket_address,
    wrong_value,
};

const HINT: &str = "an agent's file has name, listen, state and [tls] with ca, cert and key";

/// The configuration of an agent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentFile {
    /// Its name; its certificate must say the same.
    pub name: Name,
    /// Where it listens.
    #[serde(deserialize_with = "socket_address")]
    pub listen: SocketAddr,
    /// Where servers reach it for the launches that it coordinates, if that is not where it listens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advertise: Option<String>,
    /// The folder of its journal (SQLite).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<PathBuf>,
    /// Its journal in PostgreSQL instead, as a connection string: a second agent with the same one stands by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub postgres: Option<String>,
    /// Its parents: the first one that answers is taken. None: it is the master.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parent: Vec<AgentAddress>,
    /// Masters side by side, in place of parents: this is a local agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub master: Vec<MasterAddress>,
    /// The names of all masters, if this is one of several side by side.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masters: Vec<Name>,
    /// The one of them that it stands for, if that is another agent's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands_for: Option<Name>,
    /// How long servers may take to answer a discovery, in seconds.
    #[serde(default = "timeout_s")]
    pub timeout_s: i64,
    /// How waiting jobs are moved to servers where they complete earlier; none: they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reallocation: Option<ReallocationFile>,
    /// How servers measure the links between them.
    #[serde(default)]
    pub probes: ProbesFile,
    /// How often it reports to its parent when work could start below it.
    #[serde(default)]
    pub summaries: SummariesFile,
    /// How many days of history the journal keeps for replays.
    #[serde(default = "history_days")]
    pub history_days: u32,
    /// How many bytes of history the journal keeps for replays.
    #[serde(default = "history_bytes")]
    pub history_bytes: u64,
    /// How many days after their ends the journal keeps the records of jobs and launches.
    #[serde(default = "jobs_days")]
    pub jobs_days: u32,
    /// How many days the journal keeps the audit trail.
    #[serde(default = "audit_days")]
    pub audit_days: u32,
    /// Its certificate.
    pub tls: Credentials,
    /// Metrics and health.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpFile>,
    /// Limits on its users.
    #[serde(default)]
    pub limits: LimitsFile,
}

/// How waiting jobs are moved (paper 000, section 3.2.2).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReallocationFile {
    /// How jobs are taken up: a name that `pliant policies` lists.
    pub algorithm: String,
    /// In which order: a name that `pliant policies` lists.
    pub heuristic: String,
    /// Seconds between two reallocation cycles.
    pub period_s: i64,
    /// The least gain for which a job is moved, in seconds.
    pub threshold_s: i64,
    /// How many of the oldest jobs the heuristics other than `mct` consider at once.
    pub window: u32,
    /// Also starts a cycle when a job has ended before its walltime, but not sooner than so many seconds after the last time;
    /// 0: only every period.
    pub early_s: i64,
}

impl Default for ReallocationFile {
    fn default() -> ReallocationFile {
        ReallocationFile {
            algorithm: Algorithm::Regular.name().to_owned(),
            heuristic: Heuristic::Mct.name().to_owned(),
            period_s: 300,
            threshold_s: 60,
            window: 20,
            early_s: 30,
        }
    }
}

impl From<&ReallocationConfig> for ReallocationFile {
    fn from(moving: &ReallocationConfig) -> ReallocationFile {
        let ReallocationConfig { policy, early } = moving;
        ReallocationFile {
            algorithm: policy.algorithm.name().to_owned(),
            heuristic: policy.heuristic.name().to_owned(),
            period_s: policy.period.0,
            threshold_s: policy.threshold.0,
            window: u32::try_from(policy.window).unwrap_or(u32::MAX),
            early_s: early.map_or(0, |early| early.0),
        }
    }
}

impl ReallocationFile {
    /// The policy, or which key is wrong and why.
    pub fn moving(&self) -> Result<ReallocationConfig, (&'static str, String)> {
        let named = |key| move |error: UnknownName| (key, error.to_string());
        let span = |key, found: i64, least: i64| match found {
            found if (least..=7 * 86_400).contains(&found) => Ok(Span(found)),
            found => Err((key, format!("expected {least} s to a week, found {found}"))),
        };
        let early = span("reallocation.early_s", self.early_s, 0)?;
        if self.window == 0 {
            return Err(("reallocation.window", "expected at least 1 job, found 0".to_owned()));
        }
        let policy = Reallocation {
            algorithm: self.algorithm.parse().map_err(named("reallocation.algorithm"))?,
            heuristic: self.heuristic.parse().map_err(named("reallocation.heuristic"))?,
            period: span("reallocation.period_s", self.period_s, 1)?,
            threshold: span("reallocation.threshold_s", self.threshold_s, 0)?,
            window: self.window as usize,
        };
        Ok(ReallocationConfig { policy, early: Some(early).filter(|early| early.0 > 0) })
    }
}

fn timeout_s() -> i64 {
    3
}

pub(super) fn history_days() -> u32 {
    30
}

pub(super) fn history_bytes() -> u64 {
    16 << 30
}

fn jobs_days() -> u32 {
    365
}

pub(super) fn audit_days() -> u32 {
    365
}

/// So long a server accepts a job that another one hands over, by its signature: until then it must know which ones it had.
const JOBS_DAYS_MIN: u32 = 30;

/// Checks how many days the records of jobs are kept.
pub(super) fn check_jobs_days(days: u32) -> Result<(), (&'static str, String)> {
    if days >= JOBS_DAYS_MIN {
        return Ok(());
    }
    let why = format!(
        "expected at least {JOBS_DAYS_MIN}, as long as a signed submission may be handed over, found {days}"
    );
    Err(("jobs_days", why))
}

impl AgentFile {
    /// Reads and checks the file.
    pub fn read(path: &Path) -> Result<AgentFile, ConfigError> {
        let (mut file, _): (AgentFile, _) = read(path, HINT)?;
        file.tls.beside(path);
        if let Some(state) = &mut file.state {
            resolve_relative(path, state);
        }
        let wrong = |key, message: String| wrong_value(path, key, message);
        if !(1..=60).contains(&file.timeout_s) {
            let message = format!("expected 1 to 60 seconds, found {}", file.timeout_s);
            return Err(wrong("timeout_s", message));
        }
        if let Some(address) = &file.advertise {
            check_advertised(address).map_err(|(key, message)| wrong(key, message))?;
        }
        if let Some(reallocation) = &file.reallocation {
            reallocation.moving().map_err(|(key, message)| wrong(key, message))?;
        }
        check_jobs_days(file.jobs_days).map_err(|(key, message)| wrong(key, message))?;
        Parents::check(&file.parent, &file.master).map_err(|(key, message)| wrong(key, message))?;
        file.check_masters().map_err(|(key, message)| wrong(key, message))?;
        file.probes.check().map_err(|(key, message)| wrong(key, message))?;
        file.summaries.check().map_err(|(key, message)| wrong(key, message))?;
        if file.state.is_some() == file.postgres.is_some() {
            let message =
                "expected either a folder for the journal (state) or a connection string (postgres)";
            return Err(wrong("state", message.to_owned()));
        }
        Ok(file)
    }

    /// Whether it is one of the masters that it names.
    fn check_masters(&self) -> Result<(), WrongKey> {
        let own = self.master_name();
        if self.masters.is_empty() {
            return match self.stands_for {
                None => Ok(()),
                Some(_) => Err(("stands_for", "expected `masters` with the names of all masters".to_owned())),
            };
        }
        if !self.parents().is_empty() {
            return Err((
                "masters",
                "expected it in the file of a master, found a parent as well".to_owned(),
            ));
        }
        match self.masters.contains(own) {
            true => Ok(()),
            false => {
                Err(("masters", format!("expected {own} among the names of all masters, found it not there")))
            }
        }
    }

    /// The name by which users are assigned to it if it is a master.
    fn master_name(&self) -> &Name {
        self.stands_for.as_ref().unwrap_or(&self.name)
    }

    /// The users' jobs that belong to it: all, unless it is one of several masters.
    pub(crate) fn share(&self) -> MasterShare {
        Masters::new(self.masters.iter().cloned()).share(self.master_name())
    }

    /// Its parents; none if it is a master.
    pub(crate) fn parents(&self) -> Parents {
        Parents::of(&self.parent, &self.master)
    }

    /// How waiting jobs are moved. The file was checked when it was read.
    pub fn moving(&self) -> Option<ReallocationConfig> {
        self.reallocation.as_ref().and_then(|reallocation| reallocation.moving().ok())
    }

    /// How long children may take.
    pub fn timeout(&self) -> Span {
        Span(self.timeout_s)
    }
}
