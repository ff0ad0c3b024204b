//! Reference implementation of H3: a list of reservations, tried second by second.

use super::{Ran, TestJob, Ties};

/// A reservation in the table; it begins in the past if the job runs.
#[derive(Clone, Copy)]
struct Reservation {
    id: usize,
    start: i64,
    end: i64,
    procs: u32,
}

struct Table<'a> {
    procs: u32,
    jobs: &'a [TestJob],
    /// In order of submission.
    reservations: Vec<Reservation>,
    /// In starting order.
    started: Vec<usize>,
    ran: Vec<Option<Ran>>,
}

/// Runs `jobs`, none of which is withdrawn.
pub(crate) fn replay(procs: u32, jobs: &[TestJob], ties: Ties) -> Vec<Ran> {
    let mut table =
        Table { procs, jobs, reservations: Vec::new(), started: Vec::new(), ran: vec![None; jobs.len()] };
    let mut next = 0;
    loop {
        let submission = jobs.get(next).map(|job| job.submit);
        let events = table
            .reservations
            .iter()
            .map(|reservation| table.ran[reservation.id].map_or(reservation.start, |ran| ran.end));
        let Some(now) = submission.into_iter().chain(events.min()).min() else { break };
        if ties == Ties::FinishFirst {
            table.finish(now);
        }
        while let Some(job) = jobs.get(next).filter(|job| job.submit == now) {
            let reservation = table.fold(now, next, *job);
            table.reservations.push(reservation);
            next += 1;
        }
        if ties == Ties::SubmitFirst {
            table.finish(now);
        }
        table.start(now);
    }
    table.ran.into_iter().map(Option::unwrap).collect()
}

impl Table<'_> {
    fn waits(&self, reservation: &Reservation) -> bool {
        self.ran[reservation.id].is_none()
    }

    fn finish(&mut self, now: i64) {
        for id in std::mem::take(&mut self.started) {
            if self.ran[id].unwrap().end > now {
                self.started.push(id);
                continue;
            }
            self.reservations.retain(|reservation| reservation.id != id);
            for index in 0..self.reservations.len() {
                let reservation = self.reservations[index];
                if self.waits(&reservation) && reservation.start > now {
                    let walltime = reservation.end - reservation.start;
                    self.reservations[index].procs = 0;
                    let start = self.fit(now, reservation.procs, walltime);
                    self.reservations[index] = Reservation { start, end: start + walltime, ..reservation };
                }
            }
        }
    }

    fn start(&mut self, now: i64) {
        let mut due: Vec<Reservation> = self
            .reservations
            .iter()
            .copied()
            .filter(|reservation| self.waits(reservation) && reservation.start == now)
            .collect();
        due.sort_by_key(|reservation| reservation.id);
        for Reservation { id, procs, .. } in due {
            let job = self.jobs[id];
            let end = now + job.runtime * i64::from(job.procs.div_ceil(procs));
            self.ran[id] = Some(Ran { start: now, end, procs });
            self.started.push(id);
        }
    }

    /// The earliest time from `from` on with that many processors free for so long.
    fn fit(&self, from: i64, procs: u32, walltime: i64) -> i64 {
        let free = |at: i64| {
            let held = self
                .reservations
                .iter()
                .filter(|reservation| reservation.start <= at && at < reservation.end);
            self.procs - held.map(|reservation| reservation.procs).sum::<u32>()
        };
        (from..).find(|start| (*start..start + walltime).all(|at| free(at) >= procs)).unwrap()
    }

    fn fold(&self, now: i64, id: usize, job: TestJob) -> Reservation {
        let first_release = self
            .started
            .iter()
            .filter_map(|id| self.reservations.iter().find(|reservation| reservation.id == *id));
        let next_release = first_release.map(|reservation| reservation.end).min().unwrap_or(now);
        let from = if self.reservations.iter().any(|reservation| self.waits(reservation)) {
            next_release
        } else {
            now
        };
        let limit = self.fit(from, job.procs, job.walltime);
        let shape = |procs: u32| {
            let walltime = job.walltime * i64::from(job.procs / procs);
            let start = self.fit(from, procs, walltime);
            Reservation { id, start, end: start + walltime, procs }
        };
        let divisors = (1..job.procs).rev().filter(|n| job.procs.is_multiple_of(*n));
        divisors.map(shape).find(|reservation| reservation.end <= limit).unwrap_or_else(|| shape(job.procs))
    }
}
