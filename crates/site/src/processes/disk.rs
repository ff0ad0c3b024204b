//! What the files of a job use of the disk, and of memory.
//!
//! The files of a job that runs as an account can be read by that account alone. So a process of the account measures them, while
//! its supervisor goes on watching. The user can end that process, or have it answer anything: a job whose files cannot be measured
//! for [`UNMEASURED_AT_MOST`] is ended, and one that is measured wrongly is held by nothing but a quota of the file system.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, geteuid};
use serde::{Deserialize, Serialize};

use super::job_folder;
use super::open_files::{deleted_bytes, shared_memory_bytes};
use crate::accounts::AccountRun;

/// Between two measurements, at least.
const PERIOD: Duration = Duration::from_secs(2);
/// How much longer than a measurement takes the supervisor rests before the next one.
pub(super) const REST: u32 = 20;
/// How long the files of a job may not be measured because that fails.
const UNMEASURED_AT_MOST: Duration = Duration::from_secs(60);
/// What the system's numbers of blocks count.
pub(super) const BLOCK_BYTES: u64 = 512;

/// What files use.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct FileUsage {
    /// Bytes on disk.
    pub bytes: u64,
    /// Files and folders.
    pub files: u64,
    /// Bytes of memory that belongs to no process; 0 if that was not asked for.
    #[serde(default)]
    pub memory_bytes: u64,
}

impl FileUsage {
    /// What the files and folders below a folder use, links not followed; it stops counting soon after `most` files. Folders of other
    /// users that cannot be read are not counted.
    ///
    /// # Errors
    /// A folder of this user's cannot be read: it may hold any number of files.
    pub fn of(folder: &Path, most: u64) -> Result<FileUsage, String> {
        let mut usage = FileUsage::default();
        let mut unvisited = vec![folder.to_owned()];
        while let Some(folder) = unvisited.pop() {
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) => {
                    unless_negligible(&folder, &error)?;
                    continue;
                }
            };
            for entry in entries.flatten() {
                let metadata = match entry.metadata() {
                    Ok(metadata) => metadata,
                    Err(error) => {
                        unless_negligible(&folder, &error)?;
                        continue;
                    }
                };
                usage.files += 1;
                // A file with several names counts once for each: it is cheaper than to remember them.
                usage.bytes += metadata.blocks() * BLOCK_BYTES;
                if metadata.is_dir() {
                    unvisited.push(entry.path());
                }
                if usage.files > most {
                    return Ok(usage);
                }
            }
        }
        Ok(usage)
    }

    /// The same with files that have no name any more, which the job of a supervisor has open on the folder's file system.
    ///
    /// # Errors
    /// There is too much to be looked at.
    pub(super) fn with_deleted(self, supervisor: Option<i32>, folder: &Path) -> Result<FileUsage, String> {
        let deleted = supervisor.and_then(Pid::from_raw).map_or(Ok(0), |pid| deleted_bytes(pid, folder))?;
        Ok(FileUsage { bytes: self.bytes.saturating_add(deleted), ..self })
    }

    /// The same with the memory of this user, who is an account, and of the job of a supervisor, if one is named.
    ///
    /// # Errors
    /// There is too much to be looked at.
    pub(super) fn with_memory_of_account(self, supervisor: Option<i32>) -> Result<FileUsage, String> {
        self.with_memory(supervisor.and_then(Pid::from_raw), Some(geteuid().as_raw()))
    }

    fn with_memory(self, supervisor: Option<Pid>, account: Option<u32>) -> Result<FileUsage, String> {
        let memory_bytes = supervisor.map_or(Ok(0), |pid| shared_memory_bytes(pid, account))?;
        Ok(FileUsage { memory_bytes, ..self })
    }
}

/// An error of reading a folder that hides no files of this user's: what was there has gone, or belongs to others.
fn unless_negligible(folder: &Path, error: &io::Error) -> Result<(), String> {
    let is_gone = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    let is_of_others = || {
        error.kind() == io::ErrorKind::PermissionDenied
            && fs::symlink_metadata(folder).is_ok_and(|found| found.uid() != geteuid().as_raw())
    };
    match is_gone || is_of_others() {
        true => Ok(()),
        // The name may be long, and is the user's.
        false => Err(format!("cannot read a folder in it: {error}")),
    }
}

/// What is measured of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Measured {
    /// Files are counted up to so many.
    pub(crate) files_max: u64,
    /// The supervisor of the job, if files count.
    pub(crate) files_of: Option<Pid>,
    /// The supervisor of the job, if memory that belongs to no process counts.
    pub(crate) memory_of: Option<Pid>,
    /// Bytes of memory that the processes have for themselves now.
    pub(crate) own_bytes: u64,
}

/// Measures the files of a job again and again.
#[derive(Debug)]
pub(super) struct DiskMeter {
    source: Source,
    next: Option<Instant>,
    /// The latest usage, and what the processes had for themselves when its measurement began.
    latest: (FileUsage, u64),
    /// Since when measurements fail, and why.
    failing: Option<(Instant, String)>,
    measurement: Option<Measurement>,
}

/// Whose files are measured.
#[derive(Debug)]
enum Source {
    /// This user's: a folder, and what the job writes to its standard outputs.
    Own(PathBuf, [PathBuf; 2]),
    /// An account's.
    Account(AccountRun),
}

/// A measurement by a process of the account.
#[derive(Debug)]
struct Measurement {
    process: Option<i32>,
    begun: Instant,
    own_bytes: u64,
    answer: Receiver<Result<FileUsage, String>>,
}

impl DiskMeter {
    /// A meter of the files in a folder of this user's, and of these outputs.
    pub(super) fn own(folder: PathBuf, outputs: [PathBuf; 2]) -> DiskMeter {
        DiskMeter::new(Source::Own(folder, outputs))
    }

    /// A meter of all files in the job's folder of an account.
    pub(super) fn account(account: AccountRun) -> DiskMeter {
        DiskMeter::new(Source::Account(account))
    }

    /// Whether the files are an account's.
    pub(super) fn is_of_account(&self) -> bool {
        matches!(self.source, Source::Account(_))
    }

    fn new(source: Source) -> DiskMeter {
        DiskMeter { source, next: None, latest: Default::default(), failing: None, measurement: None }
    }

    /// What the files used when they were measured last, and [`Measured::own_bytes`] of then.
    ///
    /// # Errors
    /// They cannot be measured for too long; the text says why.
    pub(super) fn usage(&mut self, now: Instant, measured: Measured) -> Result<(FileUsage, u64), String> {
        self.take_answer(now);
        if self.measurement.is_none() && self.next.is_none_or(|next| now >= next) {
            self.begin(now, measured);
        }
        match &self.failing {
            Some((since, why)) if now.saturating_duration_since(*since) >= UNMEASURED_AT_MOST => {
                Err(why.clone())
            }
            _ => Ok(self.latest),
        }
    }

    /// The process that measures at the moment: it is no process of the job.
    pub(super) fn process(&self) -> Option<i32> {
        self.measurement.as_ref()?.process
    }

    fn begin(&mut self, now: Instant, measured: Measured) {
        match &self.source {
            Source::Own(folder, outputs) => {
                let begin = Instant::now();
                let usage = own_usage(folder, outputs, measured);
                self.took(now, usage.map(|usage| (usage, measured.own_bytes)), begin.elapsed());
            }
            Source::Account(account) => match Measurement::begin(account, now, measured) {
                Ok(measurement) => self.measurement = Some(measurement),
                Err(why) => self.took(now, Err(why), Duration::ZERO),
            },
        }
    }

    fn take_answer(&mut self, now: Instant) {
        let Some(measurement) = &self.measurement else { return };
        let answer = match measurement.answer.try_recv() {
            Ok(answer) => answer,
            Err(TryRecvError::Empty) => return,
            Err(TryRecvError::Disconnected) => Err("no answer".to_owned()),
        };
        let answer = answer.map(|usage| (usage, measurement.own_bytes));
        let took = now.saturating_duration_since(measurement.begun);
        self.measurement = None;
        self.took(now, answer, took);
    }

    fn took(&mut self, now: Instant, answer: Result<(FileUsage, u64), String>, took: Duration) {
        self.next = Some(now + PERIOD.max(took * REST));
        match (answer, &self.failing) {
            (Ok(usage), _) => {
                self.latest = usage;
                self.failing = None;
            }
            (Err(why), None) => self.failing = Some((now, why)),
            (Err(_), Some(_)) => {}
        }
    }
}

fn own_usage(folder: &Path, outputs: &[PathBuf; 2], measured: Measured) -> Result<FileUsage, String> {
    let mut usage = FileUsage::of(folder, measured.files_max)?;
    let blocks = outputs.iter().filter_map(|path| fs::symlink_metadata(path).ok());
    usage.bytes += blocks.map(|output| output.blocks() * BLOCK_BYTES).sum::<u64>();
    let files_of = measured.files_of.map(|pid| pid.as_raw_nonzero().get());
    // All jobs of this user's have `/dev/shm` in common, whosever they are.
    usage.with_deleted(files_of, folder)?.with_memory(measured.memory_of, None)
}

impl Measurement {
    fn begin(account: &AccountRun, now: Instant, measured: Measured) -> Result<Measurement, String> {
        let call = job_folder::begin_usage(account, measured).map_err(|error| error.public_message())?;
        let process = call.process();
        let (sender, answer) = channel();
        let wait = move || {
            // The supervisor may have no use for it any more.
            let _ = sender.send(call.answer().map_err(|error| error.public_message()));
        };
        let begun: io::Result<_> = thread::Builder::new().name("disk".into()).spawn(wait);
        begun.map_err(|error| error.to_string())?;
        Ok(Measurement { process, begun: now, own_bytes: measured.own_bytes, answer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_counted_and_links_are_not_followed() {
        let scratch = tempfile::tempdir().unwrap();
        let (inside, outside) = (scratch.path().join("inside"), scratch.path().join("outside"));
        for folder in [&inside, &outside] {
            fs::create_dir_all(folder.join("deep")).unwrap();
            fs::write(folder.join("deep/file"), vec![7; 100_000]).unwrap();
        }
        std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
        let found = FileUsage::of(&inside, u64::MAX).unwrap();
        assert_eq!(found.files, 3, "a folder, a file and a link");
        assert!((100_000..200_000).contains(&found.bytes), "{found:?}");
        assert_eq!(FileUsage::of(&inside, 1).unwrap().files, 2, "it stops when there are too many");
        assert_eq!(FileUsage::of(&scratch.path().join("none"), 1), Ok(FileUsage::default()));
    }

    #[test]
    fn a_folder_that_cannot_be_read_may_hold_anything() {
        let scratch = tempfile::tempdir().unwrap();
        // Deeper than a name may be long: nothing of it is found by its name.
        crate::testing::make_deep(scratch.path(), 200, 25);
        let why = FileUsage::of(scratch.path(), u64::MAX).unwrap_err();
        assert!(why.contains("cannot read a folder in it"), "{why}");
        let own = fs::metadata(scratch.path()).unwrap().uid();
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        let of_root = unless_negligible(Path::new("/"), &denied);
        assert_eq!(of_root.is_ok(), own != 0, "{of_root:?}");
        assert!(unless_negligible(scratch.path(), &denied).is_err());
        assert_eq!(unless_negligible(scratch.path(), &io::ErrorKind::NotFound.into()), Ok(()));
    }

    #[test]
    fn files_that_cannot_be_measured_for_long_are_too_many() {
        let scratch = tempfile::tempdir().unwrap();
        let account = AccountRun {
            name: "alice".parse().unwrap(),
            folder: scratch.path().to_owned(),
            launcher: "/no/such/launcher".into(),
            pliant: "/no/such/pliant".into(),
            processes_max: None,
            has_records: false,
            guard: None,
        };
        let mut meter = DiskMeter::account(account);
        let now = Instant::now();
        let measured = Measured { files_max: 1, files_of: None, memory_of: None, own_bytes: 7 };
        assert_eq!(meter.usage(now, measured), Ok(Default::default()));
        assert_eq!(meter.usage(now + UNMEASURED_AT_MOST / 2, measured), Ok(Default::default()));
        let why = meter.usage(now + UNMEASURED_AT_MOST, measured).unwrap_err();
        assert!(why.contains("cannot run the launcher"), "{why}");
        // One that succeeds begins anew.
        let outputs = ["stdout", "stderr"].map(|name| scratch.path().join(name));
        meter.source = Source::Own(scratch.path().join("work"), outputs.clone());
        let later = now + UNMEASURED_AT_MOST + PERIOD;
        assert_eq!(meter.usage(later, measured), Ok((FileUsage::default(), 7)));
        fs::write(&outputs[1], vec![7; 100_000]).unwrap();
        let (usage, _) = meter.usage(later + PERIOD, measured).unwrap();
        assert!((100_000..200_000).contains(&usage.bytes) && usage.files == 0, "{usage:?}");
    }
}
