//! The digests that users sign.

use pliant_control::coallocation::{PlacedTask, TaskSpec};
use pliant_control::payload::Payload;
use pliant_control::signed::Digest;
use pliant_staging::{Checksum, FileSpec};
use prost::Message;

use super::field::OneOf;
use super::launch::program_and_inputs;
use super::{SubmittedWork, proto};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TypedCall;

    /// The order of fields that the page about signatures gives: signed bytes of earlier builds stay what they are.
    #[test]
    fn a_choice_is_encoded_where_its_lowest_number_is() {
        let call = TypedCall {
            service: "f".into(),
            arguments: Default::default(),
            values: b"v".to_vec().into(),
            stored: Vec::new(),
            kept: Vec::new(),
        };
        let file = FileSpec { name: "a".parse().unwrap(), size: 1, sha256: Checksum([7; 32]) };
        let what = SubmittedWork::Call(call);
        let [call, file_bytes] = {
            let proto =
                proto::SubmittedWork { what: Some(what.to_variant()), inputs: Vec::new(), pinned: false };
            let input = proto::InputFile::from(&file);
            [proto.encode_to_vec(), input.encode_to_vec()]
        };
        // `call` is field 6, `inputs` field 4 and `pinned` field 5.
        let length = u8::try_from(file_bytes.len()).unwrap();
        let expected = [&call[..], &[4 << 3 | 2, length], &file_bytes[..], &[5 << 3, 1]].concat();
        assert_eq!(call[0], 6 << 3 | 2);
        let of_bytes = Checksum::of(&[&b"pliant submitted work v1\0"[..], &expected[..]].concat());
        assert_eq!(submission_digest(&what, &[file], true), Digest(of_bytes.0));
    }
}
