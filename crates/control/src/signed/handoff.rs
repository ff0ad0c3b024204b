//! What a server signs when it hands a job over.

use pliant_model::Time;
use serde::{Deserialize, Serialize};

use super::{Digest, Signature, SignedBytes};
use crate::names::{Handle, Key, Name, User};

/// What a server signs when it has withdrawn a job and hands it over to another server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HandoffStatement<'a> {
    /// The job.
    pub job: &'a Handle,
    /// Its owner.
    pub owner: &'a User,
    /// The key of its submission.
    pub key: Key,
    /// The digest of the bytes that its user signed.
    pub claim: Digest,
    /// The server that signs.
    pub from: &'a Name,
    /// The server that takes the job over.
    pub to: &'a Name,
    /// The attempt.
    pub attempt: u32,
    /// When it was signed.
    pub at: Time,
}

/// The signature under a [`HandoffStatement`], with what a [`Hop`](crate::job::Hop) does not say of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HandoffSignature {
    /// The digest of the bytes that the user signed.
    pub claim: Digest,
    /// When it was signed.
    pub at: Time,
    /// The signature of the server that handed the job over.
    pub signature: Signature,
}

impl HandoffStatement<'_> {
    /// The bytes that are signed.
    pub fn signed_bytes(&self) -> Vec<u8> {
        let HandoffStatement { job, owner, key, claim, from, to, attempt, at } = self;
        let bytes = SignedBytes::new("pliant handoff v1").field(job.to_string().as_bytes());
        let bytes = bytes.field(owner.as_str().as_bytes()).field(&key.0).field(&claim.0);
        let bytes = bytes.field(from.as_str().as_bytes()).field(to.as_str().as_bytes());
        bytes.number(i64::from(*attempt)).number(at.0).0
    }
}
