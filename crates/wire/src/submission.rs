//! What a client submits.

use std::collections::BTreeMap;

use pliant_control::exact_text::ExactText;
use pliant_control::job::{ComparedEstimate, Work};
use pliant_control::names::Key;
use pliant_control::reason::DiscoverySummary;
use pliant_control::shared_folder::SharedFolder;
use pliant_control::signed::SignedClaim;
use pliant_model::Time;
use pliant_staging::{FileName, FileSpec};
use serde::{Deserialize, Serialize};

use super::field::*;
use super::signed::A_CLAIM;
use super::table::{message, one_of};
use super::{Executable, InstanceBatch, bounds, proto};

message! {
    /// What a client submits. Whose it is comes from the certificate, which the claim has to say, too; the shape of a service's work from the server.
    #[derive(Clone, PartialEq, Debug)]
    proto::SubmitRequest <=> pub struct Submission {
        /// What makes it unique.
        key: Key = KEY,
        /// What is to run.
        what: SubmittedWork = one_of::<proto::submit_request::What, _>(),
        /// The files that were uploaded under the same key. Whether their names fit together is not checked
        /// here.
        inputs: Vec<FileSpec> = list(nested(), bounds::INPUTS_MAX).exact(),
        /// The latest completion that the client takes here; none takes any.
        latest: Option<Time> = optional(TIME),
        /// The estimates that were compared.
        compared: Vec<ComparedEstimate> = list(nested(), bounds::COMPARED_MAX),
        /// The answers of other servers.
        discovery: DiscoverySummary = unless(DiscoverySummary::default(), nested()),
        /// The user chose this server: the job is not moved.
        pinned: bool,
        /// The user's signature.
        claim: SignedClaim = required(A_CLAIM),
    }
}

message! {
    /// What a user submitted as a job.
    #[derive(Clone, PartialEq, Debug)]
    proto::SubmittedReply <=> pub struct SubmittedJob {
        /// What runs.
        what: SubmittedWork = one_of::<proto::submitted_reply::What, _>(),
        /// Its input files. The results of the job say which are still there as they were.
        inputs: Vec<FileSpec> = list(nested(), bounds::INPUTS_MAX).exact(),
        /// The user chose the server.
        pinned: bool,
    }
}

/// What is to run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SubmittedWork {
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
    Batch(InstanceBatch),
    /// A call of a typed service.
    Call(TypedCall),
}

impl SubmittedWork {
    /// The service that it calls; none if it runs a script.
    pub fn service(&self) -> Option<&str> {
        match self {
            SubmittedWork::Service { name, .. } => Some(name),
            SubmittedWork::Batch(batch) => match &batch.executable {
                Executable::Service(name) => Some(name),
                Executable::Script(_) => None,
            },
            SubmittedWork::Script(_) => None,
            SubmittedWork::Call(call) => Some(&call.service),
        }
    }
}

message! {
    /// A call of a typed service.
    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    proto::TypedCall <=> pub struct TypedCall {
        /// The service. Whether it is offered and takes these values is not checked here.
        service: String = SERVICE,
        /// Its numbers that go to the service, as text.
        arguments: BTreeMap<String, String> = ARGUMENTS,
        /// Its arguments, encoded; empty if they are in the input file [`CALL_ARGUMENTS`].
        values: ExactText = CALL_VALUES,
        /// Its arguments that are at the server, from earlier calls.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        stored: Vec<StoredArgument> = list(nested(), bounds::CALL_PARAMETERS_MAX).exact(),
        /// Its values that stay at the server.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        kept: Vec<KeptParameter> = list(nested(), bounds::CALL_PARAMETERS_MAX).exact(),
    }

    /// An argument of a call that is at the server.
    #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
    proto::StoredArgument <=> pub struct StoredArgument {
        /// The parameter. Whether the service has it is not checked here.
        parameter: String = word("the name of a parameter", bounds::NAME_BYTES_MAX).exact(),
        /// The key of the data.
        data: Key = KEY,
    }

    /// A parameter of a call whose value stays at the server: the result of one that comes back, the argument of another.
    #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
    proto::KeptParameter <=> pub struct KeptParameter {
        /// The parameter. Whether the service has it is not checked here.
        parameter: String = word("the name of a parameter", bounds::NAME_BYTES_MAX).exact(),
        /// The key of the data. Data of the same user with that key are replaced.
        data: Key = KEY,
        /// Whether the value comes back, too.
        returned: bool,
    }
}

/// The input file that has the encoded arguments of a call, if they are too long for a submission.
pub const CALL_ARGUMENTS: &str = "call.arguments";
/// The file in the work folder of a call that has its outcome, a frame.
pub const CALL_OUTCOME: &str = "call.outcome";

message! {
    /// A user's own script.
    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    proto::Script <=> pub struct Script {
        /// What the job is called.
        name: String = word("the name of a script", bounds::NAME_BYTES_MAX).exact(),
        /// Its text; the first line says what runs it (`#!`).
        text: ExactText = SCRIPT,
        /// What is asked for.
        work: Work = required("the work"),
        /// What it is started with.
        arguments: Vec<String> = list(ARGUMENT, bounds::ARGUMENTS_MAX).exact(),
        /// The folder of the user's own in which it runs; a folder of the job's if there is none.
        folder: Option<SharedFolder> = unless_empty(SHARED_FOLDER),
        /// Variables of its environment besides those that every job has.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        environment: BTreeMap<String, String> = map(VARIABLE, ARGUMENT, bounds::ARGUMENTS_MAX),
        /// The file that is its standard input, in the folder in which it runs; nothing if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stdin: Option<FileName> = unless_empty(FILE_NAME),
        /// Its standard error goes where its standard output goes.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        merge_output: bool,
    }
}

impl Script {
    /// A script that is started without anything, in a folder of its job's.
    pub fn new(name: String, text: ExactText, work: Work) -> Script {
        Script {
            name,
            text,
            work,
            arguments: Vec::new(),
            folder: None,
            environment: BTreeMap::new(),
            stdin: None,
            merge_output: false,
        }
    }
}

one_of! {
    proto::submit_request::What <=> SubmittedWork {
        Service(proto::ServiceCall) <=> Service { name: SERVICE, arguments: ARGUMENTS },
        Script <=> Script(nested()),
        Batch <=> Batch(nested()),
        Call <=> Call(nested()),
    }

    proto::submitted_work::What <=> SubmittedWork {
        Service(proto::ServiceCall) <=> Service { name: SERVICE, arguments: ARGUMENTS },
        Script <=> Script(nested()),
        Batch <=> Batch(nested()),
        Call <=> Call(nested()),
    }

    proto::submitted_reply::What <=> SubmittedWork {
        Service(proto::ServiceCall) <=> Service { name: SERVICE, arguments: ARGUMENTS },
        Script <=> Script(nested()),
        Batch <=> Batch(nested()),
        Call <=> Call(nested()),
    }

    proto::prepare_request::What <=> SubmittedWork {
        Service(proto::ServiceCall) <=> Service { name: SERVICE, arguments: ARGUMENTS },
        Script <=> Script(nested()),
        Batch <=> Batch(nested()),
        Call <=> Call(nested()),
    }
}
