//! Answers of servers: to submissions, and explanations of waiting jobs.

use pliant_control::explain::{Explanation, Release, Shortage, Wait};
use pliant_control::job::JobRecord;
use pliant_control::reason::Cause;
use pliant_control::server::AdmissionRefusal;
use pliant_model::Estimate;
use pliant_policy::batch::order::{Factor, PriorityParts};

use super::field::{self, *};
use super::table::{message, one_of};
use super::types::AN_ESTIMATE;
use super::{CallEnd, Malformed, bounds, proto};

message! {
    /// The refusal of a submission. A server of a later version may have a reason that this client does not know: `word` is
    /// then a new one.
    #[derive(Clone, PartialEq, Debug)]
    proto::Refused <=> pub struct SubmissionRefusal {
        /// The stable word: [`AdmissionRefusal::word`].
        word: String = field::word("a word like `too-large`", bounds::NAME_BYTES_MAX),
        /// Why, as far as this version knows the reason.
        cause: Cause = enumeration(),
        /// Why, for people.
        why: String = TEXT,
        /// The present estimate, if the submitted one is stale.
        now: Option<Estimate> = optional(nested()),
    } => (check: understood, fit: crate::tests::fit::declined)
}

/// What a server answers to a submission.
#[derive(Clone, PartialEq, Debug)]
pub enum SubmitAnswer {
    /// The work is accepted, now or before.
    Accepted(Box<JobRecord>),
    /// The work is refused.
    Refused(SubmissionRefusal),
}

/// What a server answers to a submission of a call for whose end it waits.
#[derive(Clone, PartialEq, Debug)]
pub enum CallAnswer {
    /// The call is accepted, now or before; its record, with its outcome if it has ended.
    Accepted(Box<CallEnd>),
    /// The call is refused.
    Refused(SubmissionRefusal),
}

impl SubmissionRefusal {
    /// True if only the estimate was stale: another try may be accepted.
    pub fn is_stale(&self) -> bool {
        self.now.is_some()
    }
}

impl std::fmt::Display for SubmissionRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.why)
    }
}

impl From<&AdmissionRefusal> for SubmissionRefusal {
    fn from(refused: &AdmissionRefusal) -> SubmissionRefusal {
        let now = match refused {
            AdmissionRefusal::Stale { now } => Some(*now),
            AdmissionRefusal::TooLarge { .. }
            | AdmissionRefusal::TooLong { .. }
            | AdmissionRefusal::TooMany { .. }
            | AdmissionRefusal::TooManyBytes { .. }
            | AdmissionRefusal::QueueFull { .. }
            | AdmissionRefusal::KeyTaken
            | AdmissionRefusal::NoNumbersLeft
            | AdmissionRefusal::Other(_) => None,
        };
        SubmissionRefusal {
            word: refused.word().to_owned(),
            cause: refused.cause(),
            why: refused.to_string(),
            now,
        }
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
        siblings: list(NAME, bounds::SERVERS_MAX),
        priority: optional(nested()),
        operator_priority: number("a priority", bounds::JOB_PRIORITY).exact(),
        shortages: list(nested(), bounds::SHORTAGES_MAX),
    }

    proto::explain_reply::Shortage <=> Shortage {
        resource: TEXT,
        needed,
        free,
    }

    proto::explain_reply::Priority <=> PriorityParts {
        age: Factor { age <=> value: FACTOR, age_weight <=> weight: as_is() },
        size: Factor { size <=> value: FACTOR, size_weight <=> weight: as_is() },
        fair_share: Factor { fair_share <=> value: FACTOR, fair_share_weight <=> weight: as_is() },
        class,
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
        Refused <=> Refused(nested()),
    }

    proto::CallReply { answer: proto::call_reply::Answer } <=> CallAnswer {
        Accepted <=> Accepted(boxed(nested())),
        Refused <=> Refused(nested()),
    }
}

/// A refusal with an estimate exactly if it is stale, and with the cause that its word says if it says no other.
fn understood(declined: SubmissionRefusal) -> Result<SubmissionRefusal, Malformed> {
    let is_stale = declined.word == "stale";
    if is_stale && declined.now.is_none() {
        return Err(Malformed::missing("now", AN_ESTIMATE));
    }
    let cause = match declined.cause {
        // A server of an earlier version says the word only.
        Cause::Unknown => Cause::from_word(&declined.word),
        known => known,
    };
    Ok(SubmissionRefusal { cause, now: declined.now.filter(|_| is_stale), ..declined })
}

/// A factor of a priority.
const FACTOR: Number<f64, f64> = number("a factor", 0.0..=1.0);
