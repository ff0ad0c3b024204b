//! The uploads of all submissions of a server.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};
use pliant_control::names::{Key, User};
use pliant_model::Time;

use super::adopt::Adoption;
use super::error::StagingError;
use super::folder::Folder;
use super::incoming::Incoming;
use super::locks::{UploadLock, UploadLocks};
use super::manifest::{FileSpec, check_manifest};
use super::names::FileName;
use super::partial::PartialFile;
use super::usage::{Counted, Limits, Usage};

/// Takes uploads and hands them to jobs.
///
/// Uploads belong to a user and to the key of the submission they are for: no user reaches another's, whatever
/// key it sends. Calls for different submissions do not wait for each other.
#[derive(Clone, Debug)]
pub struct Store {
    shared: Arc<Shared>,
}

/// One file on its way up. Two uploads of the same file are one: their pieces must continue each other.
/// Dropping it keeps what came, for [`Store::begin`] to continue.
#[derive(Debug)]
pub struct Upload {
    shared: Arc<Shared>,
    of: Submission,
    job: Arc<Mutex<Job>>,
    spec: FileSpec,
    offset: u64,
    /// Shared by all that hold the same part.
    hold: Option<Arc<()>>,
}

type Submission = (User, Key);

#[derive(Debug)]
struct Shared {
    incoming: Folder,
    trash: Folder,
    limits: Limits,
    registry: Mutex<Registry>,
    turns: UploadLocks,
}

#[derive(Default, Debug)]
struct Registry {
    usage: Usage,
    jobs: BTreeMap<Submission, Arc<Mutex<Job>>>,
}

/// The uploads of one submission that go on now. A holder of its lock may take that of the registry, never
/// the other way round.
#[derive(Default, Debug)]
struct Job {
    parts: BTreeMap<FileName, (PartialFile, Weak<()>)>,
    /// Its files were handed over or thrown away; a new one takes its place in the registry.
    gone: bool,
}

impl Store {
    /// Opens the store in `path`, made if it is not there, and finds what was uploaded before.
    ///
    /// # Errors
    ///
    /// If the folder cannot be made, read or cleaned.
    pub fn open(path: &Path, limits: Limits) -> Result<Store, StagingError> {
        let root = Folder::create(path)?;
        let (incoming, trash) = (root.make_child("incoming")?, root.make_child("trash")?);
        for entry in trash.entries(usize::MAX)?.0 {
            trash.remove_child(&entry.name.to_string_lossy())?;
        }
        let mut registry = Registry::default();
        for of in submissions(&incoming)? {
            let Some(folder) = find(&incoming, &of)? else { continue };
            for spec in folder.all()? {
                let counted = Counted::new(spec.size, folder.received(&spec)?);
                registry.usage.set(&of, &spec.name, Some(counted));
            }
            registry.jobs.insert(of, Arc::default());
        }
        let registry = Mutex::new(registry);
        Ok(Store {
            shared: Arc::new(Shared { incoming, trash, limits, registry, turns: UploadLocks::default() }),
        })
    }

    /// Waits until no other call decides about the uploads of a submission: whether it is accepted, whether a file of
    /// it is begun anew, whether all are thrown away. What is found out then stays true until the lock is dropped.
    pub async fn lock(&self, user: &User, key: Key) -> UploadLock {
        self.shared.turns.wait(user, key).await
    }

    /// Begins an upload, or continues one: see [`Upload::offset`]. If another size or checksum was announced
    /// under the name before, it begins anew.
    ///
    /// # Errors
    ///
    /// [`StagingError::Quota`] if a limit would be exceeded; whatever the disk refuses.
    pub fn begin(&self, user: &User, key: Key, spec: FileSpec) -> Result<Upload, StagingError> {
        self.begun(user, key, spec, true)
    }

    /// The same, for somebody who must not throw away what the user has announced.
    ///
    /// # Errors
    ///
    /// As for [`Store::begin`], and [`StagingError::Announced`] if another size or checksum was announced under the name before.
    pub fn begin_new(&self, user: &User, key: Key, spec: FileSpec) -> Result<Upload, StagingError> {
        self.begun(user, key, spec, false)
    }

    fn begun(&self, user: &User, key: Key, spec: FileSpec, replaces: bool) -> Result<Upload, StagingError> {
        let of = (user.clone(), key);
        loop {
            let (job, before) = {
                let mut registry = self.shared.registry();
                let before = registry.usage.reserve(&of, &spec.name, spec.size, &self.shared.limits)?;
                (registry.jobs.entry(of.clone()).or_default().clone(), before)
            };
            let mut open = lock(&job);
            if open.gone {
                // Its reservation went with it.
                continue;
            }
            let begun = self.shared.begin(&of, &mut open, &spec, replaces);
            let (offset, hold) = begun.inspect_err(|_| {
                self.shared.registry().usage.set(&of, &spec.name, before);
            })?;
            let counted = Counted::new(spec.size, offset);
            self.shared.registry().usage.set(&of, &spec.name, Some(counted));
            drop(open);
            return Ok(Upload { shared: Arc::clone(&self.shared), of, job, spec, offset, hold });
        }
    }

    /// Checks that the files of a submission are there, verified and durable.
    ///
    /// # Errors
    ///
    /// [`StagingError::Missing`] with the first that is not, [`StagingError::Clash`].
    pub fn complete(&self, user: &User, key: Key, files: &[FileSpec]) -> Result<(), StagingError> {
        check_manifest(files)?;
        self.uploads(user, key, |incoming| {
            for spec in files {
                let done = match &incoming {
                    Some(incoming) => incoming.done(spec)?.is_some(),
                    None => false,
                };
                if !done {
                    return Err(StagingError::Missing { name: spec.name.clone() });
                }
            }
            Ok(())
        })
    }

    /// A file of a submission that is there, verified and durable, to be read.
    ///
    /// # Errors
    ///
    /// [`StagingError::Missing`] if it is not.
    pub fn open_done(&self, user: &User, key: Key, spec: &FileSpec) -> Result<File, StagingError> {
        self.uploads(user, key, |incoming| {
            let found = incoming.map(|incoming| incoming.open_done(spec)).transpose()?.flatten();
            found.ok_or_else(|| StagingError::Missing { name: spec.name.clone() })
        })
    }

    /// Does something with the uploads of a submission, if there are any, while none is added or removed.
    pub(super) fn uploads<A>(
        &self,
        user: &User,
        key: Key,
        act: impl FnOnce(Option<Incoming>) -> Result<A, StagingError>,
    ) -> Result<A, StagingError> {
        let of = (user.clone(), key);
        let job = self.shared.registry().jobs.get(&of).cloned();
        let _open = job.as_deref().map(lock);
        act(find(&self.shared.incoming, &of)?)
    }

    /// Moves the files of an accepted submission into the working folder of its job, which is made, and forgets
    /// everything else that was uploaded for it. May be called again after a crash, and again after that.
    ///
    /// # Errors
    ///
    /// [`StagingError::Missing`] if a file is neither here nor there, [`StagingError::OtherFileSystem`]. What
    /// was moved stays moved.
    pub fn adopt(
        &self,
        user: &User,
        key: Key,
        files: &[FileSpec],
        job_dir: &Path,
    ) -> Result<(), StagingError> {
        check_manifest(files)?;
        let of = (user.clone(), key);
        loop {
            let job = self.shared.registry().jobs.entry(of.clone()).or_default().clone();
            let mut open = lock(&job);
            if !open.gone {
                return self.shared.adopt(&of, &mut open, files, job_dir);
            }
        }
    }

    /// Throws away the uploads of a submission that will not come.
    ///
    /// # Errors
    ///
    /// Whatever the disk refuses.
    pub fn abandon(&self, user: &User, key: Key) -> Result<(), StagingError> {
        let of = (user.clone(), key);
        let Some(job) = self.shared.registry().jobs.get(&of).cloned() else { return Ok(()) };
        let mut open = lock(&job);
        // If it is gone already, what lies there now is of another.
        if open.gone { Ok(()) } else { self.shared.throw_away(&of, &mut open) }
    }

    /// Every submission that has uploads.
    pub fn submissions(&self) -> Vec<(User, Key)> {
        self.shared.registry().jobs.keys().cloned().collect()
    }

    /// True if nothing came to the uploads of a submission for the time that the limits give. `now` is what the
    /// system's clock says, which dates the writes of files.
    ///
    /// # Errors
    ///
    /// Whatever the disk refuses.
    pub fn rests(&self, user: &User, key: Key, now: Time) -> Result<bool, StagingError> {
        self.resting(&(user.clone(), key), now, |_| Ok(()))
    }

    /// Throws away the uploads of a submission if they rest: see [`Store::rests`]. Whether it was accepted is for the
    /// caller to know, in its [`Store::lock`].
    ///
    /// # Errors
    ///
    /// Whatever the disk refuses.
    pub fn collect(&self, user: &User, key: Key, now: Time) -> Result<bool, StagingError> {
        let of = (user.clone(), key);
        self.resting(&of, now, |job| self.shared.throw_away(&of, job))
    }

    /// Does something to a submission if nothing came for long.
    fn resting(
        &self,
        of: &Submission,
        now: Time,
        act: impl FnOnce(&mut Job) -> Result<(), StagingError>,
    ) -> Result<bool, StagingError> {
        let Some(job) = self.shared.registry().jobs.get(of).cloned() else { return Ok(false) };
        let mut open = lock(&job);
        if open.gone {
            return Ok(false);
        }
        let touched = match find(&self.shared.incoming, of)? {
            Some(incoming) => incoming.touched()?,
            None => Time(0),
        };
        // A file from the future is fresh.
        if now - touched < self.shared.limits.unfinished_ttl {
            return Ok(false);
        }
        act(&mut open)?;
        Ok(true)
    }

    /// Bytes that count against a user's limit now.
    pub fn used_by(&self, user: &User) -> u64 {
        self.shared.registry().usage.of_user(user)
    }
}

impl Upload {
    /// Where the first piece must begin: 0, or what is there from before.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// True if nothing is left to send: the file was complete and verified when this upload began.
    pub fn is_done(&self) -> bool {
        self.hold.is_none()
    }

    /// Adds a piece that begins at `offset`; where the next one begins. A piece is kept whole or not at all.
    ///
    /// # Errors
    ///
    /// [`StagingError::Offset`], [`StagingError::TooMuch`], [`StagingError::Gone`], [`StagingError::DiskFull`], and
    /// [`StagingError::Quota`] while all uploads have as much as they may. After each of them the upload can go on from where it was.
    pub fn append(&self, offset: u64, piece: &[u8]) -> Result<u64, StagingError> {
        let mut job = lock(&self.job);
        match job.parts.get_mut(&self.spec.name) {
            Some((part, hold)) if self.holds(hold) => {
                let received = |length| {
                    self.shared.registry().usage.receive(
                        &self.of,
                        &self.spec.name,
                        length,
                        &self.shared.limits,
                    )
                };
                received(part.offset().saturating_add(piece.len() as u64).min(self.spec.size))?;
                let appended = part.append(offset, piece);
                // Less than was counted, if that failed.
                received(part.offset())?;
                appended
            }
            _ => Err(StagingError::Gone { name: self.spec.name.clone() }),
        }
    }

    /// Verifies that everything came as announced, and makes it durable. May be called again.
    ///
    /// # Errors
    ///
    /// [`StagingError::TooLittle`], after which the upload can go on; [`StagingError::Checksum`], after which it
    /// begins again at 0.
    pub fn finish(&self) -> Result<(), StagingError> {
        let mut job = lock(&self.job);
        let name = &self.spec.name;
        let gone = || StagingError::Gone { name: name.clone() };
        if job.gone {
            return Err(gone());
        }
        let incoming = find(&self.shared.incoming, &self.of)?.ok_or_else(gone)?;
        match job.parts.get_mut(name) {
            Some((part, hold)) if self.holds(hold) => {
                part.verify().inspect_err(|_| {
                    let counted = Counted::new(self.spec.size, part.offset());
                    self.shared.registry().usage.set(&self.of, name, Some(counted));
                })?;
                incoming.settle(name)?;
                job.parts.remove(name);
                Ok(())
            }
            _ => incoming.done(&self.spec)?.map(|_| ()).ok_or_else(gone),
        }
    }

    fn holds(&self, hold: &Weak<()>) -> bool {
        self.hold.as_ref().is_some_and(|mine| std::ptr::eq(Arc::as_ptr(mine), hold.as_ptr()))
    }
}

impl Drop for Upload {
    /// The last upload of a file closes it.
    fn drop(&mut self) {
        let Some(mine) = self.hold.take() else { return };
        let mut job = lock(&self.job);
        let weak = Arc::downgrade(&mine);
        drop(mine);
        if weak.strong_count() == 0
            && job.parts.get(&self.spec.name).is_some_and(|(_, hold)| hold.ptr_eq(&weak))
        {
            job.parts.remove(&self.spec.name);
        }
    }
}

impl Shared {
    fn registry(&self) -> MutexGuard<'_, Registry> {
        lock(&self.registry)
    }

    fn begin(
        &self,
        of: &Submission,
        job: &mut Job,
        spec: &FileSpec,
        replaces: bool,
    ) -> Result<(u64, Option<Arc<()>>), StagingError> {
        if let Some((part, hold)) = job.parts.get(&spec.name)
            && part.spec() == spec
            && let Some(hold) = hold.upgrade()
        {
            return Ok((part.offset(), Some(hold)));
        }
        let (user, key) = of;
        if !replaces
            && let Some(incoming) = find(&self.incoming, of)?
            && incoming.announced(&spec.name)?.is_some_and(|announced| announced != *spec)
        {
            return Err(StagingError::Announced { name: spec.name.clone() });
        }
        // Open under another announcement: clients that still send it learn that it is gone.
        job.parts.remove(&spec.name);
        let folder = self.incoming.make_child(user.as_str())?.make_child(&key.to_string())?;
        let incoming = Incoming::new(folder);
        incoming.announce(spec)?;
        if incoming.done(spec)?.is_some() {
            return Ok((spec.size, None));
        }
        let part = incoming.part(spec)?;
        let (offset, hold) = (part.offset(), Arc::new(()));
        job.parts.insert(spec.name.clone(), (part, Arc::downgrade(&hold)));
        Ok((offset, Some(hold)))
    }

    fn adopt(
        &self,
        of: &Submission,
        job: &mut Job,
        files: &[FileSpec],
        job_dir: &Path,
    ) -> Result<(), StagingError> {
        let folder = Folder::create(job_dir)?;
        let adoption = Adoption::begin(&folder, find(&self.incoming, of)?, files)?;
        for index in 0.. {
            if !adoption.move_file(index)? {
                break;
            }
        }
        adoption.end()?;
        self.throw_away(of, job)
    }

    /// Forgets a submission that is not gone yet. Its folder vanishes from `incoming` at once and then from the disk.
    fn throw_away(&self, of: &Submission, job: &mut Job) -> Result<(), StagingError> {
        let (user, key) = of;
        let (name, thrown) = (key.to_string(), format!("{user}.{key}"));
        if let Some(folder) = self.incoming.child(user.as_str())?
            && folder.child(&name)?.is_some()
        {
            self.trash.remove_child(&thrown)?;
            folder.rename(&name, &self.trash, &thrown)?;
            folder.sync()?;
        }
        job.gone = true;
        job.parts.clear();
        let mut registry = self.registry();
        registry.usage.release(of);
        registry.jobs.remove(of);
        drop(registry);
        self.trash.remove_child(&thrown)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a thread that panicked left is as good as what a killed process leaves: the disk is what counts.
    mutex.lock()
}

fn find(incoming: &Folder, of: &Submission) -> Result<Option<Incoming>, StagingError> {
    let Some(folder) = incoming.child(of.0.as_str())? else { return Ok(None) };
    Ok(folder.child(&of.1.to_string())?.map(Incoming::new))
}

/// Every submission that has a folder. What is not one of the store's is left alone.
fn submissions(incoming: &Folder) -> Result<Vec<Submission>, StagingError> {
    let mut found = Vec::new();
    for entry in incoming.entries(usize::MAX)?.0 {
        let Some(user) = entry.name.to_str().ok().and_then(|name| name.parse::<User>().ok()) else {
            continue;
        };
        let Some(folder) = incoming.child(user.as_str())? else { continue };
        for entry in folder.entries(usize::MAX)?.0 {
            if let Some(key) = entry.name.to_str().ok().and_then(|name| name.parse::<Key>().ok()) {
                found.push((user.clone(), key));
            }
        }
    }
    Ok(found)
}
