//! What a client submits.

use std::collections::BTreeMap;

use pliant_control::job::{Compared, Work};
use pliant_control::names::Key;
use pliant_control::reason::Survey;
use pliant_model::Time;
use pliant_staging::FileSpec;
use serde::{Deserialize, Serialize};

use super::field::*;
use super::table::{message, one_of};
use super::{Pack, bounds, proto};

/// What a client submits. Whose it is comes from the certificate; the shape of a service's work from the server.
#[derive(Clone, PartialEq, Debug)]
pub struct Submission {
    /// What makes it unique.
    pub key: Key,
    /// What is to run.
    pub what: Submitted,
    /// The files that were uploaded under the same key. Whether they can lie beside each other is not checked
    /// here.
    pub inputs: Vec<FileSpec>,
    /// The latest completion that the client takes here; none takes any.
    pub latest: Option<Time>,
    /// The estimates that were compared.
    pub compared: Vec<Compared>,
    /// What came of asking the others.
    pub survey: Survey,
    /// The user chose this server: the job is not moved.
    pub pinned: bool,
}

/// What is to run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Submitted {
    /// A service of the server. Whether it is offered and takes these arguments is not checked here.
    Service {
        /// Its name.
        name: String,
        /// Its arguments.
        arguments: BTreeMap<String, String>,
    },
    /// The user's own script.
    Script(Script),
    /// Instances of a multi-job.
    Pack(Pack),
}

impl Submitted {
    /// The service that it calls; none if it is a script.
    pub fn service(&self) -> Option<&str> {
        match self {
            Submitted::Service { name, .. } => Some(name),
            Submitted::Pack(pack) => Some(&pack.service),
            Submitted::Script(_) => None,
        }
    }
}

/// A user's own script.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Script {
    /// What the job is called.
    pub name: String,
    /// Its text; the first line says what runs it (`#!`).
    pub text: Vec<u8>,
    /// What is asked for.
    pub work: Work,
    /// What it is started with.
    pub arguments: Vec<String>,
}

one_of! {
    proto::submit_request::What <=> Submitted {
        Service(proto::ServiceCall) <=> Service { name: SERVICE, arguments: ARGUMENTS },
        Script <=> Script(nested()),
        Pack <=> Pack(nested()),
    }

    proto::prepare_request::What <=> Submitted {
        Service(proto::ServiceCall) <=> Service { name: SERVICE, arguments: ARGUMENTS },
        Script <=> Script(nested()),
        Pack <=> Pack(nested()),
    }
}

// What comes from a user is not cut: the user is informed if there is too much of it.
message! {
    proto::SubmitRequest <=> Submission {
        key: KEY,
        what: one_of::<proto::submit_request::What, _>(),
        inputs: list(nested(), bounds::INPUTS_MAX).exact(),
        latest: optional(TIME),
        compared: list(nested(), bounds::COMPARED_MAX),
        survey: unless(Survey::default(), nested()),
        pinned,
    }

    proto::Script <=> Script {
        name: word("the name of a script", bounds::NAME_BYTES_MAX).exact(),
        text: ScriptBytes,
        work: required("the work"),
        arguments: list(ARGUMENT, bounds::ARGUMENTS_MAX).exact(),
    }
}
