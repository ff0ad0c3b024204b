//! A cluster of a test's own, and jobs for it.
//!
//! OAR takes no jobs of root's, as which these tests run: the adapter is given commands that become the user first.

use std::ffi::OsString;
use std::fs;
use std::future::Future;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pliant_control::listing::{CoreLayout, ListedJob, Phase};
use pliant_model::{Procs, Span, Time};
use pliant_policy::alternatives::Alternative;
use pliant_site::Submission;
use pliant_site::oar::{NodeProperties, Oar, Settings};
use pliant_testing::oar::OarCluster;
use tempfile::TempDir;

/// How long something may take on a machine that is busy with something else.
const TIMEOUT: Duration = Duration::from_secs(120);
/// What the adapter calls.
const COMMANDS: [&str; 6] = ["oarsub", "oarstat", "oardel", "oarhold", "oarresume", "oarnodes"];

/// A cluster with an adapter before it.
pub(crate) struct Cluster {
    pub(crate) oar: Oar,
    pub(crate) local: OarCluster,
    jobs: TempDir,
}

/// One size, for ten minutes.
pub(crate) fn cores(procs: u32) -> [Alternative; 1] {
    [size(procs, 600)]
}

pub(crate) fn size(procs: u32, walltime_s: i64) -> Alternative {
    Alternative { procs: Procs(procs), walltime: Span(walltime_s) }
}

impl Cluster {
    /// Two nodes with two cores each; none if there can be none. Commands may take that long.
    pub(crate) async fn start(deadline_s: u32) -> Option<Cluster> {
        let local = OarCluster::start(2, 2)?;
        let jobs = TempDir::new().unwrap();
        fs::set_permissions(jobs.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let commands = jobs.path().join("bin");
        fs::create_dir(&commands).unwrap();
        for name in COMMANDS {
            let pliant_testing::oar::User { uid, gid, .. } = local.user;
            let real = local.commands.join(name);
            let become_user = format!("setpriv --reuid={uid} --regid={gid} --clear-groups");
            let script = format!("#!/bin/sh\nexec {become_user} '{}' \"$@\"\n", real.display());
            let path = commands.join(name);
            fs::write(&path, script).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let named = |name: &str| Some(name.to_owned());
        let node = NodeProperties {
            memory: named("memnode"),
            gpus: named("gpu_count"),
            gpu_kind: named("gpu_model"),
            scratch: named("scratch_mb"),
            features: vec!["network_address".to_owned()],
        };
        let settings = Settings {
            node,
            licences: vec!["matlab".to_owned()],
            commands: Some(commands),
            user: Some(local.user.name.clone()),
            deadline_s,
            ..Settings::default()
        };
        let oar = Oar::connect(settings, &"nancy".parse().unwrap()).await.unwrap();
        Some(Cluster { oar, local, jobs })
    }

    /// A job's folder.
    pub(crate) fn folder(&self, number: u32) -> PathBuf {
        let folder = self.jobs.path().join(number.to_string());
        fs::create_dir_all(&folder).unwrap();
        chown(&folder, Some(self.local.user.uid), Some(self.local.user.gid)).unwrap();
        folder
    }

    /// Submits a job that runs a line of shell.
    pub(crate) async fn submit(&self, number: u32, line: &str, sizes: &[Alternative], held: bool) -> String {
        let folder = self.folder(number);
        let program = shell(line);
        let job = Submission { held, ..submission(number, &folder, &program, sizes) };
        self.oar.submit(&job).await.unwrap()
    }

    pub(crate) async fn list(&self) -> Vec<ListedJob> {
        let seen = self.oar.list(now()).await.unwrap();
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

/// A program that runs a line of shell.
pub(crate) fn shell(line: &str) -> Vec<OsString> {
    ["/bin/sh", "-c", line].map(OsString::from).into()
}

pub(crate) fn now() -> Time {
    Time(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64)
}

/// Looks until there is something to see.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(what: &str, look: impl Fn() -> F) -> T {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// A job that OAR may run in any of these sizes.
pub(crate) fn submission<'a>(
    number: u32,
    folder: &'a Path,
    program: &'a [OsString],
    alternatives: &'a [Alternative],
) -> Submission<'a> {
    let shape = CoreLayout { cores: alternatives[0].procs.0, ..CoreLayout::default() };
    Submission { alternatives, ..Submission::new(number, folder, program, shape, alternatives[0].walltime) }
}
