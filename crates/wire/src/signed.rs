//! Signatures of users and servers.

use pliant_control::signed::{Claim, Digest, HandoffSignature, Signature, SignedClaim};
use serde::{Deserialize, Serialize};

use super::field::*;
use super::table::message;
use super::{bounds, proto};

pub(crate) const A_CLAIM: &str = "the user's signature";
const A_SIGNATURE: &str = "a signature";

message! {
    proto::Signature <=> Signature {
        bytes: bytes_to(bounds::SIGNATURE_BYTES_MAX).exact(),
        certificate: bytes_to(bounds::CERTIFICATE_BYTES_MAX).exact(),
    }

    proto::SignedClaim <=> SignedClaim {
        claim: Claim {
            owner: USER,
            key: KEY,
            digest: DIGEST,
            audience: NAME,
            made: TIME,
            lifetime_s <=> lifetime: DIFFERENCE,
        },
        signature: required(A_SIGNATURE),
    }

    proto::HandoffSignature <=> HandoffSignature {
        claim: DIGEST,
        at: TIME,
        signature: required(A_SIGNATURE),
    }
}

message! {
    /// A user's signature for tasks of a launch.
    #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
    proto::SignedTasks <=> pub struct SignedTasks {
        /// The claim; its digest is that of `tasks`.
        claim: SignedClaim = required(A_CLAIM),
        /// The digest of each task.
        tasks: Vec<Digest> = list(DIGEST, bounds::TASKS_MAX).exact(),
    }
}
