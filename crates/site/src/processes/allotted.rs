//! What a batch system that starts a supervisor says about the resources of its job.

use std::ffi::OsString;

/// A file of OAR's with a line for each resource of the job.
const OAR_RESOURCES: &str = "OAR_RESOURCE_PROPERTIES_FILE";

/// Its variables, for the job: under Slurm and OAR a program on several nodes needs to know which. A server that starts us
/// itself passes on nothing.
pub(super) fn variables() -> impl Iterator<Item = (OsString, OsString)> {
    let is_for_jobs = |name: &OsString| {
        let name = name.as_encoded_bytes();
        name.starts_with(b"SLURM_") || name.starts_with(b"OAR_")
    };
    std::env::vars_os().filter(move |(name, _)| is_for_jobs(name))
}

/// How many processors the job was given, if it could have been given another number. OAR chooses among the sizes that it
/// was submitted with; elsewhere a job has the one that it was made ready for.
pub(super) fn procs() -> Option<u32> {
    let resources = std::fs::read_to_string(std::env::var_os(OAR_RESOURCES)?).ok()?;
    let lines = resources.lines().filter(|line| !line.trim().is_empty()).count();
    u32::try_from(lines).ok().filter(|lines| *lines > 0)
}
