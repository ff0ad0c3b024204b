//! What was submitted as a job.

use std::collections::BTreeMap;

use pliant_client::{InputState, SubmittedInput};
use serde::Serialize;
use utoipa::ToSchema;

/// What was submitted as a job, in the form in which it can be submitted again.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct SubmittedView {
    /// What runs; none if it does not fit into the form.
    pub(crate) work: Option<SubmittedWorkView>,
    /// Why it does not fit into the form.
    pub(crate) why_not: Option<String>,
    /// True if it is a call of a typed service, whose values `/jobs/{id}/call` has.
    pub(crate) is_call: bool,
    /// The server, if the user chose it.
    pub(crate) server: Option<String>,
    /// The input files.
    pub(crate) inputs: Vec<InputView>,
}

/// What a job runs.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum SubmittedWorkView {
    /// A service of the federation.
    Service {
        /// Its name.
        name: String,
        /// The values of its arguments, by name.
        arguments: BTreeMap<String, String>,
    },
    /// A script.
    Script {
        /// The name of the script, and of the job.
        name: String,
        /// The text.
        text: String,
        /// Options of `pliant submit`, one word each: those that the lines of the script do not say.
        options: Vec<String>,
        /// The arguments of the script.
        arguments: Vec<String>,
    },
    /// A call of a typed service.
    Call {
        /// The name of the service.
        name: String,
        /// Its signature.
        signature: String,
        /// The values that went to the service, by the name of the parameter, but for files.
        values: BTreeMap<String, String>,
    },
}

/// An input file of a job.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct InputView {
    /// Its name in the folder of the job.
    name: String,
    /// Its size in bytes, as it was submitted.
    bytes: u64,
    /// Its checksum (SHA-256), as it was submitted.
    sha256: String,
    /// Its state.
    state: InputStateView,
}

/// The state of an input file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum InputStateView {
    /// The job has not ended; its files cannot be read yet.
    Pending,
    /// It is there as it was submitted, and can be downloaded as `work/` and its name.
    Kept,
    /// The job has changed it.
    Changed,
    /// It was removed, by the job or with the folder of the job.
    Removed,
    /// The server does not list it, and its list of files is incomplete: it may be there.
    Unknown,
}

impl From<InputState> for InputStateView {
    fn from(state: InputState) -> InputStateView {
        match state {
            InputState::Pending => InputStateView::Pending,
            InputState::Kept => InputStateView::Kept,
            InputState::Changed => InputStateView::Changed,
            InputState::Removed => InputStateView::Removed,
            InputState::Unknown => InputStateView::Unknown,
        }
    }
}

impl From<SubmittedInput> for InputView {
    fn from(SubmittedInput { file, state }: SubmittedInput) -> InputView {
        InputView {
            name: file.name.as_str().to_owned(),
            bytes: file.size,
            sha256: file.sha256.to_string(),
            state: state.into(),
        }
    }
}
