//! The outcome of a call of a typed service, read from the folder of its job.

use std::path::Path;

use pliant_staging::{FileName, ResultName, WORK};
use pliant_wire::CALL_OUTCOME;

use super::{Access, JobFolder, off_thread};
use crate::processes::tasks::call::read_file;

impl JobFolder {
    /// The outcome of a call, if there is one of at most so many bytes that can be read now. Within a tokio runtime.
    pub async fn call_outcome(records: &Path, most: usize) -> Option<Vec<u8>> {
        let name: FileName = CALL_OUTCOME.parse().expect("it is the name of a file");
        let (dir, file) = (records.to_owned(), name.clone());
        let own = off_thread(move || {
            Ok(match JobFolder::at(&dir)?.access {
                // At once: calls are short.
                Access::Own => Some(read_file(&dir.join(WORK), &file, most).ok()),
                Access::Account(_) => None,
            })
        });
        if let Some(read) = own.await.ok()? {
            return read;
        }
        let mut stream = JobFolder::open(records, None, &ResultName::File(name), 0).await.ok()?;
        let mut outcome = Vec::new();
        loop {
            let (piece, rest) = stream.piece(most + 1 - outcome.len()).await.ok()?;
            outcome.extend_from_slice(&piece);
            if piece.is_empty() || outcome.len() > most {
                return Some(outcome).filter(|outcome| outcome.len() <= most);
            }
            stream = rest;
        }
    }
}
