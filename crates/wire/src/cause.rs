//! Why a submission is not accepted.

use pliant_control::names::Name;
use pliant_control::reason::{Cause, DiscoverySummary, Reason};

use super::field::*;
use super::table::{enumeration, message};
use super::{bounds, proto};

enumeration! {
    // A cause that this version does not know is one of a later version, and no reason to refuse the message.
    proto::Cause <=> Cause: else Unknown {
        Unspecified <=> Unknown,
        NotOffered,
        Invalid,
        TooLarge,
        TooLong,
        TooMany,
        Stale,
        KeyTaken,
        NoNumbersLeft,
        NoAnswer,
        NotConnected,
        Unreachable,
        Busy,
        Stopping,
        BatchSystem,
        NoAccount,
        Drained,
        Banned,
        Resources,
        Deadline,
        NoData,
        DataBounds,
    }
}

message! {
    proto::Refusal <=> (Name, Reason) (server: NAME, Reason { why: TEXT, cause: enumeration() })

    proto::DiscoverySummary <=> DiscoverySummary {
        servers,
        answered,
        not_asked,
        passed: list(nested(), bounds::PASSED_MAX),
    }

    proto::discovery_summary::Passed <=> (Name, Cause) (server: NAME, cause: enumeration())
}
