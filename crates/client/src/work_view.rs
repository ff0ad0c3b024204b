//! Work of either kind as its folder shows it.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use crate::explorations::ExplorationView;
use crate::sweeps::SweepView;
use crate::work_folder::{FolderError, JOURNAL};
use crate::{ExplorationFolder, SweepFolder};

/// When the journal of a folder was written last: what was known of its work before is still true if that has not changed.
pub fn work_written(dir: &Path) -> Option<SystemTime> {
    fs::metadata(dir.join(JOURNAL)).and_then(|file| file.modified()).ok()
}

/// Work in a folder.
#[derive(Debug)]
pub enum WorkView {
    /// A sweep, or an array.
    Sweep(Box<SweepView>),
    /// An exploration.
    Exploration(Box<ExplorationView>),
}

impl WorkView {
    /// The work of a folder: takes no lock, so a client may work on it.
    ///
    /// # Errors
    ///
    /// If there is no work in it, or it cannot be read.
    pub fn open(dir: &Path) -> Result<WorkView, FolderError> {
        if SweepFolder::exists(dir) {
            Ok(WorkView::Sweep(Box::new(SweepView::open(dir)?)))
        } else if ExplorationFolder::exists(dir) {
            Ok(WorkView::Exploration(Box::new(ExplorationView::open(dir)?)))
        } else {
            Err(FolderError::Empty { dir: dir.to_owned() })
        }
    }

    /// Reads what was written since.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read any more.
    pub fn refresh(&mut self) -> Result<(), FolderError> {
        match self {
            WorkView::Sweep(sweep) => sweep.refresh(),
            WorkView::Exploration(exploration) => exploration.refresh(),
        }
    }
}
