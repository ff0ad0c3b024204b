//! The federation of `pliant up` on this machine: which daemons it started, and whether they run.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::RequestError;

/// The name of a client's file.
pub const CLIENT: &str = "client.toml";
/// The record of what was started.
pub const RECORD: &str = "federation.json";

/// What `pliant up` has started, in the folder's `federation.json`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Federation {
    /// Its daemons.
    pub daemons: Vec<Daemon>,
}

/// A daemon that was started.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Daemon {
    /// Its name.
    pub name: String,
    /// The verb: agent or server.
    pub verb: String,
    /// Its process.
    pub pid: i32,
    /// When the process was started, by the kernel's count: with the number it names one process for good.
    pub started_ticks: u64,
    /// Where it listens.
    pub address: String,
    /// Where its metrics and health are.
    pub http: String,
}

/// The folder of `pliant up` without `--dir`.
///
/// # Errors
///
/// If the user has no home folder.
pub fn default_folder() -> Result<PathBuf, RequestError> {
    state_folder().map(|state| state.join("up")).map_err(|failure| failure.hint("choose a folder with --dir"))
}

/// `$XDG_STATE_HOME/pliant`, or the same under `~/.local/state`.
pub fn state_folder() -> Result<PathBuf, RequestError> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let state = state.or_else(home).filter(|path| path.is_absolute());
    let state = state.ok_or_else(|| RequestError::input("no home folder (HOME)"))?;
    Ok(state.join("pliant"))
}

/// The federation of a folder, if any of its daemons runs.
///
/// # Errors
///
/// If its record cannot be read.
pub fn running(folder: &Path) -> Result<Option<Federation>, RequestError> {
    let known = read(folder)?;
    Ok(known.filter(|federation| federation.daemons.iter().any(is_running)))
}

/// The record of what was started in a folder, if anything was.
///
/// # Errors
///
/// If the record cannot be read.
pub fn read(folder: &Path) -> Result<Option<Federation>, RequestError> {
    let path = folder.join(RECORD);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(RequestError::io(&path, "read", &error)),
    };
    let federation = serde_json::from_str(&text);
    federation.map(Some).map_err(|error| {
        let problem = format!("{}: expected the record of what `pliant up` started: {error}", path.display());
        RequestError::input(problem)
            .hint("end its daemons yourself, remove the file, and start it with `pliant up`")
    })
}

/// True if that process runs.
pub fn is_running(daemon: &Daemon) -> bool {
    started_ticks(daemon.pid) == Some(daemon.started_ticks)
}

/// When a process was started, by the kernel's count; none if there is none, or only its corpse.
pub fn started_ticks(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let mut fields = text[text.rfind(')')? + 1..].split_whitespace();
    let state = fields.next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    // Field 22 of proc(5); the state is field 3.
    fields.nth(18)?.parse().ok()
}
