//! Bytes from anywhere: they are refused or understood, and what is understood can be written again.

use proptest::prelude::*;
use prost::Message;

use super::drawn;
use crate::any_bytes::*;

/// A message of which a few bytes were changed, or the end cut off.
fn damaged(message: impl Message) -> impl Strategy<Value = Vec<u8>> {
    let bytes = message.encode_to_vec();
    let length = bytes.len();
    (Just(bytes), prop::collection::vec((0..length.max(1), any::<u8>()), 1..4), 0..=length).prop_map(
        |(mut bytes, changes, end)| {
            for (at, byte) in changes {
                if let Some(found) = bytes.get_mut(at) {
                    *found = byte;
                }
            }
            if end % 2 == 0 {
                bytes.truncate(end);
            }
            bytes
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        as_every_message(&bytes);
    }

    #[test]
    fn damaged_jobs(bytes in drawn::<JobRecord>().prop_flat_map(|job| damaged(proto::Job::from(&job)))) {
        understood::<proto::Job, JobRecord>(&bytes);
        as_every_message(&bytes);
    }

    #[test]
    fn damaged_submissions(bytes in drawn::<Submission>().prop_flat_map(|one| damaged(proto::SubmitRequest::from(&one)))) {
        understood::<proto::SubmitRequest, Submission>(&bytes);
    }

    #[test]
    fn damaged_messages_of_children(bytes in drawn::<FromChild>().prop_flat_map(|one| damaged(proto::Up::from(&one)))) {
        understood::<proto::Up, FromChild>(&bytes);
    }

    #[test]
    fn damaged_messages_of_parents(bytes in drawn::<FromParent>().prop_flat_map(|one| damaged(proto::Down::from(&one)))) {
        understood::<proto::Down, FromParent>(&bytes);
    }

    #[test]
    fn damaged_launches(bytes in drawn::<LaunchRequest>().prop_flat_map(|one| damaged(proto::LaunchRequest::from(&one)))) {
        understood::<proto::LaunchRequest, LaunchRequest>(&bytes);
    }

    #[test]
    fn damaged_subjobs(bytes in drawn::<Subjob>().prop_flat_map(|one| damaged(proto::PrepareSubjob::from(&one)))) {
        understood::<proto::PrepareSubjob, Subjob>(&bytes);
    }

    #[test]
    fn damaged_downloads(bytes in drawn::<Download>().prop_flat_map(|one| damaged(proto::DownloadRequest::from(&one)))) {
        understood::<proto::DownloadRequest, Download>(&bytes);
    }
}
