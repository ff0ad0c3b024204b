//! What a client submits.

use std::collections::BTreeMap;

use pliant_control::job::{Compared, Work};
use pliant_control::names::Key;
use pliant_control::reason::Survey;
use pliant_model::Time;
use pliant_staging::FileSpec;
use serde::{Deserialize, Serialize};

use super::discovery::{called, service_call};
use super::proto::{self, submit_request};
use super::{Malformed, Pack, bounds, read, write};

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

impl From<&Submission> for proto::SubmitRequest {
    fn from(submission: &Submission) -> proto::SubmitRequest {
        let what = match &submission.what {
            Submitted::Service { name, arguments } => {
                submit_request::What::Service(service_call(name, arguments))
            }
            Submitted::Script(script) => submit_request::What::Script(script.into()),
            Submitted::Pack(pack) => submit_request::What::Pack(pack.into()),
        };
        proto::SubmitRequest {
            key: submission.key.0.to_vec(),
            what: Some(what),
            // Not cut: the client is to be told if there are too many.
            inputs: submission.inputs.iter().map(proto::InputFile::from).collect(),
            latest: write::optional_time(submission.latest),
            compared: write::list(&submission.compared, bounds::COMPARED_MAX),
            survey: super::cause::survey(&submission.survey),
            pinned: submission.pinned,
        }
    }
}

impl TryFrom<proto::SubmitRequest> for Submission {
    type Error = Malformed;
    fn try_from(message: proto::SubmitRequest) -> Result<Submission, Malformed> {
        let key = read::key("key", &message.key)?;
        let what = match message.what {
            Some(submit_request::What::Service(call)) => {
                let (name, arguments) = called(call).map_err(|malformed| malformed.under("service"))?;
                Submitted::Service { name, arguments }
            }
            Some(submit_request::What::Script(script)) => {
                let script = Script::try_from(script).map_err(|malformed| malformed.under("script"))?;
                Submitted::Script(script)
            }
            Some(submit_request::What::Pack(pack)) => {
                Submitted::Pack(Pack::try_from(pack).map_err(|malformed| malformed.under("pack"))?)
            }
            None => return Err(Malformed::missing("", "service, script or pack")),
        };
        Ok(Submission {
            key,
            what,
            inputs: read::list("inputs", message.inputs, bounds::INPUTS_MAX, FileSpec::try_from)?,
            latest: read::optional_time("latest", message.latest)?,
            compared: read::list("compared", message.compared, bounds::COMPARED_MAX, Compared::try_from)?,
            survey: read::optional("survey", message.survey)?.unwrap_or_default(),
            pinned: message.pinned,
        })
    }
}

impl From<&Script> for proto::Script {
    fn from(script: &Script) -> proto::Script {
        let Script { name, text, work, arguments } = script;
        proto::Script {
            name: name.clone(),
            text: text.clone(),
            work: Some(work.into()),
            arguments: arguments.clone(),
        }
    }
}

impl TryFrom<proto::Script> for Script {
    type Error = Malformed;
    fn try_from(message: proto::Script) -> Result<Script, Malformed> {
        let argument = |argument| read::text("", argument, bounds::ARGUMENT_BYTES_MAX);
        Ok(Script {
            name: read::word("name", "the name of a script", message.name, bounds::NAME_BYTES_MAX)?,
            text: script_text("text", message.text)?,
            work: read::required("work", "the work", message.work)?,
            arguments: read::list("arguments", message.arguments, bounds::ARGUMENTS_MAX, argument)?,
        })
    }
}

/// A script that says what runs it.
pub(super) fn script_text(field: &str, text: Vec<u8>) -> Result<Vec<u8>, Malformed> {
    let text = read::bytes_to(field, text, bounds::SCRIPT_BYTES_MAX)?;
    if !text.starts_with(b"#!") {
        let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let first = String::from_utf8_lossy(&first[..first.len().min(80)]);
        return Err(Malformed::text(field, "a first line that says what runs it, like `#!/bin/sh`", &first));
    }
    Ok(text)
}
