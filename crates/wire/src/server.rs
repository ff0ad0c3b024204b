//! What servers answer: to submissions, and why jobs wait.

use pliant_control::explain::{Explanation, Release, Wait};
use pliant_control::job::JobRecord;
use pliant_control::reason::Cause;
use pliant_control::server::Refused;
use pliant_model::Estimate;

use super::field::{self, *};
use super::table::{message, one_of};
use super::types::AN_ESTIMATE;
use super::{Malformed, bounds, proto};

message! {
    /// A submission that was not accepted, as the client is told. A server of a later version may have reasons that
    /// this client does not know: `word` is then a new one.
    #[derive(Clone, PartialEq, Debug)]
    proto::Refused <=> pub struct Declined {
        /// The stable word: [`Refused::word`].
        word: String = field::word("a word like `too-large`", bounds::NAME_BYTES_MAX),
        /// What stands in the way, as far as this version knows it.
        cause: Cause = enumeration(),
        /// Why, for people.
        why: String = TEXT,
        /// What it would get now, if the estimate it relied on is stale.
        now: Option<Estimate> = optional(nested()),
    } => (check: understood, fit: crate::tests::fit::declined)
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

message! {
    proto::ExplainReply <=> Explanation {
        job <=> record: required("a job"),
        at: TIME,
        waits: optional(nested()),
        unplanned: optional(TEXT),
    }

    proto::explain_reply::Wait <=> Wait {
        ahead,
        plan: required(AN_ESTIMATE),
        free: PROCS_OR_NONE,
        // The planned start is where the last of them ends.
        until: list(nested(), bounds::RELEASES_MAX).last(),
        copies: list(NAME, bounds::SERVERS_MAX),
    }

    proto::explain_reply::Release <=> Release {
        handle: unless_empty(HANDLE),
        end: TIME,
        procs: PROCS,
    }
}

one_of! {
    proto::SubmitReply { answer: proto::submit_reply::Answer } <=> SubmitAnswer {
        Accepted <=> Accepted(boxed(nested())),
        Refused <=> Declined(nested()),
    }
}

/// A refusal with an estimate exactly if it is stale, and with the cause that its word says if it says no other.
fn understood(declined: Declined) -> Result<Declined, Malformed> {
    let is_stale = declined.word == "stale";
    if is_stale && declined.now.is_none() {
        return Err(Malformed::missing("now", AN_ESTIMATE));
    }
    let cause = match declined.cause {
        // A server of an earlier version says the word only.
        Cause::Unknown => Cause::from_word(&declined.word),
        known => known,
    };
    Ok(Declined { cause, now: declined.now.filter(|_| is_stale), ..declined })
}
