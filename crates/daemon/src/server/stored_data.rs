//! Data that calls of typed services have left here, for later calls of the same user.
//!
//! Each is an encoded value in a file `data/USER/KEY` of the folder that has the folders of jobs. The file's time is that of the last call that named the data:
//! they expire by it. Nothing of it is in the journal: data may be gone at any time, and a call that names data that are gone is refused.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use pliant_control::access::Caller;
use pliant_control::names::{Key, User};
use pliant_model::Time;
use pliant_site::processes::KEPT;
use pliant_site::services::{KeptValue, Prepared, PreparedCall, Refusal, VALUES_BYTES_MAX};
use pliant_wire::{StoredDataList, StoredDataQuery, StoredDatum};
use rustix::fs::OFlags;
use tonic::Status;

use super::service::Service;
use crate::call_log::log_call;
use crate::config::StoredDataFile;

/// A file in a user's folder that is being written: no key is called so.
const INCOMING: &str = "incoming";
/// The folder of the data of all users.
const DATA: &str = "data";

/// The data of all users.
#[derive(Clone, Debug)]
pub(in crate::server) struct StoredData {
    folder: PathBuf,
    bounds: StoredDataFile,
    /// Held while data are counted and put in place.
    lock: Arc<Mutex<()>>,
}

impl StoredData {
    /// Those of a server that has the folders of jobs in that folder.
    pub(in crate::server) fn new(folder: &Path, bounds: StoredDataFile) -> StoredData {
        StoredData { folder: folder.join(DATA), bounds, lock: Arc::default() }
    }

    /// The file of some data.
    pub(in crate::server) fn path(&self, user: &User, key: &Key) -> PathBuf {
        self.folder.join(user.as_str()).join(key.to_string())
    }

    /// Makes sure that the data which a call names are here, and that those which it leaves fit. The data that it names are kept for
    /// longer.
    pub(in crate::server) fn check(&self, user: &User, call: &PreparedCall) -> Result<(), Refusal> {
        let mut bytes = 0u64;
        for (parameter, key) in &call.stored {
            let touched = File::open(self.path(user, key)).and_then(|file| {
                // Expired data that are not deleted yet are gone.
                let found = file.metadata()?;
                let used = found.modified()?;
                // Each parameter is a value of its own in the memory of the call, also if several have the same data.
                bytes = bytes.saturating_add(found.len());
                let is_expired = used.elapsed().is_ok_and(|since| since >= self.bounds.expiry());
                if is_expired {
                    Err(ErrorKind::NotFound.into())
                } else {
                    file.set_modified(SystemTime::now())
                }
            });
            if touched.is_err() {
                return Err(Refusal::NoData { parameter: parameter.clone(), data: *key });
            }
        }
        if bytes > VALUES_BYTES_MAX as u64 {
            let problem = format!(
                "expected at most {VALUES_BYTES_MAX} bytes of data for all parameters of a call, found {bytes}; data that several \
                 parameters have count for each of them"
            );
            return Err(Refusal::DataBounds { problem });
        }
        let kept = call.kept.values().map(|kept| (kept.data, kept.bytes));
        self.fits(user, &kept.collect()).map_err(|problem| Refusal::DataBounds { problem })
    }

    /// Takes what a call has left in its folder. Those that were taken before, by a server that was killed, are here already.
    ///
    /// # Errors
    ///
    /// They do not fit any more, or the disk refuses.
    pub(in crate::server) fn take(
        &self,
        user: &User,
        job: &Path,
        kept: &BTreeMap<String, KeptValue>,
    ) -> io::Result<()> {
        let _lock = self.lock.lock();
        let from = job.join(KEPT);
        let mut new = BTreeMap::new();
        for (name, value) in kept {
            match fs::symlink_metadata(from.join(name)) {
                Ok(found) if found.is_file() => _ = new.insert(value.data, found.len()),
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.fits(user, &new).map_err(io::Error::other)?;
        let folder = self.folder.join(user.as_str());
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        for (name, value) in kept {
            if new.contains_key(&value.data) {
                match put(&from.join(name), &self.path(user, &value.data)) {
                    // Two parameters may have the same key: the last one stays.
                    Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Deletes some of a user's data, and lists the rest.
    pub(in crate::server) fn list(&self, user: &User, delete: &[Key]) -> StoredDataList {
        for key in delete {
            // Data that are not there are deleted already.
            let _ = fs::remove_file(self.path(user, key));
        }
        let expiry_s = self.bounds.expiry().as_secs() as i64;
        let datum = |(key, (bytes, used)): (Key, (u64, SystemTime))| {
            let used = used.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
            StoredDatum { key, bytes, expires: Time(used + expiry_s) }
        };
        let data = self.of_user(user.as_str()).into_iter().map(datum).collect();
        let StoredDataFile { bytes_per_user, count_per_user, .. } = self.bounds;
        StoredDataList { data, bytes_max: bytes_per_user, count_max: count_per_user }
    }

    /// Deletes what no call has named for long enough. Returns how many were deleted.
    pub(in crate::server) fn expire(&self) -> usize {
        let mut deleted = 0;
        let users = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for user in users.filter_map(|user| user.file_name().into_string().ok()) {
            for (key, (_, used)) in self.of_user(&user) {
                if used.elapsed().is_ok_and(|since| since >= self.bounds.expiry()) {
                    let file = self.folder.join(&user).join(key.to_string());
                    deleted += usize::from(fs::remove_file(file).is_ok());
                }
            }
        }
        deleted
    }

    /// Whether a user may have these in addition; or why not. Data that they replace do not count.
    fn fits(&self, user: &User, new: &BTreeMap<Key, u64>) -> Result<(), String> {
        if new.is_empty() {
            return Ok(());
        }
        let mut all: BTreeMap<Key, u64> =
            self.of_user(user.as_str()).into_iter().map(|(key, (bytes, _))| (key, bytes)).collect();
        all.extend(new);
        let bytes = all.values().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
        let StoredDataFile { bytes_per_user, count_per_user, .. } = self.bounds;
        if bytes > bytes_per_user {
            return Err(format!(
                "expected at most {bytes_per_user} bytes of data of a user at this server, found {bytes} with those of this call"
            ));
        }
        if all.len() > count_per_user as usize {
            return Err(format!(
                "expected at most {count_per_user} data of a user at this server, found {} with those of this call",
                all.len()
            ));
        }
        Ok(())
    }

    /// The data of a user: how long they are, and when a call named them last.
    fn of_user(&self, user: &str) -> BTreeMap<Key, (u64, SystemTime)> {
        let files = fs::read_dir(self.folder.join(user)).into_iter().flatten().flatten();
        let datum = |file: fs::DirEntry| {
            let key = file.file_name().to_str()?.parse().ok()?;
            let found = file.metadata().ok()?;
            Some((key, (found.len(), found.modified().ok()?)))
        };
        files.filter_map(datum).collect()
    }
}

/// Moves a file, to another file system if the data are on one of their own. What is there is whole or not there.
fn put(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == ErrorKind::CrossesDevices => {}
        done => return done,
    }
    let incoming = to.with_file_name(INCOMING);
    // The program of the call may have put a link or a pipe in its place.
    let mut left = OpenOptions::new()
        .read(true)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
        .open(from)?;
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&incoming)?;
    io::copy(&mut left, &mut file)?;
    file.sync_all()?;
    fs::rename(&incoming, to)?;
    fs::remove_file(from)
}

impl Service {
    /// Makes sure that the data of a call are here, and that it may leave what it leaves.
    pub(super) async fn check_data(
        &self,
        user: &User,
        prepared: &Prepared,
        has_account: bool,
    ) -> Result<(), Refusal> {
        let Some(call) = prepared.call.clone() else { return Ok(()) };
        if has_account || self.host.cluster.external().is_some() {
            let found = if has_account { "jobs that run as accounts" } else { "an external batch system" };
            let problem = format!(
                "expected no data that are at the server or stay there, since that takes the embedded batch system and jobs as the \
                 server's own user, found {found}"
            );
            return Err(Refusal::DataBounds { problem });
        }
        let (data, user) = (self.host.data.clone(), user.clone());
        let checked = tokio::task::spawn_blocking(move || data.check(&user, &call)).await;
        let failed =
            || Refusal::DataBounds { problem: "the server cannot see its data at the moment".to_owned() };
        checked.unwrap_or_else(|_| Err(failed()))
    }

    /// A user's data, after some of them were deleted.
    pub(super) async fn data_of(
        &self,
        caller: &Caller,
        query: StoredDataQuery,
    ) -> Result<StoredDataList, Status> {
        if !query.delete.is_empty() {
            log_call!(info, caller.user, data = query.delete.len(), by = %caller.user, "delete data");
        }
        let (data, user) = (self.host.data.clone(), caller.user.clone());
        let list = tokio::task::spawn_blocking(move || data.list(&user, &query.delete)).await;
        list.map_err(|_| Status::internal("a file operation failed"))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::time::Duration;

    use pliant_testing::{Needed, skip};

    use super::*;

    fn user(name: &str) -> User {
        name.parse().unwrap()
    }

    fn kept(key: u8, bytes: u64) -> BTreeMap<String, KeptValue> {
        [("a".to_owned(), KeptValue { data: Key([key; 16]), returned: false, bytes })].into()
    }

    /// A call has left so many bytes as data with that key.
    fn leave(data: &StoredData, job: &Path, of: &User, key: u8, bytes: u64) -> io::Result<()> {
        fs::create_dir_all(job.join(KEPT)).unwrap();
        fs::write(job.join(KEPT).join("a"), vec![0; bytes as usize]).unwrap();
        data.take(of, job, &kept(key, bytes))
    }

    fn keys(data: &StoredData, of: &User) -> Vec<u8> {
        data.list(of, &[]).data.iter().map(|datum| datum.key.0[0]).collect()
    }

    #[test]
    fn users_have_bounds_of_their_own() {
        let root = tempfile::tempdir().unwrap();
        let bounds = StoredDataFile { bytes_per_user: 100, count_per_user: 2, expiry_h: 1 };
        let data = StoredData::new(root.path(), bounds);
        let (alice, bob, job) = (user("alice"), user("bob"), root.path().join("job"));
        leave(&data, &job, &alice, 1, 60).unwrap();
        let why = leave(&data, &job, &alice, 2, 41).unwrap_err().to_string();
        assert!(why.contains("expected at most 100 bytes") && why.contains("found 101"), "{why}");
        assert_eq!(keys(&data, &alice), [1]);
        leave(&data, &job, &alice, 1, 100).unwrap();
        leave(&data, &job, &alice, 1, 10).unwrap();
        leave(&data, &job, &alice, 2, 10).unwrap();
        let why = leave(&data, &job, &alice, 3, 1).unwrap_err().to_string();
        assert!(why.contains("expected at most 2 data") && why.contains("found 3"), "{why}");
        leave(&data, &job, &bob, 3, 100).unwrap();
        assert_eq!(keys(&data, &bob), [3]);
        // Taken once more by a server that was killed in between, and deleted by their user alone.
        data.take(&alice, &job, &kept(2, 10)).unwrap();
        data.list(&bob, &[Key([1; 16])]);
        assert_eq!(keys(&data, &alice), [1, 2]);
        let left = data.list(&alice, &[Key([1; 16]), Key([9; 16])]);
        assert_eq!((left.data.len(), left.data[0].bytes, left.count_max), (1, 10, 2));
    }

    #[test]
    fn data_may_be_on_a_file_system_of_their_own() {
        let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
        let (root, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").ok());
        let Some(there) = there.filter(|there| device(there.path()) != device(root.path())) else {
            return skip(Needed::Program, "data on another file system (needs /dev/shm)");
        };
        symlink(there.path(), root.path().join(DATA)).unwrap();
        let data = StoredData::new(root.path(), StoredDataFile::default());
        let (alice, job) = (user("alice"), root.path().join("job"));
        assert_eq!(
            fs::rename(root.path(), there.path().join("moved")).unwrap_err().kind(),
            ErrorKind::CrossesDevices
        );
        for bytes in [10, 20] {
            leave(&data, &job, &alice, 1, bytes).unwrap();
            assert_eq!(
                data.list(&alice, &[]).data.iter().map(|datum| datum.bytes).collect::<Vec<_>>(),
                [bytes]
            );
            assert!(!job.join(KEPT).join("a").exists());
        }
        // Taken once more by a server that was killed in between; nothing else is left.
        data.take(&alice, &job, &kept(1, 20)).unwrap();
        assert_eq!(fs::read_dir(there.path().join("alice")).unwrap().count(), 1);
        // A link in its place leads nowhere.
        fs::remove_dir_all(job.join(KEPT)).unwrap();
        fs::create_dir(job.join(KEPT)).unwrap();
        symlink(data.path(&alice, &Key([1; 16])), job.join(KEPT).join("a")).unwrap();
        assert!(put(&job.join(KEPT).join("a"), &data.path(&alice, &Key([2; 16]))).is_err());
        assert_eq!(keys(&data, &alice), [1]);
        data.take(&alice, &job, &kept(3, 20)).unwrap();
        assert!(!data.path(&alice, &Key([3; 16])).exists());
    }

    #[test]
    fn data_that_stand_for_many_parameters_count_for_each() {
        let root = tempfile::tempdir().unwrap();
        let data = StoredData::new(root.path(), StoredDataFile::default());
        let (alice, job) = (user("alice"), root.path().join("job"));
        leave(&data, &job, &alice, 1, 10).unwrap();
        // It takes no disk.
        let file = File::options().write(true).open(data.path(&alice, &Key([1; 16]))).unwrap();
        let check = |bytes: usize, parameters: usize| {
            file.set_len(bytes as u64).unwrap();
            let stored = (0..parameters).map(|number| (format!("v{number}"), Key([1; 16]))).collect();
            let none = serde_json::json!({});
            let call = serde_json::json!({
                "signature": "", "program": [], "environment": none, "numbers": none, "values": ""
            });
            let mut call: PreparedCall = serde_json::from_value(call).unwrap();
            call.stored = stored;
            data.check(&alice, &call)
        };
        check(VALUES_BYTES_MAX / 4, 4).unwrap();
        let refused = check(VALUES_BYTES_MAX / 4, 5).unwrap_err().to_string();
        assert!(
            refused.contains("expected at most 268435456 bytes") && refused.contains("335544320"),
            "{refused}"
        );
    }

    #[test]
    fn what_no_call_has_named_expires() {
        let root = tempfile::tempdir().unwrap();
        let bounds = StoredDataFile { expiry_h: 1, ..StoredDataFile::default() };
        let data = StoredData::new(root.path(), bounds);
        let (alice, job) = (user("alice"), root.path().join("job"));
        for key in [1, 2] {
            leave(&data, &job, &alice, key, 10).unwrap();
        }
        assert_eq!(data.expire(), 0);
        let old = SystemTime::now() - Duration::from_secs(3700);
        File::open(data.path(&alice, &Key([1; 16]))).unwrap().set_modified(old).unwrap();
        assert_eq!(data.expire(), 1);
        assert_eq!(keys(&data, &alice), [2]);
    }
}
