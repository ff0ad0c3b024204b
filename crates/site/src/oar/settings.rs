//! What an operator says about an OAR cluster.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use crate::slurm::SettingError;

/// An OAR cluster, as it stands in a server's file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The folder of OAR's commands, if they are not in PATH.
    pub commands: Option<PathBuf>,
    /// Whose jobs ours are to OAR, if its commands are called as somebody else than the server runs as.
    pub user: Option<String>,
    /// The queue that jobs are submitted to; none is the cluster's default.
    pub queue: Option<String>,
    /// The project they are charged to.
    pub project: Option<String>,
    /// What their resources must be like, as a condition of SQL: `cluster = 'grisou'`. The server has no others.
    pub properties: Option<String>,
    /// More options of oarsub, one word each: `--type=night`.
    pub extra: Vec<String>,
    /// How long OAR keeps resources free after a job, in seconds: SCHEDULER_JOB_SECURITY_TIME of its oar.conf.
    pub security_s: u32,
    /// How long a command may take, in seconds.
    pub deadline_s: u32,
    /// How often the nodes are listed, in seconds.
    pub nodes_every_s: u32,
    /// How often the jobs are listed, in seconds.
    pub period_s: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            commands: None,
            user: None,
            queue: None,
            project: None,
            properties: None,
            extra: Vec::new(),
            security_s: 60,
            deadline_s: 30,
            nodes_every_s: 60,
            period_s: 15,
        }
    }
}

/// Options that take a job apart from what is decided here.
const TAKEN: &[&str] = &[
    "anterior",
    "array",
    "array-param-file",
    "connect",
    "directory",
    "dumper",
    "help",
    "hold",
    "interactive",
    "json",
    "name",
    "project",
    "property",
    "queue",
    "reservation",
    "resource",
    "resubmit",
    "scanscript",
    "stagein",
    "stderr",
    "stdout",
    "version",
    "xml",
    "yaml",
];

impl Settings {
    /// Checks what does not depend on the cluster.
    ///
    /// # Errors
    /// The first setting that cannot be.
    pub fn check(&self) -> Result<(), SettingError> {
        let wrong = |key, expected, found: &str| Err(SettingError { key, expected, found: found.to_owned() });
        for (key, word) in [("user", &self.user), ("queue", &self.queue), ("project", &self.project)] {
            if let Some(word) = word
                && (word.is_empty()
                    || word.chars().any(|letter| letter.is_whitespace() || letter.is_control()))
            {
                return wrong(key, "a name without spaces", word);
            }
        }
        if let Some(properties) = &self.properties
            && (properties.trim().is_empty() || properties.chars().any(char::is_control))
        {
            return wrong("properties", "a condition such as `cluster = 'grisou'`, in one line", properties);
        }
        for option in &self.extra {
            let Some(name) = option.strip_prefix("--").and_then(|rest| rest.split('=').next()) else {
                return wrong("extra", "long options of oarsub, such as `--type=night`", option);
            };
            // OAR takes any unambiguous beginning of an option's name for it.
            if name.is_empty() || TAKEN.iter().any(|taken| taken.starts_with(name)) {
                return wrong("extra", "options that pliant does not set itself", option);
            }
        }
        if self.security_s > 86_400 {
            return wrong("security_s", "0 to 86400", &self.security_s.to_string());
        }
        if !(2..=600).contains(&self.deadline_s) {
            return wrong("deadline_s", "2 to 600", &self.deadline_s.to_string());
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
