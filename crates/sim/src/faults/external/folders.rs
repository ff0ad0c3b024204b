//! The folders of jobs on the shared file system of an external cluster, and the supervisors that claim them. Both outlive
//! the server and the batch system.

use std::collections::BTreeMap;
use std::fmt;

use pliant_control::job::Exit;
use pliant_control::names::Handle;
use pliant_model::Time;

use super::super::daemon::ORIGIN;

/// The folder of a run of a job.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in super::super) struct RunFolder {
    pub(super) job: Handle,
    /// The number of the runs before it.
    pub(super) requeues: u32,
}

impl fmt::Display for RunFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.requeues {
            0 => self.job.fmt(f),
            requeues => write!(f, "{} after {requeues} runs", self.job),
        }
    }
}

/// How long a supervisor takes to see an end request and to end its job, in milliseconds.
const GRACE: u64 = 1_500;

#[derive(Default)]
struct Folder {
    /// The end of its job was requested.
    is_end_requested: bool,
    /// Its supervisor has claimed it.
    claim: Option<Claim>,
}

/// The claim of a supervisor and what it records. Times in milliseconds.
struct Claim {
    started_at: u64,
    ends: u64,
    exit: Exit,
    /// Its job in the queue.
    id: u64,
    state: ClaimState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ClaimState {
    Runs,
    Recorded,
    /// Killed before it could record anything.
    Killed,
}

/// The state of a job, as its folder records it.
pub(super) enum FolderState {
    Ended { exit: Exit, started: Option<Time>, elapsed_ms: Option<u64> },
    Lost,
    Runs,
    Unclaimed,
}

/// The result of a supervisor's attempt to claim a folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ClaimResult {
    /// There is no folder, so nothing is run.
    NoFolder,
    /// Another supervisor has claimed it.
    AlreadyClaimed,
    /// The end was requested before the job started.
    EndRequested,
    /// The supervisor has claimed it.
    Claimed,
}

/// All folders of a cluster.
#[derive(Default)]
pub(super) struct Folders(BTreeMap<RunFolder, Folder>);

impl Folders {
    /// Creates the folder of a job, ready to be run.
    pub(super) fn prepare(&mut self, job: &RunFolder) {
        self.0.entry(job.clone()).or_default();
    }

    /// True if a job has a folder.
    pub(super) fn has(&self, job: &RunFolder) -> bool {
        self.0.contains_key(job)
    }

    /// Removes the folder of a job; false if a supervisor has claimed it.
    pub(super) fn remove_unclaimed(&mut self, job: &RunFolder) -> bool {
        if self.0.get(job).is_some_and(|folder| folder.claim.is_some()) {
            return false;
        }
        self.0.remove(job);
        true
    }

    /// Requests the end of a job from its present or next supervisor.
    pub(super) fn request_end(&mut self, job: &RunFolder, now: u64) {
        let Some(folder) = self.0.get_mut(job) else { return };
        if !std::mem::replace(&mut folder.is_end_requested, true)
            && let Some(claim) = &mut folder.claim
            && claim.state == ClaimState::Runs
            && claim.ends > now + GRACE
        {
            (claim.ends, claim.exit) = (now + GRACE, Exit::Cancelled);
        }
    }

    pub(super) fn runs(&self, job: &RunFolder) -> bool {
        matches!(self.state(job), FolderState::Runs)
    }

    /// The running jobs, with their ids in the queue and their ends.
    pub(super) fn running(&self) -> impl Iterator<Item = (&RunFolder, u64, u64)> {
        self.0.iter().filter_map(|(job, folder)| {
            let claim = folder.claim.as_ref().filter(|claim| claim.state == ClaimState::Runs)?;
            Some((job, claim.id, claim.ends))
        })
    }

    pub(super) fn state(&self, job: &RunFolder) -> FolderState {
        let Some(Folder { claim: Some(claim), .. }) = self.0.get(job) else { return FolderState::Unclaimed };
        match claim.state {
            ClaimState::Runs => FolderState::Runs,
            ClaimState::Killed => FolderState::Lost,
            ClaimState::Recorded => FolderState::Ended {
                exit: claim.exit.clone(),
                started: Some(Time(ORIGIN.0 + (claim.started_at / 1000) as i64)),
                elapsed_ms: Some(claim.ends - claim.started_at),
            },
        }
    }

    /// Claims a folder for a supervisor; `claims` is false for one that ignores earlier claims.
    pub(super) fn claim(
        &mut self,
        job: &RunFolder,
        id: u64,
        now: u64,
        plan: (u64, Exit),
        claims: bool,
    ) -> ClaimResult {
        let Some(folder) = self.0.get_mut(job) else { return ClaimResult::NoFolder };
        if claims && folder.claim.is_some() {
            return ClaimResult::AlreadyClaimed;
        }
        let (length, exit) = plan;
        let (ends, exit, state) = match folder.is_end_requested {
            true => (now, Exit::Cancelled, ClaimState::Recorded),
            false => (now + length, exit, ClaimState::Runs),
        };
        folder.claim = Some(Claim { started_at: now, ends, exit, id, state });
        if folder.is_end_requested { ClaimResult::EndRequested } else { ClaimResult::Claimed }
    }

    /// Ends a supervisor's job whose time has come. Returns its id in the queue and its exit.
    pub(super) fn end(&mut self, job: &RunFolder, now: u64) -> Option<(u64, Exit)> {
        let claim = self.0.get_mut(job)?.claim.as_mut()?;
        if claim.state != ClaimState::Runs || claim.ends > now {
            return None;
        }
        claim.state = ClaimState::Recorded;
        Some((claim.id, claim.exit.clone()))
    }

    /// Ends a job by a signal of the batch system, at once and before its supervisor knows why.
    pub(super) fn signal(&mut self, job: &RunFolder, id: u64, now: u64) {
        let Some(Folder { is_end_requested, claim: Some(claim) }) = self.0.get_mut(job) else { return };
        if claim.state == ClaimState::Runs && claim.id == id {
            claim.ends = now;
            claim.exit = if *is_end_requested { Exit::Cancelled } else { Exit::Signal(15) };
        }
    }

    /// Kills all processes of a job, its supervisor included.
    pub(super) fn kill(&mut self, job: &RunFolder) {
        if let Some(claim) = self.0.get_mut(job).and_then(|folder| folder.claim.as_mut())
            && claim.state == ClaimState::Runs
        {
            claim.state = ClaimState::Killed;
        }
    }
}
