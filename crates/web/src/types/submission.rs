//! Work to submit, and the estimates of it.

use std::collections::BTreeMap;

use pliant_calls::{Parameter, ParameterType, ScalarType, Signature};
use pliant_control::agent::DiscoveryResult;
use pliant_control::client::refusals;
use pliant_control::estimation_vector::EstimationVector;
use pliant_control::names::Name;
use pliant_control::reason::Reason;
use pliant_wire::{Offer, OfferedArgument, OfferedService};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::EstimateView;

/// Work to submit or to estimate.
#[derive(Clone, PartialEq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SubmissionBody {
    /// What runs.
    pub(crate) work: WorkBody,
    /// The only server to submit to; without it the federation chooses.
    #[serde(default)]
    pub(crate) server: Option<String>,
    /// Makes the submission unique: 32 hexadecimal digits. The same key again gives the same job. Without it one is drawn.
    #[serde(default)]
    pub(crate) key: Option<String>,
    /// The ID of an earlier job whose input files go along, as they were submitted. The job must have ended.
    #[serde(default)]
    pub(crate) inputs_of: Option<String>,
    /// Input files, in place of those of the earlier job that have the same names. A body has at most 4 MiB: larger files are sent with
    /// `pliant submit --in`.
    #[serde(default)]
    pub(crate) files: Vec<FileBody>,
}

/// An input file.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileBody {
    /// Its name in the folder of the job.
    pub(crate) name: String,
    /// Its content in base64 (RFC 4648, section 4). Estimates need none.
    #[serde(default)]
    pub(crate) base64: String,
}

/// What a job runs.
#[derive(Clone, PartialEq, Debug, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum WorkBody {
    /// A service of the federation.
    Service {
        /// Its name.
        name: String,
        /// The values of its arguments, by name.
        #[serde(default)]
        arguments: BTreeMap<String, String>,
    },
    /// A script.
    Script {
        /// The name of the script, and of the job.
        name: String,
        /// The text; its first line names the interpreter (`#!`). Lines with `#PLIANT` and `#SBATCH` are understood.
        text: String,
        /// Options of `pliant submit`, one word each: `["--time", "1h"]`. Options that read or write files of the machine of
        /// `pliant web` are refused.
        #[serde(default)]
        options: Vec<String>,
        /// The arguments of the script.
        #[serde(default)]
        arguments: Vec<String>,
    },
    /// A call of a typed service.
    Call {
        /// The name of the service.
        name: String,
        /// Its signature, as `/services` has it. A server with another one refuses the call.
        signature: String,
        /// The values that go to the service, by the name of the parameter: a number; a text; the elements of a vector or a matrix, row by
        /// row, separated by blanks, commas, semicolons or ends of lines. A file is among the files of the submission, under the name of its
        /// parameter.
        #[serde(default)]
        values: BTreeMap<String, String>,
    },
}

/// The estimates of all servers for some work.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct EstimatesView {
    /// When this was true.
    pub(crate) at_s: i64,
    /// The estimates, the best one first.
    pub(crate) estimates: Vec<OfferView>,
    /// Servers that do not take the work, and why.
    pub(crate) refusals: Vec<RefusalView>,
    /// Servers that are down.
    pub(crate) down: Vec<String>,
    /// The number of servers that could be asked.
    pub(crate) servers: u32,
    /// The number of servers that answered.
    pub(crate) answered: u32,
    /// The same submission on the command line.
    pub(crate) command: String,
}

/// The estimate of a server.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct OfferView {
    /// The server.
    server: String,
    /// The partition of its batch system, if several were compared.
    partition: Option<String>,
    /// When and on how many processors the work would run.
    estimate: EstimateView,
    /// Idle processors there.
    free_procs: u32,
    /// Jobs that wait there.
    queue_length: u32,
}

/// A server that does not take some work.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct RefusalView {
    /// The server; none if more refuse than are listed.
    server: Option<String>,
    /// Why, in a word such as `too-large`.
    cause: &'static str,
    /// Why, for people.
    why: String,
}

impl EstimatesView {
    /// What was found, with the command line of the same submission.
    pub(crate) fn of(found: &DiscoveryResult, at_s: i64, command: String) -> EstimatesView {
        let offer = |offer: &EstimationVector| OfferView {
            server: offer.server.to_string(),
            partition: offer.partition.clone(),
            estimate: (&offer.estimate).into(),
            free_procs: offer.free.0,
            queue_length: offer.queue_length,
        };
        let refusal = |(server, Reason { cause, why }): (Option<Name>, Reason)| RefusalView {
            server: server.map(|server| server.to_string()),
            cause: cause.word(),
            why,
        };
        EstimatesView {
            at_s,
            estimates: found.vectors.iter().map(offer).collect(),
            refusals: refusals(found).into_iter().map(refusal).collect(),
            down: found.down.iter().map(Name::to_string).collect(),
            servers: found.servers.max(found.answered),
            answered: found.answered,
            command,
        }
    }
}

/// What the servers of the federation run.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct ServicesView {
    /// The services, by name.
    pub(crate) services: Vec<ServiceView>,
    /// Typed services, which are called with values.
    pub(crate) typed: Vec<TypedServiceView>,
    /// Servers that take scripts.
    pub(crate) scripts: Vec<String>,
    /// Servers that could not be asked, and why.
    pub(crate) silent: Vec<SilentView>,
}

/// A server that could not be asked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct SilentView {
    /// The server.
    pub(crate) server: String,
    /// Why it did not answer.
    pub(crate) why: String,
}

/// A service.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct ServiceView {
    /// Its name.
    name: String,
    /// What it does.
    summary: String,
    /// Its speedup model.
    speedup: String,
    /// What it needs besides processors, for people; empty if nothing.
    resources: String,
    /// The servers that offer it in this form.
    servers: Vec<String>,
    /// What it takes.
    arguments: Vec<ArgumentView>,
    /// True if it is for other users than you: operators see it.
    for_others: bool,
}

/// A typed service.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct TypedServiceView {
    /// Its name.
    name: String,
    /// What it does.
    summary: String,
    /// What it takes and gives, as `in int n, out double v[n]`.
    signature: String,
    /// Its parameters, in the order of the signature; none if this version does not know a type in it.
    parameters: Vec<ParameterView>,
    /// The servers that offer it in this form.
    servers: Vec<String>,
    /// True if it is for other users than you: operators see it.
    for_others: bool,
}

/// A parameter of a typed service.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct ParameterView {
    /// Its name.
    name: String,
    /// `in`, `inout` or `out`.
    direction: &'static str,
    /// `number`, `string`, `file`, `vector` or `matrix`.
    kind: &'static str,
    /// The type of a number or of the elements: `char`, `int`, `long`, `float` or `double`; none of strings and files.
    of: Option<&'static str>,
    /// The sizes in it: none, one of a vector or of a string with a capacity, rows and columns of a matrix. They may name parameters.
    sizes: Vec<String>,
}

impl From<&Parameter> for ParameterView {
    fn from(parameter: &Parameter) -> ParameterView {
        let (kind, of) = match &parameter.kind {
            ParameterType::Scalar(of) => ("number", Some(*of)),
            ParameterType::String { .. } => ("string", None),
            ParameterType::File => ("file", None),
            ParameterType::Vector { of, .. } => ("vector", Some(*of)),
            ParameterType::Matrix { of, .. } => ("matrix", Some(*of)),
        };
        ParameterView {
            name: parameter.name.clone(),
            direction: parameter.direction.name(),
            kind,
            of: of.map(ScalarType::name),
            sizes: parameter.kind.sizes().map(ToString::to_string).collect(),
        }
    }
}

/// An argument of a service.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct ArgumentView {
    /// Its name.
    name: String,
    /// What it takes, for people.
    takes: String,
    /// True if it must be given.
    required: bool,
    /// What it is if it is not given.
    default: String,
}

impl ServicesView {
    /// The offers of servers together: services that are the same on several servers are one.
    pub(crate) fn of(offers: Vec<(Name, Result<Offer, String>)>) -> ServicesView {
        let mut all =
            ServicesView { services: Vec::new(), typed: Vec::new(), scripts: Vec::new(), silent: Vec::new() };
        for (server, offer) in offers {
            let offer = match offer {
                Ok(offer) => offer,
                Err(why) => {
                    all.silent.push(SilentView { server: server.to_string(), why });
                    continue;
                }
            };
            if offer.scripts {
                all.scripts.push(server.to_string());
            }
            offer.services.into_iter().for_each(|service| all.add(&server, service));
        }
        all.services.sort_by(|one, other| (&one.name, &one.servers).cmp(&(&other.name, &other.servers)));
        all.typed.sort_by(|one, other| (&one.name, &one.servers).cmp(&(&other.name, &other.servers)));
        all
    }

    fn add(&mut self, server: &Name, service: OfferedService) {
        let argument = |OfferedArgument { name, takes, required, default }: OfferedArgument| ArgumentView {
            name,
            takes,
            required,
            default,
        };
        let OfferedService { name, summary, speedup, resources, arguments, for_others, signature, .. } =
            service;
        if !signature.is_empty() {
            let is_same = |old: &&mut TypedServiceView| {
                (&old.name, &old.summary, &old.signature, old.for_others)
                    == (&name, &summary, &signature, for_others)
            };
            match self.typed.iter_mut().find(is_same) {
                Some(old) => old.servers.push(server.to_string()),
                None => {
                    let servers = vec![server.to_string()];
                    let parameters = signature.parse::<Signature>().unwrap_or_default();
                    let parameters = parameters.parameters().iter().map(Into::into).collect();
                    let new = TypedServiceView { name, summary, signature, parameters, servers, for_others };
                    self.typed.push(new);
                }
            }
            return;
        }
        let arguments = arguments.into_iter().map(argument).collect();
        let mut new =
            ServiceView { name, summary, speedup, resources, servers: Vec::new(), arguments, for_others };
        let is_same = |old: &&mut ServiceView| {
            new.servers.clone_from(&old.servers);
            **old == new
        };
        match self.services.iter_mut().find(is_same) {
            Some(old) => old.servers.push(server.to_string()),
            None => {
                new.servers = vec![server.to_string()];
                self.services.push(new);
            }
        }
    }
}
