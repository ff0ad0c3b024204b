//! Services as clients see them: `pliant servers --services`.

use serde::{Deserialize, Serialize};

use super::argument::{Argument, ArgumentKind};
use super::duration::show_duration;
use super::service::{Runtime, Service};

/// A service, as clients see it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ServiceDescription {
    /// Its name.
    pub name: String,
    /// What it does.
    pub summary: String,
    /// What it takes, in the order of names.
    pub arguments: Vec<ArgumentDescription>,
    /// How its time changes with the number of processors, as a [`SpeedupSpec`](super::SpeedupSpec) is written.
    pub speedup: String,
    /// What its jobs need besides processors, in words; none if nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<String>,
    /// How long it takes at speed 1: a duration, or `history`.
    pub runtime: String,
    /// Its signature, if it is a typed service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Calls are carried out by a process that is there already.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resident: bool,
    /// The longest walltime at speed 1.
    pub max_walltime: Option<String>,
    /// Bytes of all inputs.
    pub max_input_bytes: Option<u64>,
    /// Bytes of all results.
    pub max_output_bytes: Option<u64>,
}

/// An argument, as clients see it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ArgumentDescription {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub summary: String,
    /// `integer`, `number`, `string`, `choice`, `bool` or `file`.
    pub kind: String,
    /// What it takes, in words.
    pub expected: String,
    /// The choices, if it is one.
    pub choices: Vec<String>,
    /// What stands for it when it is not given.
    pub default: Option<String>,
    /// True if it must be given.
    pub required: bool,
}

impl Service {
    /// The description for clients, without the command and the users.
    pub fn describe(&self) -> ServiceDescription {
        let describe = |(name, argument): (&String, &Argument)| ArgumentDescription {
            name: name.clone(),
            summary: argument.summary.clone(),
            kind: argument.kind.word().to_owned(),
            expected: argument.kind.expected(),
            choices: match &argument.kind {
                ArgumentKind::Choice(choices) => choices.clone(),
                _ => Vec::new(),
            },
            default: argument.default.clone(),
            required: argument.required,
        };
        ServiceDescription {
            name: self.name.clone(),
            summary: self.summary.clone(),
            arguments: self.arguments.iter().map(describe).collect(),
            speedup: self.speedup.to_string(),
            resources: self.resources.as_ref().map(ToString::to_string),
            runtime: match self.runtime {
                Runtime::Fixed(runtime) => show_duration(runtime),
                Runtime::History { .. } => "history".to_owned(),
            },
            signature: self.call.as_ref().map(|call| call.signature.to_string()),
            resident: self.call.as_ref().is_some_and(|call| call.resident.is_some()),
            max_walltime: self.max_walltime.map(show_duration),
            max_input_bytes: self.bounds.max_input_bytes,
            max_output_bytes: self.bounds.max_output_bytes,
        }
    }
}
