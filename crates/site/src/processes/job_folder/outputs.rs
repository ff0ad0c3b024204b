//! The files for what a job of an account writes to its standard outputs. They belong to the account, so that its quotas count them, and
//! its supervisor, which is the server's, writes into them. A process of the account makes them and sends them open.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use pliant_staging::StagingError;
use rustix::fs::OFlags;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use super::FilesError;
use super::call::{Call, Reply, line, read_line};
use super::client::{begun, unexpected};
use crate::accounts::AccountRun;

/// The longest answer: a reason, or that the files are sent along.
const REPLY_BYTES: usize = 8_192;
/// How long it may take, however little comes at a time.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);

/// Has the account make the files of a job's standard output and error, and takes them.
///
/// # Errors
/// The account cannot be reached, or they cannot be made.
pub(crate) fn make_outputs(account: &AccountRun) -> Result<[File; 2], FilesError> {
    let mut launched = begun(account, &Call::Outputs, Some(ANSWERS_WITHIN))?;
    launched.end_input();
    let received = launched.with_socket(received);
    let (reply, files) = match received {
        Ok(received) => received,
        Err(error) => {
            let disorder = launched.disorder(format!("does not answer: {error}"));
            launched.finish_soon()?;
            return Err(disorder.into());
        }
    };
    let files = match reply {
        Reply::Outputs => files,
        Reply::Failed(failed) => return Err(failed.into_error(account.folder.clone())),
        _ => return Err(unexpected(account)),
    };
    launched.finish_soon()?;
    let files: Option<[File; 2]> = files.try_into().ok();
    // Anything else could keep the supervisor waiting for ever.
    files.filter(|files| files.iter().all(|file| is_of(account, file))).ok_or_else(|| unexpected(account))
}

/// True for a file of the account on the file system of its folder.
fn is_of(account: &AccountRun, file: &File) -> bool {
    let Ok((found, folder)) = file.metadata().and_then(|found| Ok((found, account.folder.metadata()?)))
    else {
        return false;
    };
    found.is_file() && (found.dev(), found.uid()) == (folder.dev(), folder.uid())
}

/// The answer, with the files that came along: no more than two, since each takes a descriptor.
fn received(socket: &UnixStream) -> io::Result<(Reply, Vec<File>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; REPLY_BYTES];
    let (mut filled, mut files) = (0, Vec::new());
    let until = Instant::now() + ANSWERS_WITHIN;
    while !bytes[..filled].ends_with(b"\n") && filled < bytes.len() {
        if files.len() > 2 {
            return Err(io::Error::new(ErrorKind::InvalidData, "expected two files, found more"));
        }
        if Instant::now() >= until {
            return Err(ErrorKind::TimedOut.into());
        }
        let buffer = &mut [IoSliceMut::new(&mut bytes[filled..])];
        let message = match recvmsg(socket, buffer, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => continue,
            message => message?,
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(sent) = message {
                files.extend(sent.map(File::from));
            }
        }
        if message.bytes == 0 {
            break;
        }
        filled += message.bytes;
    }
    Ok((read_line(&mut &bytes[..filled], REPLY_BYTES as u64)?, files))
}

/// Makes the files in the job's folder. What a supervisor left there that started nothing is emptied.
pub(super) fn created(folder: &Path) -> Result<[File; 2], StagingError> {
    let create = |name: &str| {
        let path = folder.join(name);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let opened = options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(&path);
        opened.map_err(|source| StagingError::Io { path, source })
    };
    Ok([create("stdout")?, create("stderr")?])
}

/// Sends them along with the answer.
pub(super) fn send(mut socket: &File, files: &[File; 2]) -> io::Result<()> {
    let fds = files.each_ref().map(AsFd::as_fd);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)), "there is space for two files");
    let answer = line(&Reply::Outputs);
    let sent = sendmsg(socket, &[IoSlice::new(&answer)], &mut ancillary, SendFlags::NOSIGNAL)?;
    socket.write_all(&answer[sent..])
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn account(folder: &Path) -> AccountRun {
        AccountRun {
            name: "alice".parse().unwrap(),
            folder: folder.to_owned(),
            launcher: "/no/such/launcher".into(),
            pliant: "/no/such/pliant".into(),
            processes_max: None,
            has_records: false,
            guard: None,
        }
    }

    /// What the server's side takes of files that the account's side sends.
    fn sent(files: &[File; 2]) -> Vec<File> {
        let (own, other) = UnixStream::pair().unwrap();
        send(&File::from(std::os::fd::OwnedFd::from(other)), files).unwrap();
        let (reply, files) = received(&own).unwrap();
        assert_eq!(reply, Reply::Outputs);
        files
    }

    #[test]
    fn files_are_made_anew_and_handed_over() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::write(scratch.path().join("stderr"), "left by a supervisor that started nothing").unwrap();
        let mut files = sent(&created(scratch.path()).unwrap());
        assert!(files.len() == 2 && files.iter().all(|file| is_of(&account(scratch.path()), file)));
        files[1].write_all(b"said").unwrap();
        let text = |name: &str| std::fs::read_to_string(scratch.path().join(name)).unwrap();
        assert_eq!([text("stdout"), text("stderr")], ["", "said"]);
    }

    /// Files with each byte of an answer that does not end.
    #[test]
    fn no_more_files_are_taken_than_expected() {
        let (own, other) = UnixStream::pair().unwrap();
        let file = File::open("/dev/null").unwrap();
        for _ in 0..20 {
            let fds = [file.as_fd(), file.as_fd()];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
            sendmsg(&other, &[IoSlice::new(b"x")], &mut ancillary, SendFlags::NOSIGNAL).unwrap();
        }
        assert!(received(&own).unwrap_err().to_string().contains("found more"));
    }

    /// The account sends what it likes: its files elsewhere, or what keeps a writer waiting.
    #[test]
    fn nothing_else_is_taken() {
        let (scratch, pipe) = (tempfile::tempdir().unwrap(), std::io::pipe().unwrap());
        let of = account(scratch.path());
        let pipe = File::from(std::os::fd::OwnedFd::from(pipe.1));
        let elsewhere = File::open("/proc/self/stat").unwrap();
        assert!(sent(&[pipe, elsewhere]).iter().all(|file| !is_of(&of, file)));
        std::os::unix::fs::symlink("/dev/null", scratch.path().join("stdout")).unwrap();
        assert!(created(scratch.path()).is_err(), "no link is followed");
        let (own, other) = UnixStream::pair().unwrap();
        (&other).write_all(&[b'x'; REPLY_BYTES]).unwrap();
        assert!(received(&own).is_err(), "an answer without an end");
        drop(other);
        assert!(received(&own).is_err(), "no answer");
        assert_eq!((&own).read(&mut [0]).unwrap(), 0);
    }
}
