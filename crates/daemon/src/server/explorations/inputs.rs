//! The input files of explorations. They count for the upload limits of their users as long as they are there.

use std::fs;
use std::path::{Path, PathBuf};

use pliant_control::exact_text::ExactText;
use pliant_control::names::{Key, User};
use pliant_staging::{Checksum, FileSpec, StagingError, Store, UploadSet, WORK, counted_bytes};

use crate::server::execution::blocking;

/// The folder of scripts among the files of an exploration.
const SCRIPTS: &str = ".pliant-scripts";

/// Takes the files of an exploration out of those that were uploaded, unless its folder `dir` has them.
pub(super) async fn take_in(
    store: &Store,
    of: &UploadSet,
    inputs: &[FileSpec],
    dir: &Path,
) -> Result<(), StagingError> {
    let _lock = store.lock(&of.user, of.key).await;
    let (store, of, inputs) = (store.clone(), of.clone(), inputs.to_vec());
    let take = move |dir: &Path| {
        let missing = missing_bytes(dir, &inputs);
        // First, so that no other upload takes the space meanwhile.
        let kept = store.kept_by(&of) + missing;
        store.keep(&of, kept);
        let taken = store.adopt(&of, &inputs, dir);
        store.keep(&of, kept - missing_bytes(dir, &inputs).min(missing));
        taken
    };
    blocking(dir, take).await
}

/// Puts the script of an exploration among the files that were uploaded for it, unless its folder `dir` has it: so it counts as
/// they do. No request finds it among its input files.
pub(super) async fn put_script(
    store: &Store,
    of: &UploadSet,
    text: &ExactText,
    dir: &Path,
) -> Result<FileSpec, StagingError> {
    let sha256 = Checksum::of(text.as_bytes());
    let name = format!("{SCRIPTS}/{sha256}").parse().expect("it is two plain words");
    let spec = FileSpec { name, size: text.as_bytes().len() as u64, sha256 };
    if missing_bytes(dir, std::slice::from_ref(&spec)) == 0 {
        return Ok(spec);
    }
    let _lock = store.lock(&of.user, of.key).await;
    let (store, of, text) = (store.clone(), of.clone(), text.clone());
    let put = move |_: &Path| {
        let upload = store.begin(&of, spec.clone())?;
        if upload.is_done() {
            return Ok(spec);
        }
        // An earlier call may have been broken off.
        let offset = upload.offset();
        let rest = text.as_bytes().get(usize::try_from(offset).unwrap_or(usize::MAX)..);
        upload.append(offset, rest.unwrap_or_default())?;
        upload.finish().map(|()| spec)
    };
    blocking(dir, put).await
}

/// What those of the files count that are not in the folder of an exploration.
fn missing_bytes(dir: &Path, inputs: &[FileSpec]) -> u64 {
    let missing = |spec: &&FileSpec| !dir.join(WORK).join(spec.name.as_str()).exists();
    inputs.iter().filter(missing).map(|spec| counted_bytes(spec.size)).sum()
}

/// Counts the files in the folder of an exploration that was there before the server started.
pub(super) async fn recount(store: &Store, of: &UploadSet, dir: &Path) {
    let _lock = store.lock(&of.user, of.key).await;
    store.keep(of, blocking(dir, |dir| files_bytes(&dir.join(WORK))).await);
}

/// What all files below a folder count. Only the server writes there.
fn files_bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let bytes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => files_bytes(&entry.path()),
        Ok(metadata) => counted_bytes(metadata.len()),
        Err(_) => 0,
    });
    bytes.sum()
}

/// Has what was removed count no more. `dir_of` gives the folder with the files of an exploration.
pub(super) async fn give_back_removed(store: &Store, dir_of: impl Fn(Key) -> PathBuf) {
    for of in store.kept() {
        let _lock = store.lock(&of.user, of.key).await;
        if !dir_of(of.key).exists() {
            store.keep(&of, 0);
        }
    }
}

/// The files that the owner of an exploration sends for it.
pub(super) fn uploads_of(user: &User, exploration: Key) -> UploadSet {
    UploadSet::of_owner(user.clone(), exploration)
}

#[cfg(test)]
mod tests {
    use pliant_staging::Limits;

    use super::*;

    const SIZE: usize = 30_000;

    fn upload(store: &Store, of: &UploadSet, name: &str) -> Result<FileSpec, StagingError> {
        let content = vec![7; SIZE];
        let (name, sha256) = (name.parse().unwrap(), Checksum::of(&content));
        let spec = FileSpec { name, size: SIZE as u64, sha256 };
        let upload = store.begin(of, spec.clone())?;
        upload.append(0, &content)?;
        upload.finish()?;
        Ok(spec)
    }

    #[tokio::test]
    async fn files_of_explorations_count_until_they_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let limits = Limits { per_user: 2 * SIZE as u64, ..Limits::default() };
        let open = || Store::open(&root.path().join("store"), limits).unwrap();
        let dir_of = |key: Key| root.path().join(key.to_string());
        let alice: User = "alice".parse().unwrap();
        let of = |key: u8| uploads_of(&alice, Key([key; 16]));
        let store = open();
        let mut taken = Vec::new();
        for key in [1, 2] {
            let inputs = [upload(&store, &of(key), "data").unwrap()];
            for _ in 0..2 {
                take_in(&store, &of(key), &inputs, &dir_of(of(key).key)).await.unwrap();
                assert_eq!(store.kept_by(&of(key)), SIZE as u64, "counted once");
            }
            taken.push(inputs);
        }
        let beyond = |store: &Store| upload(store, &of(3), "data").unwrap_err().to_string();
        assert!(beyond(&store).contains("60000"), "{}", beyond(&store));
        // Another manifest gives nothing back.
        let missing = FileSpec { name: "other".parse().unwrap(), ..taken[0][0].clone() };
        let error = take_in(&store, &of(1), &[missing], &dir_of(of(1).key)).await.unwrap_err();
        assert!(matches!(error, StagingError::Damaged { .. }), "{error:?}");
        assert_eq!(store.kept_by(&of(1)), SIZE as u64);

        // After a restart they are found again.
        drop(store);
        let store = open();
        for key in [1, 2] {
            recount(&store, &of(key), &dir_of(of(key).key)).await;
        }
        beyond(&store);
        std::fs::remove_dir_all(dir_of(of(1).key)).unwrap();
        give_back_removed(&store, dir_of).await;
        assert_eq!((store.kept_by(&of(1)), store.kept_by(&of(2))), (0, SIZE as u64));
        upload(&store, &of(3), "data").unwrap();
    }

    #[tokio::test]
    async fn the_script_of_an_exploration_is_taken_in_once_and_counts() {
        let root = tempfile::tempdir().unwrap();
        let limits = Limits { per_user: 2 * SIZE as u64, ..Limits::default() };
        let store = Store::open(&root.path().join("store"), limits).unwrap();
        let (of, dir) = (uploads_of(&"alice".parse().unwrap(), Key([1; 16])), root.path().join("one"));
        let text: ExactText = ("#!/bin/sh\n".to_owned() + &"#".repeat(SIZE - 10)).into();
        // The first stream ends before its input file is there.
        let script = put_script(&store, &of, &text, &dir).await.unwrap();
        let missing = FileSpec { name: "data".parse().unwrap(), size: 1, sha256: Checksum::of(b"x") };
        take_in(&store, &of, &[missing, script.clone()], &dir).await.unwrap_err();
        let data = upload(&store, &of, "data").unwrap();
        for _ in 0..2 {
            assert_eq!(put_script(&store, &of, &text, &dir).await.unwrap(), script);
            take_in(&store, &of, &[data.clone(), script.clone()], &dir).await.unwrap();
            assert_eq!(store.kept_by(&of), 2 * SIZE as u64, "counted once");
            assert_eq!(fs::read(dir.join(WORK).join(script.name.as_str())).unwrap(), text.as_bytes());
        }
        let other = uploads_of(&"alice".parse().unwrap(), Key([2; 16]));
        let beyond = put_script(&store, &other, &text, &root.path().join("two")).await;
        assert!(matches!(beyond, Err(StagingError::Quota { .. })), "{beyond:?}");
    }
}
