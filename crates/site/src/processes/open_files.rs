//! What a job uses in files that its folder does not show: those without a name, which the job has open, and memory that belongs to no
//! process: files in `/dev/shm` (shm_overview(7)), those of memfd_create(2), segments of shmget(2), and messages in queues of msgget(2).
//!
//! A file without a name counts for the job that has it open. A file in `/dev/shm`, a segment or a queue does not say which job it is of: it
//! counts for every job of the account that it belongs to.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{Dir, FileType, Mode};
use rustix::io::Errno;
use rustix::process::{Pid, geteuid};

use super::disk::BLOCK_BYTES;
use super::{table, within};

const FOLDER: &str = "/dev/shm";
/// The segments of all users, one a line.
const SEGMENTS: &str = "/proc/sysvipc/shm";
/// The message queues of all users, one a line.
const QUEUES: &str = "/proc/sysvipc/msg";
/// What the link of a descriptor ends with if its file has no name any more (proc_pid_fd(5)).
const DELETED: &[u8] = b" (deleted)";
/// What the link of a descriptor begins with that is of memfd_create(2).
const MEMORY_FILE: &[u8] = b"/memfd:";
/// How long a path below an open folder becomes: Linux takes no longer one than 4,096 bytes.
const PATH_BYTES: usize = 2_048;
/// How many descriptors of a job, and files of its account, are looked at.
const LOOKED_AT_MOST: usize = 200_000;

/// How many bytes the descendants of a supervisor have open in files without names, and an account has in files and segments. What this
/// process may not see is not counted.
///
/// # Errors
/// There are too many files and descriptors, or a folder of the account cannot be read.
pub(crate) fn shared_memory_bytes(supervisor: Pid, account: Option<u32>) -> Result<u64, String> {
    let mut count = Count::default();
    count.open_in_memory(supervisor)?;
    let Some(account) = account else { return Ok(count.bytes) };
    count.files(Path::new(FOLDER), account)?;
    // There are no such files if the kernel has no segments and queues.
    let list = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let (segments, queues) = (segments_bytes(&list(SEGMENTS), account), queues_bytes(&list(QUEUES), account));
    Ok(count.bytes.saturating_add(segments).saturating_add(queues))
}

/// How many bytes the descendants of a supervisor have open in files of this user's without names, on the file system of a folder. What
/// this process may not see is not counted.
///
/// # Errors
/// There are too many descriptors.
pub(crate) fn deleted_bytes(supervisor: Pid, folder: &Path) -> Result<u64, String> {
    let Ok(folder) = fs::metadata(folder) else { return Ok(0) };
    let own = geteuid().as_raw();
    let mut count = Count::default();
    let may_count = |link: &Path| link.as_os_str().as_bytes().ends_with(DELETED);
    // A file of memfd_create(2) is on no file system of a folder's.
    let counts =
        |_: &Path, file: &Metadata| file.nlink() == 0 && file.dev() == folder.dev() && file.uid() == own;
    count.descriptors(supervisor, may_count, counts)?;
    Ok(count.bytes)
}

/// How many bytes this process has open in files on disk that have no name any more: outputs whose names their job has removed.
pub(crate) fn own_deleted_bytes() -> u64 {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return 0 };
    let deleted = entries.flatten().filter_map(|entry| {
        let link = fs::read_link(entry.path()).ok()?;
        let is_in_memory = link.as_os_str().as_bytes().starts_with(MEMORY_FILE) || link.starts_with(FOLDER);
        let is_deleted = !is_in_memory && link.as_os_str().as_bytes().ends_with(DELETED);
        let file = fs::metadata(entry.path()).ok().filter(|file| is_deleted && file.nlink() == 0)?;
        Some(((file.dev(), file.ino()), file.blocks() * BLOCK_BYTES))
    });
    // Each counts once, however many descriptors lead to it.
    deleted.collect::<BTreeMap<(u64, u64), u64>>().into_values().sum()
}

#[derive(Default)]
struct Count {
    bytes: u64,
    looked_at: usize,
    /// By device and number: each counts once.
    counted: BTreeSet<(u64, u64)>,
}

impl Count {
    /// Counts files without names in memory that the descendants of a supervisor have open.
    fn open_in_memory(&mut self, supervisor: Pid) -> Result<(), String> {
        let is_memory_file = |link: &Path| link.as_os_str().as_bytes().starts_with(MEMORY_FILE);
        // One in the folder with a name counts for the account that it belongs to.
        self.descriptors(
            supervisor,
            |link| is_memory_file(link) || link.starts_with(FOLDER),
            |link, file| is_memory_file(link) || file.nlink() == 0,
        )
    }

    /// Counts files that the descendants of a supervisor have open: of those links of descriptors that may lead to one, the files that
    /// do count.
    fn descriptors(
        &mut self,
        supervisor: Pid,
        may_count: impl Fn(&Path) -> bool,
        counts: impl Fn(&Path, &Metadata) -> bool,
    ) -> Result<(), String> {
        for process in table::descendants(supervisor) {
            let Ok(entries) = fs::read_dir(process.folder().join("fd")) else { continue };
            for entry in entries.flatten() {
                self.look()?;
                let Ok(link) = fs::read_link(entry.path()) else { continue };
                if may_count(&link)
                    && let Ok(file) = fs::metadata(entry.path())
                    && counts(&link, &file)
                {
                    self.add((file.dev(), file.ino()), file.blocks());
                }
            }
        }
        Ok(())
    }

    /// Counts the files of an account below a folder, whosever that is.
    fn files(&mut self, folder: &Path, account: u32) -> Result<(), String> {
        let Ok(top) = within::open_top(folder) else { return Ok(()) };
        let mut unvisited: Vec<Unvisited> = vec![(Rc::new(top), PathBuf::from("."), false)];
        while let Some((base, path, is_own)) = unvisited.pop() {
            // One that the account has closed to itself is opened for it.
            let needed = if is_own { Mode::RUSR | Mode::XUSR } else { Mode::empty() };
            let folder = match within::open_usable(&base, &path, needed) {
                Ok((folder, _)) => folder,
                // It may hold any number of files.
                Err(cause) if is_own && cause != Errno::NOENT => {
                    return Err(format!("cannot read a folder of the account's in {FOLDER}: {cause}"));
                }
                Err(_) => continue,
            };
            let Ok(entries) = Dir::read_from(&folder) else { continue };
            let folder = Rc::new(folder);
            for entry in entries.flatten() {
                let name = entry.file_name();
                let Ok(file) = within::stat(&folder, name) else { continue };
                if matches!(name.to_bytes(), b"." | b"..") {
                    continue;
                }
                let is_own = file.st_uid == account;
                if is_own {
                    self.look()?;
                    self.add((file.st_dev, file.st_ino), file.st_blocks.cast_unsigned());
                }
                if FileType::from_raw_mode(file.st_mode) == FileType::Directory {
                    unvisited.push(below(&base, &folder, &path, OsStr::from_bytes(name.to_bytes()), is_own));
                }
            }
        }
        Ok(())
    }

    fn look(&mut self) -> Result<(), String> {
        self.looked_at += 1;
        match self.looked_at > LOOKED_AT_MOST {
            true => Err(format!("there are more than {LOOKED_AT_MOST} open files and files in {FOLDER}")),
            false => Ok(()),
        }
    }

    fn add(&mut self, file: (u64, u64), blocks: u64) {
        if self.counted.insert(file) {
            self.bytes = self.bytes.saturating_add(blocks.saturating_mul(BLOCK_BYTES));
        }
    }
}

/// A folder, by a path below one that is open: few are, and paths are short.
type Unvisited = (Rc<OwnedFd>, PathBuf, bool);

/// What is to be opened of a folder `name` in one that was opened as `folder` by the path below `base`.
fn below(base: &Rc<OwnedFd>, folder: &Rc<OwnedFd>, path: &Path, name: &OsStr, is_own: bool) -> Unvisited {
    match path.as_os_str().len() < PATH_BYTES {
        true => (base.clone(), path.join(name), is_own),
        false => (folder.clone(), PathBuf::from(name), is_own),
    }
}

/// What the segments that an account has made use, in memory and in swap, by their list (proc_sysvipc_shm(5)).
fn segments_bytes(list: &str, account: u32) -> u64 {
    let used = list.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        // Its creator stays, and its owner can be changed.
        (number(9)? == u64::from(account)).then_some(number(14)?.saturating_add(number(15)?))
    });
    used.fold(0, u64::saturating_add)
}

/// What the messages in the queues that an account has made use, by their list (proc_sysvipc_msg(5)).
fn queues_bytes(list: &str, account: u32) -> u64 {
    let used = list.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        (number(9)? == u64::from(account)).then(|| number(3))?
    });
    used.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_of_the_account_count_once() {
        let scratch = tempfile::tempdir().unwrap();
        let (folder, outside) = (scratch.path().join("shm"), scratch.path().join("outside"));
        fs::create_dir_all(folder.join("deep")).unwrap();
        fs::write(folder.join("deep/file"), vec![7; 100_000]).unwrap();
        fs::hard_link(folder.join("deep/file"), folder.join("name")).unwrap();
        fs::write(&outside, vec![7; 1_000_000]).unwrap();
        symlink(&outside, folder.join("link")).unwrap();
        let own = fs::metadata(&folder).unwrap().uid();
        let of = |account| {
            let mut count = Count::default();
            count.files(&folder, account).map(|()| count.bytes)
        };
        assert!((100_000..200_000).contains(&of(own).unwrap()), "{:?}", of(own));
        assert_eq!(of(own + 1), Ok(0));
        let mut many = Count { looked_at: LOOKED_AT_MOST, ..Count::default() };
        assert!(many.files(&folder, own).unwrap_err().contains("more than 200000"));
        assert_eq!(many.files(&folder, own + 1), Ok(()), "files of others count for nothing");
    }

    /// Root may do everything in every folder: where root runs the test, another user does so once more.
    #[test]
    fn files_in_folders_that_are_deep_or_closed_count() {
        if geteuid().is_root() {
            crate::testing::as_user(54_322, "files_in_folders_that_are_deep_or_closed_count");
        }
        let scratch = tempfile::tempdir().unwrap();
        let own = geteuid().as_raw();
        let of = |folder: &Path| {
            let mut count = Count::default();
            count.files(folder, own).map(|()| count.bytes)
        };
        for mode in [0o000, 0o100, 0o200, 0o400, 0o500] {
            let folder = scratch.path().join(format!("{mode:o}"));
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("file"), vec![7; 100_000]).unwrap();
            fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        }
        assert!((500_000..800_000).contains(&of(scratch.path()).unwrap()), "{:?}", of(scratch.path()));
        let deep = scratch.path().join("deep");
        fs::create_dir(&deep).unwrap();
        crate::testing::make_deep(&deep, 200, 60);
        assert!((100_000..1_000_000).contains(&of(&deep).unwrap()), "{:?}", of(&deep));
    }

    #[test]
    fn own_files_without_names_count_once() {
        let before = own_deleted_bytes();
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("stdout");
        let mut file = fs::File::create(&path).unwrap();
        file.write_all(&vec![7; 100_000]).unwrap();
        file.sync_all().unwrap();
        let again = file.try_clone().unwrap();
        assert_eq!(own_deleted_bytes(), before, "it has a name");
        fs::remove_file(&path).unwrap();
        assert!((100_000..200_000).contains(&(own_deleted_bytes() - before)));
        drop((file, again));
        assert_eq!(own_deleted_bytes(), before);
    }

    #[test]
    fn segments_count_for_their_creators() {
        let list = "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  swap\n\
                    \x20        0          3   600               4194304    71    71      1  1000  1000  1000  1000          7          0          7               2097152                  4096\n\
                    \x20        0          4   600               4194304    72    72      0  1000  1000  1001  1001          7          0          7               1048576                     0\n";
        assert_eq!([1000, 1001, 7].map(|account| segments_bytes(list, account)), [2_101_248, 1_048_576, 0]);
        assert_eq!(segments_bytes("", 1000), 0);
    }
    #[test]
    fn messages_count_for_the_creators_of_their_queues() {
        let list = "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid      stime      rtime      ctime\n\
                    \x20        0          0   644       16384          2    71     0  1000  1000  1000  1000          7          0          7\n\
                    \x20        0          1   644         100          1    71     0  1000  1000  1001  1001          7          0          7\n";
        assert_eq!([1000, 1001, 7].map(|account| queues_bytes(list, account)), [16_384, 100, 0]);
        assert_eq!(queues_bytes("", 1000), 0);
    }
}
