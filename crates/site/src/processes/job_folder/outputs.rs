//! The files for what a job of an account writes to its standard outputs. They belong to the account, so that its quotas count them, and
//! its supervisor, which is the server's, writes into them. A process of the account makes them and sends them open.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

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

/// Has the account make the files of a job's standard output and error, and takes them.
///
/// # Errors
/// The account cannot be reached, or they cannot be made.
pub(crate) fn make_outputs(account: &AccountRun) -> Result<[File; 2], FilesError> {
    let mut launched = begun(account, &Call::Outputs)?;
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
        Reply::Failed(failed) => return Err(failed.into_error(account.folder.clone()).into()),
        _ => return Err(unexpected(account)),
    };
    launched.finish_soon()?;
    let files: Option<[File; 2]> = files.try_into().ok();
    // Anything else could keep the supervisor waiting for ever.
    files.filter(|files| files.iter().all(|file| is_of(account, file))).ok_or_else(|| unexpected(account))
}

/// True for a file on the file system of the account's folder.
fn is_of(account: &AccountRun, file: &File) -> bool {
    let Ok((found, folder)) = file.metadata().and_then(|found| Ok((found, account.folder.metadata()?)))
    else {
        return false;
    };
    found.is_file() && found.dev() == folder.dev()
}

/// The answer, with the files that came along.
fn received(socket: &UnixStream) -> io::Result<(Reply, Vec<File>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; REPLY_BYTES];
    let (mut filled, mut files) = (0, Vec::new());
    while !bytes[..filled].ends_with(b"\n") && filled < bytes.len() {
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
