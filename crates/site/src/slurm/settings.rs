//! What an operator says about a Slurm cluster.

use std::fmt;
use std::path::PathBuf;

use pliant_policy::runtimes::limit_usage::Expect;
use serde::{Deserialize, Serialize};

/// A Slurm cluster, as it stands in a server's file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Its slurm.conf, if it is not the one that Slurm's commands find by themselves. One host can serve several
    /// clusters so.
    pub conf: Option<PathBuf>,
    /// The folder of Slurm's commands, if they are not in PATH.
    pub commands: Option<PathBuf>,
    /// The partition that jobs are submitted to; none is the cluster's default.
    pub partition: Option<String>,
    /// The account they are charged to.
    pub account: Option<String>,
    /// Their quality of service.
    pub qos: Option<String>,
    /// More options of sbatch, one word each: `--constraint=fast`.
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

/// A setting that cannot be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettingError {
    /// Its key.
    pub key: &'static str,
    /// What was expected.
    pub expected: &'static str,
    /// What was found.
    pub found: String,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            conf: None,
            commands: None,
            partition: None,
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
    "propagate",
    "quiet",
    "requeue",
    "test-only",
    "time",
    "time-min",
    "uid",
    "wait",
    "wrap",
];

impl Settings {
    /// Checks what does not depend on the cluster.
    ///
    /// # Errors
    /// The first setting that cannot be.
    pub fn check(&self) -> Result<(), SettingError> {
        let wrong = |key, expected, found: &str| Err(SettingError { key, expected, found: found.to_owned() });
        let words = [("partition", &self.partition), ("account", &self.account), ("qos", &self.qos)];
        for (key, word) in words {
            if let Some(word) = word
                && (word.is_empty()
                    || word.chars().any(|letter| letter.is_whitespace() || letter.is_control()))
            {
                return wrong(key, "a name without spaces", word);
            }
        }
        for option in &self.extra {
            let Some(name) = option.strip_prefix("--").and_then(|rest| rest.split('=').next()) else {
                return wrong("extra", "long options of sbatch, such as `--constraint=fast`", option);
            };
            // Slurm takes any unambiguous beginning of an option's name for it.
            if name.is_empty() || OURS.iter().any(|ours| ours.starts_with(name)) {
                return wrong("extra", "options that pliant does not set itself", option);
            }
        }
        if !(11..=600).contains(&self.deadline_s) {
            return wrong("deadline_s", "11 to 600", &self.deadline_s.to_string());
        }
        if !(1..=3600).contains(&self.period_s) {
            return wrong("period_s", "1 to 3600", &self.period_s.to_string());
        }
        if self.nodes_every_s > 86_400 {
            return wrong("nodes_every_s", "0 to 86400", &self.nodes_every_s.to_string());
        }
        Ok(())
    }
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: expected {}, found `{}`", self.key, self.expected, self.found)
    }
}

impl std::error::Error for SettingError {}
