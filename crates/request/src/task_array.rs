//! An array as a sweep: a script that runs once for each of several indices.

use pliant_client::SweepSpec;
use pliant_control::multi_job::RETRIES_MAX;
use pliant_policy::allocation::Strategy;
use pliant_wire::{Executable, Script, TaskArray};

use crate::RequestError;
use crate::executable_options::with_parameters;
use crate::job_files::announced;
use crate::submit_options::JobOptions;
use crate::sweep;
use crate::task_indices::TaskIndices;

/// The sweep that an array is.
///
/// # Errors
///
/// If an option has no use in an array.
pub fn spec(script: &Script, indices: &TaskIndices, options: &JobOptions) -> Result<SweepSpec, RequestError> {
    if let Some(option) = options.without_use_in_array() {
        let problem =
            format!("expected --array or {option}, found both, on the command line or in the script");
        let hint =
            "a task of an array is an instance of a sweep: `pliant sweep --help` has the options of that";
        return Err(RequestError::input(problem).hint(hint));
    }
    let mut script = script.clone();
    // A task that is lost runs again as an instance of the sweep, without those that have ended.
    let requeues = options.requeues().map(|requeues| requeues.min(u32::from(RETRIES_MAX)) as u8);
    script.work.requeue = 0;
    let script = with_parameters(script, &[TaskArray::INDEX].into(), Some(indices.array()))?;
    Ok(SweepSpec {
        executable: Executable::Script(Box::new(script)),
        parameters: indices.space(),
        inputs: announced("--in", &options.inputs)?,
        strategy: Strategy::Statistics,
        once: false,
        retries: requeues.unwrap_or(sweep::RETRIES),
        at_once: indices.at_once,
        timeout: options.timeout(),
    })
}
