//! Bytes from anywhere: they are refused or understood, and what is understood can be written again.

use proptest::prelude::*;
use prost::Message;

use super::messages::*;
use super::{drawn, received};

/// Reads bytes as an `M`; if they say something, it can be said again.
fn understood<M, T>(bytes: &[u8])
where
    M: Message + Default + for<'a> From<&'a T>,
    T: TryFrom<M, Error = Malformed> + Clone + PartialEq + std::fmt::Debug,
{
    let Ok(message) = M::decode(bytes) else { return };
    match T::try_from(message) {
        Ok(value) => assert_eq!(received::<M, T>(&value), Ok(value)),
        Err(malformed) => fit_to_show(&malformed),
    }
}

fn fit_to_show(malformed: &Malformed) {
    let shown = malformed.to_string();
    assert!(shown.len() < 2000 && !shown.contains(char::is_control), "{shown:?}");
}

fn refused_or_not<M: Message + Default, T>(bytes: &[u8], read: impl Fn(M) -> Result<T, Malformed>) {
    if let Ok(Err(malformed)) = M::decode(bytes).map(read) {
        fit_to_show(&malformed);
    }
}

macro_rules! understood_or_refused {
    ($($test:ident: $type:ty;)*) => {
        fn every_message(bytes: &[u8]) {
            $(understood::<<$type as HasMessage>::Message, $type>(bytes);)*
            refused_or_not(bytes, accuracies);
            refused_or_not(bytes, listed_machines);
            refused_or_not(bytes, links);
        }
    };
}

for_each_message!(understood_or_refused);

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
        every_message(&bytes);
    }

    #[test]
    fn damaged_jobs(bytes in drawn::<JobRecord>().prop_flat_map(|job| damaged(proto::Job::from(&job)))) {
        understood::<proto::Job, JobRecord>(&bytes);
        every_message(&bytes);
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
