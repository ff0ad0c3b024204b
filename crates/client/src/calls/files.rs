//! The files of calls: local files that go to a service, arguments that are too long for a submission, and results.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use pliant_calls::{ParameterType, Signature};
use pliant_control::names::Handle;
use pliant_staging::{Checksum, FileSpec, WORK};
use pliant_wire::Fetchable;
use tempfile::TempDir;

use super::CallError;
use crate::{Client, ClientError};

/// The input files of a call, each with its local path.
pub(super) async fn staged(
    signature: &Signature,
    files: &BTreeMap<usize, PathBuf>,
) -> Result<Vec<(FileSpec, PathBuf)>, CallError> {
    let mut staged = Vec::new();
    for (at, parameter) in signature.parameters().iter().enumerate() {
        let is_input = parameter.kind == ParameterType::File && parameter.direction.is_input();
        let Some(path) = files.get(&at).filter(|_| is_input) else { continue };
        let from = path.clone();
        let (sha256, size) = off_thread(path, move || Checksum::of_reader(File::open(from)?)).await?;
        staged.push((FileSpec { name: name_of(&parameter.name), size, sha256 }, path.clone()));
    }
    Ok(staged)
}

/// A local file with the arguments of a call, which goes when the folder is dropped.
pub(super) async fn arguments_file(
    name: &'static str,
    bytes: Vec<u8>,
) -> Result<(TempDir, (FileSpec, PathBuf)), CallError> {
    let folder = folder()?;
    let path = folder.path().join(name);
    let to = path.clone();
    let written = move || {
        let spec = FileSpec { name: name_of(name), size: bytes.len() as u64, sha256: Checksum::of(&bytes) };
        File::create_new(to)?.write_all(&bytes)?;
        Ok(spec)
    };
    let spec = off_thread(&path, written).await?;
    Ok((folder, (spec, path)))
}

/// A folder for files that are not kept.
pub(super) fn folder() -> Result<TempDir, CallError> {
    tempfile::tempdir().map_err(|source| CallError::File { path: std::env::temp_dir(), source })
}

/// All of a file.
pub(super) async fn read(path: PathBuf) -> Result<Vec<u8>, CallError> {
    let from = path.clone();
    off_thread(&path, move || fs::read(from)).await
}

fn name_of(name: &str) -> pliant_staging::FileName {
    name.parse().expect("the name of a parameter is that of a file")
}

async fn off_thread<T: Send + 'static>(
    path: &Path,
    act: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, CallError> {
    let done = tokio::task::spawn_blocking(act).await.map_err(io::Error::other);
    done.and_then(|done| done).map_err(|source| CallError::File { path: path.to_owned(), source })
}

impl Client {
    /// Fetches a result into a local file, which is replaced once all of it is there.
    pub(super) async fn fetch_to(&self, job: &Handle, file: &Fetchable, to: &Path) -> Result<(), CallError> {
        let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let failed = |source| CallError::File { path: to.to_owned(), source };
        // In the same file system, so that it can be put in place at once.
        let folder = tempfile::Builder::new().prefix(".pliant-").tempdir_in(parent).map_err(failed)?;
        self.fetch(job, file, folder.path()).await?;
        let pliant_staging::ResultName::File(name) = &file.name else {
            return Err(ClientError::failed("it is no file").into());
        };
        fs::rename(folder.path().join(WORK).join(name.as_str()), to).map_err(failed)
    }
}
