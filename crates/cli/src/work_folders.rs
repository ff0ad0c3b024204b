//! The registry of the folders of sweeps and explorations, which `pliant web` shows.

use std::path::Path;

use pliant_client::WorkRegistry;

use crate::failure::Failure;
use crate::federation::inform;
use crate::local::state_folder;

/// The registry of this user on this machine.
pub(crate) fn registry() -> Result<WorkRegistry, Failure> {
    Ok(WorkRegistry::new(state_folder()?.join("work")))
}

/// Notes that a command works in a folder. A command without a registry does its work all the same.
pub(crate) fn register(folder: &Path) {
    let added = registry().map_err(|failure| failure.message().to_owned());
    if let Err(why) = added.and_then(|registry| registry.add(folder).map_err(|error| error.to_string())) {
        inform(|| format!("`pliant web` does not list {}: {why}", folder.display()));
    }
}
