//! Counts the free processors of an embedded batch system, and plans its jobs again after a change.

use pliant_model::{JobId, Time};
use pliant_policy::batch::order::{PrioritySettings, Shares};
use pliant_policy::batch::{self, PresentJobs, RunningJob, Submission};

use super::priorities::Place;
use super::{Embedded, Started};

impl Embedded {
    /// Finds the free processors, and whether running jobs have more than the cluster.
    pub(super) fn count_processors(&mut self) {
        self.free = (0..self.procs.0).collect();
        let mut counted = 0;
        for started in self.started.values() {
            started.cores.iter().for_each(|core| {
                self.free.remove(core);
            });
            counted += if started.overdue { 0 } else { started.cores.len() };
        }
        self.is_overbooked = counted > self.procs.0 as usize;
    }

    /// Makes the plan again for the present jobs. Running jobs stay; all others wait in the order in which they were.
    pub(super) fn plan_again(&mut self, now: Time) {
        self.plan_again_with(now, None);
    }

    /// The same, with one of the waiting jobs at another place.
    pub(super) fn plan_again_with(&mut self, now: Time, moved: Option<(JobId, Place)>) {
        let batch::Dump { planned, queued, shares, .. } = self.scheduler.dump();
        let mut waiting: Vec<JobId> = self.pending.drain(..).collect();
        waiting.extend(planned.iter().map(|one| one.job).chain(queued.iter().map(|one| one.job)));
        self.started.retain(|_, started| !started.cores.is_empty());
        for job in std::mem::take(&mut self.too_large).into_values() {
            // Numbers are given in order of submission.
            let place = waiting.iter().position(|other| *other > job.job).unwrap_or(waiting.len());
            waiting.insert(place, job.job);
            self.queued.insert(job.job, job);
        }
        if let Some((job, place)) = moved {
            self.place(&mut waiting, job, place);
        }
        let (waiting, too_large): (Vec<Submission>, Vec<Submission>) = waiting
            .iter()
            .filter_map(|job| self.queued.get(job).cloned())
            .partition(|job| self.could_run(job));
        for job in too_large {
            self.queued.remove(&job.job);
            self.too_large.insert(job.job, job);
        }
        let counts = |(_, started): &(&JobId, &Started)| !started.overdue;
        let running = self.started.iter().filter(counts).map(|(job, started)| RunningJob {
            job: *job,
            procs: started.procs,
            end: started.planned_end,
        });
        let running: Vec<RunningJob> = running.collect();
        let on_nodes = self.host.iter().flat_map(|host| {
            self.started.iter().filter(counts).map(|(job, started)| host.on_nodes(*job, started))
        });
        let on_nodes = on_nodes.collect();
        let by_operators = self.given_to_waiting();
        let is_set = self.priority != PrioritySettings::default() || !by_operators.is_empty();
        let new = is_set.then(|| Shares { since: now, ..Shares::default() });
        let shares = shares.or(new).map(|mut shares| {
            shares.running.retain(|charge| self.started.get(&charge.job).is_some_and(|one| !one.overdue));
            Shares { by_operators, ..shares.under(now, &self.priority) }
        });
        let jobs = PresentJobs { running, waiting, shares, on_nodes };
        self.scheduler = match &self.host {
            Some(host) => {
                let planned = self.policy.scheduler_on_with(&host.declared().nodes, now, jobs);
                planned.expect("a policy was checked with the host")
            }
            None => self.policy.scheduler_with(self.procs, now, jobs),
        };
        self.count_processors();
        self.changed = true;
    }
}
