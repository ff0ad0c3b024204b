//! The input files of a subjob's tasks: uploaded by the user of the launch once it is known where the tasks are, under the key of
//! the launch and each under its checksum, so that a file is sent to a server once however many tasks have it. The subjob is held
//! when its folder has a link to each of them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pliant_control::coallocation::Subjob;
use pliant_staging::{FileName, FileSpec, StagingError, Store, UploadSet};
use pliant_wire::TaskProgram;

use crate::server::execution::{Host, Program};

/// The polling interval for missing files.
const POLL_PERIOD: Duration = Duration::from_millis(250);
/// How often is looked before the machine asks again.
const POLLS_MAX: u32 = 240;

/// The files of a subjob.
pub(super) struct Inputs {
    /// The uploads of the launch.
    sent: UploadSet,
    /// Each once, as it is uploaded.
    files: Vec<FileSpec>,
    /// The subjob's folder.
    dir: PathBuf,
}

impl Inputs {
    /// Those of a subjob that is to be held; or what is wrong with them.
    pub(super) fn of(host: &Host, subjob: &Subjob) -> Result<Inputs, String> {
        let mut files: BTreeMap<FileName, FileSpec> = BTreeMap::new();
        for task in &subjob.tasks {
            let program: Program = task.payload.read().map_err(|error| {
                format!("what was journaled of task `{}` cannot be read: {error}", task.name)
            })?;
            for file in &program.inputs {
                let uploaded = TaskProgram::uploaded(file);
                let size = uploaded.size;
                if let Some(other) = files.insert(uploaded.name.clone(), uploaded)
                    && other.size != size
                {
                    let (name, found) = (file.name.as_str(), other.size);
                    return Err(format!(
                        "expected one size of files with the checksum of {name}, found {found} and {size} bytes"
                    ));
                }
            }
        }
        let dir = host.subjob_dir(&subjob.id);
        Ok(Inputs {
            sent: UploadSet::of_owner(subjob.owner.clone(), subjob.id.launch.key),
            files: files.into_values().collect(),
            dir,
        })
    }

    /// Waits until the subjob's folder has all of them; false if they have not come in a while, an error if it never will.
    pub(super) async fn gathered(self, store: &Store) -> Result<bool, String> {
        if self.files.is_empty() {
            return Ok(true);
        }
        let own = Arc::new(self);
        let mut warned = false;
        for _ in 0..POLLS_MAX {
            let (own, store) = (own.clone(), store.clone());
            let shared = move || store.share(&own.sent, &own.files, &own.dir);
            match tokio::task::spawn_blocking(shared).await {
                Ok(Ok(())) => return Ok(true),
                Ok(Err(StagingError::Missing { .. })) => {}
                Ok(Err(error)) if error.may_pass() => {
                    if !std::mem::replace(&mut warned, true) {
                        tracing::warn!(%error, "the input files of a subjob cannot be linked into its folder at the moment");
                    }
                }
                Ok(Err(error)) => return Err(error.public_message()),
                Err(error) => return Err(error.to_string()),
            }
            tokio::time::sleep(POLL_PERIOD).await;
        }
        Ok(false)
    }
}
