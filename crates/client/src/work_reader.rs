//! Reads the folder of work without its lock: what a client that may be running has written so far.
//!
//! The journal only grows, by whole lines. A line without its end is being written, or was when its client died: it is read once it
//! is complete. A folder that was begun anew has another header.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::work_folder::{FolderError, JOURNAL, LOCK, Work, at, entry_of, header_in};

/// How long ago the last sign of a client that works may be: clients give one every two seconds.
const WORKING: Duration = Duration::from_secs(15);

/// A folder of work that is read while a client may work on it.
#[derive(Debug)]
pub(crate) struct WorkReader<W> {
    dir: PathBuf,
    header: W,
    /// The text of the header.
    text: Vec<u8>,
    journal: File,
    /// What was read: the offset behind the last line, and the number of lines.
    offset: u64,
    lines: u64,
}

impl<W: Work> WorkReader<W> {
    /// The folder of such work.
    ///
    /// # Errors
    ///
    /// If there is no such work in it, or it cannot be read.
    pub(crate) fn open(dir: &Path) -> Result<WorkReader<W>, FolderError> {
        let empty = || FolderError::Empty { dir: dir.to_owned() };
        let (header, text) = header_in::<W>(dir)?.ok_or_else(empty)?;
        let path = dir.join(JOURNAL);
        let journal = File::open(&path).map_err(at(&path))?;
        Ok(WorkReader { dir: dir.to_owned(), header, text, journal, offset: 0, lines: 0 })
    }

    /// The folder.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// What the work is.
    pub(crate) fn header(&self) -> &W {
        &self.header
    }

    /// True if other work was begun in the folder, so that it has to be opened again.
    pub(crate) fn is_outdated(&self) -> bool {
        let is_shorter = self.journal.metadata().is_ok_and(|file| file.len() < self.offset);
        is_shorter || fs::read(self.dir.join(W::HEADER)).is_ok_and(|text| text != self.text)
    }

    /// Calls `visit` for each entry that was written since the last call, with the offset of its line.
    ///
    /// # Errors
    ///
    /// If the journal cannot be read, or a line of it is not valid.
    pub(crate) fn read(&mut self, mut visit: impl FnMut(u64, W::Entry)) -> Result<(), FolderError> {
        let path = self.dir.join(JOURNAL);
        let mut reader = BufReader::with_capacity(1 << 16, &self.journal);
        reader.seek(SeekFrom::Start(self.offset)).map_err(at(&path))?;
        let mut line = Vec::new();
        loop {
            line.clear();
            let length = reader.read_until(b'\n', &mut line).map_err(at(&path))? as u64;
            if line.last() != Some(&b'\n') {
                return Ok(());
            }
            let entry = entry_of(&self.header, &line, &path, self.lines + 1)?;
            visit(self.offset, entry);
            (self.offset, self.lines) = (self.offset + length, self.lines + 1);
        }
    }

    /// The entry of the line at that offset.
    pub(crate) fn line(&self, offset: u64) -> Result<W::Entry, FolderError> {
        let path = self.dir.join(JOURNAL);
        let mut reader = &self.journal;
        reader.seek(SeekFrom::Start(offset)).map_err(at(&path))?;
        let mut line = Vec::new();
        // Few lines are longer.
        BufReader::with_capacity(512, reader).read_until(b'\n', &mut line).map_err(at(&path))?;
        let unreadable = |source| FolderError::Unreadable { location: path.display().to_string(), source };
        serde_json::from_slice(&line).map_err(unreadable)
    }

    /// True if a client works on it, by the signs that clients give.
    pub(crate) fn is_worked_on(&self) -> bool {
        is_worked_on(&self.dir)
    }

    /// When the journal was written last.
    pub(crate) fn written(&self) -> Option<SystemTime> {
        self.journal.metadata().and_then(|file| file.modified()).ok()
    }
}

/// True if a client works on the work of a folder, by the signs that clients give.
pub fn is_worked_on(dir: &Path) -> bool {
    let beaten = fs::metadata(dir.join(LOCK)).and_then(|file| file.modified());
    // The clock of a file server may be ahead of ours.
    beaten.is_ok_and(|beaten| beaten.elapsed().unwrap_or_else(|ahead| ahead.duration()) < WORKING)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::work_folder::WorkFolder;
    use crate::work_folder::tests::Count;

    fn read(reader: &mut WorkReader<Count>) -> Vec<(u64, u32)> {
        let mut found = Vec::new();
        reader.read(|offset, entry| found.push((offset, entry))).unwrap();
        found
    }

    #[test]
    fn what_a_running_client_writes_is_read_line_by_line() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(WorkReader::<Count>::open(dir.path()), Err(FolderError::Empty { .. })));
        let mut folder = WorkFolder::<Count>::open(dir.path()).unwrap();
        folder.begin(&Count { to: 300 }).unwrap();
        let mut reader = WorkReader::open(dir.path()).unwrap();
        assert_eq!(read(&mut reader), []);
        folder.append(&1);
        folder.append(&20);
        folder.flush(false).unwrap();
        assert_eq!(read(&mut reader), [(0, 1), (2, 20)]);
        // A line that is being written: another handle writes what `flush` writes at once.
        let mut torn = File::options().append(true).open(dir.path().join(JOURNAL)).unwrap();
        torn.write_all(b"3").unwrap();
        assert_eq!(read(&mut reader), []);
        torn.write_all(b"00\n7\n").unwrap();
        assert_eq!(read(&mut reader), [(5, 300), (9, 7)]);
        assert_eq!(reader.line(2).unwrap(), 20);
        assert_eq!(read(&mut reader), [], "a line that was looked up does not move the reader");
        torn.write_all(b"301\n").unwrap();
        let error = reader.read(|_, _| {}).unwrap_err().to_string();
        assert!(error.contains("journal.jsonl:5") && error.contains("expected 300 at most"), "{error}");
    }

    #[test]
    fn a_line_that_was_cut_off_is_replaced_by_the_next_client() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = WorkFolder::<Count>::open(dir.path()).unwrap();
        folder.begin(&Count { to: 300 }).unwrap();
        folder.append(&1);
        folder.flush(false).unwrap();
        drop(folder);
        File::options().append(true).open(dir.path().join(JOURNAL)).unwrap().write_all(b"29").unwrap();
        let mut reader = WorkReader::open(dir.path()).unwrap();
        assert_eq!(read(&mut reader), [(0, 1)]);
        let mut folder = WorkFolder::<Count>::open(dir.path()).unwrap();
        folder.resume().unwrap();
        folder.append(&3);
        folder.flush(false).unwrap();
        assert!(!reader.is_outdated());
        assert_eq!(read(&mut reader), [(2, 3)]);
    }

    #[test]
    fn work_that_is_begun_anew_is_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = WorkFolder::<Count>::open(dir.path()).unwrap();
        folder.begin(&Count { to: 3 }).unwrap();
        folder.append(&1);
        folder.flush(false).unwrap();
        let mut reader = WorkReader::open(dir.path()).unwrap();
        assert_eq!(read(&mut reader).len(), 1);
        assert!(!reader.is_outdated());
        folder.forget().unwrap();
        assert!(reader.is_outdated(), "its journal is shorter");
        folder.begin(&Count { to: 4 }).unwrap();
        folder.append(&2);
        folder.flush(false).unwrap();
        assert!(reader.is_outdated(), "its header is another one");
        assert_eq!(read(&mut WorkReader::<Count>::open(dir.path()).unwrap()), [(0, 2)]);
    }

    #[test]
    fn a_client_that_works_shows_it() {
        let dir = tempfile::tempdir().unwrap();
        let folder = WorkFolder::<Count>::open(dir.path()).unwrap();
        folder.begin(&Count { to: 3 }).unwrap();
        let reader = WorkReader::<Count>::open(dir.path()).unwrap();
        let lock = File::options().append(true).open(dir.path().join(LOCK)).unwrap();
        lock.set_modified(SystemTime::now() - 2 * WORKING).unwrap();
        assert!(!reader.is_worked_on());
        folder.beat();
        assert!(reader.is_worked_on());
    }
}
