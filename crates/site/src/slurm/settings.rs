//! What an operator says about a Slurm cluster.

use std::path::PathBuf;

use pliant_control::batch::external::AllowedOptions;
use pliant_policy::runtimes::limit_usage::Expect;
use serde::{Deserialize, Serialize};

use crate::batch_system::settings::{SettingError, check_extra, check_names, check_seconds};

/// A Slurm cluster, as it stands in a server's file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Its slurm.conf, if it is not the one that Slurm's commands find by themselves. One host can serve several
    /// clusters so.
    pub conf: Option<PathBuf>,
    /// The folder of Slurm's commands, if they are not in PATH.
    pub commands: Option<PathBuf>,
    /// The partition that jobs are submitted to that name none; none is the cluster's default.
    pub partition: Option<String>,
    /// Other partitions for these jobs: each goes to the one where it completes first.
    pub more_partitions: Vec<String>,
    /// The partitions, accounts and qualities of service that jobs may name.
    pub allow: AllowedOptions,
    /// The account they are charged to.
    pub account: Option<String>,
    /// Their quality of service.
    pub qos: Option<String>,
    /// More options of sbatch, one word each: `--reservation=grid`. None that changes what a job needs or where it may run.
    pub extra: Vec<String>,
    /// How long a command may take, in seconds. Slurm's own give up on a hung controller after 10 s.
    pub deadline_s: u32,
    /// How often the nodes are listed, in seconds.
    pub nodes_every_s: u32,
    /// How often the jobs are listed, in seconds.
    pub period_s: u32,
    /// How long others' jobs are taken to run.
    pub expect: Expect,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            conf: None,
            commands: None,
            partition: None,
            more_partitions: Vec::new(),
            allow: AllowedOptions::default(),
            account: None,
            qos: None,
            extra: Vec::new(),
            deadline_s: 20,
            nodes_every_s: 30,
            period_s: 10,
            expect: Expect::Limits,
        }
    }
}

/// What a job is and where it goes is decided here, and nowhere else.
const OURS: &[&str] = &[
    "account",
    "array",
    "batch",
    "begin",
    "chdir",
    "cluster",
    "clusters",
    "comment",
    "cpus-per-task",
    "dependency",
    "error",
    "exclusive",
    "export",
    "export-file",
    "get-user-env",
    "gid",
    "hold",
    "input",
    "job-name",
    "nodes",
    "no-requeue",
    "ntasks",
    "open-mode",
    "output",
    "parsable",
    "partition",
    "propagate",
    "qos",
    "quiet",
    "requeue",
    "test-only",
    "time",
    "time-min",
    "uid",
    "wait",
    "wrap",
];

/// Options that change where a job may run or what it needs, with what an operator says instead. They are not in the plan, so that
/// every estimate would be wrong.
const UNPLANNED: &[(&[&str], &str)] = &[
    (
        &[
            "cluster-constraint",
            "constraint",
            "contiguous",
            "exclude",
            "nodefile",
            "nodelist",
            "prefer",
            "spread-job",
            "switches",
            "use-min-nodes",
        ],
        "a partition of these nodes as `partition`, or a reservation of them as `--reservation` here",
    ),
    (
        &["mem", "mem-per-cpu", "mem-per-gpu", "tmp"],
        "`mem`, `mem_per_proc` or `scratch` of a service's `[service.resources]`, or DefMemPerCPU of the partition in slurm.conf",
    ),
    (
        &["cpus-per-gpu", "gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task", "gres", "licenses"],
        "`gpus` or `licences` of a service's `[service.resources]`",
    ),
    (
        &[
            "core-spec",
            "cores-per-socket",
            "extra-node-info",
            "mincpus",
            "ntasks-per-core",
            "ntasks-per-gpu",
            "ntasks-per-node",
            "ntasks-per-socket",
            "overcommit",
            "oversubscribe",
            "sockets-per-node",
            "thread-spec",
            "threads-per-core",
        ],
        "`nodes`, `procs_per_node` or `exclusive` of a service's `[service.resources]`",
    ),
];

/// Checks that no further option changes what is planned. Slurm takes any unambiguous beginning of an option's name for it.
fn check_planned(extra: &[String]) -> Result<(), SettingError> {
    for option in extra {
        let name = option.trim_start_matches('-').split('=').next().unwrap_or_default();
        let group = UNPLANNED.iter().find(|(names, _)| names.iter().any(|one| one.starts_with(name)));
        if let Some((_, instead)) = group {
            let expected =
                format!("options that do not change what a job needs or where it may run (say {instead})");
            return Err(SettingError::new("extra", expected, option));
        }
    }
    Ok(())
}

impl Settings {
    /// Checks what does not depend on the cluster.
    ///
    /// # Errors
    /// The first setting that cannot be.
    pub fn check(&self) -> Result<(), SettingError> {
        check_names([("partition", &self.partition), ("account", &self.account), ("qos", &self.qos)])?;
        for name in &self.more_partitions {
            check_names([("more_partitions", &Some(name.clone()))])?;
        }
        if let Some((key, found)) = self.allow.invalid() {
            let key = match key {
                "partitions" => "allow.partitions",
                "accounts" => "allow.accounts",
                _ => "allow.qos",
            };
            let expected = "names of 1 to 64 letters, digits, `.`, `_` and `-`, or `*` for any";
            return Err(SettingError::new(key, expected, found));
        }
        check_extra(&self.extra, "sbatch", "--reservation=grid", OURS)?;
        check_planned(&self.extra)?;
        check_seconds([
            ("deadline_s", self.deadline_s, 11..=600),
            ("period_s", self.period_s, 1..=3600),
            ("nodes_every_s", self.nodes_every_s, 0..=86_400),
        ])
    }
}
