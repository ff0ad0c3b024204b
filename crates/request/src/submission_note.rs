//! Records the server of each submission whose key the user gave, so that the same command goes to the same server again, and
//! another one with this key is refused.
//!
//! A file per key in the user's state folder has a line for each server that the submission was sent to, with the checksum of the
//! submission. The last server may have accepted it. A line is synced before anything is sent. The lock of the file admits one command per key.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pliant_client::SubmitOrder;
use pliant_control::names::{Key, Name};
use pliant_staging::{Checksum, FileSpec};

use crate::error::RequestError;
use crate::local_federation::state_folder;

/// How long a note is kept: longer than servers keep their jobs by default.
const KEPT: Duration = Duration::from_secs(90 * 86_400);

/// The line that stands for no server.
const NO_SERVER: &str = "-";

/// The locked note of a key.
pub struct SubmissionNote {
    file: File,
    path: PathBuf,
    content: Checksum,
}

/// The checksum of what a submission runs, with its input files.
fn content_of(order: &SubmitOrder) -> Result<Checksum, RequestError> {
    let inputs: Vec<&FileSpec> = order.inputs.iter().map(|(file, _)| file).collect();
    let text = serde_json::to_vec(&(&order.what, inputs)).map_err(RequestError::system)?;
    Ok(Checksum::of(&text))
}

impl SubmissionNote {
    /// Opens the note of a submission's key; calls `waits` and waits if another process has it.
    ///
    /// # Errors
    ///
    /// If the note cannot be opened.
    pub fn open(order: &SubmitOrder, waits: impl FnOnce()) -> Result<SubmissionNote, RequestError> {
        SubmissionNote::open_in(&state_folder()?.join("submissions"), order.key, content_of(order)?, waits)
    }

    fn open_in(
        folder: &Path,
        key: Key,
        content: Checksum,
        waits: impl FnOnce(),
    ) -> Result<SubmissionNote, RequestError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error: io::Error| {
                RequestError::io(&path, "keep where the submission goes", &error)
                    .hint("without --key no note is written")
            }
        };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed(folder))?;
        remove_old(folder).map_err(failed(folder))?;
        let path = folder.join(key.to_string());
        let mut options = OpenOptions::new();
        let options = options.read(true).append(true).create(true).mode(0o600);
        let file = options.open(&path).map_err(failed(&path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                waits();
                file.lock().map_err(failed(&path))?;
            }
            Err(TryLockError::Error(error)) => return Err(failed(&path)(error)),
        }
        Ok(SubmissionNote { file, path, content })
    }

    /// The server that may have accepted it. An error if the key was used for another submission.
    pub fn server(&mut self) -> Result<Option<Name>, RequestError> {
        let mut text = String::new();
        let read = self.file.rewind().and_then(|()| self.file.read_to_string(&mut text));
        read.map_err(|error| RequestError::io(&self.path, "read", &error))?;
        // After an incomplete line nothing was sent.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let line = whole.lines().next_back().unwrap_or(NO_SERVER);
        if line == NO_SERVER {
            return Ok(None);
        }
        // Earlier versions recorded no checksum.
        let (name, content) =
            line.split_once(' ').map_or((line, None), |(name, content)| (name, Some(content)));
        if content.is_some_and(|content| content != self.content.to_string()) {
            let problem =
                "--key: expected the submission that this key was first used for, found another one";
            return Err(RequestError::input(problem)
                .hint(format!("use another key; the first submission was sent to {name}")));
        }
        let wrong = |error| {
            let problem = format!("{}: {error}", self.path.display());
            RequestError::input(problem)
                .hint("only `pliant submit` writes this file; without it the job may run twice")
        };
        name.parse().map(Some).map_err(wrong)
    }

    /// Records the server that it is sent to.
    pub fn record(&mut self, server: &Name) -> io::Result<()> {
        self.append(&format!("{server} {}", self.content))
    }

    /// Records that no server has accepted it.
    pub fn clear(&mut self) -> Result<(), RequestError> {
        self.append(NO_SERVER)
            .map_err(|error| RequestError::system(error).hint("with the same key it goes to no other server"))
    }

    fn append(&mut self, text: &str) -> io::Result<()> {
        // Ends an incomplete line first.
        let line = if self.is_cut()? { format!("\n{text}\n") } else { format!("{text}\n") };
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_all());
        let path = self.path.display();
        written.map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("{path}: cannot record the server of the submission: {error}"),
            )
        })
    }
}

impl SubmissionNote {
    /// True if the last line is incomplete.
    fn is_cut(&mut self) -> io::Result<bool> {
        let mut last = [b'\n'];
        if self.file.seek(SeekFrom::End(0))? > 0 {
            self.file.seek(SeekFrom::End(-1))?;
            self.file.read_exact(&mut last)?;
        }
        Ok(last != [b'\n'])
    }
}

fn remove_old(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let written = fs::metadata(&path).and_then(|data| data.modified());
        // A removed file, or one from the future, is not old.
        if written.is_ok_and(|written| written.elapsed().is_ok_and(|age| age > KEPT)) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn note_in(folder: &Path, content: &str) -> SubmissionNote {
        SubmissionNote::open_in(folder, Key([7; 16]), Checksum::of(content.as_bytes()), || {}).unwrap()
    }

    #[test]
    fn a_note_is_found_again_until_it_is_cleared() {
        let dir = tempfile::tempdir().unwrap();
        let open = || note_in(dir.path(), "script");
        let mut sent = open();
        assert_eq!(sent.server().unwrap(), None);
        sent.record(&"toulouse".parse().unwrap()).unwrap();
        sent.record(&"lyon".parse().unwrap()).unwrap();
        drop(sent);
        let mut sent = open();
        assert_eq!(sent.server().unwrap(), Some("lyon".parse().unwrap()));
        sent.clear().unwrap();
        drop(sent);
        assert_eq!(open().server().unwrap(), None);
    }

    #[test]
    fn a_key_is_for_one_submission_until_all_servers_have_refused_it() {
        let dir = tempfile::tempdir().unwrap();
        note_in(dir.path(), "one").record(&"lyon".parse().unwrap()).unwrap();
        let refused = note_in(dir.path(), "another").server().unwrap_err();
        assert!(refused.is_input());
        assert!(refused.message().contains("found another one"), "{refused:?}");
        assert_eq!(note_in(dir.path(), "one").server().unwrap(), Some("lyon".parse().unwrap()));
        note_in(dir.path(), "one").clear().unwrap();
        assert_eq!(note_in(dir.path(), "another").server().unwrap(), None);
    }

    #[test]
    fn a_note_that_was_cut_was_sent_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(Key([7; 16]).to_string());
        let server = || {
            let found = note_in(dir.path(), "script").server().unwrap();
            found.map(|name| name.to_string())
        };
        // What is in the file, and where it goes by that.
        for (text, expected) in [
            ("lyo", None),
            ("lyon\n", Some("lyon")),
            ("lyon\nroue", Some("lyon")),
            ("lyon\n-\n", None),
            ("lyon\n-\nrouen\n", Some("rouen")),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(server().as_deref(), expected, "{text:?}");
        }
        fs::write(&path, "lyon\nroue").unwrap();
        note_in(dir.path(), "script").record(&"rennes".parse().unwrap()).unwrap();
        // A cut name may be one: what was cut was refused, or never sent.
        let content = Checksum::of(b"script");
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("lyon\nroue\nrennes {content}\n"));
        assert_eq!(server().as_deref(), Some("rennes"));
    }

    #[test]
    fn old_notes_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let [old, new] = ["old", "new"].map(|name| dir.path().join(name));
        for path in [&old, &new] {
            fs::write(path, "lyon\n").unwrap();
        }
        let then = SystemTime::now() - KEPT - Duration::from_secs(60);
        File::options().write(true).open(&old).unwrap().set_modified(then).unwrap();
        drop(note_in(dir.path(), "script"));
        assert_eq!((old.exists(), new.exists()), (false, true));
    }
}
