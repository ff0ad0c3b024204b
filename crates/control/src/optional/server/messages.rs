//! The events and commands of a server's requests.

use crate::payload::Payload;
use pliant_model::TimeMs;
use pliant_model::rng::Draws;
use pliant_policy::optional::{Kind, Order, RequestId};
use serde::{Deserialize, Serialize};

use crate::names::Token;
use crate::names::{Key, User};
use crate::reason::Reason;

/// The key of a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct RequestKey {
    /// The exploration, by the key that its client drew.
    pub exploration: Key,
    /// The request's number in the exploration.
    pub number: u32,
}

/// The configuration of a server's requests.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Config {
    /// The order of its queue.
    pub order: Order,
    /// Its cores: one request on each.
    pub cores: u32,
    /// The most optional requests of one user per core, over all explorations; none for any number. More would gain the
    /// user nothing, and one user must not fill the platform (section 4.1).
    pub optional_per_core: Option<u32>,
    /// The most mandatory requests of one user, waiting or running, over all explorations; none for any number. They take
    /// precedence over all optional requests, so their number is limited.
    pub mandatory_per_user: Option<u32>,
    /// The most bytes of one user's requests, waiting or running, over all explorations; none for any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_user: Option<u64>,
    /// The same of all users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The source of tie-breaking draws.
    pub draws: Draws,
}

/// A submitted request.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Submit {
    /// The request's key.
    pub key: RequestKey,
    /// The owner, checked by the driver.
    pub user: User,
    /// The user's weight.
    pub weight: u32,
    /// Mandatory or optional.
    pub kind: Kind,
    /// The number of earlier attempts to place it on a server.
    #[serde(default, skip_serializing_if = "is_first")]
    pub attempt: u32,
    /// The user's deadline, which bounds the grace of other requests.
    pub deadline: Option<TimeMs>,
    /// The program, as its driver describes it.
    pub payload: Payload,
}

/// An event that changes the state of the requests.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A user submits a request, perhaps repeatedly.
    Submit {
        /// The caller to answer.
        reply: Token,
        /// The request.
        submit: Box<Submit>,
    },
    /// A user cancels a request.
    Cancel {
        /// The caller to answer.
        reply: Token,
        /// The request.
        key: RequestKey,
        /// The last attempt to cancel.
        #[serde(default, skip_serializing_if = "is_first")]
        attempt: u32,
        /// The user.
        user: User,
    },
    /// A user withdraws a request, unless it runs, in favour of a better server.
    Withdraw {
        /// The caller to answer: [`RequestState::Cancelled`] if the request is not here and will not be accepted later.
        reply: Token,
        /// The request.
        key: RequestKey,
        /// The last attempt to withdraw.
        #[serde(default, skip_serializing_if = "is_first")]
        attempt: u32,
        /// The user.
        user: User,
    },
    /// A user cancels a whole exploration.
    CancelAll {
        /// The caller to answer.
        reply: Token,
        /// The exploration.
        exploration: Key,
        /// The user.
        user: User,
    },
    /// The process of a request has ended.
    Ended {
        /// The request.
        request: RequestId,
        /// The exit.
        exit: Exit,
        /// The time of the end, if the server noticed it later. The user is charged until then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<TimeMs>,
    },
    /// All other events of this instant have been handled.
    Due,
}

/// The exit of a request's process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exit {
    /// It ended with exit code 0.
    Completed,
    /// It ended in any other way.
    Failed,
    /// It was killed by request.
    Killed,
}

/// The state of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestState {
    /// It waits.
    Waiting,
    /// It runs.
    Running,
    /// It was completed.
    Completed,
    /// It failed.
    Failed,
    /// Its user has cancelled it.
    Cancelled,
}

/// The answer to a call.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The state of the request.
    State(RequestState),
    /// The whole exploration is cancelled.
    AllCancelled,
    /// The call is refused; the reason.
    Refused(Reason),
}

/// A command of a server's requests to its driver.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Answer a call.
    Reply {
        /// The caller.
        to: Token,
        /// The answer.
        answer: Answer,
    },
    /// Run a request on a core.
    Run {
        /// The request.
        request: RequestId,
        /// The core.
        core: u32,
    },
    /// End a running request; its end is reported by [`Event::Ended`].
    End {
        /// The request.
        request: RequestId,
    },
    /// Report an ended request to its client, if it is connected. A client that misses the report asks.
    ReportState {
        /// The request.
        key: RequestKey,
        /// The state.
        state: RequestState,
    },
}

/// True for the first attempt: serialization then omits the field.
pub(super) fn is_first(attempt: &u32) -> bool {
    *attempt == 0
}
