//! Explorations: requests of clients, answers of servers, the usage of users, and servers that offer a service.

use std::collections::BTreeMap;

use pliant_control::agent::ExplorationServer;
use pliant_control::names::Key;
use pliant_control::optional::server::{Prospects, RequestState, UserShare};
use pliant_control::reason::Reason;
use pliant_control::server_info::OfferedWork;
use pliant_model::{SpanMs, TimeMs};
use pliant_policy::optional::{Kind, Prospect, Share};
use pliant_staging::FileSpec;
#[cfg(test)]
use proptest::prelude::*;

use super::executable::{executable_parts, offered_parts, whole_executable, whole_offered};
use super::field::*;
use super::proto::{self, explore_reply, explore_request};
use super::table::{conversions, enumeration, message, one_of};
use super::{Executable, Malformed, bounds};

/// A message of a client to a server.
#[derive(Clone, PartialEq, Debug)]
pub enum ExplorationRequest {
    /// The first message: the exploration.
    Begin {
        /// Its key.
        exploration: Key,
        /// What its requests run.
        executable: Executable,
        /// The deadline of optional requests.
        deadline: Option<TimeMs>,
        /// Files that every request finds in its folder, uploaded under that key.
        inputs: Vec<FileSpec>,
        /// The period of usage reports if there are no other messages, in seconds; 0 for never.
        shares_every_s: u32,
    },
    /// Run a request, once.
    Call(Call),
    /// Cancel a request.
    Cancel(Attempt),
    /// Cancel all requests.
    CancelAll,
    /// DiscoveryQuery for the prospects.
    Expect,
    /// Withdraw a request, unless it has started.
    Withdraw(Attempt),
}

/// A request, and which attempt at finding a server for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Attempt {
    /// In the exploration.
    pub number: u32,
    /// How often the client searched a server for it before.
    pub attempt: u32,
}

message! {
    /// A request, as its client submits it.
    #[derive(Clone, PartialEq, Debug)]
    explore_request::Call <=> pub struct Call {
        /// In the exploration.
        number: u32,
        /// Whether it has to be completed.
        optional <=> kind: Kind = converted(
            as_is(),
            |optional| if optional { Kind::Optional } else { Kind::Mandatory },
            |kind| *kind == Kind::Optional,
        ),
        /// How often the client searched a server for it before.
        attempt: u32,
        /// Its arguments.
        arguments: BTreeMap<String, String> = ARGUMENTS,
    }
}

impl Call {
    /// Which request it is, and which attempt.
    pub fn id(&self) -> Attempt {
        Attempt { number: self.number, attempt: self.attempt }
    }
}

impl From<u32> for Attempt {
    /// The first attempt at a request.
    fn from(number: u32) -> Attempt {
        Attempt { number, attempt: 0 }
    }
}

message! {
    /// A message of a server to a client.
    #[derive(Clone, PartialEq, Debug)]
    proto::ExploreReply <=> pub struct ExplorationReply {
        /// About a request.
        message <=> answer: ExplorationAnswer = one_of(),
        /// The usage of the user there, if it has any.
        share: Option<UserShare> = optional(nested()),
    }
}

/// About a request.
#[derive(Clone, PartialEq, Debug)]
pub enum ExplorationAnswer {
    /// The state of a request.
    Status {
        /// The request and the attempt.
        id: Attempt,
        /// The state.
        state: RequestState,
        /// Its output, if it is over.
        output: Vec<u8>,
    },
    /// A request is refused.
    Refused {
        /// Which.
        number: u32,
        /// Why.
        why: Reason,
    },
    /// All are cancelled.
    AllCancelled,
    /// The prospects.
    Expected(Prospects),
    /// A usage report only.
    Shared,
}

message! {
    /// The usage of a server's cores for explorations, by user.
    #[derive(Clone, PartialEq, Debug)]
    proto::UsersReply <=> pub struct Shares {
        /// User by user.
        users: Vec<UserShare> = list(nested(), bounds::USERS_MAX),
        /// The cores.
        cores: u32 = CORES,
        /// The time of the report.
        at_ms <=> at: TimeMs = TIME_MS,
    }
}

/// Asks for servers that offer a service, or run scripts, for explorations.
#[derive(Clone, PartialEq, Debug)]
pub struct OffersQuery {
    /// What they have to offer.
    pub offered: OfferedWork,
    /// The largest number of servers.
    pub most: u32,
    /// The exploration.
    pub exploration: Key,
}

message! {
    proto::OffersRequest <=> OffersQuery {
        offered: join(offered_parts, whole_offered) => (service: unless_empty(SERVICE), scripts),
        most: number("a number of servers", bounds::OFFERS),
        exploration: KEY,
    }
}

one_of! {
    explore_request::Message <=> ExplorationRequest {
        Begin(explore_request::Begin) <=> Begin {
            exploration: KEY,
            executable: join(executable_parts, whole_executable) =>
                (service: unless_empty(SERVICE), script: optional(nested())),
            deadline_ms <=> deadline: optional(TIME_MS),
            inputs: list(nested(), bounds::INPUTS_MAX).exact(),
            shares_every_s,
        },
        Submit <=> Call(nested()),
        Cancel <=> Cancel(first_attempt()),
        CancelAll(FLAG) <=> CancelAll,
        Expect(FLAG) <=> Expect,
        Withdraw <=> Withdraw(first_attempt()),
    }

    explore_reply::Message <=> ExplorationAnswer {
        Status(explore_reply::RequestStatus) <=> Status {
            id: Attempt { number, attempt },
            state: enumeration(),
            output: bytes_to(bounds::OUTPUT_BYTES_MAX),
        },
        Refused(explore_reply::RefusedRequest) <=> Refused { number, why: Reason { why: TEXT, cause: enumeration() } },
        AllCancelled(FLAG) <=> AllCancelled,
        Prospects <=> Expected(nested()),
        Shared(FLAG) <=> Shared,
    }
}

enumeration! {
    explore_reply::RequestState <=> RequestState: "the state of a request, from 1 to 5" {
        Waiting,
        Running,
        Completed,
        Failed,
        Cancelled,
    }
}

message! {
    explore_reply::Prospects <=> Prospects {
        more: Prospect { wait_ms <=> wait: optional(SPAN_MS), run_ms <=> run: optional(SPAN_MS) },
        waiting: list(nested(), bounds::WAITING_MAX),
    }

    explore_reply::prospects::Waiting <=> (u32, Option<SpanMs>) (number, wait_ms: optional(SPAN_MS))

    proto::UserShare <=> UserShare {
        user: USER,
        share: Share {
            weight,
            requests,
            usage_ms <=> usage: SPAN_MS,
            fair_share_ms <=> fair_share: SPAN_MS,
            completed,
            useful_ms <=> useful: SPAN_MS,
            killed,
            late,
        },
    }

    proto::offers_reply::ExplorationServer <=> ExplorationServer {
        server: NAME,
        address: ADDRESS,
        cores: CORES,
        per_core: CORES,
    }
}

/// A request whose attempt is in a field of the whole message.
fn first_attempt() -> Converted<AsIs<u32>, Attempt> {
    converted(as_is(), Attempt::from, |id| id.number)
}

/// By hand: the attempt of the requests that are cancelled or withdrawn is a field beside the `oneof`.
impl HasMessage for ExplorationRequest {
    type Message = proto::ExploreRequest;

    fn to_message(&self) -> proto::ExploreRequest {
        let attempt = match self {
            ExplorationRequest::Cancel(id) | ExplorationRequest::Withdraw(id) => id.attempt,
            _ => 0,
        };
        proto::ExploreRequest { message: Some(self.to_variant()), attempt }
    }

    fn from_message(message: proto::ExploreRequest) -> Result<ExplorationRequest, Malformed> {
        let mut asked: ExplorationRequest = one_of().decode("message", message.message)?;
        if let ExplorationRequest::Cancel(id) | ExplorationRequest::Withdraw(id) = &mut asked {
            id.attempt = message.attempt;
        }
        Ok(asked)
    }

    #[cfg(test)]
    fn strategy() -> BoxedStrategy<ExplorationRequest> {
        let attempt = |(mut asked, attempt)| {
            if let ExplorationRequest::Cancel(id) | ExplorationRequest::Withdraw(id) = &mut asked {
                id.attempt = attempt;
            }
            asked
        };
        (<ExplorationRequest as OneOf<explore_request::Message>>::strategy(), any::<u32>())
            .prop_map(attempt)
            .boxed()
    }
}

conversions! { proto::ExploreRequest <=> ExplorationRequest; }

/// The answer to [`OffersQuery`].
pub fn offers_reply(offers: &[ExplorationServer]) -> proto::OffersReply {
    let most = *bounds::OFFERS.end() as usize;
    proto::OffersReply { servers: offers.iter().take(most).map(Into::into).collect() }
}

/// Servers that offer a service for explorations.
///
/// # Errors
///
/// [`Malformed`].
pub fn offers(reply: proto::OffersReply) -> Result<Vec<ExplorationServer>, Malformed> {
    list(nested(), *bounds::OFFERS.end() as usize).decode("servers", reply.servers)
}
