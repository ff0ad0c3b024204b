//! What parts of launches have of a server, for people.

use pliant_control::server::HeldPart;
use pliant_model::Time;

use super::super::proto;
use super::super::{Malformed, bounds, read, write};
use super::A_PART;

/// The parts at a server that are not over.
#[derive(Clone, PartialEq, Debug)]
pub struct HeldParts {
    /// The time there.
    pub now: Time,
    /// The parts.
    pub parts: Vec<HeldPart>,
}

impl From<&HeldParts> for proto::HeldPartsReply {
    fn from(held: &HeldParts) -> proto::HeldPartsReply {
        proto::HeldPartsReply {
            now: write::time(held.now),
            parts: write::list(&held.parts, bounds::PARTS_MAX),
        }
    }
}

impl TryFrom<proto::HeldPartsReply> for HeldParts {
    type Error = Malformed;
    fn try_from(message: proto::HeldPartsReply) -> Result<HeldParts, Malformed> {
        Ok(HeldParts {
            now: read::time("now", message.now)?,
            parts: read::list("parts", message.parts, bounds::PARTS_MAX, HeldPart::try_from)?,
        })
    }
}

impl From<&HeldPart> for proto::HeldPart {
    fn from(part: &HeldPart) -> proto::HeldPart {
        proto::HeldPart {
            id: Some((&part.id).into()),
            owner: part.owner.to_string(),
            name: write::text(&part.name, bounds::NAME_BYTES_MAX),
            tasks: part.tasks,
            procs: write::procs(part.procs),
            standing: Some((&part.standing).into()),
            ending: part.ending,
            since: write::time(part.since),
            heard: write::time(part.heard),
        }
    }
}

impl TryFrom<proto::HeldPart> for HeldPart {
    type Error = Malformed;
    fn try_from(message: proto::HeldPart) -> Result<HeldPart, Malformed> {
        Ok(HeldPart {
            id: read::required("id", A_PART, message.id)?,
            owner: read::user("owner", &message.owner)?,
            name: read::text("name", message.name, bounds::NAME_BYTES_MAX)?,
            tasks: message.tasks,
            procs: read::procs("procs", message.procs)?,
            standing: read::required("standing", "how the part stands", message.standing)?,
            ending: message.ending,
            since: read::time("since", message.since)?,
            heard: read::time("heard", message.heard)?,
        })
    }
}
