//! What to run, as it is kept with a job from its acceptance on.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use pliant_control::batch::Run;
use pliant_control::coallocation::{LaunchId, PartId};
use pliant_control::job::JobRecord;
use pliant_control::names::{Handle, Key, Name};
use pliant_model::Span;
use pliant_site::processes::{RunSpec, SpecError, pack_text};
use pliant_site::services::{Packed, Prepared};
use pliant_staging::{FileSpec, StagingError, Store, put_pack, put_script};
use pliant_wire::SubmittedWork;
use serde::{Deserialize, Serialize};

use crate::config::ClusterFile;

/// The folder of the rooms of copies, beside that of the jobs.
const ROOMS: &str = "copies";
/// The folder of the parts of launches, beside that of the jobs.
const PARTS: &str = "parts";
/// How much of standard output and of standard error is kept of a job whose service does not say.
pub(super) const OUTPUT_BYTES_MAX: u64 = 256 << 20;

/// What to run: the note that a server keeps with a job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Launch {
    /// The command and its variables.
    pub(crate) prepared: Prepared,
    /// What was submitted, for another server to run it; none if it goes to no other one: a pack.
    pub(crate) what: Option<SubmittedWork>,
    /// The instances that it runs, if it is a pack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pack: Option<Packed>,
    /// Files that were uploaded under the key of the submission, or of what it shares them with.
    pub(crate) inputs: Vec<FileSpec>,
    /// The key of the uploads that it shares with other packs of its multi-job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shared: Option<Key>,
    /// Ties the log lines of one submission together.
    pub(crate) request: String,
}

/// Why a job's folder could not be made ready.
#[derive(Debug)]
pub(crate) enum PrepareError {
    /// Its files cannot be put in place.
    Staging(StagingError),
    /// It cannot be described to its supervisor.
    Spec(SpecError),
    /// What was noted of it when it was accepted makes no sense.
    Note(serde_json::Error),
}

impl fmt::Display for PrepareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Staging(error) => write!(f, "its files cannot be put in place: {error}"),
            Self::Spec(error) => write!(f, "{error}"),
            Self::Note(error) => write!(f, "what was noted of it cannot be read: {error}"),
        }
    }
}

impl PrepareError {
    /// The same for the owner of the job: without the places of files on this host.
    pub(crate) fn told(&self) -> String {
        match self {
            Self::Staging(error) => format!("its files cannot be put in place: {}", error.told()),
            Self::Spec(error) => error.told(),
            Self::Note(_) => self.to_string(),
        }
    }

    /// True if the same may work later.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Staging(error) => error.may_pass(),
            Self::Spec(error) => error.may_pass(),
            Self::Note(_) => false,
        }
    }
}

impl std::error::Error for PrepareError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Staging(error) => Some(error),
            Self::Spec(error) => Some(error),
            Self::Note(error) => Some(error),
        }
    }
}

/// The folders of jobs, and how jobs are run on this host.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    /// The server's name.
    pub(crate) server: Name,
    /// The folder of the jobs' folders.
    pub(crate) folder: PathBuf,
    /// The cluster that this host stands for.
    pub(crate) cluster: ClusterFile,
    /// The path of this program, for what it runs itself.
    pub(crate) pliant: String,
}

impl Host {
    /// The folder of a job: its number, or its handle if another server accepted it.
    pub(crate) fn dir(&self, job: &Handle) -> PathBuf {
        if job.server == self.server {
            self.folder.join(job.number.to_string())
        } else {
            self.folder.join(job.to_string())
        }
    }

    /// Where an input of a job is, once it has its files.
    pub(crate) fn input(&self, job: &Handle, file: &FileSpec) -> PathBuf {
        self.dir(job).join("work").join(file.name.as_str())
    }

    /// Where the supervisor of a copy with that number waits until it may go on.
    pub(crate) fn room(&self, number: u32) -> PathBuf {
        self.folder.with_file_name(ROOMS).join(number.to_string())
    }

    /// The numbers that have such a room.
    pub(crate) fn rooms(&self) -> BTreeSet<u32> {
        named(&self.folder.with_file_name(ROOMS), |name| name.parse().ok())
    }

    /// The folder of a part of a launch.
    pub(crate) fn part_dir(&self, id: &PartId) -> PathBuf {
        let PartId { launch: LaunchId { agent, key }, number } = id;
        self.folder.with_file_name(PARTS).join(format!("{agent}.{key}.{number}"))
    }

    /// The parts that have a folder.
    pub(crate) fn parts(&self) -> BTreeSet<PartId> {
        let part = |name: &str| {
            // A name has no points.
            let [agent, key, number] = name.split('.').collect::<Vec<_>>().try_into().ok()?;
            let launch = LaunchId { agent: agent.parse().ok()?, key: key.parse().ok()? };
            Some(PartId { launch, number: number.parse().ok()? })
        };
        named(&self.folder.with_file_name(PARTS), part)
    }

    /// The jobs that have a folder.
    pub(crate) fn jobs(&self) -> Vec<Handle> {
        // There is none before the first job.
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return Vec::new() };
        let job = |entry: std::fs::DirEntry| {
            let name = entry.file_name();
            let name = name.to_str()?;
            let own = || Some(Handle { server: self.server.clone(), number: name.parse().ok()? });
            own().or_else(|| name.parse().ok())
        };
        entries.flatten().filter_map(job).collect()
    }

    /// Makes a job's folder ready to be run. Doing it again does no harm.
    pub(crate) fn prepare(
        &self,
        store: &Store,
        record: &JobRecord,
        launch: &Launch,
        run: &Run,
    ) -> Result<PathBuf, PrepareError> {
        let dir = self.dir(&record.handle);
        self.spec(record, launch, run).write(&dir).map_err(PrepareError::Spec)?;
        let own = if launch.shared.is_none() { launch.inputs.as_slice() } else { &[] };
        store.adopt(&record.owner, record.key, own, &dir).map_err(PrepareError::Staging)?;
        if let Some(key) = launch.shared {
            store.share(&record.owner, key, &launch.inputs, &dir).map_err(PrepareError::Staging)?;
        }
        if let Some(SubmittedWork::Script(script)) = &launch.what {
            put_script(&dir, script.text.as_bytes()).map_err(PrepareError::Staging)?;
        }
        if let Some(pack) = &launch.pack {
            let grace_s = u64::from(self.cluster.grace_s);
            let inputs = launch.inputs.iter().map(|file| file.name.clone()).collect();
            let spec = pack.spec(&launch.prepared.work, run.procs, run.walltime, grace_s, inputs);
            put_pack(&dir, &pack_text(&spec)).map_err(PrepareError::Staging)?;
        }
        Ok(dir)
    }

    /// Writes down how a job is run in each of several sizes, of which one is chosen when it starts.
    pub(crate) fn prepare_sizes(
        &self,
        record: &JobRecord,
        launch: &Launch,
        sizes: &[Run],
    ) -> Result<(), PrepareError> {
        let dir = self.dir(&record.handle);
        sizes.iter().try_for_each(|run| {
            self.spec(record, launch, run).write_sized(&dir, run.procs.0).map_err(PrepareError::Spec)
        })
    }

    fn spec(&self, record: &JobRecord, launch: &Launch, run: &Run) -> RunSpec {
        let Launch { prepared, request, .. } = launch;
        let mut env = prepared.variables(run.procs, run.walltime);
        let own = [
            ("PLIANT_JOB", record.handle.to_string()),
            ("PLIANT_OWNER", record.owner.to_string()),
            ("PLIANT_REQUEST", request.clone()),
            // What the work was sized for is PLIANT_PROCS; a folded job has fewer processors than that.
            ("PLIANT_CORES", run.cores.len().to_string()),
        ];
        env.extend(own.map(|(name, value)| (name.to_owned(), value)));
        let program = prepared.argv(run.procs, run.walltime);
        let max_output_bytes = prepared.bounds.max_output_bytes.unwrap_or(OUTPUT_BYTES_MAX);
        RunSpec { program, env, max_output_bytes, ..self.run_spec(&run.cores, run.walltime) }
    }

    /// How anything is run on these cores of the cluster for so long; what is not said.
    pub(super) fn run_spec(&self, cores: &[u32], walltime: Span) -> RunSpec {
        let cluster = &self.cluster;
        let pinned = || cores.iter().map(|core| core + cluster.first_core).collect();
        RunSpec {
            program: Vec::new(),
            env: BTreeMap::new(),
            walltime_s: walltime.0.max(1) as u64,
            grace_s: u64::from(cluster.grace_s),
            cores: cluster.pin.then(pinned),
            cpu_share: cluster.cpu_share.map(|share| share * cores.len() as f64),
            max_output_bytes: OUTPUT_BYTES_MAX,
        }
    }
}

/// What the names of the folders below one say.
fn named<T: Ord>(folder: &Path, read: impl Fn(&str) -> Option<T>) -> BTreeSet<T> {
    // There is no such folder before the first of them.
    let Ok(entries) = std::fs::read_dir(folder) else { return BTreeSet::new() };
    entries.flatten().filter_map(|entry| read(entry.file_name().to_str()?)).collect()
}
