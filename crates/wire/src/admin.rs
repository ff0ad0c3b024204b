//! Acts of operators, and the state of a server after them.

use pliant_control::server::Drain;

use super::field::*;
use super::table::message;
use super::{Malformed, bounds, proto};

message! {
    /// An act of an operator.
    #[derive(Clone, PartialEq, Debug)]
    proto::AdminRequest <=> pub struct AdminOrder {
        /// The reason.
        why: String = word("a reason", bounds::TEXT_BYTES_MAX).exact(),
    }
}

message! {
    proto::drain_reply::Drained <=> Drain {
        at: TIME,
        by: USER,
        why: TEXT,
    }
}

/// The answer to an operator who drains a server or has it resume.
pub fn drain_reply(drained: Option<&Drain>) -> proto::DrainReply {
    proto::DrainReply { drained: drained.map(Into::into) }
}

/// The act that drained the server, as its answer says.
///
/// # Errors
///
/// [`Malformed`], with a path from [`proto::DrainReply`].
pub fn drained(reply: proto::DrainReply) -> Result<Option<Drain>, Malformed> {
    optional(nested()).decode("drained", reply.drained)
}
