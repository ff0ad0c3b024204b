//! Multi-jobs: batches of instances, and the prospects of servers.

use std::collections::BTreeMap;

use pliant_control::multi_job::{Expectation, FreeSlots, InstanceProspects, RuntimeSource};
use pliant_control::names::Key;
use pliant_policy::runtimes::Level;
#[cfg(test)]
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::executable::{executable_parts, whole_executable};
use super::field::*;
use super::proto::{self, prospects_reply::Answer};
use super::runtimes::LEVEL;
use super::server::SubmissionRefusal;
use super::table::{conversions, message};
use super::{Executable, Malformed, bounds};

/// Instances of a multi-job that one job runs one after the other.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct InstanceBatch {
    /// What they run.
    pub executable: Executable,
    /// The arguments that are the same for all.
    pub arguments: BTreeMap<String, String>,
    /// The names of those that differ.
    pub varied: Vec<String>,
    /// The instances.
    pub instances: Vec<InstanceCall>,
    /// The key of the uploads that are the inputs of every batch, if there are any.
    pub inputs_key: Option<Key>,
}

// What comes from a user is not cut: the user is informed if there is too much of it.
message! {
    proto::InstanceBatch <=> InstanceBatch {
        executable: join(executable_parts, whole_executable) =>
            (service: unless_empty(SERVICE), script: optional(nested())),
        arguments: ARGUMENTS,
        varied: argument_names(),
        instances: list(nested(), bounds::BATCH_MAX).exact().not_empty("at least one instance"),
        inputs_key: unless_empty(KEY),
    } => (check: whole_batch, fit: crate::tests::fit::batch)
}

message! {
    /// An instance of a batch.
    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    proto::instance_batch::Instance <=> pub struct InstanceCall {
        /// Its number in the multi-job.
        number: u32,
        /// Its values, in the order of [`InstanceBatch::varied`].
        values: Vec<String> = list(ARGUMENT, bounds::ARGUMENTS_MAX).exact(),
    }
}

impl InstanceBatch {
    /// The arguments of one of its instances.
    pub fn arguments_of(&self, call: &InstanceCall) -> BTreeMap<String, String> {
        call.arguments(&self.arguments, &self.varied)
    }
}

impl InstanceCall {
    /// Its arguments: those of all, and its own in place of those with these names.
    fn arguments(&self, all: &BTreeMap<String, String>, varied: &[String]) -> BTreeMap<String, String> {
        let own = varied.iter().cloned().zip(self.values.iter().cloned());
        all.clone().into_iter().chain(own).collect()
    }
}

/// What is asked of a server that may get instances.
#[derive(Clone, PartialEq, Debug)]
pub struct ProspectsQuery {
    /// What they run. The first line of a script is enough.
    pub executable: Executable,
    /// The arguments of the first.
    pub arguments: BTreeMap<String, String>,
    /// The names of those in which others differ.
    pub varied: Vec<String>,
    /// Sample instances; the first one if there are none.
    pub others: Vec<InstanceCall>,
    /// Jobs of the caller that are left out if they wait.
    pub without: Vec<u32>,
    /// The expected runtime of the service by the agent.
    pub elsewhere: Option<Expectation>,
}

impl ProspectsQuery {
    /// The samples: their numbers and arguments.
    pub fn samples(&self) -> impl Iterator<Item = (u32, BTreeMap<String, String>)> {
        self.others.iter().map(|call| (call.number, call.arguments(&self.arguments, &self.varied)))
    }
}

message! {
    proto::Prospects <=> InstanceProspects {
        free: list(nested(), bounds::SLOTS_MAX),
        instance_ms <=> instance: SPAN_MS,
        scale: absent_means(1.0, number("a factor", bounds::SCALE)),
        source: join(source_parts, runtime_source) => (source_jobs, source_level: unless_empty(LEVEL)),
        jobs,
        failures,
        batch_most: unless_empty(as_is()),
        waiting,
        refused: list(nested(), bounds::SAMPLES_MAX),
    }

    proto::prospects::Unfit <=> (u32, String) (number, why: TEXT)

    proto::prospects::FreeSlots <=> FreeSlots {
        at_ms <=> at: SPAN_MS,
        slots: PROCS_COUNT.exact(),
    }
}

/// A batch whose instances have a value for each argument that differs.
fn whole_batch(batch: InstanceBatch) -> Result<InstanceBatch, Malformed> {
    one_value_each("instances", &batch.instances, &batch.varied)?;
    Ok(batch)
}

fn one_value_each(field: &str, calls: &[InstanceCall], varied: &[String]) -> Result<(), Malformed> {
    match calls.iter().enumerate().find(|(_, call)| call.values.len() != varied.len()) {
        Some((index, call)) => {
            let expected = format!("{} values, one for each name in `varied`", varied.len());
            Err(Malformed::new("values", expected, call.values.len()).at(field, index))
        }
        None => Ok(()),
    }
}

/// The number of jobs behind an expected runtime, and their level if they are of the federation.
fn source_parts(source: &RuntimeSource) -> (u64, Option<Level>) {
    match source {
        RuntimeSource::Walltime => (0, None),
        RuntimeSource::Statistics { jobs } | RuntimeSource::Own { instances: jobs } => (*jobs, None),
        RuntimeSource::Federation { level, jobs } => (*jobs, Some(*level)),
    }
}

fn runtime_source((jobs, level): (u64, Option<Level>)) -> Result<RuntimeSource, Malformed> {
    Ok(match (jobs, level) {
        (0, _) => RuntimeSource::Walltime,
        (jobs, None) => RuntimeSource::Statistics { jobs },
        (jobs, Some(level)) => RuntimeSource::Federation { level, jobs },
    })
}

/// By hand: one field of the message, the call, is two of the domain type.
impl HasMessage for ProspectsQuery {
    type Message = proto::ProspectsRequest;

    fn to_message(&self) -> proto::ProspectsRequest {
        let ProspectsQuery { executable, arguments, varied, others, without, elsewhere } = self;
        let (name, script) = executable_parts(executable);
        let name = name.unwrap_or_default();
        proto::ProspectsRequest {
            service: Some(proto::ServiceCall { name, arguments: arguments.clone() }),
            script: script.as_ref().map(Into::into),
            varied: argument_names().encode(varied),
            others: samples().encode(others),
            without: without.clone(),
            elsewhere: elsewhere.as_ref().map(Into::into),
        }
    }

    fn from_message(message: proto::ProspectsRequest) -> Result<ProspectsQuery, Malformed> {
        let call = message.service.unwrap_or_default();
        let service = unless_empty(SERVICE).decode("service.name", call.name)?;
        let script = optional(nested()).decode("script", message.script)?;
        let query = ProspectsQuery {
            executable: whole_executable((service, script))?,
            arguments: ARGUMENTS.decode("service.arguments", call.arguments)?,
            elsewhere: optional(nested()).decode("elsewhere", message.elsewhere)?,
            varied: argument_names().decode("varied", message.varied)?,
            others: samples().decode("others", message.others)?,
            without: message.without,
        };
        one_value_each("others", &query.others, &query.varied)?;
        Ok(query)
    }

    #[cfg(test)]
    fn strategy() -> BoxedStrategy<ProspectsQuery> {
        let elsewhere = optional(nested()).strategy();
        let drawn = (InstanceBatch::strategy(), any::<Vec<u32>>(), elsewhere);
        let query = |(batch, without, elsewhere)| {
            let InstanceBatch { executable, arguments, varied, instances: others, .. } = batch;
            ProspectsQuery { executable, arguments, varied, others, without, elsewhere }
        };
        drawn.prop_map(query).boxed()
    }
}

conversions! { proto::ProspectsRequest <=> ProspectsQuery; }

/// The names of the arguments that differ.
fn argument_names() -> List<Text> {
    list(ARGUMENT_NAME, bounds::ARGUMENTS_MAX).exact()
}

fn samples() -> List<NestedMessage<InstanceCall>> {
    list(nested(), bounds::SAMPLES_MAX)
}

/// The reply with the prospects of a server, or its refusal.
pub fn prospects_reply(answer: &Result<InstanceProspects, SubmissionRefusal>) -> proto::ProspectsReply {
    let answer = match answer {
        Ok(prospects) => Answer::Prospects(prospects.into()),
        Err(declined) => Answer::Refused(declined.into()),
    };
    proto::ProspectsReply { answer: Some(answer) }
}

/// The prospects or the refusal of a reply.
///
/// # Errors
///
/// [`Malformed`], with a path from [`proto::ProspectsReply`].
pub fn prospects_answer(
    reply: proto::ProspectsReply,
) -> Result<Result<InstanceProspects, SubmissionRefusal>, Malformed> {
    match reply.answer {
        Some(Answer::Prospects(prospects)) => {
            InstanceProspects::try_from(prospects).map(Ok).map_err(|malformed| malformed.under("prospects"))
        }
        Some(Answer::Refused(refused)) => {
            SubmissionRefusal::try_from(refused).map(Err).map_err(|malformed| malformed.under("refused"))
        }
        None => Err(Malformed::missing("", "prospects or a refusal")),
    }
}
