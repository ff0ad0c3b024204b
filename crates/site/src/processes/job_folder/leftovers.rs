//! What an account leaves in memory that belongs to no process: files in `/dev/shm` and POSIX queues, segments, semaphores and queues of
//! System V (sysvipc(7)), and the keys of its user (user-keyring(7)). The host has few of them, and all of them stay when a job has ended.
//!
//! They are removed once the account has no process on the host, as systemd-logind does with `RemoveIPC=` for users who log in. They do not
//! say which job they are of, so those of a job stay while another one of its account runs.

use std::ffi::{CStr, OsStr};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use pliant_launcher::{IpcObject, clear_user_keyring, remove_ipc_object};
use rustix::fs::{AtFlags, Dir, FileType, Mode, unlinkat};
use rustix::io::Errno;
use rustix::process::{geteuid, getpid};

use super::call::Call;
use super::{FilesError, client, emptying};
use crate::accounts::{Account, AccountRun, LauncherError};
use crate::processes::table::uids_in;
use crate::processes::within;

const QUEUES: &str = "/dev/mqueue";
const FOLDERS: [&str; 2] = ["/dev/shm", QUEUES];
/// The kind of file system that shows POSIX queues (`MQUEUE_MAGIC` of Linux).
const QUEUES_MAGIC: u32 = 0x1980_0202;
/// Lists of objects of all users, the column of their ids, and their kind.
const OBJECTS: [(&str, &str, IpcObject); 3] = [
    ("/proc/sysvipc/shm", "shmid", IpcObject::Memory),
    ("/proc/sysvipc/sem", "semid", IpcObject::Semaphores),
    ("/proc/sysvipc/msg", "msqid", IpcObject::Queue),
];
/// The keys of all users (proc_key-users(5)).
const KEYS: &str = "/proc/key-users";
/// The keyrings of a user count as keys of the user.
const OWN_KEYRINGS: u32 = 2;
/// How many entries of a folder a supervisor looks at before it takes for granted that there is something.
const LOOKED_AT_MOST: usize = 10_000;
/// How long the folders are looked through and emptied: other users can fill them, too.
const WITHIN: Duration = Duration::from_secs(10);
/// How often, and after what pauses, a supervisor looks for other processes: another job may be ending at the same time.
const TRIES: usize = 3;
const PAUSE: Duration = Duration::from_millis(200);
/// How long it is believed that the account has no other process.
const BELIEVED_FOR: Duration = Duration::from_millis(10);

/// Whether this host shows the POSIX queues of its users, so that those of jobs can be removed, or has none.
pub fn shows_message_queues() -> bool {
    !Path::new("/proc/sys/fs/mqueue").exists()
        || rustix::fs::statfs(QUEUES).is_ok_and(|found| u32::try_from(found.f_type) == Ok(QUEUES_MAGIC))
}

/// Has the account of a job that has ended remove what it left, if no other process of it is seen but the one that measures the job's files.
pub(crate) fn remove_leftovers(account: &AccountRun, meter: Option<i32>) -> Result<(), FilesError> {
    // Not by its folder, over which the job can mount something.
    let found = Account::find(&account.name)
        .map_err(|source| LauncherError::Io { action: "look up the account of the job", source })?;
    let Some(Account { uid, .. }) = found else { return Ok(()) };
    let has_objects = OBJECTS.into_iter().any(|list| !made_by(uid, list).is_empty());
    if !has_objects && !has_files(uid) && !has_keys(uid) {
        return Ok(());
    }
    for attempt in 1..=TRIES {
        // Where that cannot be seen, others are not disturbed.
        if !has_other_process(uid, meter).unwrap_or(true) {
            let reply = client::answered_anywhere(account, &Call::RemoveLeftovers { meter })?;
            return client::done(reply, account);
        }
        if attempt < TRIES {
            thread::sleep(PAUSE);
        }
    }
    Ok(())
}

/// Whether a user has something in one of the folders, at their top.
fn has_files(uid: u32) -> bool {
    let is_own =
        |folder: &OwnedFd, name: &CStr| within::stat(folder, name).is_ok_and(|found| found.st_uid == uid);
    FOLDERS.iter().any(|path| {
        let Ok(folder) = within::open_top(Path::new(path)) else { return false };
        let Ok(entries) = Dir::read_from(&folder) else { return false };
        let mut looked_at = 0;
        entries.flatten().filter(|entry| !is_dots(entry.file_name())).any(|entry| {
            looked_at += 1;
            looked_at > LOOKED_AT_MOST || is_own(&folder, entry.file_name())
        })
    })
}

/// Removes what this user has left, unless it has another process.
///
/// # Errors
/// Something remains, or it cannot be seen whether the user has other processes.
pub(super) fn remove_own(meter: Option<i32>) -> io::Result<()> {
    let mut removal = Removal::new(geteuid().as_raw(), meter);
    OBJECTS.into_iter().for_each(|list| removal.objects(list));
    removal.keys();
    FOLDERS.into_iter().for_each(|path| removal.folder(Path::new(path)));
    removal.failure.map_or(Ok(()), Err)
}

/// A removal under way.
struct Removal {
    uid: u32,
    meter: Option<i32>,
    /// When the user was last seen to have no other process.
    looked: Option<Instant>,
    until: Instant,
    /// The user has another process, or that cannot be seen, or it has taken too long.
    is_over: bool,
    /// The first failure.
    failure: Option<io::Error>,
}

impl Removal {
    fn new(uid: u32, meter: Option<i32>) -> Removal {
        let until = Instant::now() + WITHIN;
        Removal { uid, meter, looked: None, until, is_over: false, failure: None }
    }

    /// Whether there is time left, and the user has no other process, as far as that was seen a moment ago.
    fn goes_on(&mut self) -> bool {
        if !self.is_over && Instant::now() >= self.until {
            self.is_over = true;
            self.failed("look through all of it", Errno::TIMEDOUT);
        }
        if !self.is_over && self.looked.is_none_or(|looked| looked.elapsed() >= BELIEVED_FOR) {
            match has_other_process(self.uid, self.meter) {
                Ok(has_other) => self.is_over = has_other,
                Err(cause) => {
                    self.is_over = true;
                    self.failed("see the processes of the account", cause);
                }
            }
            self.looked = Some(Instant::now());
        }
        !self.is_over
    }

    fn failed(&mut self, what: &str, cause: impl Into<io::Error>) {
        let cause = cause.into();
        self.failure.get_or_insert_with(|| io::Error::new(cause.kind(), format!("{what}: {cause}")));
    }

    fn objects(&mut self, list: (&str, &str, IpcObject)) {
        let (_, _, kind) = list;
        for id in made_by(self.uid, list) {
            if !self.goes_on() {
                return;
            }
            match remove_ipc_object(kind, id).map_err(|error| (Errno::from_io_error(&error), error)) {
                // It has gone by now.
                Ok(()) | Err((Some(Errno::INVAL | Errno::IDRM), _)) => {}
                Err((_, error)) => self.failed(&format!("{kind:?} {id}"), error),
            }
        }
    }

    /// Removes the keys of the user's keyring, such as tickets.
    fn keys(&mut self) {
        if has_keys(self.uid)
            && self.goes_on()
            && let Err(error) = clear_user_keyring()
        {
            self.failed("the keyring of the account", error);
        }
    }

    /// Removes the user's own entries of a folder; what is mounted there and what belongs to others stays.
    fn folder(&mut self, path: &Path) {
        let Ok(folder) = within::open_top(path) else { return };
        let entries = match Dir::read_from(&folder) {
            Ok(entries) => entries,
            Err(cause) => return self.failed("read a folder", cause),
        };
        for entry in entries {
            let Ok(entry) = entry else { return };
            let name = entry.file_name();
            if !is_dots(name)
                && !self.remains(&folder, name)
                && let Err(cause) = self.delete(&folder, name)
                && !self.is_over
            {
                self.failed(&format!("{}", OsStr::from_bytes(name.to_bytes()).display()), cause);
            }
            if self.is_over {
                return;
            }
        }
    }

    /// Whether an entry is not the user's own, or nothing is to be removed any more.
    fn remains(&mut self, folder: &OwnedFd, name: &CStr) -> bool {
        if Instant::now() >= self.until {
            return !self.goes_on();
        }
        !within::stat(folder, name).is_ok_and(|found| found.st_uid == self.uid) || !self.goes_on()
    }

    /// Removes an entry with all of the user's own that is below it.
    fn delete(&mut self, folder: &OwnedFd, name: &CStr) -> io::Result<()> {
        let found = within::stat(folder, name)?;
        let is_folder = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        let emptied = match is_folder {
            true => within::open_usable(folder, name, Mode::RWXU).map_err(io::Error::from).and_then(
                |(inner, _)| {
                    emptying::empty_opened(&inner, &mut |folder, name, _| self.remains(folder, name))
                },
            ),
            false => Ok(()),
        };
        let flags = if is_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        match unlinkat(folder, name, flags) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(cause) => Err(emptied.err().unwrap_or_else(|| cause.into())),
        }
    }
}

fn is_dots(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

/// The ids of the objects of a list that a user has made (proc_sysvipc(5)).
fn made_by(uid: u32, (path, id, _): (&str, &str, IpcObject)) -> Vec<i32> {
    // There is no list if the kernel has no such objects.
    ids_in(&fs::read_to_string(path).unwrap_or_default(), uid, id)
}

fn ids_in(list: &str, uid: u32, id: &str) -> Vec<i32> {
    let mut lines = list.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<&str>>());
    let header = lines.next().unwrap_or_default();
    let column = |name: &str| header.iter().position(|&column| column == name);
    // The creator stays, and the owner can be changed.
    let (Some(id), Some(creator)) = (column(id), column("cuid")) else { return Vec::new() };
    let is_own = |line: &Vec<&str>| line.get(creator).and_then(|found| found.parse().ok()) == Some(uid);
    lines.filter(is_own).filter_map(|line| line.get(id)?.parse().ok()).collect()
}

/// Whether a user has keys in keyrings that are the user's.
fn has_keys(uid: u32) -> bool {
    // There is no list if the kernel has no keys.
    keys_in(&fs::read_to_string(KEYS).unwrap_or_default(), uid) > OWN_KEYRINGS
}

/// How many keys a user has by the list of the kernel, which has lines as `1000:     4 3/3 2/200 26/20000`.
fn keys_in(list: &str, uid: u32) -> u32 {
    let of_user = |line: &str| {
        let (user, rest) = line.split_once(':')?;
        let is_own = user.trim().parse() == Ok(uid);
        let (keys, _) = rest.split_ascii_whitespace().nth(1).filter(|_| is_own)?.split_once('/')?;
        keys.parse().ok()
    };
    list.lines().find_map(of_user).unwrap_or(0)
}

/// Whether a user has a process other than this one and that meter.
///
/// # Errors
/// That cannot be seen, as where processes are hidden from others (`hidepid`).
fn has_other_process(uid: u32, meter: Option<i32>) -> io::Result<bool> {
    fs::read("/proc/1/status")?;
    let known = [Some(getpid().as_raw_nonzero().get()), meter];
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        if known.contains(&Some(pid)) {
            continue;
        }
        // The name of a process may hold any bytes.
        match fs::read(format!("/proc/{pid}/status")) {
            Ok(status) if is_alive_as(&String::from_utf8_lossy(&status), uid) => return Ok(true),
            Err(error) if !matches!(error.kind(), ErrorKind::NotFound) && !is_gone(&error) => {
                return Err(error);
            }
            _ => {}
        }
    }
    Ok(false)
}

fn is_gone(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::SRCH)
}

/// Whether a process has not ended, and has a uid (real, effective, saved, or of its file system), by its status (proc_pid_status(5)). Its state
/// is that of its first thread, which can end before the others.
fn is_alive_as(status: &str, uid: u32) -> bool {
    let line =
        |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
    let has_ended = line("State:").starts_with(['Z', 'X'])
        && line("Threads:").parse().is_ok_and(|threads: u64| threads <= 1);
    !has_ended && uids_in(status).contains(&uid)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn objects_are_those_that_a_user_has_made() {
        let list = "       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n\
                    0          3   600          1  1001  1001  1000  1000          0 1764000000\n\
                    -559038737          5   600          1  1000  1000  1001  1001          0 1764000000\n";
        let check =
            |uid: u32, id: &str, expected: &[i32]| assert_eq!(ids_in(list, uid, id), expected, "{uid} {id}");
        check(1000, "semid", &[3]);
        check(1001, "semid", &[5]);
        check(1002, "semid", &[]);
        check(1000, "shmid", &[]);
        assert!(ids_in("", 1000, "semid").is_empty());
    }

    #[test]
    fn keys_are_those_of_a_user() {
        let list = "    0:    48 47/47 44/1000000 877/25000000\n 1000:     4 3/3 2/200 26/20000\n";
        assert_eq!([0, 1000, 100, 1].map(|uid| keys_in(list, uid)), [47, 3, 0, 0]);
        assert_eq!(keys_in("1000: x", 1000), 0);
    }

    #[test]
    fn a_process_is_of_each_of_its_users_until_it_ends() {
        let check = |status: &str, expected: [bool; 2]| {
            assert_eq!([7, 8].map(|uid| is_alive_as(status, uid)), expected, "{status}");
        };
        check("Name:\tsh\nState:\tS (sleeping)\nUid:\t7\t7\t7\t7\n", [true, false]);
        check("Name:\tsh\nState:\tT (stopped)\nUid:\t0\t0\t8\t0\n", [false, true]);
        check("Name:\tsh\nState:\tZ (zombie)\nUid:\t7\t7\t7\t7\nThreads:\t1\n", [false, false]);
        check("Name:\tsh\nState:\tZ (zombie)\nUid:\t7\t7\t7\t7\nThreads:\t2\n", [true, false]);
        check("", [false, false]);
    }

    /// Other users give their processes any names.
    #[test]
    fn the_name_of_a_process_hides_no_other_and_does_not_end_the_search() {
        let scratch = tempfile::tempdir().unwrap();
        let script = scratch.path().join(OsStr::from_bytes(b"name\xff"));
        fs::write(&script, "#!/bin/sh\nread line\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let mut named = Command::new(&script).stdin(Stdio::piped()).spawn().unwrap();
        let comm = || fs::read(format!("/proc/{}/comm", named.id())).unwrap();
        while !comm().starts_with(b"name\xff") {
            thread::sleep(Duration::from_millis(1));
        }
        let found = has_other_process(UNUSED, None);
        named.kill().unwrap();
        named.wait().unwrap();
        assert!(!found.unwrap());
    }

    /// A user who has no processes but those of a test.
    const UNUSED: u32 = 54_321;

    /// A removal that takes its user for alone: the tests have other processes.
    fn removal() -> Removal {
        let looked = Some(Instant::now() + Duration::from_secs(3_600));
        Removal { looked, ..Removal::new(geteuid().as_raw(), None) }
    }

    fn names(folder: &Path) -> Vec<String> {
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        fs::read_dir(folder).unwrap().map(name).collect()
    }

    /// Files of others, what links lead to and what cannot be removed stay; the rest goes nevertheless.
    #[test]
    fn own_files_are_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let (shm, outside) = (scratch.path().join("shm"), scratch.path().join("outside"));
        for folder in [shm.join("a/deep"), shm.join("shared/deep"), outside.clone()] {
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("file"), "kept").unwrap();
        }
        symlink(&outside, shm.join("link")).unwrap();
        let is_root = geteuid().is_root();
        if is_root {
            chown(shm.join("shared/deep/file"), Some(UNUSED), None).unwrap();
            fs::create_dir_all(shm.join("shared").join(["d"; 100].join("/"))).unwrap();
        }
        let mut removal = removal();
        removal.folder(&shm);
        assert_eq!(names(&shm), if is_root { vec!["shared"] } else { vec![] }, "{:?}", removal.failure);
        assert_eq!(shm.join("shared/deep/file").exists(), is_root);
        if is_root {
            assert_eq!(names(&shm.join("shared")), ["deep"], "the rest goes, as deep as it is");
        }
        assert_eq!(removal.failure.is_some(), is_root, "a folder that holds files of others is not empty");
        assert!(outside.join("file").exists());
    }

    /// Root may do everything in every folder: where root runs the test, another user does so once more.
    #[test]
    fn what_an_account_has_closed_to_itself_and_what_is_deep_is_removed() {
        if geteuid().is_root() {
            crate::testing::as_user(
                UNUSED,
                "what_an_account_has_closed_to_itself_and_what_is_deep_is_removed",
            );
        }
        let scratch = tempfile::tempdir().unwrap();
        let shm = scratch.path().join("shm");
        let modes = [0o000, 0o400, 0o500, 0o100, 0o200, 0o700];
        for mode in modes {
            let folder = shm.join(format!("{mode:o}"));
            fs::create_dir_all(folder.join("inner")).unwrap();
            fs::write(folder.join("inner/file"), "x").unwrap();
            for closed in [folder.join("inner"), folder] {
                fs::set_permissions(closed, fs::Permissions::from_mode(mode)).unwrap();
            }
        }
        // Deeper than a path may be long.
        crate::testing::make_deep(&shm, 200, 100);
        let mut removal = removal();
        removal.folder(&shm);
        assert_eq!(names(&shm), [""; 0], "{:?}", removal.failure);
        assert!(removal.failure.is_none());
    }

    #[test]
    fn message_queues_are_shown_where_they_are_mounted() {
        let mounts = fs::read("/proc/self/mounts").unwrap();
        let is_mounted = String::from_utf8_lossy(&mounts).contains(" /dev/mqueue mqueue ");
        let has_queues = Path::new("/proc/sys/fs/mqueue").exists();
        assert_eq!(shows_message_queues(), is_mounted || !has_queues);
    }

    /// What other users have there takes no longer than that.
    #[test]
    fn a_removal_ends_when_its_time_is_over() {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("file"), "x").unwrap();
        let mut removal = Removal { until: Instant::now(), ..removal() };
        removal.folder(scratch.path());
        assert_eq!(names(scratch.path()), ["file"]);
        assert_eq!(removal.failure.unwrap().kind(), ErrorKind::TimedOut);
    }
}
