//! What somebody who waits in a room holds meanwhile: a part of a launch has its processors there, and its tasks are to be
//! told where they will listen. That is only known on the host where the batch system has started it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ports::{Ports, own_address};

/// The file with the terms, in the room.
const TERMS: &str = "terms.json";
/// The file that says where tasks will listen, in the room.
const LOCATED: &str = "located.json";

/// On which terms a supervisor waits.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StartGate {
    /// How long, in seconds.
    pub patience_s: u64,
    /// Its tasks, which are to listen there.
    pub tasks: Vec<String>,
    /// What is reached from there, `host:port`: the other tasks are where that is.
    pub toward: String,
}

/// Where the tasks will listen, or why they cannot.
type Located = Result<BTreeMap<String, String>, String>;

impl StartGate {
    /// Writes them into a room.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, room: &Path) -> io::Result<()> {
        write(room, TERMS, self)
    }

    /// Those of a room; none if it has none.
    pub(super) fn of(room: &Path) -> io::Result<Option<StartGate>> {
        read(room, TERMS)
    }

    pub(super) fn patience(&self) -> Duration {
        Duration::from_secs(self.patience_s)
    }

    /// Finds out where the tasks are to listen, and says so. The ports are kept for them as long as what is returned is.
    pub(super) fn locate(&self, room: &Path) -> io::Result<Option<Ports>> {
        let found = own_address(&self.toward)
            .and_then(|host| Ports::find(&host, self.tasks.iter().map(String::as_str)));
        let located: Located = match &found {
            Ok(ports) => Ok(ports.addresses().clone()),
            Err(error) => Err(format!("no ports can be kept for its tasks: {error}")),
        };
        write(room, LOCATED, &located)?;
        Ok(found.ok())
    }
}

/// Where the tasks will listen whose supervisor waits in a room, or why they cannot; none if nobody has come yet.
///
/// # Errors
/// The room cannot be read.
pub fn located(room: &Path) -> io::Result<Option<Located>> {
    read(room, LOCATED)
}

/// A file that is there whole or not at all.
fn write(room: &Path, name: &str, content: &impl Serialize) -> io::Result<()> {
    let (path, temporary) = (room.join(name), room.join(format!("{name}.tmp")));
    let mut file = File::create(&temporary)?;
    file.write_all(&serde_json::to_vec(content)?)?;
    file.sync_all()?;
    fs::rename(temporary, path)
}

fn read<T: serde::de::DeserializeOwned>(room: &Path, name: &str) -> io::Result<Option<T>> {
    match fs::read(room.join(name)) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
