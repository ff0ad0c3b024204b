//! What an account leaves in memory that belongs to no process: files in `/dev/shm` and POSIX queues, segments, semaphores and queues of
//! System V (sysvipc(7)). The host has few of the latter, and all of them stay when a job has ended.
//!
//! They are removed once the account has no process on the host, as systemd-logind does with `RemoveIPC=` for users who log in. They do not
//! say which job they are of, so those of a job stay while another one of its account runs.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{geteuid, getpid};

use super::call::{Call, Reply};
use super::{FilesError, client};
use crate::accounts::AccountRun;
use crate::processes::{PROGRAM_PATH, table};

const FOLDERS: [&str; 2] = ["/dev/shm", "/dev/mqueue"];
/// Lists of objects of all users, the column of their ids, and the option of ipcrm(1) that removes one.
const OBJECTS: [(&str, &str, &str); 3] = [
    ("/proc/sysvipc/shm", "shmid", "--shmem-id"),
    ("/proc/sysvipc/sem", "semid", "--semaphore-id"),
    ("/proc/sysvipc/msg", "msqid", "--queue-id"),
];

/// What belongs to no process.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Leftovers {
    files: Vec<PathBuf>,
    /// Options of ipcrm(1).
    objects: Vec<String>,
}

/// Has the account of a job that has ended remove what it left, if no other process of it is seen but the one that measures the job's files.
pub(crate) fn remove_leftovers(account: &AccountRun, meter: Option<i32>) -> Result<(), FilesError> {
    let Some(uid) = fs::metadata(&account.folder).ok().map(|folder| folder.uid()) else { return Ok(()) };
    if Leftovers::of(uid) == Leftovers::default() || has_other_process(uid, meter) {
        return Ok(());
    }
    match client::answered(account, &Call::RemoveLeftovers { meter })? {
        Reply::Done => Ok(()),
        _ => Err(client::unexpected(account)),
    }
}

/// Removes what this user has left, unless it has another process.
///
/// # Errors
/// Something cannot be removed.
pub(super) fn remove_own(meter: Option<i32>) -> io::Result<()> {
    let uid = geteuid().as_raw();
    let Leftovers { files, objects } = Leftovers::of(uid);
    // Where a process hides from others, this one sees those of its own user alone.
    if has_other_process(uid, meter) {
        return Ok(());
    }
    for file in files {
        let removed = if file.is_dir() { fs::remove_dir_all(&file) } else { fs::remove_file(&file) };
        if let Err(error) = removed
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(io::Error::new(error.kind(), format!("{}: {error}", file.display())));
        }
    }
    if objects.is_empty() || has_other_process(uid, meter) {
        return Ok(());
    }
    let mut ipcrm = Command::new("ipcrm");
    ipcrm
        .args(objects)
        .env("PATH", PROGRAM_PATH)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    match ipcrm.status()? {
        status if status.success() => Ok(()),
        status => Err(io::Error::other(format!("ipcrm: {status}"))),
    }
}

impl Leftovers {
    fn of(uid: u32) -> Leftovers {
        let in_folder = |folder: &str| {
            let entries = fs::read_dir(Path::new(folder)).into_iter().flatten().flatten();
            // Links are not followed.
            let own = entries.filter(move |entry| entry.metadata().is_ok_and(|found| found.uid() == uid));
            own.map(|entry| entry.path())
        };
        let listed = |(path, id, option): (&str, &str, &str)| {
            // There is no list if the kernel has no such objects.
            let list = fs::read_to_string(path).unwrap_or_default();
            made_by(uid, &list, id).into_iter().map(move |id| format!("{option}={id}")).collect::<Vec<_>>()
        };
        Leftovers {
            files: FOLDERS.into_iter().flat_map(in_folder).collect(),
            objects: OBJECTS.into_iter().flat_map(listed).collect(),
        }
    }
}

/// The ids of the objects in a list that a user has made (proc_sysvipc(5)).
fn made_by(uid: u32, list: &str, id: &str) -> BTreeSet<u32> {
    let mut lines = list.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<&str>>());
    let header = lines.next().unwrap_or_default();
    let column = |name: &str| header.iter().position(|&column| column == name);
    // The creator stays, and the owner can be changed.
    let (Some(id), Some(creator)) = (column(id), column("cuid")) else { return BTreeSet::new() };
    let number = |line: &[&str], column: usize| line.get(column)?.parse::<u32>().ok();
    lines.filter(|line| number(line, creator) == Some(uid)).filter_map(|line| number(&line, id)).collect()
}

/// Whether a user has a process other than this one and that meter.
fn has_other_process(uid: u32, meter: Option<i32>) -> bool {
    let known = [Some(getpid().as_raw_nonzero().get()), meter];
    let is_other = |process: &table::Process| {
        !known.contains(&Some(process.pid)) && !process.is_zombie && process.has_uid(uid)
    };
    table::all().iter().any(is_other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_those_that_a_user_has_made() {
        let list = "       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n\
                    0          3   600          1  1001  1001  1000  1000          0 1764000000\n\
                    -559038737          5   600          1  1000  1000  1001  1001          0 1764000000\n";
        let check = |uid: u32, id: &str, expected: &[u32]| {
            assert_eq!(made_by(uid, list, id), expected.iter().copied().collect(), "{uid} {id}");
        };
        check(1000, "semid", &[3]);
        check(1001, "semid", &[5]);
        check(1002, "semid", &[]);
        check(1000, "shmid", &[]);
        assert_eq!(made_by(1000, "", "semid"), BTreeSet::new());
    }

    #[test]
    fn a_user_with_another_process_is_seen() {
        let uid = geteuid().as_raw();
        let mut other = Command::new("sleep").arg("60").spawn().unwrap();
        assert!(has_other_process(uid, None));
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(!has_other_process(0xFFFF_FFF1, None));
    }
}
