//! The folders of jobs on the file system that an external cluster's nodes share, and the supervisors that claim them. They
//! outlive the server and the batch system.

use std::collections::BTreeMap;

use pliant_control::job::Exit;
use pliant_control::names::Handle;
use pliant_model::Time;

use super::super::daemon::ORIGIN;

/// How long a supervisor takes to see that its job is to be ended, and to end it, in milliseconds.
const GRACE: u64 = 1_500;

#[derive(Default)]
struct Folder {
    /// Somebody has asked for the end of its job.
    is_end_asked: bool,
    /// Its supervisor has claimed it.
    claim: Option<Claim>,
}

/// What a supervisor does, and writes down. Times in milliseconds.
struct Claim {
    began: u64,
    ends: u64,
    exit: Exit,
    /// The job of the queue as which it was started.
    id: u64,
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Runs,
    Recorded,
    /// Killed before it could record anything.
    Killed,
}

/// What a folder says.
pub(super) enum Word {
    Ended { exit: Exit, started: Option<Time>, elapsed_ms: Option<u64> },
    Lost,
    Runs,
    Unclaimed,
}

/// What a supervisor finds that is to run a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Finds {
    /// No folder: nothing is to be run.
    Nothing,
    /// Somebody else has claimed it.
    Claimed,
    /// The end was asked for before it began.
    EndAsked,
    /// It has claimed it.
    Own,
}

/// All folders of a cluster.
#[derive(Default)]
pub(super) struct Folders(BTreeMap<Handle, Folder>);

impl Folders {
    /// Makes one ready to be run.
    pub(super) fn prepare(&mut self, job: &Handle) {
        self.0.entry(job.clone()).or_default();
    }

    /// True if a job has one.
    pub(super) fn has(&self, job: &Handle) -> bool {
        self.0.contains_key(job)
    }

    /// Takes one out of the way; false if somebody has begun it.
    pub(super) fn put_away(&mut self, job: &Handle) -> bool {
        if self.0.get(job).is_some_and(|folder| folder.claim.is_some()) {
            return false;
        }
        self.0.remove(job);
        true
    }

    /// Has its supervisor end the job, now or as soon as there is one.
    pub(super) fn ask_end(&mut self, job: &Handle, now: u64) {
        let Some(folder) = self.0.get_mut(job) else { return };
        if !std::mem::replace(&mut folder.is_end_asked, true)
            && let Some(claim) = &mut folder.claim
            && claim.fate == Fate::Runs
            && claim.ends > now + GRACE
        {
            (claim.ends, claim.exit) = (now + GRACE, Exit::Cancelled);
        }
    }

    pub(super) fn runs(&self, job: &Handle) -> bool {
        matches!(self.word(job), Word::Runs)
    }

    /// The jobs that run, as which jobs of the queue, and until when.
    pub(super) fn running(&self) -> impl Iterator<Item = (&Handle, u64, u64)> {
        self.0.iter().filter_map(|(job, folder)| {
            let claim = folder.claim.as_ref().filter(|claim| claim.fate == Fate::Runs)?;
            Some((job, claim.id, claim.ends))
        })
    }

    pub(super) fn word(&self, job: &Handle) -> Word {
        let Some(Folder { claim: Some(claim), .. }) = self.0.get(job) else { return Word::Unclaimed };
        match claim.fate {
            Fate::Runs => Word::Runs,
            Fate::Killed => Word::Lost,
            Fate::Recorded => Word::Ended {
                exit: claim.exit.clone(),
                started: Some(Time(ORIGIN.0 + (claim.began / 1000) as i64)),
                elapsed_ms: Some(claim.ends - claim.began),
            },
        }
    }

    /// What a supervisor finds that is to run a job now; `claims` is false for one that does not look whether it was
    /// claimed.
    pub(super) fn claim(
        &mut self,
        job: &Handle,
        id: u64,
        now: u64,
        plan: (u64, Exit),
        claims: bool,
    ) -> Finds {
        let Some(folder) = self.0.get_mut(job) else { return Finds::Nothing };
        if claims && folder.claim.is_some() {
            return Finds::Claimed;
        }
        let (length, exit) = plan;
        let (ends, exit, fate) = match folder.is_end_asked {
            true => (now, Exit::Cancelled, Fate::Recorded),
            false => (now + length, exit, Fate::Runs),
        };
        folder.claim = Some(Claim { began: now, ends, exit, id, fate });
        if folder.is_end_asked { Finds::EndAsked } else { Finds::Own }
    }

    /// A supervisor's job is over if its time has come: as which job of the queue it ran, and how it ended.
    pub(super) fn end(&mut self, job: &Handle, now: u64) -> Option<(u64, Exit)> {
        let claim = self.0.get_mut(job)?.claim.as_mut()?;
        if claim.fate != Fate::Runs || claim.ends > now {
            return None;
        }
        claim.fate = Fate::Recorded;
        Some((claim.id, claim.exit.clone()))
    }

    /// The batch system signals the job: it is gone at once, before its supervisor knows why.
    pub(super) fn signal(&mut self, job: &Handle, id: u64, now: u64) {
        let Some(Folder { is_end_asked, claim: Some(claim) }) = self.0.get_mut(job) else { return };
        if claim.fate == Fate::Runs && claim.id == id {
            claim.ends = now;
            claim.exit = if *is_end_asked { Exit::Cancelled } else { Exit::Signal(15) };
        }
    }

    /// A node kills all of a job, its supervisor with it.
    pub(super) fn kill(&mut self, job: &Handle) {
        if let Some(claim) = self.0.get_mut(job).and_then(|folder| folder.claim.as_mut())
            && claim.fate == Fate::Runs
        {
            claim.fate = Fate::Killed;
        }
    }
}
