//! The signatures of users for tasks of launches, as payloads that coordinators pass on.

use pliant_control::payload::Payload;

use super::super::{Malformed, SignedTasks};

pub(super) const SIGNED_TASKS: &str = "the user's signature for the tasks";

/// The signature in a payload.
pub(super) fn signed_of(payload: &Payload) -> Option<SignedTasks> {
    payload.read().ok()
}

/// The payload of a signature.
pub(super) fn signed_payload(signed: Option<SignedTasks>) -> Payload {
    signed.as_ref().map(Payload::of).unwrap_or_default()
}

/// The payload of a signature that was sent.
pub(super) fn checked_payload((signed,): (Option<SignedTasks>,)) -> Result<Payload, Malformed> {
    Ok(signed_payload(signed))
}

/// The parts of a payload.
pub(super) fn parts(payload: &Payload) -> (Option<SignedTasks>,) {
    (signed_of(payload),)
}
