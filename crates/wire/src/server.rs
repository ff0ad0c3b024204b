//! What servers answer: to submissions, and why jobs wait.

use pliant_control::explain::{Explanation, Release, Wait};
use pliant_control::job::JobRecord;
use pliant_control::names::{Handle, Name};
use pliant_control::reason::Cause;
use pliant_control::server::Refused;
use pliant_model::Estimate;

use super::proto::{self, submit_reply};
use super::types::AN_ESTIMATE;
use super::{Malformed, bounds, read, write};

/// A submission that was not accepted, as the client is told. A server of a later version may have reasons that
/// this client does not know: `word` is then a new one.
#[derive(Clone, PartialEq, Debug)]
pub struct Declined {
    /// The stable word: [`Refused::word`].
    pub word: String,
    /// What stands in the way, as far as this version knows it.
    pub cause: Cause,
    /// Why, for people.
    pub why: String,
    /// What it would get now, if the estimate it relied on is stale.
    pub now: Option<Estimate>,
}

/// What a server answers to a submission.
#[derive(Clone, PartialEq, Debug)]
pub enum SubmitAnswer {
    /// It is accepted, now or before.
    Accepted(Box<JobRecord>),
    /// It is not.
    Declined(Declined),
}

impl Declined {
    /// True if only the estimate was stale: another try may be accepted.
    pub fn is_stale(&self) -> bool {
        self.now.is_some()
    }
}

impl std::fmt::Display for Declined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.why)
    }
}

impl From<&Refused> for Declined {
    fn from(refused: &Refused) -> Declined {
        let now = match refused {
            Refused::Stale { now } => Some(*now),
            Refused::TooLarge { .. }
            | Refused::TooLong { .. }
            | Refused::TooMany { .. }
            | Refused::KeyTaken
            | Refused::NoNumbersLeft
            | Refused::Other(_) => None,
        };
        Declined { word: refused.word().to_owned(), cause: refused.cause(), why: refused.to_string(), now }
    }
}

impl From<&Declined> for proto::Refused {
    fn from(declined: &Declined) -> proto::Refused {
        proto::Refused {
            word: write::text(&declined.word, bounds::NAME_BYTES_MAX),
            why: write::text(&declined.why, bounds::TEXT_BYTES_MAX),
            now: declined.now.as_ref().map(proto::Estimate::from),
            cause: proto::Cause::from(declined.cause).into(),
        }
    }
}

impl TryFrom<proto::Refused> for Declined {
    type Error = Malformed;
    fn try_from(message: proto::Refused) -> Result<Declined, Malformed> {
        let word = read::word("word", "a word like `too-large`", message.word, bounds::NAME_BYTES_MAX)?;
        let now = match word.as_str() {
            "stale" => Some(read::required("now", AN_ESTIMATE, message.now)?),
            _ => None,
        };
        // A server of an earlier version says the word only.
        let cause = match super::cause::cause(message.cause) {
            Cause::Unknown => Cause::from_word(&word),
            known => known,
        };
        Ok(Declined { word, cause, why: read::text("why", message.why, bounds::TEXT_BYTES_MAX)?, now })
    }
}

impl From<&SubmitAnswer> for proto::SubmitReply {
    fn from(answer: &SubmitAnswer) -> proto::SubmitReply {
        let answer = match answer {
            SubmitAnswer::Accepted(record) => submit_reply::Answer::Accepted((&**record).into()),
            SubmitAnswer::Declined(declined) => submit_reply::Answer::Refused(declined.into()),
        };
        proto::SubmitReply { answer: Some(answer) }
    }
}

impl TryFrom<proto::SubmitReply> for SubmitAnswer {
    type Error = Malformed;
    fn try_from(message: proto::SubmitReply) -> Result<SubmitAnswer, Malformed> {
        match message.answer.ok_or_else(|| Malformed::missing("", "accepted or refused"))? {
            submit_reply::Answer::Accepted(job) => {
                let record = JobRecord::try_from(job).map_err(|malformed| malformed.under("accepted"))?;
                Ok(SubmitAnswer::Accepted(Box::new(record)))
            }
            submit_reply::Answer::Refused(refused) => {
                let declined = Declined::try_from(refused).map_err(|malformed| malformed.under("refused"))?;
                Ok(SubmitAnswer::Declined(declined))
            }
        }
    }
}

impl From<&Explanation> for proto::ExplainReply {
    fn from(explanation: &Explanation) -> proto::ExplainReply {
        proto::ExplainReply {
            job: Some((&explanation.record).into()),
            at: write::time(explanation.at),
            waits: explanation.waits.as_ref().map(proto::explain_reply::Wait::from),
            unplanned: write::optional_text(explanation.unplanned.as_deref()),
        }
    }
}

impl TryFrom<proto::ExplainReply> for Explanation {
    type Error = Malformed;
    fn try_from(message: proto::ExplainReply) -> Result<Explanation, Malformed> {
        Ok(Explanation {
            record: read::required("job", "a job", message.job)?,
            at: read::time("at", message.at)?,
            waits: read::optional("waits", message.waits)?,
            unplanned: read::optional_text("unplanned", message.unplanned)?,
        })
    }
}

impl From<&Wait> for proto::explain_reply::Wait {
    fn from(wait: &Wait) -> proto::explain_reply::Wait {
        // The last ones matter: the planned start is where the last of them ends.
        let from = wait.until.len().saturating_sub(bounds::RELEASES_MAX);
        proto::explain_reply::Wait {
            ahead: wait.ahead,
            plan: Some((&wait.plan).into()),
            free: write::free(wait.free),
            until: write::list(&wait.until[from..], bounds::RELEASES_MAX),
            copies: wait.copies.iter().take(bounds::SERVERS_MAX).map(Name::to_string).collect(),
        }
    }
}

impl TryFrom<proto::explain_reply::Wait> for Wait {
    type Error = Malformed;
    fn try_from(message: proto::explain_reply::Wait) -> Result<Wait, Malformed> {
        Ok(Wait {
            ahead: message.ahead,
            plan: read::required("plan", AN_ESTIMATE, message.plan)?,
            free: read::free("free", message.free)?,
            until: read::list("until", message.until, bounds::RELEASES_MAX, Release::try_from)?,
            copies: read::list("copies", message.copies, bounds::SERVERS_MAX, |name| read::name("", &name))?,
        })
    }
}

impl From<&Release> for proto::explain_reply::Release {
    fn from(release: &Release) -> proto::explain_reply::Release {
        proto::explain_reply::Release {
            handle: release.handle.as_ref().map(Handle::to_string).unwrap_or_default(),
            end: write::time(release.end),
            procs: write::procs(release.procs),
        }
    }
}

impl TryFrom<proto::explain_reply::Release> for Release {
    type Error = Malformed;
    fn try_from(message: proto::explain_reply::Release) -> Result<Release, Malformed> {
        Ok(Release {
            handle: read::unless_empty(message.handle, |handle| read::handle("handle", &handle))?,
            end: read::time("end", message.end)?,
            procs: read::procs("procs", message.procs)?,
        })
    }
}
