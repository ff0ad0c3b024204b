//! What a job writes to standard output or error, copied into a file up to a limit.
//!
//! The job writes into a pipe and a thread copies. Beyond the limit the thread goes on reading and drops what it
//! reads, so that the job neither blocks nor dies of it; the job's files in its work folder are not limited.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use pliant_wire::cut_notice;

/// How much of the beginning is kept in memory.
const HEAD_BYTES: usize = 4_096;

/// A copy under way.
#[derive(Debug)]
pub(super) struct Copy {
    done: Receiver<Copied>,
}

/// What was copied.
#[derive(Debug)]
pub(super) struct Copied {
    /// Something was dropped, or may have been.
    pub(super) was_cut: bool,
    /// The beginning, whatever became of the file; and the file, unless the copy goes on.
    head: Vec<u8>,
    file: Option<File>,
}

impl Copied {
    /// Why the job's program was not started, as the first line says with one of those beginnings; the file is emptied then.
    pub(super) fn take_refusal(&self, beginnings: &[&str]) -> Option<String> {
        let text = String::from_utf8_lossy(&self.head);
        let line = text.lines().next().unwrap_or_default();
        let why = beginnings.iter().find_map(|beginning| line.strip_prefix(beginning))?.to_owned();
        // A text that is there twice does no harm.
        let _ = self.file.as_ref().map(|file| file.set_len(0));
        Some(why)
    }
}

impl Copy {
    /// Starts copying.
    ///
    /// # Errors
    /// No thread could be started.
    pub(super) fn start(pipe: impl Read + Send + 'static, file: File, max_bytes: u64) -> io::Result<Copy> {
        let (sender, done) = mpsc::channel();
        thread::Builder::new().name("output".into()).stack_size(128 * 1024).spawn(move || {
            let (was_cut, head) = copy(pipe, &file, max_bytes);
            let is_safe = file.sync_all().is_ok();
            // The wait may be over.
            let _ = sender.send(Copied { was_cut: was_cut || !is_safe, head, file: Some(file) });
        })?;
        Ok(Copy { done })
    }

    /// Waits until everything is copied and on disk, but not beyond `at_most`: a process that is none of the job's may
    /// have been handed the pipe.
    pub(super) fn finish(self, at_most: Duration) -> Copied {
        let unfinished = Copied { was_cut: true, head: Vec::new(), file: None };
        self.done.recv_timeout(at_most).unwrap_or(unfinished)
    }
}

/// Returns whether something was dropped, and the beginning.
fn copy(pipe: impl Read, mut file: impl Write, max_bytes: u64) -> (bool, Vec<u8>) {
    let (mut left, mut head) = (max_bytes, Vec::new());
    let mut was_cut = false;
    let drained = drain(pipe, |piece| {
        head.extend(&piece[..piece.len().min(HEAD_BYTES - head.len())]);
        if was_cut {
            return;
        }
        let kept = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        left -= kept as u64;
        let written = file.write_all(&piece[..kept]);
        if written.is_err() || kept < piece.len() {
            was_cut = true;
            let notice = match written {
                Ok(()) => cut_notice(max_bytes),
                Err(error) => format!("\n[pliant: output was dropped from here on: {error}]\n"),
            };
            // On a full disk there may be no space for the notice either; the exit record has it.
            let _ = file.write_all(notice.as_bytes());
        }
    });
    (was_cut || drained.is_err(), head)
}

/// Reads a pipe to its end, piece by piece.
pub(super) fn drain(mut pipe: impl Read, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let mut buffer = vec![0; 32 * 1024];
    loop {
        match pipe.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => take(&buffer[..read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many bytes, then fails.
    struct Disk {
        content: Vec<u8>,
        space: usize,
    }

    impl Write for &mut Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let fit = bytes.len().min(self.space);
            if fit == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            self.space -= fit;
            self.content.extend(&bytes[..fit]);
            Ok(fit)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn kept_dropped_and_noticed() {
        let check = |input: &str, max_bytes: u64, space: usize, expected: &str, is_cut: bool| {
            let mut disk = Disk { content: Vec::new(), space };
            let mut input_left = input.as_bytes();
            let (was_cut, head) = copy(&mut input_left, &mut disk, max_bytes);
            assert_eq!(was_cut, is_cut, "{input} {max_bytes} {space}");
            assert_eq!(head, &input.as_bytes()[..input.len().min(HEAD_BYTES)]);
            assert!(input_left.is_empty(), "everything is read");
            assert_eq!(String::from_utf8(disk.content).unwrap(), expected);
        };
        check("abc", 10, 1000, "abc", false);
        check("abc", 3, 1000, "abc", false);
        check("", 0, 1000, "", false);
        check("abcd", 3, 1000, "abc\n[pliant: output beyond 3 bytes was dropped]\n", true);
        check("a", 0, 1000, "\n[pliant: output beyond 0 bytes was dropped]\n", true);
        check("abcd", 10, 2, "ab", true);
        let long = "x".repeat(100_000);
        check(&long, 100_000, 1_000_000, &long, false);
    }
}
