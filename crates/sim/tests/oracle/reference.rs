//! Slow, obvious versions of EASY and of conservative backfilling on one cluster, written from their
//! definitions and sharing nothing with the policies under test.
//!
//! **Events.** At each instant at which something happens, terminations are delivered one by one in the order
//! in which the jobs were started, and submissions one by one in the order of the log; [`Ties`] says which of
//! the two comes first. What is planned for the instant starts last.
//!
//! **EASY**, at every submission and every termination. A running job holds its processors until its expected
//! end, start + walltime, from which second on they count as free. Jobs start from the head of the line while
//! they fit. Then the head's *shadow time* is the first expected end at which enough will be free for it, and
//! *extra* what is free then beyond its need. The others are looked at in order of submission; one starts if
//! it fits now and either ends, by its walltime, no later than the shadow time or takes no more than *extra*.
//! What is free, the shadow time and *extra* are worked out anew after each start.
//!
//! **Conservative backfilling.** A submission gets the earliest place from now on. A termination frees the
//! rest of the job's place; then each waiting job whose place begins after now, in order of submission, gives
//! up its place and takes the earliest. A place that begins now is kept: the job counts as started.

use pliant_model::Time;
use pliant_sim::{SimJob, Ties};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rule {
    Easy,
    Conservative,
}

/// When each job starts under the batch policy of that name; none if there is no slow version of it.
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
    /// In order of submission.
    waiting: Vec<usize>,
    /// In order of starting.
    running: Vec<usize>,
    /// Start of each job; planned, for one that waits under conservative backfilling.
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
        self.free.forget_before(now);
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

/// Free processors over time: from each time on that many, until the next one's.
struct Free(Vec<(i64, i64)>);

impl Free {
    fn new(procs: i64) -> Free {
        Free(vec![(i64::MIN, procs)])
    }

    /// The first time from `now` on with that many processors free for so long.
    fn earliest(&self, now: i64, procs: i64, walltime: i64) -> i64 {
        let mut start = now;
        for (position, (from, free)) in self.0.iter().enumerate() {
            if *from >= start + walltime {
                break;
            }
            if *free < procs {
                // Not before this step is over; the last step is an empty cluster.
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

    /// Makes a step begin at that time; returns its position.
    fn split(&mut self, at: i64) -> usize {
        let position = self.0.partition_point(|(from, _)| *from < at);
        if self.0.get(position).is_none_or(|(from, _)| *from > at) {
            self.0.insert(position, (at, self.0[position - 1].1));
        }
        position
    }

    /// Nobody asks about the past any more; steps that make no difference are joined.
    fn forget_before(&mut self, now: i64) {
        let current = self.0.partition_point(|(from, _)| *from <= now) - 1;
        self.0.drain(..current);
        self.0.dedup_by_key(|(_, free)| *free);
    }
}
