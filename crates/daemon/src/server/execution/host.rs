//! Where a server keeps what it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pliant_control::coallocation::SubjobId;
use pliant_control::handoff::Handoff;
use pliant_control::job::Hop;
use pliant_control::names::{Handle, Key, Name, User};
use pliant_control::optional::server::RequestKey;
use pliant_site::accounts::{AccountName, AccountNameError, AccountRun};
use pliant_site::processes::Residents;
use pliant_site::{FilesError, JobFolder, JobGate, Submitters};
use pliant_staging::{FileSpec, Store, UploadSet};
use tokio::runtime;

use super::Failure;
use super::folder_names::{FolderKey, SubjobFolder};
use crate::config::ClusterFile;
use crate::server::accounts::Accounts;
use crate::server::stored_data::StoredData;

/// The folders in that folder: of jobs, of subjobs, of requests, and of the start gates of jobs.
const JOBS: &str = "jobs";
const SUBJOBS: &str = "subjobs";
const REQUESTS: &str = "requests";
const GATES: &str = "gates";
/// The folder of an exploration's input files, among those of its requests; what follows the name of a job in that of its input files.
const INPUTS: &str = "inputs";
/// The folder of the folders of resident processes.
const RESIDENT: &str = "resident";
/// What is between the name of a job and what follows it: no name of a server has it.
const BEHIND_JOB: char = '_';

/// A server's host: where it keeps what it runs, and how it runs that.
pub(in crate::server) struct Host {
    /// The server's name.
    pub(in crate::server) server: Name,
    /// The folder of the folders of what it runs: the server's state folder, or one of their own.
    pub(in crate::server) folder: PathBuf,
    /// The cluster that this host stands for.
    pub(in crate::server) cluster: ClusterFile,
    /// Uploads, until their jobs take them.
    pub(in crate::server) store: Store,
    /// As which accounts things run.
    pub(in crate::server) accounts: Arc<Accounts>,
    /// As whom jobs are submitted to an external batch system.
    pub(in crate::server) submitters: Submitters,
    /// The command that starts a supervisor.
    pub(in crate::server) supervisor: Vec<OsString>,
    /// The resident processes of services.
    pub(in crate::server) residents: Residents,
    /// What calls have left for later calls.
    pub(in crate::server) data: StoredData,
    /// What runs the tasks of this daemon.
    pub(in crate::server) runtime: runtime::Handle,
}

impl Host {
    /// The path of this program, for what it runs itself.
    pub(in crate::server) fn pliant(&self) -> String {
        self.supervisor.first().map(|program| program.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// How an execution whose records are in that folder runs as an account, if it does.
    ///
    /// # Errors
    ///
    /// What was journaled of the account makes no sense.
    pub(in crate::server) fn account_run(
        &self,
        account: Option<&str>,
        records: &Path,
    ) -> Result<Option<AccountRun>, Failure> {
        let Some(account) = account else { return Ok(None) };
        let account =
            account.parse().map_err(|error: AccountNameError| Failure::lasting(error.to_string()))?;
        // The folders of jobs, subjobs and requests are in one; those of requests are in that of their exploration.
        let within = records.strip_prefix(&self.folder).unwrap_or(records);
        let folder = self.account_folder(within);
        let is_request = within.starts_with(REQUESTS);
        // An external batch system starts the supervisors of jobs and subjobs; requests run on this host.
        let has_records = !is_request && self.cluster.external().is_some();
        let processes_max = self.processes_max();
        Ok(Some(AccountRun { processes_max, has_records, ..self.accounts.run(account, &folder) }))
    }

    /// The name of an account's folder for what has its own folder there, relative to the folder of this host. Several servers of a host may
    /// have these in the same folder. No two have one name: no name of a server or of a kind has a `_`, and no key has a `-`.
    fn account_folder(&self, within: &Path) -> String {
        let mut words = within.iter().map(|word| word.to_string_lossy());
        let kind = words.next().unwrap_or_default();
        let rest: Vec<_> = words.collect();
        format!("{}_{}_{}", self.server, kind.trim_end_matches('s'), rest.join("-"))
    }

    /// The folders of an execution whose records are in that folder, which is prepared or not.
    ///
    /// # Errors
    ///
    /// What was journaled of the account makes no sense.
    pub(in crate::server) fn job_folder(
        &self,
        account: Option<&str>,
        records: &Path,
    ) -> Result<JobFolder, Failure> {
        Ok(JobFolder::of(records, self.account_run(account, records)?))
    }

    /// How many processes an account may have: those of jobs on all processors, and as many again for what else it runs.
    fn processes_max(&self) -> Option<u64> {
        let of_job = self.cluster.limits.processes?;
        Some(of_job.saturating_mul(u64::from(self.cluster.procs.max(1)).saturating_mul(2)))
    }

    /// The folder of a run of a job: the job's number, or its handle if another server accepted it, and behind it the number of earlier
    /// runs, if there were some. So a run that was lost leaves nothing to the next one, and no two are taken for each other.
    pub(in crate::server) fn dir(&self, job: &Handle, requeues: u32) -> PathBuf {
        match requeues {
            0 => self.folder_of_job(job, ""),
            _ => self.folder_of_job(job, &format!("{BEHIND_JOB}{requeues}")),
        }
    }

    /// The folder that keeps the input files of a job that may run again, as they were submitted.
    pub(in crate::server) fn kept_inputs(&self, job: &Handle) -> PathBuf {
        self.folder_of_job(job, &format!("{BEHIND_JOB}{INPUTS}"))
    }

    fn folder_of_job(&self, job: &Handle, behind: &str) -> PathBuf {
        let name = if job.server == self.server { job.number.to_string() } else { job.to_string() };
        self.folder.join(JOBS).join(name + behind)
    }

    /// The folders of jobs, each with its job.
    pub(in crate::server) fn jobs(&self) -> BTreeSet<(Handle, PathBuf)> {
        let folder = self.folder.join(JOBS);
        named(&folder, |name| {
            let (job, behind) = name.split_once(BEHIND_JOB).unwrap_or((name, INPUTS));
            let is_known = behind == INPUTS || behind.parse::<u32>().is_ok();
            let own = || Some(Handle { server: self.server.clone(), number: job.parse().ok()? });
            let job = own().or_else(|| job.parse().ok()).filter(|_| is_known)?;
            Some((job, folder.join(name)))
        })
    }

    /// Where an input of a run of a job is, once it has its files.
    pub(in crate::server) fn input(&self, handoff: &Handoff, file: &FileSpec) -> PathBuf {
        let Handoff { id, work, requeues, .. } = handoff;
        let folder = match work.requeue {
            0 => self.dir(&id.job, *requeues),
            _ => self.kept_inputs(&id.job),
        };
        folder.join(pliant_staging::WORK).join(file.name.as_str())
    }

    /// The uploads from which a job at this server gets its files.
    pub(in crate::server) fn sent_files(&self, owner: &User, key: Key, hops: &[Hop]) -> UploadSet {
        UploadSet::of_job(owner.clone(), key, hops, &self.server)
    }

    /// Where the supervisor of a job with that number waits until it may start: as that account, if there is one.
    ///
    /// # Errors
    ///
    /// What is noted of the gate cannot be read.
    pub(in crate::server) fn gate(
        &self,
        number: u32,
        account: Option<&AccountName>,
    ) -> Result<JobGate, FilesError> {
        let within = Path::new(GATES).join(number.to_string());
        let run = account.map(|name| {
            let run = self.accounts.run(name.clone(), &self.account_folder(&within));
            AccountRun { has_records: true, ..run }
        });
        JobGate::at(&self.folder.join(within), run)
    }

    /// The numbers that have such a gate.
    pub(in crate::server) fn gates(&self) -> BTreeSet<u32> {
        named(&self.folder.join(GATES), |name| name.parse().ok())
    }

    /// The folder of the resident process of a service.
    pub(in crate::server) fn resident_dir(&self, service: &str) -> PathBuf {
        self.folder.join(RESIDENT).join(service)
    }

    /// The folder of a subjob.
    pub(in crate::server) fn subjob_dir(&self, id: &SubjobId) -> PathBuf {
        self.folder.join(SUBJOBS).join(SubjobFolder::of(id).to_string())
    }

    /// The folders of subjobs.
    pub(in crate::server) fn subjobs(&self) -> BTreeMap<SubjobFolder, PathBuf> {
        let folder = self.folder.join(SUBJOBS);
        let found = named(&folder, |name| name.parse().ok());
        found
            .into_iter()
            .map(|subjob: SubjobFolder| (subjob.clone(), folder.join(subjob.to_string())))
            .collect()
    }

    /// The folder of an exploration's requests.
    pub(in crate::server) fn exploration_dir(&self, exploration: Key) -> PathBuf {
        self.explorations_dir().join(FolderKey::of(exploration).to_string())
    }

    /// The folder of all explorations.
    pub(in crate::server) fn explorations_dir(&self) -> PathBuf {
        self.folder.join(REQUESTS)
    }

    /// The folder of a request.
    pub(in crate::server) fn request_dir(&self, key: RequestKey) -> PathBuf {
        self.exploration_dir(key.exploration).join(key.number.to_string())
    }

    /// Where the files are that all requests of an exploration find in their folders.
    pub(in crate::server) fn exploration_inputs(&self, exploration: Key) -> PathBuf {
        self.exploration_dir(exploration).join(INPUTS)
    }
}

#[cfg(test)]
impl Host {
    /// A host of 8 processors with that folder and that command for supervisors, within a runtime of tokio.
    pub(in crate::server) fn for_tests(folder: &Path, supervisor: &[&str]) -> Host {
        Host {
            server: "lyon".parse().unwrap(),
            folder: folder.to_owned(),
            cluster: toml::from_str("procs = 8").unwrap(),
            store: Store::open(&folder.join("staging"), pliant_staging::Limits::default()).unwrap(),
            accounts: Arc::new(Accounts::own()),
            submitters: Submitters::default(),
            supervisor: supervisor.iter().map(OsString::from).collect(),
            residents: Residents::default(),
            data: StoredData::new(folder, crate::config::StoredDataFile::default()),
            runtime: runtime::Handle::current(),
        }
    }
}

/// What the names of the folders below one say.
fn named<T: Ord>(folder: &Path, read: impl Fn(&str) -> Option<T>) -> BTreeSet<T> {
    // There is no such folder before the first of them.
    let Ok(entries) = std::fs::read_dir(folder) else { return BTreeSet::new() };
    entries.flatten().filter_map(|entry| read(entry.file_name().to_str()?)).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use pliant_control::coallocation::LaunchId;
    use proptest::prelude::*;
    use proptest::test_runner::TestRunner;

    use super::*;

    /// Something that has a folder.
    #[derive(Clone, PartialEq, Debug)]
    enum Kind {
        Job(Handle, u32),
        Inputs(Handle),
        Subjob(SubjobId),
        Request(RequestKey),
        Gate(u32),
    }

    fn names() -> impl Strategy<Value = Name> {
        // Also those that look like a part of another name.
        let words =
            prop::collection::vec(prop_oneof!["job", "gate", "subjob", "request", "[a-b]", "[0-9]"], 1..4);
        prop_oneof![words.prop_map(|words| words.join("-")), "[0-9a-f]{32}"]
            .prop_map(|name| name.parse().unwrap())
    }

    fn kinds() -> impl Strategy<Value = Kind> {
        let number = || prop_oneof![0..12u32, any::<u32>()];
        let key = || prop_oneof![Just(Key([1; 16])), any::<[u8; 16]>().prop_map(Key)];
        prop_oneof![
            (names(), number(), number())
                .prop_map(|(server, number, requeues)| Kind::Job(Handle { server, number }, requeues)),
            (names(), number()).prop_map(|(server, number)| Kind::Inputs(Handle { server, number })),
            (names(), key(), number()).prop_map(|(agent, key, number)| Kind::Subjob(SubjobId {
                launch: LaunchId { agent, key },
                number
            })),
            (key(), number())
                .prop_map(|(exploration, number)| Kind::Request(RequestKey { exploration, number })),
            number().prop_map(Kind::Gate),
        ]
    }

    /// The name of the account's folder for it, at a server of that name.
    fn name_of(host: &mut Host, server: &Name, kind: &Kind) -> String {
        host.server = server.clone();
        let dir = match kind {
            Kind::Job(job, requeues) => host.dir(job, *requeues),
            Kind::Inputs(job) => host.kept_inputs(job),
            Kind::Subjob(id) => host.subjob_dir(id),
            Kind::Request(key) => host.request_dir(*key),
            Kind::Gate(number) => {
                let account = "alice".parse().unwrap();
                let folder = host.gate(*number, Some(&account)).unwrap().folder().to_owned();
                return folder.file_name().unwrap().to_string_lossy().into_owned();
            }
        };
        let folder = host.account_run(Some("alice"), &dir).unwrap().unwrap().folder;
        folder.file_name().unwrap().to_string_lossy().into_owned()
    }

    /// Servers of a host may have the folders of an account in one folder.
    #[tokio::test]
    async fn no_two_folders_of_an_account_have_one_name() {
        let root = tempfile::tempdir().unwrap();
        let host = RefCell::new(Host::for_tests(root.path(), &["pliant"]));
        let pairs = ((names(), names()), (kinds(), kinds()), 0..3u8);
        let checked = TestRunner::default().run(&pairs, |((one, other), (first, second), by)| {
            // Most of the time they differ in one part only, or the job was accepted by one of the two servers.
            let other = if by == 0 { one.clone() } else { other };
            let second = match (&first, by) {
                (_, 1) => first.clone(),
                (Kind::Job(Handle { number, .. }, requeues), 2) => {
                    Kind::Job(Handle { server: other.clone(), number: *number }, *requeues)
                }
                _ => second,
            };
            let mut host = host.borrow_mut();
            let names = [name_of(&mut host, &one, &first), name_of(&mut host, &other, &second)];
            prop_assert_eq!((one, first) == (other, second), names[0] == names[1], "{:?}", names);
            Ok(())
        });
        checked.unwrap();
    }

    /// Every user of a host reads these names in the arguments of supervisors.
    #[tokio::test]
    async fn no_folder_is_named_by_the_key_of_an_exploration_or_a_launch() {
        let root = tempfile::tempdir().unwrap();
        let host = Host::for_tests(root.path(), &["pliant"]);
        let key = Key(*b"0123456789abcdef");
        let launch = LaunchId { agent: "paris".parse().unwrap(), key };
        let dirs = [
            host.request_dir(RequestKey { exploration: key, number: 3 }),
            host.exploration_inputs(key),
            host.subjob_dir(&SubjobId { launch, number: 3 }),
        ];
        for dir in dirs {
            let account = host.account_run(Some("alice"), &dir).unwrap().unwrap().folder;
            for path in [dir, account] {
                assert!(!path.to_string_lossy().contains(&key.to_string()), "{}", path.display());
            }
        }
    }
}
