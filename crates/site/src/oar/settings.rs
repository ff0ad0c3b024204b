//! What an operator says about an OAR cluster.

use std::path::PathBuf;

use pliant_model::is_word;
use serde::{Deserialize, Serialize};

use super::resources::CORES;
use crate::batch_system::settings::{SettingError, check_extra, check_names, check_seconds};

/// An OAR cluster, as it stands in a server's file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The folder of OAR's commands, if they are not in PATH.
    pub commands: Option<PathBuf>,
    /// Whose jobs ours are to OAR, if its commands are called as another user than the server runs as.
    pub user: Option<String>,
    /// The queue that jobs are submitted to; none is the cluster's default.
    pub queue: Option<String>,
    /// The project they are charged to.
    pub project: Option<String>,
    /// What the resources of their nodes must be like, as a condition of SQL: `cluster = 'grisou'`. The server has no others.
    pub properties: Option<String>,
    /// The properties of resources that say what their nodes have.
    pub node: NodeProperties,
    /// The types of resources that are licences, a resource for each unit: `matlab`.
    pub licences: Vec<String>,
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

/// The names of the properties of resources that say what their nodes have: a site chooses them.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeProperties {
    /// The memory of the node, in MiB: `memnode`.
    pub memory: Option<String>,
    /// The number of its GPUs: `gpu_count`.
    pub gpus: Option<String>,
    /// The kind of its GPUs: `gpu_model`.
    pub gpu_kind: Option<String>,
    /// Its local disk space, in MiB: `scratch_mb`.
    pub scratch: Option<String>,
    /// Its features are the values of these: `cluster`, `disktype`. Of one that is `YES` it is the name of the property.
    pub features: Vec<String>,
}

impl NodeProperties {
    /// The names of all of them.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        [&self.memory, &self.gpus, &self.gpu_kind, &self.scratch].into_iter().flatten().chain(&self.features)
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            commands: None,
            user: None,
            queue: None,
            project: None,
            properties: None,
            node: NodeProperties::default(),
            licences: Vec::new(),
            extra: Vec::new(),
            security_s: 60,
            deadline_s: 30,
            nodes_every_s: 60,
            period_s: 15,
        }
    }
}

/// Options that take a job apart from what is decided here.
const OURS: &[&str] = &[
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
        check_names([("user", &self.user), ("queue", &self.queue), ("project", &self.project)])?;
        if let Some(properties) = &self.properties
            && (properties.trim().is_empty() || properties.chars().any(char::is_control))
        {
            let expected = "a condition such as `cluster = 'grisou'`, in one line";
            return Err(SettingError::new("properties", expected, properties));
        }
        let is_no_licence = |name: &&String| !is_word(name) || *name == CORES;
        if let Some(name) = self.licences.iter().find(is_no_licence) {
            let expected = "types of resources in letters, digits and `. _ -`, other than `default`";
            return Err(SettingError::new("licences", expected, name));
        }
        check_extra(&self.extra, "oarsub", "--type=night", OURS)?;
        check_seconds([
            ("security_s", self.security_s, 0..=86_400),
            ("deadline_s", self.deadline_s, 2..=600),
            ("period_s", self.period_s, 1..=3600),
            ("nodes_every_s", self.nodes_every_s, 0..=86_400),
        ])
    }
}
