//! The folders of sweeps and explorations that the pages show: those that commands of the user have begun on this machine.
//!
//! Folders are read, never locked: commands work on them meanwhile. Of a few the state is kept, so that only what is new is read.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use http::StatusCode;
use parking_lot::Mutex;
use pliant_client::{RegisteredFolder, WorkRegistry, WorkView, is_worked_on, work_written};

use crate::problem::Problem;
use crate::types::{WorkFolderView, WorkFoldersView};

/// The most folders that are listed.
const LISTED_MAX: usize = 100;
/// Of how many folders the state is kept; of a sweep it has about 20 bytes for each instance.
const OPEN_MAX: usize = 8;

/// The folders of a user.
pub(crate) struct Works {
    registry: WorkRegistry,
    known: Mutex<Known>,
}

type OpenWork = Arc<Mutex<WorkView>>;

#[derive(Default)]
struct Known {
    /// The folders that were used last, the last one at the end.
    open: VecDeque<(String, OpenWork)>,
    /// What was listed, and when the journal of each was written.
    listed: HashMap<String, (SystemTime, WorkFolderView)>,
}

impl Works {
    /// The folders of a registry.
    pub(crate) fn new(registry: WorkRegistry) -> Works {
        Works { registry, known: Mutex::default() }
    }

    /// The newest folders. Blocks while they are read.
    pub(crate) fn list(&self) -> Result<WorkFoldersView, Problem> {
        let mut folders = self.registry.folders().map_err(|error| {
            Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("cannot read the list of folders: {error}"),
            )
        })?;
        let left_out = folders.len().saturating_sub(LISTED_MAX);
        folders.truncate(LISTED_MAX);
        let mut known = self.known.lock();
        known.listed.retain(|id, _| folders.iter().any(|folder| folder.id == *id));
        drop(known);
        Ok(WorkFoldersView { folders: folders.iter().map(|folder| self.summary(folder)).collect(), left_out })
    }

    fn summary(&self, RegisteredFolder { id, dir, .. }: &RegisteredFolder) -> WorkFolderView {
        let written = work_written(dir);
        let listed = self.known.lock().listed.get(id).cloned();
        if let Some((at, mut view)) = listed.filter(|(at, _)| Some(*at) == written) {
            // Only whether a command works on it can have changed.
            if ["running", "stopped"].contains(&view.state) && view.problem.is_none() {
                view.state = if is_worked_on(dir) { "running" } else { "stopped" };
            }
            self.known.lock().listed.insert(id.clone(), (at, view.clone()));
            return view;
        }
        let view = match self.open(id, dir) {
            Ok(work) => WorkFolderView::of(id, dir, &work.lock()),
            Err(problem) => WorkFolderView::unreadable(id, dir, problem),
        };
        if let Some(written) = written {
            self.known.lock().listed.insert(id.clone(), (written, view.clone()));
        }
        view
    }

    /// The work of a folder as it is now. Blocks while it is read.
    pub(crate) fn find(&self, id: &str) -> Result<(PathBuf, OpenWork), Problem> {
        let dir = self.registry.find(id).ok_or_else(|| {
            Problem::new(
                StatusCode::NOT_FOUND,
                "expected the ID of a folder that is listed, found another one",
            )
            .hint("folders that were removed are not listed any more")
        })?;
        let work = self.open(id, &dir).map_err(|problem| Problem::new(StatusCode::NOT_FOUND, problem))?;
        Ok((dir, work))
    }

    fn open(&self, id: &str, dir: &Path) -> Result<OpenWork, String> {
        let found = self.take(id);
        let work = match found {
            Some(work) => {
                work.lock().refresh().map_err(|error| error.to_string())?;
                work
            }
            None => Arc::new(Mutex::new(WorkView::open(dir).map_err(|error| error.to_string())?)),
        };
        let mut known = self.known.lock();
        known.open.retain(|(one, _)| one != id);
        known.open.push_back((id.to_owned(), work.clone()));
        if known.open.len() > OPEN_MAX {
            known.open.pop_front();
        }
        Ok(work)
    }

    /// The kept state of a folder. One that cannot be read any more is not kept again.
    fn take(&self, id: &str) -> Option<OpenWork> {
        let mut known = self.known.lock();
        let at = known.open.iter().position(|(one, _)| one == id)?;
        known.open.remove(at).map(|(_, work)| work)
    }
}
