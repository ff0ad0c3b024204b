//! Calls of typed services: what is declared of them, and what a job carries out.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pliant_calls::{Parameter, ParameterType, ScalarType, Signature, decode};
use pliant_control::exact_text::ExactText;
use pliant_control::names::Key;
use pliant_model::{Procs, Span};
use pliant_staging::TASKS;
use pliant_wire::{CALL_ARGUMENTS, TypedCall};
use serde::{Deserialize, Serialize};

use super::argument::{Argument, ArgumentKind};
use super::data;
use super::prepared::Prepared;
use super::refusal::Refusal;
use super::service::Service;
use super::template::Template;
use crate::call_values::CallArguments;
use crate::processes::{CallSpec, OutputFrom, ParameterFormat};
use crate::word::Word;

/// After how long without a call a resident process is ended, if its service does not say.
pub const DEFAULT_IDLE: Span = Span(600);

/// How often a call of an idempotent service is carried out again after failures of its host.
const REPEATED_MAX: u32 = 3;

/// How a typed service is called.
#[derive(Clone, PartialEq, Debug)]
pub struct CallDeclaration {
    /// Its parameters.
    pub signature: Signature,
    /// What is declared of them besides.
    pub(crate) parameters: BTreeMap<String, ParameterDeclaration>,
    /// After how long without a call its process is ended, if it is resident; none if each call starts the command.
    pub resident: Option<Span>,
    /// The function of a shared library that carries out calls, in a process of our own; none if there is a command.
    pub(crate) library: Option<LibraryFunction>,
    /// Whether a call may be carried out again if its host failed before it was concluded.
    pub idempotent: bool,
}

/// What is declared of a parameter besides its type.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct ParameterDeclaration {
    /// What it is for.
    pub(crate) summary: String,
    /// The smallest and the largest number.
    pub(crate) bounds: Option<ArgumentKind>,
    /// How a command reads and writes it.
    pub(crate) format: ParameterFormat,
    /// Where a command leaves it; the file of its name if that is not said.
    pub(crate) output: Option<OutputFrom>,
}

/// A function of a shared library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LibraryFunction {
    pub(crate) library: String,
    pub(crate) function: String,
    pub(crate) signature: String,
}

/// A call as a job carries it out, journaled with the job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PreparedCall {
    /// The signature of the service.
    signature: String,
    /// The command that the call starts, or that of the resident process.
    program: Vec<Word>,
    environment: BTreeMap<String, Word>,
    /// How the command reads and writes its parameters, and where it leaves them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    formats: BTreeMap<String, ParameterFormat>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    outputs: BTreeMap<String, OutputFrom>,
    /// The numbers with which the job was planned.
    numbers: BTreeMap<String, String>,
    /// The arguments; empty if they are in an input file.
    values: ExactText,
    /// The arguments that are at the server, by parameter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stored: BTreeMap<String, Key>,
    /// The values that stay at the server, by parameter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kept: BTreeMap<String, KeptValue>,
    /// The resident process that carries it out, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident: Option<ResidentCall>,
}

/// A value that stays at the server after a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KeptValue {
    /// The key of the data.
    pub data: Key,
    /// Whether it comes back, too.
    pub returned: bool,
    /// How many bytes it has, at most.
    pub bytes: u64,
}

/// The resident process of a service.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResidentCall {
    /// After how long without a call it is ended, in seconds.
    pub idle_s: u64,
}

impl LibraryFunction {
    /// The command of the process that loads the library.
    pub(crate) fn command(&self) -> Vec<Template> {
        let words = ["call-library", &self.library, &self.function, &self.signature];
        std::iter::once(Template::pliant()).chain(words.into_iter().map(Template::text)).collect()
    }
}

impl CallDeclaration {
    /// The arguments by which its jobs are planned: the numbers that go to the service.
    pub(super) fn number_arguments(&self) -> BTreeMap<String, Argument> {
        let argument = |parameter: &Parameter| {
            let ParameterType::Scalar(scalar) = parameter.kind else { return None };
            let declared = self.parameters.get(&parameter.name).cloned().unwrap_or_default();
            // A number that is not finite has no text that is planned with.
            let required = scalar.is_whole() || declared.bounds.is_some();
            let kind = declared.bounds.unwrap_or_else(|| number_kind(scalar));
            let argument = Argument { summary: declared.summary, kind, default: None, required, dash: true };
            Some((parameter.name.clone(), argument))
        };
        self.signature.inputs().filter_map(argument).collect()
    }
}

/// What a number of that type may be.
pub(super) fn number_kind(scalar: ScalarType) -> ArgumentKind {
    let integer = |min, max| ArgumentKind::Integer { min, max };
    match scalar {
        ScalarType::Char => integer(0, i64::from(u8::MAX)),
        ScalarType::Int => integer(i64::from(i32::MIN), i64::from(i32::MAX)),
        ScalarType::Long => integer(i64::MIN, i64::MAX),
        ScalarType::Float => ArgumentKind::Number { min: f64::from(f32::MIN), max: f64::from(f32::MAX) },
        ScalarType::Double => ArgumentKind::Number { min: f64::MIN, max: f64::MAX },
    }
}

impl Service {
    /// Fills a call in, as [`Service::prepare`] does for a submission by arguments. Values that are in the submission are checked
    /// here, those in an input file when the call is carried out.
    ///
    /// # Errors
    ///
    /// The service is not typed, or the values are not what it takes, or the call takes too long.
    pub fn prepare_call(
        &self,
        call: &TypedCall,
        pliant: &str,
        learned: Option<Span>,
    ) -> Result<Prepared, Refusal> {
        let Some(declared) = &self.call else {
            return Err(Refusal::NotTyped { service: self.name.clone() });
        };
        let wrong = |problem: String| Refusal::Values { service: self.name.clone(), problem };
        let is_in_file = call.values.is_empty();
        let (numbers, mut files) = match is_in_file {
            true => (call.arguments.clone(), vec![CALL_ARGUMENTS.parse().expect("it is the name of a file")]),
            false => {
                let values = decode(call.values.as_bytes()).map_err(|error| wrong(error.to_string()))?;
                let is_stored =
                    |parameter: &Parameter| call.stored.iter().any(|one| one.parameter == parameter.name);
                let given =
                    CallArguments::new_but(declared.signature.clone(), values, is_stored).map_err(wrong)?;
                (given.numbers(), given.files().cloned().collect())
            }
        };
        let stored = data::stored(&declared.signature, &call.stored).map_err(wrong)?;
        let kept = data::kept(&declared.signature, &call.kept, &numbers).map_err(wrong)?;
        let mut prepared = self.prepare(&numbers, pliant, learned)?;
        prepared.inputs.append(&mut files);
        if declared.idempotent {
            prepared.work.requeue = REPEATED_MAX;
        }
        let names: Vec<String> =
            declared.signature.parameters().iter().map(|parameter| parameter.name.clone()).collect();
        let fill = |word: &Template| word.fill_but(&names, &BTreeMap::new(), pliant);
        let environment = self.environment.iter();
        let parameters = declared.parameters.iter();
        let prepared_call = PreparedCall {
            signature: declared.signature.to_string(),
            program: self.command.iter().filter_map(fill).collect(),
            environment: environment.filter_map(|(name, word)| Some((name.clone(), fill(word)?))).collect(),
            formats: parameters.clone().map(|(name, declared)| (name.clone(), declared.format)).collect(),
            outputs: parameters
                .filter_map(|(name, declared)| Some((name.clone(), declared.output.clone()?)))
                .collect(),
            numbers,
            values: call.values.clone(),
            stored,
            kept,
            resident: declared.resident.map(|idle| ResidentCall { idle_s: idle.0.max(1).unsigned_abs() }),
        };
        let runner = [pliant.to_owned(), "run-tasks".to_owned(), format!("../{TASKS}")];
        Ok(Prepared {
            command: runner.into_iter().map(Word::text).collect(),
            environment: BTreeMap::new(),
            call: Some(Box::new(prepared_call)),
            ..prepared
        })
    }
}

impl PreparedCall {
    /// Whether it names data at the server, or leaves some there.
    pub fn has_data(&self) -> bool {
        !self.stored.is_empty() || !self.kept.is_empty()
    }

    /// What a job carries out that has `walltime` on `procs` processors; `data` is the file of data at the server.
    pub fn spec(
        &self,
        (procs, walltime): (Procs, Span),
        grace_s: u64,
        data: impl Fn(&Key) -> PathBuf,
    ) -> CallSpec {
        // What the parameters are is open until the call is carried out.
        let program = self.program.iter().map(|word| word.with_size(procs, walltime));
        let environment = self.environment.iter();
        CallSpec {
            signature: self.signature.clone(),
            program: program.collect(),
            env: environment.map(|(name, word)| (name.clone(), word.with_size(procs, walltime))).collect(),
            formats: self.formats.clone(),
            outputs: self.outputs.clone(),
            numbers: self.numbers.clone(),
            values: self.values.clone(),
            stored: self.stored.iter().map(|(name, key)| (name.clone(), data(key))).collect(),
            kept: self.kept.iter().map(|(name, kept)| (name.clone(), kept.returned)).collect(),
            procs: procs.0,
            walltime_s: walltime.0.max(1).unsigned_abs(),
            grace_s,
        }
    }

    /// The command of its resident process, and the variables of that.
    pub fn resident_command(&self) -> (Vec<String>, BTreeMap<String, String>) {
        let text = |word: &Word| word.at_start(Procs::ONE, Span::ZERO);
        let environment = self.environment.iter();
        (
            self.program.iter().map(text).collect(),
            environment.map(|(name, word)| (name.clone(), text(word))).collect(),
        )
    }
}
