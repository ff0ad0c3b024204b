//! What to run, as the server writes it and the supervisor reads it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustix::thread::CpuSet;
use serde::{Deserialize, Serialize};

use super::folder::{Folder, FolderError};
use super::limits::JobLimits;
use super::streams::Streams;
use crate::accounts::AccountRun;

/// One job, ready to be run on this host.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunSpec {
    /// Program and arguments. The program is a path, or a name that is looked for in `PATH`; no shell is involved. A
    /// relative path is relative to the job's work folder.
    pub program: Vec<String>,
    /// The account as which it runs, and where its files are then; as the supervisor's own user, in the folder of its records, if
    /// there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<AccountRun>,
    /// The environment, on top of a fixed base: `PATH`, `HOME` (the work folder, or the home folder of the account) and `LANG`.
    /// Nothing is inherited from the server. [`FOLDER_VARIABLE`](super::FOLDER_VARIABLE) is always added.
    pub env: BTreeMap<String, String>,
    /// Seconds after which the job is ended.
    pub walltime_s: u64,
    /// Seconds between TERM and KILL.
    pub grace_s: u64,
    /// The cores of this host the job is pinned to, by number from 0; `None` for all.
    pub cores: Option<Vec<u32>>,
    /// Cores' worth of CPU time that the job may use on average, to stand for a slower or smaller machine; `None`
    /// for no limit.
    pub cpu_share: Option<f64>,
    /// Bytes that are kept of standard output and of standard error, each. What comes beyond is dropped and a notice
    /// ends the file; the job goes on.
    pub max_output_bytes: u64,
    /// The folder in which it runs, if that is one of its user's own and not the job's work folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// Its standard input, and where its standard error goes.
    #[serde(default, skip_serializing_if = "Streams::are_default")]
    pub streams: Streams,
    /// What the job may use.
    #[serde(default)]
    pub limits: JobLimits,
    /// The supervisor's own user is the account of the job's user, as whom a batch system has started it: the job keeps the home
    /// folder of that user.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_user: bool,
}

impl RunSpec {
    /// Whether this can be run at all.
    ///
    /// # Errors
    /// Names the field that is wrong.
    pub fn check(&self) -> Result<(), SpecFault> {
        match self.program.first() {
            None => return Err(SpecFault::NoProgram),
            Some(program) if program.is_empty() => return Err(SpecFault::NoProgram),
            Some(_) => {}
        }
        if let Some(index) = self.program.iter().position(|argument| argument.contains('\0')) {
            return Err(SpecFault::Argument { index });
        }
        let wrong = |(name, value): &(&String, &String)| {
            name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
        };
        if let Some((name, _)) = self.env.iter().find(wrong) {
            return Err(SpecFault::Variable { name: name.clone() });
        }
        if let Some(cores) = &self.cores {
            if cores.is_empty() {
                return Err(SpecFault::NoCore);
            }
            if let Some(&core) = cores.iter().find(|&&core| core as usize >= CpuSet::MAX_CPU) {
                return Err(SpecFault::Core { core });
            }
        }
        match self.cpu_share {
            Some(share) if !(MIN_CPU_SHARE..=MAX_CPU_SHARE).contains(&share) => {
                Err(SpecFault::CpuShare { share })
            }
            _ => Ok(()),
        }
    }

    /// Makes the job's folder, with its work folder, and writes `spec.json` into it, durably.
    ///
    /// # Errors
    /// The specification cannot be run, or the folder cannot be written.
    pub fn write(&self, dir: &Path) -> Result<(), SpecError> {
        self.check().map_err(SpecError::Fault)?;
        self.folder(dir).and_then(|folder| folder.write_spec(self)).map_err(SpecError::Folder)
    }

    /// The same for when the job is given that many processors, if several sizes will do.
    ///
    /// # Errors
    /// As for [`RunSpec::write`].
    pub fn write_sized(&self, dir: &Path, procs: u32) -> Result<(), SpecError> {
        self.check().map_err(SpecError::Fault)?;
        self.folder(dir).and_then(|folder| folder.write_sized(self, procs)).map_err(SpecError::Folder)
    }

    /// The job's folder, with a work folder unless that is elsewhere.
    fn folder(&self, dir: &Path) -> Result<Folder, FolderError> {
        match &self.account {
            None => Folder::create(dir),
            Some(_) => Folder::create_for_records(dir),
        }
    }
}

/// Below this a job would be stopped for most of a minute at a time.
const MIN_CPU_SHARE: f64 = 0.001;
/// More cores than any host has.
const MAX_CPU_SHARE: f64 = 1_000_000.0;

/// Why a specification cannot be run.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SpecFault {
    /// `program` is empty.
    #[error("program: expected a program and its arguments, found none")]
    NoProgram,
    /// An argument holds a zero byte.
    #[error("program[{index}]: holds a zero byte")]
    Argument {
        /// Its index in `program`.
        index: usize,
    },
    /// A variable's name is empty or holds `=`, or it or its value holds a zero byte.
    #[error("env: {name:?} cannot be set (empty name, `=` in the name, or a zero byte)")]
    Variable {
        /// Its name.
        name: String,
    },
    /// `cores` is an empty list.
    #[error("cores: expected at least one core, found none")]
    NoCore,
    /// A core's number is beyond what the system can express.
    #[error("cores: expected numbers below {}, found {core}", CpuSet::MAX_CPU)]
    Core {
        /// The number.
        core: u32,
    },
    /// `cpu_share` is no number of cores.
    #[error("cpu_share: expected {MIN_CPU_SHARE} to {MAX_CPU_SHARE} cores, found {share}")]
    CpuShare {
        /// What it is.
        share: f64,
    },
}

/// Why a specification was not written.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// It cannot be run.
    #[error("the job cannot be run: {0}")]
    Fault(#[source] SpecFault),
    /// Its folder cannot be written.
    #[error(transparent)]
    Folder(FolderError),
}

impl SpecError {
    /// The same for the owner of the job: without the path of its folder on this host.
    pub fn public_message(&self) -> String {
        match self {
            SpecError::Fault(_) => self.to_string(),
            SpecError::Folder(error) => error.public_message(),
        }
    }

    /// True if the same may work later.
    pub fn may_pass(&self) -> bool {
        matches!(self, SpecError::Folder(error) if error.may_pass())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> RunSpec {
        RunSpec {
            program: vec!["true".into()],
            account: None,
            env: BTreeMap::from([("A".into(), "b".into())]),
            walltime_s: 1,
            grace_s: 1,
            cores: Some(vec![0]),
            cpu_share: Some(0.5),
            max_output_bytes: 0,
            folder: None,
            streams: Streams::default(),
            limits: JobLimits::default(),
            keeps_user: false,
        }
    }

    #[test]
    fn faults_name_the_field() {
        let check = |change: fn(&mut RunSpec), expected: &str| {
            let mut changed = spec();
            change(&mut changed);
            let found = changed.check().map_or_else(|fault| fault.to_string(), |()| String::new());
            assert!(found.starts_with(expected) && found.is_empty() == expected.is_empty(), "{found}");
        };
        check(|_| {}, "");
        check(|spec| spec.program.clear(), "program: ");
        check(|spec| spec.program[0].clear(), "program: ");
        check(|spec| spec.program.push("a\0b".into()), "program[1]: ");
        check(|spec| _ = spec.env.insert("A=B".into(), String::new()), "env: \"A=B\"");
        check(|spec| _ = spec.env.insert(String::new(), String::new()), "env: \"\"");
        check(|spec| _ = spec.env.insert("C".into(), "\0".into()), "env: \"C\"");
        check(|spec| spec.cores = Some(vec![]), "cores: ");
        check(|spec| spec.cores = Some(vec![0, 4096]), "cores: ");
        check(|spec| spec.cpu_share = Some(0.0), "cpu_share: ");
        check(|spec| spec.cpu_share = Some(-1.0), "cpu_share: ");
        check(|spec| spec.cpu_share = Some(f64::NAN), "cpu_share: ");
        check(|spec| spec.cpu_share = Some(f64::INFINITY), "cpu_share: ");
    }

    #[test]
    fn written_and_read_back() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("a/job");
        spec().write(&dir).unwrap();
        assert_eq!(Folder::at(&dir).unwrap().read_spec(None).unwrap(), spec());
        assert!(dir.join("work").is_dir());
        // Of several sizes that will do, the one that was given.
        let four = RunSpec { walltime_s: 4, ..spec() };
        four.write_sized(&dir, 4).unwrap();
        let read = |given| Folder::at(&dir).unwrap().read_spec(given).unwrap().walltime_s;
        assert_eq!([read(Some(4)), read(Some(3)), read(None)], [4, 1, 1]);
        let wrong = RunSpec { program: vec![], ..spec() };
        assert!(matches!(wrong.write(&dir), Err(SpecError::Fault(SpecFault::NoProgram))));
        assert_eq!(Folder::at(&dir).unwrap().read_spec(None).unwrap(), spec());
    }
}
