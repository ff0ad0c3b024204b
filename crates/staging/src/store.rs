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
use super::upload_set::UploadSet;
use super::usage::{Counted, Limits, Usage};

/// Takes uploads and hands them to jobs.
///
/// Uploads belong to a user, to the key of the submission they are for, and to who sends them ([`UploadSet`]): no user reaches another's,
/// whatever key it sends, and no server what a user or another server sends. Calls for different sets do not wait for each other.
#[derive(Clone, Debug)]
pub struct Store {
    shared: Arc<Shared>,
}

/// One file on its way up. Two uploads of the same file are one: their pieces must continue each other.
/// Dropping it keeps what came, for [`Store::begin`] to continue.
#[derive(Debug)]
pub struct Upload {
    shared: Arc<Shared>,
    of: UploadSet,
    open: Arc<Mutex<OpenSet>>,
    spec: FileSpec,
    offset: u64,
    /// Shared by all that hold the same part.
    hold: Option<Arc<()>>,
}

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
    sets: BTreeMap<UploadSet, Arc<Mutex<OpenSet>>>,
}

/// The uploads of one set that go on now. A holder of its lock may take that of the registry, never
/// the other way round.
#[derive(Default, Debug)]
struct OpenSet {
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
        for of in sets(&incoming)? {
            let Some(folder) = find(&incoming, &of)? else { continue };
            for spec in folder.all()? {
                let counted = Counted::new(spec.size, folder.received(&spec)?);
                registry.usage.set(&of, &spec.name, Some(counted));
            }
            registry.sets.insert(of, Arc::default());
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
    pub fn begin(&self, of: &UploadSet, spec: FileSpec) -> Result<Upload, StagingError> {
        loop {
            let (set, before) = {
                let mut registry = self.shared.registry();
                let before = registry.usage.reserve(of, &spec.name, spec.size, &self.shared.limits)?;
                (registry.sets.entry(of.clone()).or_default().clone(), before)
            };
            let mut open = lock(&set);
            if open.gone {
                // Its reservation went with it.
                continue;
            }
            let begun = self.shared.begin(of, &mut open, &spec);
            let (offset, hold) = begun.inspect_err(|_| {
                self.shared.registry().usage.set(of, &spec.name, before);
            })?;
            let counted = Counted::new(spec.size, offset);
            self.shared.registry().usage.set(of, &spec.name, Some(counted));
            drop(open);
            return Ok(Upload {
                shared: Arc::clone(&self.shared),
                of: of.clone(),
                open: set,
                spec,
                offset,
                hold,
            });
        }
    }

    /// Checks that the files of a submission are in a set, verified and durable.
    ///
    /// # Errors
    ///
    /// [`StagingError::Missing`] with the first that is not, [`StagingError::Clash`].
    pub fn complete(&self, of: &UploadSet, files: &[FileSpec]) -> Result<(), StagingError> {
        check_manifest(files)?;
        self.uploads(of, |incoming| {
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

    /// A file of a set that is there, verified and durable, to be read.
    ///
    /// # Errors
    ///
    /// [`StagingError::Missing`] if it is not.
    pub fn open_done(&self, of: &UploadSet, spec: &FileSpec) -> Result<File, StagingError> {
        self.uploads(of, |incoming| {
            let found = incoming.map(|incoming| incoming.open_done(spec)).transpose()?.flatten();
            found.ok_or_else(|| StagingError::Missing { name: spec.name.clone() })
        })
    }

    /// Does something with the uploads of a set, if there are any, while none is added or removed.
    pub(super) fn uploads<A>(
        &self,
        of: &UploadSet,
        act: impl FnOnce(Option<Incoming>) -> Result<A, StagingError>,
    ) -> Result<A, StagingError> {
        let set = self.shared.registry().sets.get(of).cloned();
        let _open = set.as_deref().map(lock);
        act(find(&self.shared.incoming, of)?)
    }

    /// Moves the files of an accepted submission out of a set into the working folder of its job, which is made, and forgets
    /// everything else that was uploaded for it, by whomever. May be called again after a crash, and again after that.
    ///
    /// # Errors
    ///
    /// [`StagingError::Missing`] if a file is neither here nor there, [`StagingError::OtherFileSystem`]. What
    /// was moved stays moved.
    pub fn adopt(&self, of: &UploadSet, files: &[FileSpec], job_dir: &Path) -> Result<(), StagingError> {
        check_manifest(files)?;
        loop {
            let set = self.shared.registry().sets.entry(of.clone()).or_default().clone();
            let mut open = lock(&set);
            if !open.gone {
                self.shared.adopt(of, &mut open, files, job_dir)?;
                break;
            }
        }
        self.shared.sets_for(&of.user, of.key).iter().try_for_each(|other| self.abandon(other))
    }

    /// Counts so many bytes of a set that was adopted for the limits of its user and of all, in the place of those before, whatever
    /// the limits say. Nothing is counted at first.
    pub fn keep(&self, of: &UploadSet, bytes: u64) {
        self.shared.registry().usage.keep(of, bytes);
    }

    /// The bytes of a set that was adopted and still count.
    pub fn kept_by(&self, of: &UploadSet) -> u64 {
        self.shared.registry().usage.kept_by(of)
    }

    /// The sets that were adopted and still count.
    pub fn kept(&self) -> Vec<UploadSet> {
        self.shared.registry().usage.kept().cloned().collect()
    }

    /// Throws away a set of uploads that no submission needs.
    ///
    /// # Errors
    ///
    /// Whatever the disk refuses.
    pub fn abandon(&self, of: &UploadSet) -> Result<(), StagingError> {
        let Some(set) = self.shared.registry().sets.get(of).cloned() else { return Ok(()) };
        let mut open = lock(&set);
        // If it is gone already, what lies there now is of another.
        if open.gone { Ok(()) } else { self.shared.throw_away(of, &mut open) }
    }

    /// Every set that has uploads.
    pub fn upload_sets(&self) -> Vec<UploadSet> {
        self.shared.registry().sets.keys().cloned().collect()
    }

    /// True if nothing came to a set for the time that the limits give. `now` is what the
    /// system's clock says, which dates the writes of files.
    ///
    /// # Errors
    ///
    /// Whatever the disk refuses.
    pub fn rests(&self, of: &UploadSet, now: Time) -> Result<bool, StagingError> {
        self.resting(of, now, |_| Ok(()))
    }

    /// Throws away a set if it rests: see [`Store::rests`]. Whether its submission was accepted is for the
    /// caller to know, in its [`Store::lock`].
    ///
    /// # Errors
    ///
    /// Whatever the disk refuses.
    pub fn collect(&self, of: &UploadSet, now: Time) -> Result<bool, StagingError> {
        self.resting(of, now, |open| self.shared.throw_away(of, open))
    }

    /// Does something to a set if nothing came for long.
    fn resting(
        &self,
        of: &UploadSet,
        now: Time,
        act: impl FnOnce(&mut OpenSet) -> Result<(), StagingError>,
    ) -> Result<bool, StagingError> {
        let Some(set) = self.shared.registry().sets.get(of).cloned() else { return Ok(false) };
        let mut open = lock(&set);
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

    /// Bytes that count now against the limit of all uploads for the user of a set by its sender.
    pub fn used_by(&self, of: &UploadSet) -> u64 {
        self.shared.registry().usage.of_user(&of.user, &of.sender)
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
        let mut open = lock(&self.open);
        match open.parts.get_mut(&self.spec.name) {
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
        let mut open = lock(&self.open);
        let name = &self.spec.name;
        let gone = || StagingError::Gone { name: name.clone() };
        if open.gone {
            return Err(gone());
        }
        let incoming = find(&self.shared.incoming, &self.of)?.ok_or_else(gone)?;
        match open.parts.get_mut(name) {
            Some((part, hold)) if self.holds(hold) => {
                part.verify().inspect_err(|_| {
                    let counted = Counted::new(self.spec.size, part.offset());
                    self.shared.registry().usage.set(&self.of, name, Some(counted));
                })?;
                incoming.settle(name)?;
                open.parts.remove(name);
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
        let mut open = lock(&self.open);
        let weak = Arc::downgrade(&mine);
        drop(mine);
        if weak.strong_count() == 0
            && open.parts.get(&self.spec.name).is_some_and(|(_, hold)| hold.ptr_eq(&weak))
        {
            open.parts.remove(&self.spec.name);
        }
    }
}

impl Shared {
    fn registry(&self) -> MutexGuard<'_, Registry> {
        lock(&self.registry)
    }

    /// Every set of a submission.
    fn sets_for(&self, user: &User, key: Key) -> Vec<UploadSet> {
        let registry = self.registry();
        let from = registry.sets.range(UploadSet::of_owner(user.clone(), key)..).map(|(of, _)| of);
        from.take_while(|of| of.is_for(user, key)).cloned().collect()
    }

    fn begin(
        &self,
        of: &UploadSet,
        open: &mut OpenSet,
        spec: &FileSpec,
    ) -> Result<(u64, Option<Arc<()>>), StagingError> {
        if let Some((part, hold)) = open.parts.get(&spec.name)
            && part.spec() == spec
            && let Some(hold) = hold.upgrade()
        {
            return Ok((part.offset(), Some(hold)));
        }
        // Open under another announcement: clients that still send it learn that it is gone.
        open.parts.remove(&spec.name);
        let folder = self.incoming.make_child(of.user.as_str())?.make_child(&of.folder())?;
        let incoming = Incoming::new(folder);
        incoming.announce(spec)?;
        if incoming.done(spec)?.is_some() {
            return Ok((spec.size, None));
        }
        let part = incoming.part(spec)?;
        let (offset, hold) = (part.offset(), Arc::new(()));
        open.parts.insert(spec.name.clone(), (part, Arc::downgrade(&hold)));
        Ok((offset, Some(hold)))
    }

    fn adopt(
        &self,
        of: &UploadSet,
        open: &mut OpenSet,
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
        self.throw_away(of, open)
    }

    /// Forgets a set that is not gone yet. Its folder vanishes from `incoming` at once and then from the disk.
    fn throw_away(&self, of: &UploadSet, open: &mut OpenSet) -> Result<(), StagingError> {
        let (name, thrown) = (of.folder(), of.thrown());
        if let Some(folder) = self.incoming.child(of.user.as_str())?
            && folder.child(&name)?.is_some()
        {
            self.trash.remove_child(&thrown)?;
            folder.rename(&name, &self.trash, &thrown)?;
            folder.sync()?;
        }
        open.gone = true;
        open.parts.clear();
        let mut registry = self.registry();
        registry.usage.release(of);
        registry.sets.remove(of);
        drop(registry);
        self.trash.remove_child(&thrown)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a thread that panicked left is as good as what a killed process leaves: the disk is what counts.
    mutex.lock()
}

fn find(incoming: &Folder, of: &UploadSet) -> Result<Option<Incoming>, StagingError> {
    let Some(folder) = incoming.child(of.user.as_str())? else { return Ok(None) };
    Ok(folder.child(&of.folder())?.map(Incoming::new))
}

/// Every set that has a folder. What is not one of the store's is left alone.
fn sets(incoming: &Folder) -> Result<Vec<UploadSet>, StagingError> {
    let mut found = Vec::new();
    for entry in incoming.entries(usize::MAX)?.0 {
        let Some(user) = entry.name.to_str().ok().and_then(|name| name.parse::<User>().ok()) else {
            continue;
        };
        let Some(folder) = incoming.child(user.as_str())? else { continue };
        for entry in folder.entries(usize::MAX)?.0 {
            found.extend(entry.name.to_str().ok().and_then(|name| UploadSet::of_folder(&user, name)));
        }
    }
    Ok(found)
}
