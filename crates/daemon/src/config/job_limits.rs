//! What a job of the embedded batch system may use: `[cluster.limits]` of a server's file.

use std::path::PathBuf;

use pliant_site::processes::{JobLimits, check_cgroup, delegated_cgroup};
use serde::{Deserialize, Serialize};

/// The limits of each job; what is left out is not limited.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct JobLimitsFile {
    /// Bytes of memory for each core that a job has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes_per_core: Option<u64>,
    /// Processes and threads of a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// Bytes of the files in a job's work folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
    /// Files and folders in a job's work folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_files: Option<u64>,
    /// The cgroup that was delegated to the server: its folder, or `auto` for the server's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
}

/// The value of `cgroup` that means the server's own.
const AUTO: &str = "auto";

impl JobLimitsFile {
    /// Checks the values.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String)> {
        let numbers = [
            ("cluster.limits.memory_bytes_per_core", self.memory_bytes_per_core),
            ("cluster.limits.processes", self.processes),
            ("cluster.limits.disk_bytes", self.disk_bytes),
            ("cluster.limits.disk_files", self.disk_files),
        ];
        if let Some((key, _)) = numbers.iter().find(|(_, number)| *number == Some(0)) {
            return Err((key, "expected at least 1, or no such key for no limit, found 0".to_owned()));
        }
        match &self.cgroup {
            Some(cgroup) if cgroup != AUTO && !cgroup.starts_with('/') => Err((
                "cluster.limits.cgroup",
                format!("expected `{AUTO}` or the absolute path of a cgroup's folder, found {cgroup:?}"),
            )),
            _ => Ok(()),
        }
    }

    /// The same with the folder of the cgroup, which can be used.
    ///
    /// # Errors
    /// The cgroup is not there, or was not delegated to this user.
    pub(crate) fn resolved(mut self) -> std::io::Result<JobLimitsFile> {
        let found = match self.cgroup.as_deref() {
            None => return Ok(self),
            Some(AUTO) => delegated_cgroup()?,
            Some(folder) => {
                let folder = PathBuf::from(folder);
                check_cgroup(&folder)?;
                folder
            }
        };
        self.cgroup = Some(found.to_string_lossy().into_owned());
        Ok(self)
    }

    /// The limits of a job that has so many cores.
    pub(crate) fn of(&self, cores: u32) -> JobLimits {
        JobLimits {
            memory_bytes: self.memory_bytes_per_core.map(|bytes| bytes.saturating_mul(cores.max(1).into())),
            processes: self.processes,
            disk_bytes: self.disk_bytes,
            disk_files: self.disk_files,
            cgroup: self.cgroup.as_ref().map(PathBuf::from),
        }
    }
}
