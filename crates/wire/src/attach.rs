//! The connection between a child and its parent.

use pliant_control::access::Caller;
use pliant_control::agent::{ChildKind, DiscoveryQuery, DiscoveryResult};
use pliant_control::job::JobRecord;
use pliant_control::names::{Handle, Name};
use pliant_control::server_info::ServerInfo;
use pliant_model::{Procs, Time};
use pliant_policy::discovery::Summary;
use pliant_telemetry::RequestId;
#[cfg(test)]
use proptest::prelude::*;

use super::discovery::{BEST, WORK_OR_SERVICE};
use super::field::*;
use super::table::{enumeration, message, one_of};
use super::{Malformed, bounds, proto};

/// A message of a child to its parent.
#[derive(Clone, PartialEq, Debug)]
pub enum FromChild {
    /// The first message: the identity of the child.
    Hello {
        /// Its name. Whether its certificate says the same is for the parent to check.
        name: Name,
        /// What it is.
        kind: ChildKind,
        /// The random ID of its journal.
        journal: u64,
        /// Itself if it is a server, or the servers below it.
        servers: Vec<ServerInfo>,
    },
    /// The new descriptions of servers that have changed.
    Servers(Vec<ServerInfo>),
    /// The answer to a question.
    Answer {
        /// The parent's number of the discovery.
        discovery: u64,
        /// What was found.
        found: DiscoveryResult,
    },
    /// The status update of a job.
    StatusUpdate {
        /// The child's number of the update.
        sequence: u64,
        /// The job.
        record: Box<JobRecord>,
    },
    /// A piece of the bytes of an answer that is too long for one message.
    Piece {
        /// The parent's number of the discovery.
        discovery: u64,
        /// The bytes.
        bytes: Vec<u8>,
        /// The answer is complete.
        last: bool,
    },
    /// The sender is up. A message of a later version counts as one, too.
    Heartbeat {
        /// The time by its clock.
        now: Option<Time>,
        /// The free processors of the servers that the child is or has below it, as far as they are known.
        free: Vec<(Name, Procs)>,
        /// The last second of the child's certificate.
        certificate: Option<Time>,
        /// The last second of the certificates of the servers below it, as far as they are known.
        certificates: Vec<(Name, Time)>,
        /// Those of the servers that the child is or has below it that operators have drained.
        drained: Vec<Name>,
    },
    /// Processors are free earlier than planned although no job of the federation has ended.
    Freed,
    /// When work could start on the servers that the child is or has below it.
    Summary(Summary),
    /// The journal of a server is new: asks which job numbers are taken.
    Unnumbered {
        /// The server.
        server: Name,
    },
    /// A job that was reported before: the parent has lost status updates that it had acknowledged.
    ReportedAgain(Box<JobRecord>),
    /// All jobs were reported again: the status updates up to this one need not be known.
    AllReported {
        /// The child's number of the update.
        sequence: u64,
    },
    /// The journal of a server is an older copy of itself: asks what the parent knows of its jobs.
    Restored {
        /// The jobs.
        jobs: Vec<Handle>,
        /// In place of these: some with the next higher numbers of the server, in their order.
        later_than: Option<u32>,
    },
}

/// A message of a parent to its child.
#[derive(Clone, PartialEq, Debug)]
pub enum FromParent {
    /// Asks which servers would complete the work first.
    Question {
        /// The parent's number of the discovery.
        discovery: u64,
        /// What is asked.
        ask: Box<DiscoveryQuery>,
        /// The client's request that it is part of, if that is known.
        request: Option<RequestId>,
    },
    /// Status updates up to this number are journaled.
    Acknowledge {
        /// The child's number of the last update.
        sequence: u64,
    },
    /// The job numbers of a server that are taken.
    Numbered {
        /// The server.
        server: Name,
        /// The highest known number; 0 if there is none.
        highest: u32,
    },
    /// The answer to [`FromChild::Restored`]: those of the jobs that the parent knows, or some later ones.
    KnownJobs {
        /// The jobs.
        jobs: Vec<JobRecord>,
    },
    /// The sender is up. A message of a later version counts as one, too.
    Heartbeat,
}

message! {
    proto::FreeProcs <=> (Name, Procs) (server: NAME, procs: ANY_PROCS)
}

message! {
    proto::CertificateValidity <=> (Name, Time) (server: NAME, not_after: TIME)
}

enumeration! {
    proto::hello::Kind <=> ChildKind: "1 (server) or 2 (agent)" { Server, Agent }
}

one_of! {
    proto::Up { message: proto::up::Message } <=> FromChild {
        Hello(proto::Hello) <=> Hello {
            protocol <=> (): ProtocolVersion,
            name: NAME,
            kind: enumeration(),
            journal,
            servers: list(nested(), bounds::SERVERS_MAX),
        },
        Servers(proto::Servers) <=> Servers(servers: list(nested(), bounds::SERVERS_MAX)),
        Answer(proto::Answer) <=> Answer { discovery, found: required("what was found") },
        StatusUpdate(proto::StatusUpdate) <=> StatusUpdate { sequence, job <=> record: boxed(required("a job")) },
        Piece(proto::Piece) <=> Piece { discovery, bytes: bytes_to(bounds::PIECE_BYTES_MAX).exact(), last },
        Heartbeat(proto::Heartbeat) <=> Heartbeat {
            now: optional(TIME),
            free: list(nested(), bounds::SERVERS_MAX),
            certificate_not_after <=> certificate: optional(TIME),
            certificates: list(nested(), bounds::SERVERS_MAX),
            drained: list(NAME, bounds::SERVERS_MAX),
        },
        Freed(empty()) <=> Freed,
        Summary <=> Summary(nested()),
        Unnumbered(proto::Unnumbered) <=> Unnumbered { server: NAME },
        ReportedAgain(proto::ReportedAgain) <=> ReportedAgain(job: boxed(required("a job"))),
        AllReported(proto::AllReported) <=> AllReported { sequence },
        Restored(proto::Restored) <=> Restored { jobs: list(HANDLE, bounds::RESTORED_JOBS_MAX), later_than: optional(as_is()) },
    } => (else: FromChild::Heartbeat {
        now: None,
        free: Vec::new(),
        certificate: None,
        certificates: Vec::new(),
        drained: Vec::new(),
    })

    proto::Down { message: proto::down::Message } <=> FromParent {
        Question(proto::Question) <=> Question {
            discovery,
            ask: Box(DiscoveryQuery {
                what <=> subject: required(WORK_OR_SERVICE),
                caller: Caller { user: USER, operator },
                best: BEST.or(1),
                only: unless_empty(NAME),
                timeout_s <=> timeout: unless_empty(seconds(bounds::TIMEOUT_S)),
                latest: optional(TIME),
            }),
            request: RequestOrNone,
        },
        Acknowledge(proto::Acknowledge) <=> Acknowledge { sequence },
        Numbered(proto::Numbered) <=> Numbered { server: NAME, highest },
        KnownJobs(proto::KnownJobs) <=> KnownJobs { jobs: list(nested(), bounds::RESTORED_JOBS_MAX) },
        Heartbeat(empty()) <=> Heartbeat,
    } => (else: FromParent::Heartbeat)
}

/// The version of the protocol between daemons. Each of the two ends has to speak the same one.
const PROTOCOL_VERSION: u32 = 1;

/// The version of this program, and no other.
#[derive(Clone)]
struct ProtocolVersion;

impl FieldType for ProtocolVersion {
    type Value = ();
    type Wire = u32;
    fn encode(&self, (): &()) -> u32 {
        PROTOCOL_VERSION
    }
    fn decode(&self, field: &str, found: u32) -> Result<(), Malformed> {
        if found == PROTOCOL_VERSION {
            return Ok(());
        }
        Err(Malformed::new(field, format!("version {PROTOCOL_VERSION} of the protocol"), found))
    }
    #[cfg(test)]
    fn strategy(&self) -> BoxedStrategy<()> {
        Just(()).boxed()
    }
}

/// The client's request that a question is part of. It is for log lines: one that is none is worth no error.
#[derive(Clone)]
struct RequestOrNone;

impl FieldType for RequestOrNone {
    type Value = Option<RequestId>;
    type Wire = String;
    fn encode(&self, value: &Option<RequestId>) -> String {
        value.map(|id| id.to_string()).unwrap_or_default()
    }
    fn decode(&self, _field: &str, found: String) -> Result<Option<RequestId>, Malformed> {
        Ok(found.parse().ok())
    }
    #[cfg(test)]
    fn strategy(&self) -> BoxedStrategy<Option<RequestId>> {
        let id =
            any::<u64>().prop_map(|number| format!("{number:016x}").parse().expect("16 digits are an id"));
        proptest::option::of(id).boxed()
    }
}
