//! Input files that come with a submission.

use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use pliant_client::SubmitOrder;
use pliant_staging::{Checksum, FileName, FileSpec};
use tempfile::TempDir;

use crate::problem::Problem;
use crate::types::FileBody;

/// The names of the files in the folder of the job.
pub(super) fn names(files: &[FileBody]) -> Result<Vec<FileName>, Problem> {
    let parsed = files.iter().map(|file| file.name.parse());
    parsed.collect::<Result<_, _>>().map_err(|error| Problem::bad_request(format!("files: {error}")))
}

/// Adds the files to an order. They are on the disk as long as the result is.
pub(super) async fn add_to(
    files: Vec<FileBody>,
    order: &mut SubmitOrder,
) -> Result<Option<TempDir>, Problem> {
    if files.is_empty() {
        return Ok(None);
    }
    let named: Vec<_> = names(&files)?.into_iter().zip(files).collect();
    let written = tokio::task::spawn_blocking(move || write(named));
    let failed = |error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error);
    let (folder, inputs) = written.await.map_err(failed)??;
    order.inputs.extend(inputs);
    Ok(Some(folder))
}

type Inputs = Vec<(FileSpec, PathBuf)>;

/// Writes the files under names of their own: those that users choose lead nowhere.
fn write(files: Vec<(FileName, FileBody)>) -> Result<(TempDir, Inputs), Problem> {
    let failed = |error: std::io::Error| {
        let problem = format!("no folder for the input files: {error}");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, problem)
    };
    let folder = tempfile::tempdir().map_err(failed)?;
    let mut inputs = Vec::new();
    for (number, (name, file)) in files.into_iter().enumerate() {
        let bytes = STANDARD.decode(&file.base64).map_err(|error| {
            let name = name.as_str().escape_debug();
            Problem::bad_request(format!("files: expected the content of `{name}` in base64: {error}"))
        })?;
        let path = folder.path().join(number.to_string());
        std::fs::write(&path, &bytes).map_err(failed)?;
        inputs.push((FileSpec { name, size: bytes.len() as u64, sha256: Checksum::of(&bytes) }, path));
    }
    Ok((folder, inputs))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, base64: &str) -> FileBody {
        FileBody { name: name.to_owned(), base64: base64.to_owned() }
    }

    #[test]
    fn files_are_written_as_they_were_sent() {
        let files = vec![file("in/a b.txt", "aGkK"), file("empty", "")];
        let named = names(&files).unwrap().into_iter().zip(files).collect();
        let (folder, inputs) = write(named).unwrap();
        let found: Vec<_> = inputs
            .iter()
            .map(|(spec, path)| (spec.name.as_str(), spec.size, std::fs::read(path).unwrap()))
            .collect();
        assert_eq!(found, [("in/a b.txt", 3, b"hi\n".to_vec()), ("empty", 0, Vec::new())]);
        assert!(inputs.iter().all(|(_, path)| path.parent() == Some(folder.path())));
    }

    #[test]
    fn names_that_lead_elsewhere_and_other_contents_are_refused() {
        for name in ["/etc/passwd", "../key.pem", "a/../../b", "", "a\0b"] {
            let refused = names(&[file(name, "")]).unwrap_err();
            assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "{name}");
        }
        let refused = write(vec![("a".parse().unwrap(), file("a", "no base64"))]).unwrap_err();
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
        assert!(refused.detail().contains("`a` in base64"), "{}", refused.detail());
    }
}
