//! Reference implementations of EASY and conservative backfilling on one cluster, written from their definitions without
//! code of the policies under test.
//!
//! **Events.** At each instant, terminations are delivered one by one in the order of starts, and submissions one by one in
//! the order of the log; [`Ties`] decides which come first. Planned starts of the instant come last.
//!
//! **EASY**, at every submission and termination. A running job keeps its processors until its expected end, start +
//! walltime; from that second on they count as free. Jobs start from the head of the queue while they fit. The head's *shadow
//! time* is then the first expected end at which enough processors are free for it, and *extra* the number of free processors
//! beyond its need. The other jobs follow in order of submission; a job starts if it fits now and either ends, by its
//! walltime, no later than the shadow time or takes at most *extra* processors. Free processors, shadow time and *extra* are
//! computed again after each start.
//!
//! **Conservative backfilling.** A submission gets the earliest reservation from now on. A termination frees the rest of the
//! job's reservation; then each waiting job whose reservation starts later than now, in order of submission, exchanges it for
//! the earliest one. A reservation that starts now is kept: the job counts as started.

use pliant_model::Time;
use pliant_sim::{SimJob, Ties};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rule {
    Easy,
    Conservative,
}

/// The start of each job under a batch policy; none if it has no reference implementation.
pub(crate) fn starts(batch: &str, procs: u32, jobs: &[SimJob], ties: Ties) -> Option<Vec<Time>> {
    let rule = match batch {
        "easy" => Rule::Easy,
        "cbf" => Rule::Conservative,
        _ => return None,
    };
    let mut cluster = Cluster {
        rule,
        jobs,
        free: Free::new(i64::from(procs)),
        procs: i64::from(procs),
        waiting: Vec::new(),
        running: Vec::new(),
        start: vec![i64::MAX; jobs.len()],
    };
    let mut next = 0;
    loop {
        let submission = jobs.get(next).map(|job| job.job.submit.0);
        let finish = cluster.running.iter().map(|id| cluster.end(*id)).min();
        let planned = cluster.waiting.iter().map(|id| cluster.start[*id]).min();
        let Some(now) = [submission, finish, planned].into_iter().flatten().min() else { break };
        if ties == Ties::FinishFirst {
            cluster.finish(now);
        }
        while jobs.get(next).is_some_and(|job| job.job.submit.0 == now) {
            cluster.submit(now, next);
            next += 1;
        }
        if ties == Ties::SubmitFirst {
            cluster.finish(now);
        }
        cluster.start_planned(now);
    }
    Some(cluster.start.into_iter().map(Time).collect())
}

struct Cluster<'a> {
    rule: Rule,
    jobs: &'a [SimJob],
    procs: i64,
    /// Processors over time, under conservative backfilling.
    free: Free,
    /// The waiting jobs, in order of submission.
    waiting: Vec<usize>,
    /// The running jobs, in order of their starts.
    running: Vec<usize>,
    /// The start of each job; the planned one for a waiting job under conservative backfilling.
    start: Vec<i64>,
}

impl Cluster<'_> {
    fn size(&self, id: usize) -> i64 {
        i64::from(self.jobs[id].job.procs.0)
    }

    fn end(&self, id: usize) -> i64 {
        self.start[id] + self.jobs[id].job.runtime.0
    }

    fn expected_end(&self, id: usize) -> i64 {
        self.start[id] + self.jobs[id].job.walltime.0
    }

    fn submit(&mut self, now: i64, id: usize) {
        self.waiting.push(id);
        match self.rule {
            Rule::Easy => self.decide(now),
            Rule::Conservative => self.reserve(now, id),
        }
    }

    fn finish(&mut self, now: i64) {
        let ended: Vec<usize> = self.running.iter().copied().filter(|id| self.end(*id) == now).collect();
        for id in ended {
            self.running.retain(|other| *other != id);
            match self.rule {
                Rule::Easy => self.decide(now),
                Rule::Conservative => self.compress(now, id),
            }
        }
    }

    fn start_planned(&mut self, now: i64) {
        if self.rule == Rule::Conservative {
            let start = &self.start;
            self.running.extend(self.waiting.extract_if(.., |id| start[*id] == now));
        }
    }

    fn reserve(&mut self, now: i64, id: usize) {
        let walltime = self.jobs[id].job.walltime.0;
        self.start[id] = self.free.earliest(now, self.size(id), walltime);
        self.free.change(self.start[id], self.expected_end(id), -self.size(id));
    }

    fn compress(&mut self, now: i64, ended: usize) {
        self.free.change(now, self.expected_end(ended), self.size(ended));
        self.free.drop_before(now);
        for id in self.waiting.clone() {
            if self.start[id] > now {
                self.free.change(self.start[id], self.expected_end(id), self.size(id));
                self.reserve(now, id);
            }
        }
    }

    fn start_now(&mut self, now: i64, position: usize) {
        let id = self.waiting.remove(position);
        self.start[id] = now;
        self.running.push(id);
    }

    fn free_now(&self, now: i64) -> i64 {
        let held = self.running.iter().filter(|id| self.expected_end(**id) > now);
        self.procs - held.map(|id| self.size(*id)).sum::<i64>()
    }

    /// The shadow time of a head that needs more than is free now, and the extra processors.
    fn shadow(&self, now: i64, needed: i64) -> (i64, i64) {
        let mut ends: Vec<(i64, i64)> =
            self.running.iter().map(|id| (self.expected_end(*id), self.size(*id))).collect();
        ends.sort_unstable();
        let mut free = self.procs - ends.iter().map(|(_, size)| size).sum::<i64>();
        let mut shadow = now;
        for (end, size) in ends {
            if end > shadow && free >= needed {
                break;
            }
            shadow = end.max(now);
            free += size;
        }
        (shadow, free - needed)
    }

    fn decide(&mut self, now: i64) {
        while let Some(head) = self.waiting.first()
            && self.size(*head) <= self.free_now(now)
        {
            self.start_now(now, 0);
        }
        let Some(head) = self.waiting.first().copied() else { return };
        let needed = self.size(head);
        let mut free = self.free_now(now);
        let (mut shadow, mut extra) = self.shadow(now, needed);
        let mut position = 1;
        while let Some(id) = self.waiting.get(position).copied() {
            let ends_in_time = now + self.jobs[id].job.walltime.0 <= shadow;
            if self.size(id) <= free && (ends_in_time || self.size(id) <= extra) {
                self.start_now(now, position);
                free = self.free_now(now);
                (shadow, extra) = self.shadow(now, needed);
            } else {
                position += 1;
            }
        }
    }
}

/// Free processors over time, as steps: a time and the number from then on.
struct Free(Vec<(i64, i64)>);

impl Free {
    fn new(procs: i64) -> Free {
        Free(vec![(i64::MIN, procs)])
    }

    /// The first time from `now` on with that many processors free for the walltime.
    fn earliest(&self, now: i64, procs: i64, walltime: i64) -> i64 {
        let mut start = now;
        for (position, (from, free)) in self.0.iter().enumerate() {
            if *from >= start + walltime {
                break;
            }
            if *free < procs {
                // Continue after this step; the last step is an empty cluster.
                start = start.max(self.0.get(position + 1).map_or(i64::MAX, |next| next.0));
            }
        }
        start
    }

    fn change(&mut self, from: i64, until: i64, by: i64) {
        let (first, last) = (self.split(from), self.split(until));
        for (_, free) in &mut self.0[first..last] {
            *free += by;
            assert!(*free >= 0, "overbooked");
        }
    }

    /// Splits the step at that time; returns the position of the new one.
    fn split(&mut self, at: i64) -> usize {
        let position = self.0.partition_point(|(from, _)| *from < at);
        if self.0.get(position).is_none_or(|(from, _)| *from > at) {
            self.0.insert(position, (at, self.0[position - 1].1));
        }
        position
    }

    /// Drops steps of the past and joins equal ones.
    fn drop_before(&mut self, now: i64) {
        let current = self.0.partition_point(|(from, _)| *from <= now) - 1;
        self.0.drain(..current);
        self.0.dedup_by_key(|(_, free)| *free);
    }
}
