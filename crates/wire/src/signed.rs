//! Signatures of users and servers, and the digests that users sign.

use pliant_control::coallocation::{PlacedTask, TaskSpec};
use pliant_control::payload::Payload;
use pliant_control::signed::{Claim, Digest, HandoffSignature, Signature, SignedClaim};
use pliant_staging::{Checksum, FileSpec};
use prost::Message;
use serde::{Deserialize, Serialize};

use super::field::*;
use super::launch::program_and_inputs;
use super::table::message;
use super::{SubmittedWork, bounds, proto};

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

/// The digest of a submission, which its user signs.
pub fn submission_digest(what: &SubmittedWork, inputs: &[FileSpec], pinned: bool) -> Digest {
    let (what, inputs) = (Some(what.to_variant()), inputs.iter().map(Into::into).collect());
    digest("pliant submitted work v1", &proto::SubmittedWork { what, inputs, pinned }.encode_to_vec())
}

/// The digest of the bytes that a user signed.
pub fn claim_digest(signed: &[u8]) -> Digest {
    digest("pliant claim v1", signed)
}

/// The digest of a task as a user describes it.
pub fn task_digest(task: &TaskSpec) -> Digest {
    signed_task(&task.name, &task.payload)
}

/// The digest of a task as it comes to a server.
pub fn placed_task_digest(task: &PlacedTask) -> Digest {
    signed_task(&task.name, &task.payload)
}

/// The digest of the tasks of a launch, which their user signs.
pub fn tasks_digest(tasks: &[Digest]) -> Digest {
    let bytes: Vec<u8> = tasks.iter().flat_map(|task| task.0).collect();
    digest("pliant launched tasks v1", &bytes)
}

fn signed_task(name: &str, payload: &Payload) -> Digest {
    let (program, inputs) = program_and_inputs(payload);
    let program = program.as_ref().map(Into::into);
    let inputs = inputs.iter().map(Into::into).collect();
    digest("pliant task v1", &proto::SignedTask { name: name.to_owned(), program, inputs }.encode_to_vec())
}

/// SHA-256 of a kind of thing, a zero byte, and the thing.
fn digest(kind: &str, bytes: &[u8]) -> Digest {
    Digest(Checksum::of(&[kind.as_bytes(), &[0], bytes].concat()).0)
}
