//! Multi-jobs: packs of instances, and what they may expect of a server.

use std::collections::BTreeMap;

use pliant_control::multi_job::{Expectation, Places, Prospects, Told};
use pliant_control::names::Key;
use serde::{Deserialize, Serialize};

use super::discovery::{arguments, called, service_call};
use super::proto::{self, prospects_reply::Answer};
use super::runtimes::{expectation, level};
use super::server::Declined;
use super::{Malformed, bounds, read, write};

/// Instances of a multi-job that one job runs one after the other.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Pack {
    /// The service that they call.
    pub service: String,
    /// The arguments that are the same for all.
    pub arguments: BTreeMap<String, String>,
    /// The names of those that differ.
    pub varied: Vec<String>,
    /// The instances.
    pub instances: Vec<PackedCall>,
    /// The key of the uploads that are the inputs of every pack, if there are any.
    pub inputs_key: Option<Key>,
}

/// An instance of a pack.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PackedCall {
    /// Its number in the multi-job.
    pub number: u32,
    /// Its values, in the order of [`Pack::varied`].
    pub values: Vec<String>,
}

impl Pack {
    /// The arguments of one of its instances.
    pub fn arguments_of(&self, call: &PackedCall) -> BTreeMap<String, String> {
        call.arguments(&self.arguments, &self.varied)
    }
}

impl From<&Pack> for proto::Pack {
    fn from(pack: &Pack) -> proto::Pack {
        let Pack { service, arguments, varied, instances, inputs_key } = pack;
        proto::Pack {
            service: service.clone(),
            arguments: arguments.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            varied: varied.clone(),
            // Not cut: the client is to be told if there are too many.
            instances: instances.iter().map(Into::into).collect(),
            inputs_key: inputs_key.map_or_else(Vec::new, |key| key.0.to_vec()),
        }
    }
}

impl TryFrom<proto::Pack> for Pack {
    type Error = Malformed;
    fn try_from(message: proto::Pack) -> Result<Pack, Malformed> {
        let varied = names(message.varied)?;
        let call = |found| PackedCall::read(found, &varied);
        let instances = read::list("instances", message.instances, bounds::PACK_MAX, call)?;
        if instances.is_empty() {
            return Err(Malformed::missing("instances", "at least one instance"));
        }
        Ok(Pack {
            service: read::word("service", "the name of a service", message.service, bounds::NAME_BYTES_MAX)?,
            arguments: arguments("arguments", message.arguments)?,
            varied,
            instances,
            inputs_key: match message.inputs_key.as_slice() {
                [] => None,
                bytes => Some(read::key("inputs_key", bytes)?),
            },
        })
    }
}

/// The names of arguments that differ.
fn names(found: Vec<String>) -> Result<Vec<String>, Malformed> {
    let name = |name| read::word("", "the name of an argument", name, bounds::NAME_BYTES_MAX);
    read::list("varied", found, bounds::ARGUMENTS_MAX, name)
}

impl PackedCall {
    /// Its arguments: those of all, and its own in place of those with these names.
    fn arguments(&self, all: &BTreeMap<String, String>, varied: &[String]) -> BTreeMap<String, String> {
        let own = varied.iter().cloned().zip(self.values.iter().cloned());
        all.clone().into_iter().chain(own).collect()
    }

    /// One with a value for each of these arguments.
    fn read(found: proto::pack::Instance, varied: &[String]) -> Result<PackedCall, Malformed> {
        if found.values.len() != varied.len() {
            let expected = format!("{} values, one for each name in `varied`", varied.len());
            return Err(Malformed::new("values", expected, found.values.len()));
        }
        let value = |value| read::text("", value, bounds::ARGUMENT_BYTES_MAX);
        let values = read::list("values", found.values, bounds::ARGUMENTS_MAX, value)?;
        Ok(PackedCall { number: found.number, values })
    }
}

impl From<&PackedCall> for proto::pack::Instance {
    fn from(call: &PackedCall) -> proto::pack::Instance {
        proto::pack::Instance { number: call.number, values: call.values.clone() }
    }
}

/// What is asked of a server that may get instances.
#[derive(Clone, PartialEq, Debug)]
pub struct ProspectsQuery {
    /// The service that they call.
    pub service: String,
    /// The arguments of the first.
    pub arguments: BTreeMap<String, String>,
    /// The names of those in which others differ.
    pub varied: Vec<String>,
    /// Some that stand for all: the first one does if there are none.
    pub others: Vec<PackedCall>,
    /// Jobs of whoever asks: those of them that wait are left out.
    pub without: Vec<u32>,
    /// What an agent expects of the service.
    pub elsewhere: Option<Expectation>,
}

impl ProspectsQuery {
    /// Those that stand for all: their numbers and arguments.
    pub fn samples(&self) -> impl Iterator<Item = (u32, BTreeMap<String, String>)> {
        self.others.iter().map(|call| (call.number, call.arguments(&self.arguments, &self.varied)))
    }
}

impl From<&ProspectsQuery> for proto::ProspectsRequest {
    fn from(query: &ProspectsQuery) -> proto::ProspectsRequest {
        let ProspectsQuery { service, arguments, varied, others, without, elsewhere } = query;
        proto::ProspectsRequest {
            service: Some(service_call(service, arguments)),
            varied: varied.clone(),
            others: write::list(others, bounds::SAMPLES_MAX),
            without: without.clone(),
            elsewhere: elsewhere.as_ref().map(Into::into),
        }
    }
}

impl TryFrom<proto::ProspectsRequest> for ProspectsQuery {
    type Error = Malformed;
    fn try_from(message: proto::ProspectsRequest) -> Result<ProspectsQuery, Malformed> {
        let proto::ProspectsRequest { service, without, elsewhere, varied, others } = message;
        let (service, arguments) =
            called(service.unwrap_or_default()).map_err(|malformed| malformed.under("service"))?;
        let elsewhere = expectation("elsewhere", elsewhere)?;
        let varied = names(varied)?;
        let other = |found| PackedCall::read(found, &varied);
        let others = read::list("others", others, bounds::SAMPLES_MAX, other)?;
        Ok(ProspectsQuery { service, arguments, varied, others, without, elsewhere })
    }
}

impl From<&Prospects> for proto::Prospects {
    fn from(prospects: &Prospects) -> proto::Prospects {
        let Prospects { free, instance, scale, told, jobs, failures, pack_most, waiting, refused } =
            prospects;
        proto::Prospects {
            free: write::list(free, bounds::PLACES_MAX),
            instance_ms: write::span_ms(*instance),
            scale: Some(write::measured(&bounds::SCALE, *scale)),
            told_by: match told {
                Told::Walltime => 0,
                Told::Statistics { jobs } | Told::Federation { jobs, .. } | Told::Own { instances: jobs } => {
                    *jobs
                }
            },
            told_level: match told {
                Told::Federation { level, .. } => level.name().to_owned(),
                Told::Walltime | Told::Statistics { .. } | Told::Own { .. } => String::new(),
            },
            jobs: *jobs,
            failures: *failures,
            pack_most: pack_most.unwrap_or(0),
            waiting: waiting.clone(),
            refused: write::list(refused, bounds::SAMPLES_MAX),
        }
    }
}

impl TryFrom<proto::Prospects> for Prospects {
    type Error = Malformed;
    fn try_from(message: proto::Prospects) -> Result<Prospects, Malformed> {
        Ok(Prospects {
            free: read::list("free", message.free, bounds::PLACES_MAX, Places::try_from)?,
            instance: read::span_ms("instance_ms", message.instance_ms)?,
            scale: read::number("scale", "a factor", &bounds::SCALE, message.scale.unwrap_or(1.0))?,
            told: match (message.told_by, message.told_level.as_str()) {
                (0, _) => Told::Walltime,
                (jobs, "") => Told::Statistics { jobs },
                (jobs, common) => Told::Federation { level: level("told_level", common)?, jobs },
            },
            jobs: message.jobs,
            failures: message.failures,
            pack_most: (message.pack_most > 0).then_some(message.pack_most),
            waiting: message.waiting,
            refused: read::list("refused", message.refused, bounds::SAMPLES_MAX, unfit)?,
        })
    }
}

impl From<&(u32, String)> for proto::prospects::Unfit {
    fn from((number, why): &(u32, String)) -> proto::prospects::Unfit {
        proto::prospects::Unfit { number: *number, why: write::text(why, bounds::TEXT_BYTES_MAX) }
    }
}

fn unfit(found: proto::prospects::Unfit) -> Result<(u32, String), Malformed> {
    Ok((found.number, read::text("why", found.why, bounds::TEXT_BYTES_MAX)?))
}

impl From<&Places> for proto::prospects::Places {
    fn from(places: &Places) -> proto::prospects::Places {
        let at_ms = write::span_ms(places.at);
        proto::prospects::Places { at_ms, places: places.places }
    }
}

impl TryFrom<proto::prospects::Places> for Places {
    type Error = Malformed;
    fn try_from(message: proto::prospects::Places) -> Result<Places, Malformed> {
        let at = read::span_ms("at_ms", message.at_ms)?;
        Ok(Places { at, places: read::procs("places", message.places)?.0 })
    }
}

/// What a server says of its prospects, or why there are none.
pub fn prospects_reply(answer: &Result<Prospects, Declined>) -> proto::ProspectsReply {
    let answer = match answer {
        Ok(prospects) => Answer::Prospects(prospects.into()),
        Err(declined) => Answer::Refused(declined.into()),
    };
    proto::ProspectsReply { answer: Some(answer) }
}

/// What it said.
///
/// # Errors
///
/// [`Malformed`], with a path from [`proto::ProspectsReply`].
pub fn prospects_answer(reply: proto::ProspectsReply) -> Result<Result<Prospects, Declined>, Malformed> {
    match reply.answer {
        Some(Answer::Prospects(prospects)) => {
            Prospects::try_from(prospects).map(Ok).map_err(|malformed| malformed.under("prospects"))
        }
        Some(Answer::Refused(refused)) => {
            Declined::try_from(refused).map(Err).map_err(|malformed| malformed.under("refused"))
        }
        None => Err(Malformed::missing("", "prospects or a refusal")),
    }
}
