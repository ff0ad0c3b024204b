//! Explorations: what clients ask of servers, how requests stand, what users have had, and who offers a service.

use std::collections::BTreeMap;

use pliant_control::agent::Offering;
use pliant_control::names::Key;
use pliant_control::optional::server::{Prospects, Standing, UserShare};
use pliant_control::reason::Reason;
use pliant_model::{SpanMs, TimeMs};
use pliant_policy::optional::{Kind, Prospect, Share};
use pliant_staging::FileSpec;

use super::cause::cause;
use super::discovery::arguments;
use super::proto::{self, explore_reply, explore_request};
use super::{Malformed, bounds, read, write};

/// What a client asks.
#[derive(Clone, PartialEq, Debug)]
pub enum ToServer {
    /// Which exploration this is about: the first message.
    Begin {
        /// Its key.
        exploration: Key,
        /// What its requests run.
        service: String,
        /// Until when optional ones are worth something.
        deadline: Option<TimeMs>,
        /// Files that every request finds in its folder, uploaded under that key.
        inputs: Vec<FileSpec>,
        /// After so many seconds in which nothing was said the client wants to know what its user has had; 0 for never.
        shares_every_s: u32,
    },
    /// Run a request, once.
    Call(Call),
    /// Run one no more.
    Cancel(Attempt),
    /// Run none of them any more.
    CancelAll,
    /// What may be expected here?
    Expect,
    /// Give one back, unless it runs.
    Withdraw(Attempt),
}

/// A request, and which attempt at finding a server for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Attempt {
    /// In the exploration.
    pub number: u32,
    /// How often a server had to be found for it before.
    pub attempt: u32,
}

/// A request, as its client submits it.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    /// In the exploration.
    pub number: u32,
    /// Whether it has to be completed.
    pub kind: Kind,
    /// How often a server had to be found for it before.
    pub attempt: u32,
    /// What it is given.
    pub arguments: BTreeMap<String, String>,
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

/// What a server says.
#[derive(Clone, PartialEq, Debug)]
pub struct FromServer {
    /// About a request.
    pub said: Said,
    /// What the user has had there; none if nothing ever was.
    pub share: Option<UserShare>,
}

/// About a request.
#[derive(Clone, PartialEq, Debug)]
pub enum Said {
    /// How it stands.
    Stands {
        /// Which, and which attempt was asked about.
        id: Attempt,
        /// How.
        standing: Standing,
        /// What it wrote, if it is over.
        output: Vec<u8>,
    },
    /// It is not taken.
    NotTaken {
        /// Which.
        number: u32,
        /// Why.
        why: Reason,
    },
    /// All are cancelled.
    AllCancelled,
    /// What may be expected.
    Expected(Prospects),
    /// Nothing: the share is the news.
    Shared,
}

/// What users have had of a server's cores for explorations.
#[derive(Clone, PartialEq, Debug)]
pub struct Shares {
    /// User by user.
    pub users: Vec<UserShare>,
    /// The cores.
    pub cores: u32,
    /// When that was.
    pub at: TimeMs,
}

/// Who offers a service for explorations?
#[derive(Clone, PartialEq, Debug)]
pub struct OffersQuery {
    /// The service.
    pub service: String,
    /// How many servers at most.
    pub most: u32,
    /// For which exploration.
    pub exploration: Key,
}

const A_SERVICE: &str = "the name of a service";

fn instant(field: &str, found: i64) -> Result<TimeMs, Malformed> {
    read::number(field, "milliseconds since the Unix epoch", &bounds::TIME_MS, found).map(TimeMs)
}

impl From<&ToServer> for proto::ExploreRequest {
    fn from(asked: &ToServer) -> proto::ExploreRequest {
        use explore_request::Message;
        let mut attempt = 0;
        let message = match asked {
            ToServer::Begin { exploration, service, deadline, inputs, shares_every_s } => {
                Message::Begin(explore_request::Begin {
                    exploration: exploration.0.to_vec(),
                    service: service.clone(),
                    deadline_ms: deadline.map(|deadline| write::number(&bounds::TIME_MS, deadline.0)),
                    inputs: inputs.iter().map(Into::into).collect(),
                    shares_every_s: *shares_every_s,
                })
            }
            ToServer::Call(call) => Message::Submit(explore_request::Call {
                number: call.number,
                optional: call.kind == Kind::Optional,
                attempt: call.attempt,
                arguments: call.arguments.clone().into_iter().collect(),
            }),
            ToServer::Cancel(id) => {
                attempt = id.attempt;
                Message::Cancel(id.number)
            }
            ToServer::CancelAll => Message::CancelAll(true),
            ToServer::Expect => Message::Expect(true),
            ToServer::Withdraw(id) => {
                attempt = id.attempt;
                Message::Withdraw(id.number)
            }
        };
        proto::ExploreRequest { message: Some(message), attempt }
    }
}

impl TryFrom<proto::ExploreRequest> for ToServer {
    type Error = Malformed;
    fn try_from(message: proto::ExploreRequest) -> Result<ToServer, Malformed> {
        use explore_request::Message;
        let missing = || Malformed::missing("", "begin, submit, cancel, cancel_all, expect or withdraw");
        let attempt = message.attempt;
        Ok(match message.message.ok_or_else(missing)? {
            Message::Begin(begin) => ToServer::Begin {
                exploration: read::key("begin.exploration", &begin.exploration)?,
                service: read::word("begin.service", A_SERVICE, begin.service, bounds::NAME_BYTES_MAX)?,
                deadline: begin.deadline_ms.map(|ms| instant("begin.deadline_ms", ms)).transpose()?,
                inputs: read::list("begin.inputs", begin.inputs, bounds::INPUTS_MAX, FileSpec::try_from)?,
                shares_every_s: begin.shares_every_s,
            },
            Message::Submit(call) => ToServer::Call(Call {
                number: call.number,
                kind: if call.optional { Kind::Optional } else { Kind::Mandatory },
                attempt: call.attempt,
                arguments: arguments("submit.arguments", call.arguments)?,
            }),
            Message::Cancel(number) => ToServer::Cancel(Attempt { number, attempt }),
            Message::CancelAll(_) => ToServer::CancelAll,
            Message::Expect(_) => ToServer::Expect,
            Message::Withdraw(number) => ToServer::Withdraw(Attempt { number, attempt }),
        })
    }
}

impl From<Standing> for explore_reply::Standing {
    fn from(standing: Standing) -> explore_reply::Standing {
        match standing {
            Standing::Waiting => explore_reply::Standing::Waiting,
            Standing::Running => explore_reply::Standing::Running,
            Standing::Completed => explore_reply::Standing::Completed,
            Standing::Failed => explore_reply::Standing::Failed,
            Standing::Cancelled => explore_reply::Standing::Cancelled,
        }
    }
}

fn standing(field: &str, found: i32) -> Result<Standing, Malformed> {
    match explore_reply::Standing::try_from(found) {
        Ok(explore_reply::Standing::Waiting) => Ok(Standing::Waiting),
        Ok(explore_reply::Standing::Running) => Ok(Standing::Running),
        Ok(explore_reply::Standing::Completed) => Ok(Standing::Completed),
        Ok(explore_reply::Standing::Failed) => Ok(Standing::Failed),
        Ok(explore_reply::Standing::Cancelled) => Ok(Standing::Cancelled),
        Ok(explore_reply::Standing::Unspecified) | Err(_) => {
            Err(Malformed::new(field, "how a request stands, from 1 to 5", found))
        }
    }
}

impl From<&FromServer> for proto::ExploreReply {
    fn from(told: &FromServer) -> proto::ExploreReply {
        use explore_reply::Message;
        let message = match &told.said {
            Said::Stands { id, standing, output } => Message::Stands(explore_reply::Stands {
                number: id.number,
                attempt: id.attempt,
                standing: explore_reply::Standing::from(*standing).into(),
                output: output[..output.len().min(bounds::OUTPUT_BYTES_MAX)].to_vec(),
            }),
            Said::NotTaken { number, why } => Message::NotTaken(explore_reply::NotTaken {
                number: *number,
                why: write::text(&why.why, bounds::TEXT_BYTES_MAX),
                cause: proto::Cause::from(why.cause).into(),
            }),
            Said::AllCancelled => Message::AllCancelled(true),
            Said::Expected(prospects) => Message::Prospects(prospects.into()),
            Said::Shared => Message::Shared(true),
        };
        proto::ExploreReply { message: Some(message), share: told.share.as_ref().map(Into::into) }
    }
}

impl TryFrom<proto::ExploreReply> for FromServer {
    type Error = Malformed;
    fn try_from(message: proto::ExploreReply) -> Result<FromServer, Malformed> {
        use explore_reply::Message;
        let missing = || Malformed::missing("", "stands, not_taken, all_cancelled, prospects or shared");
        let said = match message.message.ok_or_else(missing)? {
            Message::Stands(stands) => Said::Stands {
                id: Attempt { number: stands.number, attempt: stands.attempt },
                standing: standing("stands.standing", stands.standing)?,
                output: read::bytes_to("stands.output", stands.output, bounds::OUTPUT_BYTES_MAX)?,
            },
            Message::NotTaken(not_taken) => {
                let why = read::text("not_taken.why", not_taken.why, bounds::TEXT_BYTES_MAX)?;
                Said::NotTaken { number: not_taken.number, why: cause(not_taken.cause).because(why) }
            }
            Message::AllCancelled(_) => Said::AllCancelled,
            Message::Prospects(prospects) => Said::Expected(prospects.try_into()?),
            Message::Shared(_) => Said::Shared,
        };
        Ok(FromServer { said, share: read::optional("share", message.share)? })
    }
}

impl From<&Prospects> for explore_reply::Prospects {
    fn from(prospects: &Prospects) -> explore_reply::Prospects {
        let ms = |span: Option<SpanMs>| span.map(write::span_ms);
        let waiting = |(number, wait): &(u32, Option<SpanMs>)| explore_reply::prospects::Waiting {
            number: *number,
            wait_ms: ms(*wait),
        };
        explore_reply::Prospects {
            wait_ms: ms(prospects.more.wait),
            run_ms: ms(prospects.more.run),
            waiting: prospects.waiting.iter().take(bounds::WAITING_MAX).map(waiting).collect(),
        }
    }
}

impl TryFrom<explore_reply::Prospects> for Prospects {
    type Error = Malformed;
    fn try_from(message: explore_reply::Prospects) -> Result<Prospects, Malformed> {
        let wait = message.wait_ms.map(|ms| read::span_ms("prospects.wait_ms", ms)).transpose()?;
        let run = message.run_ms.map(|ms| read::span_ms("prospects.run_ms", ms)).transpose()?;
        let waiting = read::list("prospects.waiting", message.waiting, bounds::WAITING_MAX, |waiting| {
            let wait = waiting.wait_ms.map(|ms| read::span_ms("wait_ms", ms)).transpose()?;
            Ok((waiting.number, wait))
        })?;
        Ok(Prospects { more: Prospect { wait, run }, waiting })
    }
}

impl From<&UserShare> for proto::UserShare {
    fn from(share: &UserShare) -> proto::UserShare {
        let Share { weight, requests, consumed, deserved, completed, useful, killed, late } = share.share;
        proto::UserShare {
            user: share.user.to_string(),
            weight,
            requests,
            consumed_ms: write::span_ms(consumed),
            deserved_ms: write::span_ms(deserved),
            completed,
            useful_ms: write::span_ms(useful),
            killed,
            late,
        }
    }
}

impl TryFrom<proto::UserShare> for UserShare {
    type Error = Malformed;
    fn try_from(message: proto::UserShare) -> Result<UserShare, Malformed> {
        let share = Share {
            weight: message.weight,
            requests: message.requests,
            consumed: read::span_ms("consumed_ms", message.consumed_ms)?,
            deserved: read::span_ms("deserved_ms", message.deserved_ms)?,
            completed: message.completed,
            useful: read::span_ms("useful_ms", message.useful_ms)?,
            killed: message.killed,
            late: message.late,
        };
        Ok(UserShare { user: read::user("user", &message.user)?, share })
    }
}

impl From<&Shares> for proto::UsersReply {
    fn from(shares: &Shares) -> proto::UsersReply {
        proto::UsersReply {
            users: write::list(&shares.users, bounds::USERS_MAX),
            cores: write::free(pliant_model::Procs(shares.cores)),
            at_ms: write::number(&bounds::TIME_MS, shares.at.0),
        }
    }
}

impl TryFrom<proto::UsersReply> for Shares {
    type Error = Malformed;
    fn try_from(message: proto::UsersReply) -> Result<Shares, Malformed> {
        Ok(Shares {
            users: read::list("users", message.users, bounds::USERS_MAX, UserShare::try_from)?,
            cores: read::free("cores", message.cores)?.0,
            at: instant("at_ms", message.at_ms)?,
        })
    }
}

impl From<&OffersQuery> for proto::OffersRequest {
    fn from(query: &OffersQuery) -> proto::OffersRequest {
        proto::OffersRequest {
            service: query.service.clone(),
            most: write::number(&bounds::OFFERS, query.most),
            exploration: query.exploration.0.to_vec(),
        }
    }
}

impl TryFrom<proto::OffersRequest> for OffersQuery {
    type Error = Malformed;
    fn try_from(message: proto::OffersRequest) -> Result<OffersQuery, Malformed> {
        Ok(OffersQuery {
            service: read::word("service", A_SERVICE, message.service, bounds::NAME_BYTES_MAX)?,
            most: read::number("most", "a number of servers", &bounds::OFFERS, message.most)?,
            exploration: read::key("exploration", &message.exploration)?,
        })
    }
}

/// The answer to [`OffersQuery`].
pub fn offers_reply(offers: &[Offering]) -> proto::OffersReply {
    let offering = |offering: &Offering| proto::offers_reply::Offering {
        server: offering.server.to_string(),
        address: offering.address.clone(),
        cores: write::free(pliant_model::Procs(offering.cores)),
        per_core: write::free(pliant_model::Procs(offering.per_core)),
    };
    proto::OffersReply { servers: offers.iter().take(*bounds::OFFERS.end() as usize).map(offering).collect() }
}

/// Servers that offer a service for explorations.
///
/// # Errors
///
/// [`Malformed`].
pub fn offers(reply: proto::OffersReply) -> Result<Vec<Offering>, Malformed> {
    let most = *bounds::OFFERS.end() as usize;
    read::list("servers", reply.servers, most, |offering| {
        Ok(Offering {
            server: read::name("server", &offering.server)?,
            address: read::address("address", offering.address)?,
            cores: read::free("cores", offering.cores)?.0,
            per_core: read::free("per_core", offering.per_core)?.0,
        })
    })
}
