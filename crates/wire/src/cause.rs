//! Why somebody does not take a submission.

use pliant_control::names::Name;
use pliant_control::reason::{Cause, Reason, Survey};

use super::proto::{self, survey::Passed};
use super::{Malformed, bounds, read, write};

impl From<Cause> for proto::Cause {
    fn from(cause: Cause) -> proto::Cause {
        match cause {
            Cause::Unknown => proto::Cause::Unspecified,
            Cause::NotOffered => proto::Cause::NotOffered,
            Cause::Invalid => proto::Cause::Invalid,
            Cause::TooLarge => proto::Cause::TooLarge,
            Cause::TooLong => proto::Cause::TooLong,
            Cause::TooMany => proto::Cause::TooMany,
            Cause::Stale => proto::Cause::Stale,
            Cause::KeyTaken => proto::Cause::KeyTaken,
            Cause::NoNumbersLeft => proto::Cause::NoNumbersLeft,
            Cause::Silent => proto::Cause::Silent,
            Cause::Absent => proto::Cause::NotConnected,
            Cause::Unreachable => proto::Cause::Unreachable,
            Cause::Busy => proto::Cause::Busy,
            Cause::Stopping => proto::Cause::Stopping,
            Cause::BatchSystem => proto::Cause::BatchSystem,
        }
    }
}

/// The cause of that number. One that this version does not know is of a later one, and no reason to understand
/// nothing of the message.
pub(super) fn cause(number: i32) -> Cause {
    match proto::Cause::try_from(number) {
        Ok(proto::Cause::Unspecified) | Err(_) => Cause::Unknown,
        Ok(proto::Cause::NotOffered) => Cause::NotOffered,
        Ok(proto::Cause::Invalid) => Cause::Invalid,
        Ok(proto::Cause::TooLarge) => Cause::TooLarge,
        Ok(proto::Cause::TooLong) => Cause::TooLong,
        Ok(proto::Cause::TooMany) => Cause::TooMany,
        Ok(proto::Cause::Stale) => Cause::Stale,
        Ok(proto::Cause::KeyTaken) => Cause::KeyTaken,
        Ok(proto::Cause::NoNumbersLeft) => Cause::NoNumbersLeft,
        Ok(proto::Cause::Silent) => Cause::Silent,
        Ok(proto::Cause::NotConnected) => Cause::Absent,
        Ok(proto::Cause::Unreachable) => Cause::Unreachable,
        Ok(proto::Cause::Busy) => Cause::Busy,
        Ok(proto::Cause::Stopping) => Cause::Stopping,
        Ok(proto::Cause::BatchSystem) => Cause::BatchSystem,
    }
}

/// Why a server refuses.
pub(super) fn refusal((server, reason): &(Name, Reason)) -> proto::Refusal {
    proto::Refusal {
        server: server.to_string(),
        why: write::text(&reason.why, bounds::TEXT_BYTES_MAX),
        cause: proto::Cause::from(reason.cause).into(),
    }
}

/// The server that refuses, and why.
pub(super) fn refused(refusal: proto::Refusal) -> Result<(Name, Reason), Malformed> {
    let server = read::name("server", &refusal.server)?;
    let why = read::text("why", refusal.why, bounds::TEXT_BYTES_MAX)?;
    Ok((server, cause(refusal.cause).because(why)))
}

/// What came of asking the others; nothing if nothing is known.
pub(super) fn survey(survey: &Survey) -> Option<proto::Survey> {
    let passed = |(server, cause): &(Name, Cause)| Passed {
        server: server.to_string(),
        cause: proto::Cause::from(*cause).into(),
    };
    let Survey { servers, answered, passed: list } = survey;
    let passed = list.iter().take(bounds::PASSED_MAX).map(passed).collect();
    (!survey.is_empty()).then_some(proto::Survey { servers: *servers, answered: *answered, passed })
}

impl TryFrom<proto::Survey> for Survey {
    type Error = Malformed;
    fn try_from(message: proto::Survey) -> Result<Survey, Malformed> {
        let passed = |one: Passed| Ok((read::name("server", &one.server)?, cause(one.cause)));
        Ok(Survey {
            servers: message.servers,
            answered: message.answered,
            passed: read::list("passed", message.passed, bounds::PASSED_MAX, passed)?,
        })
    }
}
