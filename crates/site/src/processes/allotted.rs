//! What a batch system that starts a supervisor says about the resources of its job.

use std::ffi::OsString;

/// A file of OAR's with a line for each resource of the job.
const OAR_RESOURCES: &str = "OAR_RESOURCE_PROPERTIES_FILE";

/// Its variables, for the job: under Slurm and OAR a program on several nodes needs to know which. A server that starts us
/// itself passes on nothing.
pub(super) fn variables() -> impl Iterator<Item = (OsString, OsString)> {
    // A server's own processes may have names of GPUs in their environment.
    let is_job_of_batch_system =
        ["SLURM_JOB_ID", "OAR_JOB_ID"].iter().any(|name| std::env::var_os(name).is_some());
    std::env::vars_os().filter(move |(name, _)| is_for_jobs(name.as_encoded_bytes(), is_job_of_batch_system))
}

/// Whether a job gets a variable of that name. The names of its GPUs are those of libraries.
fn is_for_jobs(name: &[u8], is_job_of_batch_system: bool) -> bool {
    const GPUS: [&[u8]; 4] =
        [b"CUDA_VISIBLE_DEVICES", b"ROCR_VISIBLE_DEVICES", b"ZE_AFFINITY_MASK", b"GPU_DEVICE_ORDINAL"];
    name.starts_with(b"SLURM_")
        || name.starts_with(b"OAR_")
        || (is_job_of_batch_system && GPUS.contains(&name))
}

/// How many processors the job was given, if it could have been given another number. OAR chooses among the sizes that it
/// was submitted with; elsewhere a job has the one that it was made ready for.
pub(super) fn procs() -> Option<u32> {
    let resources = std::fs::read_to_string(std::env::var_os(OAR_RESOURCES)?).ok()?;
    let lines = resources.lines().filter(|line| !line.trim().is_empty()).count();
    u32::try_from(lines).ok().filter(|lines| *lines > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_a_batch_system_know_their_gpus() {
        for (name, in_batch_system, elsewhere) in [
            ("SLURM_NTASKS", true, true),
            ("CUDA_VISIBLE_DEVICES", true, false),
            ("ZE_AFFINITY_MASK", true, false),
            ("CUDA_HOME", false, false),
            ("SLURMD_NODENAME", false, false),
        ] {
            let found = [true, false].map(|is_job| is_for_jobs(name.as_bytes(), is_job));
            assert_eq!(found, [in_batch_system, elsewhere], "{name}");
        }
    }
}
