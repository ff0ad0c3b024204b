//! What the instances of a multi-job and the requests of an exploration run: a service, or a script with parameters.

use std::collections::BTreeMap;

use pliant_control::exact_text::ExactText;
use pliant_control::job::Work;
use pliant_control::server_info::OfferedWork;
use pliant_control::shared_folder::SharedFolder;
use pliant_staging::FileName;
use serde::{Deserialize, Serialize};

use super::field::*;
use super::table::message;
use super::{Malformed, bounds, proto};

/// What is expected where a service or a script is named.
const A_SERVICE: &str = "the name of a service, or a script";
/// What is expected of the service where a script is named.
const NO_SERVICE: &str = "no service in addition to a script";

/// What each instance of a multi-job or each request of an exploration runs, with arguments of its own.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Executable {
    /// A service.
    Service(String),
    /// A script of the user's own.
    Script(Box<ParameterScript>),
}

message! {
    /// A user's own script that runs once for each of several values of its parameters.
    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    proto::ParameterScript <=> pub struct ParameterScript {
        /// What its jobs are called.
        name: String = word("the name of a script", bounds::NAME_BYTES_MAX).exact(),
        /// Its text; the first line says what runs it (`#!`).
        text: ExactText = SCRIPT,
        /// What one run needs.
        work: Work = required("the work"),
        /// What it is started with: `{NAME}` is replaced by the value of that parameter, and `{{` and `}}` are braces.
        arguments: Vec<String> = list(ARGUMENT, bounds::ARGUMENTS_MAX).exact(),
        /// Variables of its environment besides those that every job has, and those of the parameters.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        environment: BTreeMap<String, String> = map(VARIABLE, ARGUMENT, bounds::ARGUMENTS_MAX),
        /// The array, if its parameter [`TaskArray::INDEX`] is the index of a task in one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        array: Option<TaskArray> = optional(nested()),
        /// The folder of the user's own in which every run is; a folder of the run's own if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        folder: Option<SharedFolder> = unless_empty(SHARED_FOLDER),
        /// The file that is its standard input, in the folder in which it runs; nothing if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stdin: Option<FileName> = unless_empty(FILE_NAME),
        /// Its standard error goes where its standard output goes.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        merge_output: bool,
    }

    /// What each task of an array finds about the whole array, as in Slurm.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
    proto::TaskArray <=> pub struct TaskArray {
        /// The lowest index.
        first: u32,
        /// The highest index.
        last: u32,
        /// The number of tasks.
        count: u32,
        /// The difference between two indices that follow each other; 1 if it is not always the same.
        step: u32,
    }
}

impl Executable {
    /// The name of the service or of the script: its jobs and their runtimes have it.
    pub fn name(&self) -> &str {
        match self {
            Executable::Service(name) => name,
            Executable::Script(script) => &script.name,
        }
    }

    /// The script, if it is one.
    pub fn script(&self) -> Option<&ParameterScript> {
        match self {
            Executable::Service(_) => None,
            Executable::Script(script) => Some(script),
        }
    }

    /// What servers have to offer that are to run it.
    pub fn offered(&self) -> OfferedWork {
        match self {
            Executable::Service(name) => OfferedWork::Service(name.clone()),
            Executable::Script(_) => OfferedWork::Scripts,
        }
    }

    /// The same with no more of a script than its first line, for questions about it.
    #[must_use]
    pub fn head(&self) -> Executable {
        match self {
            Executable::Service(name) => Executable::Service(name.clone()),
            Executable::Script(script) => {
                let text = script.text.as_bytes();
                let line = text.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
                let head = ParameterScript { text: line.to_vec().into(), ..(**script).clone() };
                Executable::Script(Box::new(head))
            }
        }
    }
}

/// A service, by its name.
impl From<&str> for Executable {
    fn from(service: &str) -> Executable {
        Executable::Service(service.to_owned())
    }
}

impl TaskArray {
    /// The parameter that is the index of a task.
    pub const INDEX: &'static str = "array_task_id";
}

/// An executable as fields of a message: a service or a script.
pub(crate) fn executable_parts(executable: &Executable) -> (Option<String>, Option<ParameterScript>) {
    match executable {
        Executable::Service(name) => (Some(name.clone()), None),
        Executable::Script(script) => (None, Some((**script).clone())),
    }
}

/// The executable of these fields.
pub(crate) fn whole_executable(
    (service, script): (Option<String>, Option<ParameterScript>),
) -> Result<Executable, Malformed> {
    match (service, script) {
        (Some(service), None) => Ok(Executable::Service(service)),
        (None, Some(script)) => Ok(Executable::Script(Box::new(script))),
        (None, None) => Err(Malformed::text("service", A_SERVICE, "")),
        (Some(service), Some(_)) => Err(Malformed::text("service", NO_SERVICE, &service)),
    }
}

/// What servers have to offer as fields of a message: a service, or that they run scripts.
pub(crate) fn offered_parts(offered: &OfferedWork) -> (Option<String>, bool) {
    match offered {
        OfferedWork::Service(name) => (Some(name.clone()), false),
        OfferedWork::Scripts => (None, true),
    }
}

/// What servers have to offer, of these fields.
pub(crate) fn whole_offered((service, scripts): (Option<String>, bool)) -> Result<OfferedWork, Malformed> {
    match (service, scripts) {
        (Some(service), false) => Ok(OfferedWork::Service(service)),
        (None, true) => Ok(OfferedWork::Scripts),
        (None, false) => Err(Malformed::text("service", A_SERVICE, "")),
        (Some(service), true) => Err(Malformed::text("service", NO_SERVICE, &service)),
    }
}
