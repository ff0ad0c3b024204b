//! The registry of the folders of sweeps and explorations, which `pliant web` shows.

use std::path::Path;

pub(crate) use pliant_request::work_folders::registry;

use crate::federation::inform;

/// Notes that a command works in a folder. A command without a registry does its work all the same.
pub(crate) fn register(folder: &Path) {
    if let Err(why) = pliant_request::work_folders::register(folder) {
        inform(|| format!("`pliant web` does not list {}: {why}", folder.display()));
    }
}
