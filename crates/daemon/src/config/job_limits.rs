//! What a job of the embedded batch system may use: `[cluster.limits]` of a server's file.

use std::fmt;
use std::path::{Path, PathBuf};

use pliant_site::processes::{JobLimits, check_cgroup, delegated_cgroup};
use serde::de::{self, Deserializer, Unexpected, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// The limits of each job; what is left out is not limited, but for `disk_bytes`.
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
    #[serde(skip_serializing_if = "DiskQuota::is_default")]
    pub disk_bytes: DiskQuota,
    /// Files and folders in a job's work folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_files: Option<u64>,
    /// The cgroup that was delegated to the server: its folder, or `auto` for the server's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
}

/// The bytes of files that a job may have.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum DiskQuota {
    /// A quarter of what is free where the folders of jobs are when the server starts, and at least 4 GiB.
    #[default]
    Share,
    /// Any number.
    Unlimited,
    /// So many.
    Bytes(u64),
}

const DISK_BYTES: &str = "cluster.limits.disk_bytes";
/// The least [`DiskQuota::Share`]: on a disk that is almost full, new jobs are refused before they are held to less.
const LEAST_QUOTA_BYTES: u64 = 4 << 30;
/// The part of the free space that it is.
const SHARE: u64 = 4;
/// The value of `disk_bytes` that means any number.
const UNLIMITED: &str = "none";

impl DiskQuota {
    /// The number in the file; none if there is no number.
    pub fn bytes(self) -> Option<u64> {
        match self {
            DiskQuota::Bytes(bytes) => Some(bytes),
            DiskQuota::Share | DiskQuota::Unlimited => None,
        }
    }

    /// The quota on a disk with so many free bytes.
    fn on(self, free_bytes: u64) -> DiskQuota {
        match self {
            DiskQuota::Share => DiskQuota::Bytes((free_bytes / SHARE).max(LEAST_QUOTA_BYTES)),
            said => said,
        }
    }

    pub(super) fn is_default(&self) -> bool {
        *self == DiskQuota::default()
    }
}

impl Serialize for DiskQuota {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            // A key with the default is left out.
            DiskQuota::Share => to.serialize_none(),
            DiskQuota::Unlimited => to.serialize_str(UNLIMITED),
            DiskQuota::Bytes(bytes) => to.serialize_u64(*bytes),
        }
    }
}

impl<'de> Deserialize<'de> for DiskQuota {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<DiskQuota, D::Error> {
        struct Quota;
        impl Visitor<'_> for Quota {
            type Value = DiskQuota;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a number of bytes, or \"{UNLIMITED}\"")
            }

            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<DiskQuota, E> {
                let unexpected = |_| E::invalid_value(Unexpected::Signed(bytes), &self);
                u64::try_from(bytes).map(DiskQuota::Bytes).map_err(unexpected)
            }

            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<DiskQuota, E> {
                Ok(DiskQuota::Bytes(bytes))
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<DiskQuota, E> {
                match word {
                    UNLIMITED => Ok(DiskQuota::Unlimited),
                    _ => Err(E::invalid_value(Unexpected::Str(word), &self)),
                }
            }
        }
        from.deserialize_any(Quota)
    }
}

/// The value of `cgroup` that means the server's own.
const AUTO: &str = "auto";

impl JobLimitsFile {
    /// Checks the values.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String)> {
        let numbers = [
            ("cluster.limits.memory_bytes_per_core", self.memory_bytes_per_core),
            ("cluster.limits.processes", self.processes),
            (DISK_BYTES, self.disk_bytes.bytes()),
            ("cluster.limits.disk_files", self.disk_files),
        ];
        if let Some((key, _)) = numbers.iter().find(|(_, number)| *number == Some(0)) {
            let no_limit = if *key == DISK_BYTES { "\"none\"" } else { "no such key" };
            return Err((key, format!("expected at least 1, or {no_limit} for no limit, found 0")));
        }
        match &self.cgroup {
            Some(cgroup) if cgroup != AUTO && !cgroup.starts_with('/') => Err((
                "cluster.limits.cgroup",
                format!("expected `{AUTO}` or the absolute path of a cgroup's folder, found {cgroup:?}"),
            )),
            _ => Ok(()),
        }
    }

    /// The same with the quota of a job whose folder is below `folder`.
    ///
    /// # Errors
    /// The file system does not say how much is free.
    pub(crate) fn with_quota(self, folder: &Path) -> std::io::Result<JobLimitsFile> {
        let disk = rustix::fs::statvfs(folder)?;
        Ok(JobLimitsFile {
            disk_bytes: self.disk_bytes.on(disk.f_bavail.saturating_mul(disk.f_frsize)),
            ..self
        })
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

    /// Whether it bounds the memory of jobs.
    pub(crate) fn bounds_memory(&self) -> bool {
        self.memory_bytes_per_core.is_some()
    }

    /// The limits of a job that has so many cores.
    pub(crate) fn of(&self, cores: u32) -> JobLimits {
        JobLimits {
            memory_bytes: self.memory_bytes_per_core.map(|bytes| bytes.saturating_mul(cores.max(1).into())),
            processes: self.processes,
            disk_bytes: self.disk_bytes.bytes(),
            disk_files: self.disk_files,
            cpus: Some(cores.max(1)),
            cgroup: self.cgroup.as_ref().map(PathBuf::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(table: &str) -> Result<JobLimitsFile, String> {
        let file: JobLimitsFile = toml::from_str(table).map_err(|error| error.message().to_owned())?;
        file.check().map_err(|(key, message)| format!("{key}: {message}"))?;
        Ok(file)
    }

    /// What a job may have on a disk with so many free bytes.
    fn quota(table: &str, free_bytes: u64) -> Option<u64> {
        let file = read(table).unwrap();
        let limits = JobLimitsFile { disk_bytes: file.disk_bytes.on(free_bytes), ..file };
        limits.of(1).disk_bytes
    }

    #[test]
    fn a_job_may_have_a_quarter_of_the_free_space_unless_the_file_says_otherwise() {
        const GIB: u64 = 1 << 30;
        for (table, free_bytes, expected) in [
            ("", 100 * GIB, Some(25 * GIB)),
            ("processes = 3", 100 * GIB, Some(25 * GIB)),
            ("", 9 * GIB, Some(4 * GIB)),
            ("", 0, Some(4 * GIB)),
            ("disk_bytes = 5", 100 * GIB, Some(5)),
            ("disk_bytes = \"none\"", 100 * GIB, None),
        ] {
            assert_eq!(quota(table, free_bytes), expected, "{table:?}");
            let written = toml::to_string(&read(table).unwrap()).unwrap();
            assert_eq!(read(&written), read(table), "{table:?}");
        }
        // In front of another batch system there is none.
        assert_eq!(JobLimitsFile::default().of(1).disk_bytes, None);
        let here = read("").unwrap().with_quota(Path::new("/")).unwrap();
        assert!(here.of(1).disk_bytes >= Some(4 * GIB), "{here:?}");
    }

    #[test]
    fn a_quota_is_a_number_or_none() {
        for (table, expected) in [
            (
                "disk_bytes = \"all\"",
                "invalid value: string \"all\", expected a number of bytes, or \"none\"",
            ),
            ("disk_bytes = -1", "invalid value: integer `-1`, expected a number of bytes, or \"none\""),
            ("disk_bytes = true", "invalid type: boolean `true`, expected a number of bytes, or \"none\""),
            (
                "disk_bytes = 0",
                "cluster.limits.disk_bytes: expected at least 1, or \"none\" for no limit, found 0",
            ),
            (
                "processes = 0",
                "cluster.limits.processes: expected at least 1, or no such key for no limit, found 0",
            ),
        ] {
            assert_eq!(read(table).unwrap_err(), expected, "{table}");
        }
    }
}
