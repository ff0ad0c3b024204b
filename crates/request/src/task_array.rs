//! An array as a sweep: a script that runs once for each of several indices.

use pliant_client::SweepSpec;
use pliant_control::multi_job::RETRIES_MAX;
use pliant_control::shared_folder::SharedFolder;
use pliant_policy::allocation::Strategy;
use pliant_wire::{Executable, Script, TaskArray};

use crate::RequestError;
use crate::executable_options::with_parameters;
use crate::submit_options::JobOptions;
use crate::sweep;
use crate::task_indices::TaskIndices;

/// The sweep that an array is.
///
/// # Errors
///
/// If the script has a placeholder of no parameter, or a file cannot be read.
pub fn spec(script: &Script, indices: &TaskIndices, options: &JobOptions) -> Result<SweepSpec, RequestError> {
    let mut script = script.clone();
    // A task that is lost runs again as an instance of the sweep, without those that have ended.
    let requeues = options.requeues().map(|requeues| requeues.min(u32::from(RETRIES_MAX)) as u8);
    script.work.requeue = 0;
    let script = with_parameters(script, &[TaskArray::INDEX].into(), Some(indices.array()))?;
    Ok(SweepSpec {
        executable: Executable::Script(Box::new(script)),
        parameters: indices.space(),
        inputs: options.announced()?,
        strategy: Strategy::Statistics,
        once: false,
        retries: requeues.unwrap_or(sweep::RETRIES),
        at_once: indices.at_once,
        only: options.server.clone(),
        timeout: options.timeout(),
    })
}

/// Has the tasks run in a folder of the user's own.
pub fn in_folder(spec: &mut SweepSpec, folder: Option<SharedFolder>) {
    if let Executable::Script(script) = &mut spec.executable {
        script.folder = folder;
    }
}
