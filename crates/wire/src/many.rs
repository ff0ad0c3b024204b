//! Several requests of a client in one message. Each has an answer of its own, as if it had come in a call of its own.

use pliant_control::agent::DiscoveryResult;
use tonic::{Code, Status};

use super::field::*;
use super::table::{message, one_of};
use super::{Malformed, SubmitAnswer, bounds, proto};

message! {
    /// Why one of several requests has no answer: the error that a call of its own would have ended with.
    #[derive(Clone, PartialEq, Eq, Debug)]
    proto::CallFailure <=> pub struct CallFailure {
        /// The number of the status code.
        code: u32,
        /// Why, for people.
        message: String = TEXT,
    }
}

impl From<&Status> for CallFailure {
    fn from(status: &Status) -> CallFailure {
        CallFailure { code: i32::from(status.code()).unsigned_abs(), message: status.message().to_owned() }
    }
}

impl From<CallFailure> for Status {
    fn from(failure: CallFailure) -> Status {
        let code = match i32::try_from(failure.code).map(Code::from_i32) {
            // A failure is never a success.
            Ok(Code::Ok) | Err(_) => Code::Unknown,
            Ok(code) => code,
        };
        Status::new(code, failure.message)
    }
}

/// The answer to one of several submissions.
#[derive(Clone, PartialEq, Debug)]
pub enum SubmitOutcome {
    /// The server has accepted or refused the work.
    Answered(SubmitAnswer),
    /// The submission has failed.
    Failed(CallFailure),
}

/// The answer to one of several questions of a client.
#[derive(Clone, PartialEq, Debug)]
pub enum DiscoverOutcome {
    /// The discovery has an answer.
    Found(DiscoveryResult),
    /// The discovery has failed.
    Failed(CallFailure),
}

one_of! {
    proto::SubmitOutcome { outcome: proto::submit_outcome::Outcome } <=> SubmitOutcome {
        Answered <=> Answered(nested()),
        Failed <=> Failed(nested()),
    }

    proto::DiscoverOutcome { outcome: proto::discover_outcome::Outcome } <=> DiscoverOutcome {
        Found <=> Found(nested()),
        Failed <=> Failed(nested()),
    }
}

/// The requests of a message that has several, unless there are too many. Each is checked by itself: one that is not valid does not
/// fail the others.
///
/// # Errors
///
/// [`Malformed`] in `field`.
pub fn several<T>(field: &str, requests: Vec<T>) -> Result<Vec<T>, Malformed> {
    count(field, requests.len(), bounds::MANY_MAX)?;
    Ok(requests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_the_same_error_at_the_other_end() {
        for status in [
            Status::unavailable("busy"),
            Status::already_exists("taken"),
            Status::new(Code::Unauthenticated, "who?"),
        ] {
            let failure = CallFailure::from(&status);
            let read = Status::from(CallFailure::try_from(proto::CallFailure::from(&failure)).unwrap());
            assert_eq!((read.code(), read.message()), (status.code(), status.message()));
        }
        for code in [0, 99, u32::MAX] {
            let read = Status::from(CallFailure { code, message: String::new() });
            assert_eq!(read.code(), Code::Unknown, "{code}");
        }
    }

    #[test]
    fn there_are_so_many_at_most() {
        assert_eq!(several("questions", vec![(); 256]).unwrap().len(), 256);
        let refused = several("questions", vec![(); 257]).unwrap_err();
        assert_eq!(refused.to_string(), "questions: expected at most 256 items, found 257");
    }
}
