//! What a server of requests is told, and what it answers and wants done.

use crate::payload::Payload;
use pliant_model::TimeMs;
use pliant_model::rng::Draws;
use pliant_policy::optional::{Kind, Order, RequestId};
use serde::{Deserialize, Serialize};

use crate::names::Token;
use crate::names::{Key, User};
use crate::reason::Reason;

/// A request, wherever it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct RequestKey {
    /// The exploration, by the key that its client drew.
    pub exploration: Key,
    /// The request's number in it.
    pub number: u32,
}

/// What a server is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Config {
    /// The order of its queue.
    pub order: Order,
    /// Its cores: one request on each.
    pub cores: u32,
    /// How many optional requests of one user may be here for each core, in all explorations; none for any number. More would
    /// gain their user nothing, and the platform must not be filled by one user (section 4.1).
    pub optional_per_core: Option<u32>,
    /// How many mandatory requests of one user may be here, waiting or running, in all explorations; none for any
    /// number. They go before everybody's optional ones, so nobody may bring as many as they like.
    pub mandatory_per_user: Option<u32>,
    /// What ties are drawn from.
    pub draws: Draws,
}

/// A request as it is submitted.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Submit {
    /// Which.
    pub key: RequestKey,
    /// Whose: the driver has made sure of it.
    pub user: User,
    /// The user's weight.
    pub weight: u32,
    /// Whether it has to be completed.
    pub kind: Kind,
    /// How often its client has had to find a server for it before.
    #[serde(default, skip_serializing_if = "is_first")]
    pub attempt: u32,
    /// The user's deadline, for the grace of those in its way.
    pub deadline: Option<TimeMs>,
    /// What to run: as its driver describes it.
    pub payload: Payload,
}

/// What changes the state.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// Somebody submits a request, perhaps again.
    Submit {
        /// Whom to answer.
        reply: Token,
        /// What.
        submit: Box<Submit>,
    },
    /// Its user wants a request no more.
    Cancel {
        /// Whom to answer.
        reply: Token,
        /// Which.
        key: RequestKey,
        /// Up to which attempt.
        #[serde(default, skip_serializing_if = "is_first")]
        attempt: u32,
        /// Who.
        user: User,
    },
    /// The same, unless it has begun to run: its client has a better server for it.
    Withdraw {
        /// Whom to answer: [`RequestState::Cancelled`] if it is not here any more and does not come back.
        reply: Token,
        /// Which.
        key: RequestKey,
        /// Up to which attempt.
        #[serde(default, skip_serializing_if = "is_first")]
        attempt: u32,
        /// Who.
        user: User,
    },
    /// Its user wants nothing of an exploration any more.
    CancelAll {
        /// Whom to answer.
        reply: Token,
        /// Which.
        exploration: Key,
        /// Who.
        user: User,
    },
    /// The process of a request is gone.
    Ended {
        /// Which.
        request: RequestId,
        /// How.
        exit: Exit,
        /// When it ended, if the server noticed that later. Its user is charged until then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<TimeMs>,
    },
    /// The other events of this instant are in.
    Due,
}

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exit {
    /// By itself, with exit code 0.
    Completed,
    /// By itself, in any other way.
    Failed,
    /// It was ended, as was asked for.
    Killed,
}

/// How a request stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestState {
    /// It waits.
    Waiting,
    /// It runs.
    Running,
    /// It was completed.
    Completed,
    /// It failed by itself.
    Failed,
    /// Its user has cancelled it.
    Cancelled,
}

/// The answer to a call.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// How the request stands.
    Stands(RequestState),
    /// All of the exploration is cancelled.
    AllCancelled,
    /// It is not taken.
    Refused(Reason),
}

/// What is to be done.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Answer a call.
    Reply {
        /// Whom.
        to: Token,
        /// What.
        answer: Answer,
    },
    /// Run a request on a core.
    Run {
        /// Which.
        request: RequestId,
        /// Where.
        core: u32,
    },
    /// End a running request; that it is gone is told.
    End {
        /// Which.
        request: RequestId,
    },
    /// A request is over: tell its client, if it listens. One that does not hear of it asks.
    Tell {
        /// Which.
        key: RequestKey,
        /// How it stands.
        state: RequestState,
    },
}

/// For attempts, which are left out of files if they are the first.
pub(super) fn is_first(attempt: &u32) -> bool {
    *attempt == 0
}
