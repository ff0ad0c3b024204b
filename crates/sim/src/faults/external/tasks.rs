//! What a server's commands mean in an external batch system, step by step as the live adapter takes them: each question
//! may be left without an answer, and is asked again then.

use std::collections::VecDeque;

use pliant_control::batch::external::{Event, Queue, WithdrawalOutcome};
use pliant_control::job::Exit;
use pliant_control::listing::{ListedJob, Phase};
use pliant_control::names::Handle;
use pliant_model::JobId;

use super::controller::{Ask, Glance, Said, Wish};
use super::folders::{Folders, Word};
use super::rooms::Rooms;

/// How long a supervisor is left to end its job before the batch system does, in milliseconds.
const NOTICED: u64 = 4_000;
/// Between two looks at a folder.
const LOOK: u64 = 500;
/// How long a node's last writes may take to be seen.
const SETTLED: u64 = 5_000;

/// A command under way.
pub(super) struct Task {
    pub(super) number: u32,
    /// The job's folder; none if nobody knows the job any more.
    pub(super) folder: Option<Handle>,
    /// It is not another server's.
    pub(super) is_ours: bool,
    pub(super) doing: Doing,
    /// Which of its questions is open.
    pub(super) turn: u64,
    pub(super) begun: u64,
}

/// What it is, and how far.
pub(super) enum Doing {
    Queue {
        queue: Queue,
        looks: bool,
    },
    Release {
        ids: VecDeque<String>,
        looks: bool,
    },
    /// Lets a tentative job go on.
    Decide,
    Withdraw {
        ids: VecDeque<String>,
        step: Step,
        stays: bool,
        removes: bool,
        /// It has no folder yet.
        tentative: bool,
    },
    Terminate {
        ids: VecDeque<String>,
        looks: bool,
    },
    Look {
        listed: Option<Box<ListedJob>>,
    },
}

/// The steps of withdrawing one job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Is it there?
    Look,
    /// Keep it from starting.
    Hold,
    /// Does it wait?
    Waits,
    Cancel,
    /// Is it over?
    Over,
}

/// What comes next.
pub(super) enum Next {
    Ask(Ask),
    /// The same again after a while.
    Again,
    /// The same again after so many milliseconds.
    In(u64),
    Tell(Event),
}

impl Task {
    /// Goes on with what was said; none at the beginning and after a pause.
    pub(super) fn go_on(
        &mut self,
        now: u64,
        said: Option<Said>,
        folders: &mut Folders,
        rooms: &mut Rooms,
    ) -> Next {
        match self.doing {
            Doing::Queue { .. } => self.queue(said, folders),
            Doing::Release { .. } => self.release(said, folders),
            Doing::Decide => self.decide(folders, rooms),
            Doing::Withdraw { .. } => self.withdraw(said, folders, rooms),
            Doing::Terminate { .. } => self.terminate(now, said, folders, rooms),
            Doing::Look { .. } => self.look(now, folders),
        }
    }

    fn job(&self) -> JobId {
        JobId(self.number)
    }

    fn queue(&mut self, said: Option<Said>, folders: &mut Folders) -> Next {
        let job = self.job();
        let Doing::Queue { queue, looks } = &mut self.doing else { return Next::Again };
        let Some(folder) = self.folder.clone() else {
            return Next::Tell(Event::Refused { job, why: "nobody knows it any more".to_owned() });
        };
        // What is held or tentative gets its folder when it is released.
        if !queue.held && !queue.tentative {
            folders.prepare(&folder);
        }
        let wish = Wish {
            number: Some(self.number),
            folder: Some(folder),
            cores: queue.procs.0,
            walltime: queue.walltime.0.max(0) as u64 * 1000,
            held: queue.held,
            tentative: queue.tentative,
        };
        match said {
            None if queue.resubmitted => {
                *looks = true;
                Next::Ask(Ask::Find(self.number))
            }
            Some(Said::Ids(ids)) if *looks && ids.is_empty() => {
                *looks = false;
                Next::Ask(Ask::Submit(wish))
            }
            Some(Said::Ids(ids)) => Next::Tell(Event::Queued { job, ids }),
            None => Next::Ask(Ask::Submit(wish)),
            // There may be a job all the same.
            Some(_) => {
                queue.resubmitted = true;
                Next::Again
            }
        }
    }

    fn release(&mut self, said: Option<Said>, folders: &mut Folders) -> Next {
        let job = self.job();
        let Doing::Release { ids, looks } = &mut self.doing else { return Next::Again };
        if let Some(folder) = &self.folder {
            folders.prepare(folder);
        }
        match said {
            None => {}
            Some(Said::Nothing) => return Next::Again,
            Some(Said::Job(Some(_))) if *looks => {
                *looks = false;
                return Next::Ask(Ask::Release(ids[0].clone()));
            }
            // Done, or a listing tells what became of it.
            Some(_) => drop(ids.pop_front()),
        }
        *looks = true;
        match ids.front() {
            Some(id) => Next::Ask(Ask::Look(self.number, id.clone())),
            None => Next::Tell(Event::Released { job }),
        }
    }

    fn decide(&self, folders: &mut Folders, rooms: &mut Rooms) -> Next {
        if let Some(folder) = &self.folder {
            folders.prepare(folder);
        }
        let job = self.job();
        Next::Tell(if rooms.decide(self.number, true) {
            Event::Released { job }
        } else {
            Event::ReleasedTooLate { job }
        })
    }

    fn terminate(&mut self, now: u64, said: Option<Said>, folders: &mut Folders, rooms: &mut Rooms) -> Next {
        let job = self.job();
        let Doing::Terminate { ids, looks } = &mut self.doing else { return Next::Again };
        rooms.decide(self.number, false);
        if let Some(folder) = &self.folder {
            if self.is_ours {
                // Also before it is made ready: what is submitted or released meanwhile finds it so.
                folders.prepare(folder);
            }
            folders.ask_end(folder, now);
            if folders.runs(folder) && now < self.begun + NOTICED {
                return Next::In(LOOK);
            }
        }
        match said {
            None => {}
            Some(Said::Nothing) => return Next::Again,
            Some(Said::Job(Some(_))) if *looks => {
                *looks = false;
                return Next::Ask(Ask::Cancel(ids[0].clone()));
            }
            Some(_) => drop(ids.pop_front()),
        }
        *looks = true;
        match ids.front() {
            Some(id) => Next::Ask(Ask::Look(self.number, id.clone())),
            None => Next::Tell(Event::Terminated { job }),
        }
    }

    fn withdraw(&mut self, said: Option<Said>, folders: &mut Folders, rooms: &mut Rooms) -> Next {
        let Doing::Withdraw { ids, step, stays, removes, .. } = &mut self.doing else { return Next::Again };
        let Some(id) = ids.front().cloned() else { return self.withdrawn(folders, rooms) };
        let look = Next::Ask(Ask::Look(self.number, id.clone()));
        let over: bool = match (*step, said) {
            (_, None) => {
                *step = Step::Look;
                return look;
            }
            (_, Some(Said::Nothing)) => {
                *step = Step::Look;
                return Next::Again;
            }
            // Whoever holds it back does not want it to run elsewhere either.
            (Step::Look, Some(Said::Job(Some(Glance { kept: true, .. })))) if !*removes => true,
            (Step::Look, Some(Said::Job(Some(_)))) => {
                *step = Step::Hold;
                return Next::Ask(Ask::Hold(id));
            }
            (Step::Hold, Some(Said::Done | Said::NotWaiting)) => {
                *step = Step::Waits;
                return look;
            }
            (Step::Waits, Some(Said::Job(Some(Glance { phase: Phase::Waiting, .. })))) => {
                *step = Step::Cancel;
                return Next::Ask(Ask::CancelWaiting(id));
            }
            (Step::Cancel, Some(_)) => {
                *step = Step::Over;
                return look;
            }
            (Step::Over, Some(Said::Job(Some(Glance { phase: Phase::Waiting, .. })))) => {
                *step = Step::Look;
                return Next::Again;
            }
            (Step::Waits | Step::Over, Some(Said::Job(Some(seen)))) => seen.ever_started,
            // It is not known.
            _ => false,
        };
        *stays |= over;
        ids.pop_front();
        *step = Step::Look;
        match ids.front() {
            Some(id) => Next::Ask(Ask::Look(self.number, id.clone())),
            None if *removes => self.withdrawn(folders, rooms),
            None => self.withdrawn(folders, rooms),
        }
    }

    fn withdrawn(&self, folders: &mut Folders, rooms: &mut Rooms) -> Next {
        let job = self.job();
        let Doing::Withdraw { stays, removes, tentative, .. } = self.doing else { return Next::Again };
        if removes {
            rooms.remove(self.number);
            return Next::Tell(Event::Removed { job });
        }
        // By an earlier try of the same: what has started since found nothing to run.
        let was_put_away = !tentative && self.folder.as_ref().is_some_and(|folder| !folders.has(folder));
        let may_go = was_put_away || !stays;
        let is_away = may_go && self.folder.as_ref().is_none_or(|folder| folders.put_away(folder));
        if is_away {
            rooms.remove(self.number);
        }
        let outcome = if is_away { WithdrawalOutcome::Withdrawn } else { WithdrawalOutcome::Started };
        Next::Tell(Event::Withdrawal { job, outcome })
    }

    fn look(&mut self, now: u64, folders: &mut Folders) -> Next {
        let job = self.job();
        let Doing::Look { listed } = &self.doing else { return Next::Again };
        let word = self.folder.as_ref().map_or(Word::Unclaimed, |folder| folders.word(folder));
        let may_have_begun = listed.as_ref().is_some_and(|listed| listed.ever_started());
        let exit = match &word {
            Word::Ended { exit, started, elapsed_ms } => {
                let (exit, started, elapsed_ms) = (exit.clone(), *started, *elapsed_ms);
                return Next::Tell(Event::Ended { job, exit, started, elapsed_ms });
            }
            Word::Runs => return Next::In(LOOK),
            Word::Lost | Word::Unclaimed if may_have_begun && now < self.begun + SETTLED => {
                return Next::In(LOOK);
            }
            Word::Lost => Exit::Lost("its supervisor died".to_owned()),
            Word::Unclaimed => match listed.as_deref().and_then(ListedJob::exit) {
                None => return Next::Tell(Event::Unclaimed { job }),
                Some(Exit::Cancelled) => Exit::Cancelled,
                Some(exit) => Exit::NotStarted(format!("its batch script ended before it began: {exit}")),
            },
        };
        if let (Word::Unclaimed, Some(folder)) = (word, &self.folder) {
            // A copy that comes to light later starts nothing.
            folders.prepare(folder);
            folders.ask_end(folder, now);
        }
        Next::Tell(Event::Ended { job, exit, started: None, elapsed_ms: None })
    }
}
