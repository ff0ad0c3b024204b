//! A cluster of a test's own, and jobs for it.

use std::ffi::OsString;
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pliant_control::listing::{CoreLayout, ListedJob, Phase};
use pliant_model::{Span, Time};
use pliant_site::Submission;
use pliant_site::slurm::{Settings, Slurm};
use pliant_testing::slurm::{SlurmCluster, SlurmClusters, Wanted};
use tempfile::TempDir;

/// How long something may take on a machine that is busy with something else.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A cluster with an adapter before it.
pub(crate) struct Cluster {
    pub(crate) slurm: Slurm,
    pub(crate) all: SlurmClusters,
    jobs: TempDir,
}

/// Where a job of a cluster with that many cores is to run.
pub(crate) fn cores(cores: u32) -> CoreLayout {
    CoreLayout { cores, nodes: None, exclusive: false }
}

impl Cluster {
    /// Two nodes with four cores each; none if there can be none.
    pub(crate) async fn start() -> Option<Cluster> {
        Cluster::wanted(false).await
    }

    pub(crate) async fn wanted(accounts: bool) -> Option<Cluster> {
        Cluster::of(Wanted { clusters: 1, nodes: 2, cpus: 4, accounts, ..Wanted::default() }).await
    }

    /// One that hands out memory, GPUs and licences.
    pub(crate) async fn with_resources() -> Option<Cluster> {
        Cluster::of(Wanted { clusters: 1, nodes: 2, cpus: 4, resources: true, ..Wanted::default() }).await
    }

    async fn of(wanted: Wanted) -> Option<Cluster> {
        let all = SlurmClusters::start(wanted)?;
        let slurm = Slurm::connect(settings(&all.clusters()[0]), &"rennes".parse().unwrap()).await.unwrap();
        let jobs = TempDir::new().unwrap();
        Some(Cluster { slurm, all, jobs })
    }

    /// The cluster, as its local users see it.
    pub(crate) fn local(&self) -> &SlurmCluster {
        &self.all.clusters()[0]
    }

    /// A job's folder.
    pub(crate) fn folder(&self, number: u32) -> PathBuf {
        let folder = self.jobs.path().join(number.to_string());
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// Submits a job that runs a line of shell.
    pub(crate) async fn submit(&self, number: u32, line: &str, shape: CoreLayout, held: bool) -> String {
        let folder = self.folder(number);
        let program = shell(line);
        self.slurm.submit(&submission(number, &folder, &program, shape, held)).await.unwrap()
    }

    pub(crate) async fn list(&self) -> Vec<ListedJob> {
        let seen = self.slurm.list(now()).await.unwrap();
        assert_eq!(seen.unread, [""; 0]);
        seen.listing.jobs
    }

    pub(crate) async fn job(&self, id: &str) -> Option<ListedJob> {
        self.list().await.into_iter().find(|job| job.id == id)
    }

    /// The job, once it is as it should be.
    pub(crate) async fn wait(&self, id: &str, is_so: impl Fn(&ListedJob) -> bool) -> ListedJob {
        until(&format!("job {id}"), async || self.job(id).await.filter(|job| is_so(job))).await
    }

    pub(crate) async fn wait_for(&self, id: &str, phase: Phase) -> ListedJob {
        self.wait(id, |job| job.phase() == phase).await
    }
}

pub(crate) fn settings(cluster: &SlurmCluster) -> Settings {
    Settings { conf: Some(cluster.conf.clone()), nodes_every_s: 0, ..Settings::default() }
}

pub(crate) fn shell(line: &str) -> Vec<OsString> {
    ["/bin/sh", "-c", line].map(OsString::from).to_vec()
}

pub(crate) fn submission<'a>(
    number: u32,
    folder: &'a Path,
    program: &'a [OsString],
    shape: CoreLayout,
    held: bool,
) -> Submission<'a> {
    Submission { held, ..Submission::new(number, folder, program, shape, Span(600)) }
}

pub(crate) fn now() -> Time {
    Time(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64)
}

/// Asks again until there is an answer.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(begun.elapsed() < TIMEOUT, "{what}: not within {TIMEOUT:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
