//! What the instances of a multi-job and the requests of an exploration run: a service, or a script with parameters.

use std::collections::BTreeMap;

use pliant_control::exact_text::ExactText;
use pliant_control::job::Work;
use pliant_control::server_info::OfferedWork;
use serde::{Deserialize, Serialize};

use super::field::*;
use super::table::{message, one_of};
use super::{bounds, proto};

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

one_of! {
    proto::instance_batch::Executable <=> Executable {
        Service <=> Service(SERVICE),
        Script <=> Script(boxed_script()),
    }

    proto::explore_request::begin::Executable <=> Executable {
        Service <=> Service(SERVICE),
        Script <=> Script(boxed_script()),
    }

    proto::offers_request::Offered <=> OfferedWork {
        Service <=> Service(SERVICE),
        Scripts(FLAG) <=> Scripts,
    }
}

fn boxed_script() -> impl FieldType<Value = Box<ParameterScript>, Wire = proto::ParameterScript> {
    converted(nested::<ParameterScript>(), Box::new, |script: &Box<ParameterScript>| (**script).clone())
}
