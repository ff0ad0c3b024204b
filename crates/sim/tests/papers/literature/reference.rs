//! A reference implementation of EASY with predictions and corrections on one cluster, written from the papers' rules
//! without code of the policies under test. It is slow and simple.
//!
//! **Events.** At each second, plans that their jobs exceed come first, then submissions, then the ends of jobs, each in the
//! order in which they became known.
//!
//! **Plans.** A job is planned, when it is submitted, for the mean of its user's last two ended jobs, at most for what the
//! user asks for, and for exactly that while the user has no two ended jobs. A plan that its job exceeds is corrected.
//!
//! **Decisions** at submissions and ends, and in Pliant at corrections. Jobs start from the head of the queue while they fit.
//! The head's *shadow time* is the first planned end at which enough processors are free for it, and *extra* the free
//! processors beyond its need then. The others start if they fit now and either end, as planned, by the shadow time or take
//! at most *extra* processors: in order of submission, or the shortest plan first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use pliant_model::Job;
use pliant_policy::runtimes::predicted::Correction;

/// What differs between programs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) shortest_first: bool,
    pub(crate) correction: Correction,
    /// A mean is rounded down, not to the nearest second.
    pub(crate) rounds_down: bool,
    /// A corrected plan may let other jobs start.
    pub(crate) decides_at_corrections: bool,
}

/// Events of one second, in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Exceeded,
    Submitted,
    Ended,
}

struct Cluster<'a> {
    rules: Rules,
    procs: i64,
    jobs: &'a [Job],
    /// Time, kind, order of becoming known and job.
    events: BinaryHeap<Reverse<(i64, Event, usize, usize)>>,
    known: usize,
    /// Planned runtimes, and how often each was corrected.
    planned: Vec<(i64, usize)>,
    starts: Vec<i64>,
    /// Running jobs by planned end.
    running: BTreeSet<(i64, usize)>,
    waiting: Vec<usize>,
    /// The last two runtimes of each user.
    ended: BTreeMap<i32, Vec<i64>>,
}

/// The start of each job.
pub(crate) fn starts(procs: u32, jobs: &[Job], rules: Rules) -> Vec<i64> {
    let mut cluster = Cluster {
        rules,
        procs: i64::from(procs),
        jobs,
        events: BinaryHeap::new(),
        known: 0,
        planned: vec![(0, 0); jobs.len()],
        starts: vec![0; jobs.len()],
        running: BTreeSet::new(),
        waiting: Vec::new(),
        ended: BTreeMap::new(),
    };
    for (id, job) in jobs.iter().enumerate() {
        cluster.at(job.submit.0, Event::Submitted, id);
    }
    while let Some(Reverse((now, event, _, id))) = cluster.events.pop() {
        match event {
            Event::Exceeded => cluster.exceeded(now, id),
            Event::Submitted => {
                cluster.planned[id] = (cluster.predicted(id), 0);
                cluster.waiting.push(id);
                cluster.decide(now);
            }
            Event::Ended => {
                let last = cluster.ended.entry(jobs[id].user).or_default();
                last.push(jobs[id].runtime.0);
                last.drain(..last.len().saturating_sub(2));
                cluster.running.remove(&(cluster.planned_end(id), id));
                cluster.decide(now);
            }
        }
    }
    cluster.starts
}

impl Cluster<'_> {
    fn at(&mut self, time: i64, event: Event, id: usize) {
        self.events.push(Reverse((time, event, self.known, id)));
        self.known += 1;
    }

    fn predicted(&self, id: usize) -> i64 {
        let Job { user, walltime, .. } = &self.jobs[id];
        match self.ended.get(user).map(Vec::as_slice) {
            Some([one, other]) => {
                let rounding = i64::from(!self.rules.rounds_down);
                ((one + other + rounding) / 2).min(walltime.0)
            }
            _ => walltime.0,
        }
    }

    fn planned_end(&self, id: usize) -> i64 {
        self.starts[id] + self.planned[id].0
    }

    fn exceeded(&mut self, now: i64, id: usize) {
        const STEPS_S: [i64; 12] =
            [0, 60, 300, 900, 1_800, 3_600, 7_200, 18_000, 36_000, 72_000, 180_000, 360_000];
        self.running.remove(&(now, id));
        let (planned, times) = self.planned[id];
        let longer = match self.rules.correction {
            Correction::Steps => planned + STEPS_S[times + 1],
            Correction::Offsets => planned - STEPS_S[times] + STEPS_S[times + 1],
            Correction::Walltime => i64::MAX,
        };
        self.planned[id] = (longer.min(self.jobs[id].walltime.0), times + 1);
        self.runs(id);
        let another = matches!(self.events.peek(), Some(Reverse((at, Event::Exceeded, ..))) if *at == now);
        if self.rules.decides_at_corrections && !another {
            self.decide(now);
        }
    }

    /// Notes the planned end of a running job, and when the job exceeds it.
    fn runs(&mut self, id: usize) {
        let end = self.planned_end(id);
        self.running.insert((end, id));
        if self.planned[id].0 < self.jobs[id].runtime.0 {
            self.at(end, Event::Exceeded, id);
        }
    }

    fn start(&mut self, now: i64, id: usize) {
        self.starts[id] = now;
        self.waiting.retain(|other| *other != id);
        self.at(now + self.jobs[id].runtime.0, Event::Ended, id);
        self.runs(id);
    }

    /// Free processors by the plans: from its planned end on a job counts as ended.
    fn free(&self, at: i64) -> i64 {
        let held = self.running.iter().rev().take_while(|(end, _)| *end > at);
        self.procs - held.map(|(_, id)| i64::from(self.jobs[*id].procs.0)).sum::<i64>()
    }

    fn decide(&mut self, now: i64) {
        let needed = loop {
            let Some(head) = self.waiting.first().copied() else { return };
            let procs = i64::from(self.jobs[head].procs.0);
            if procs > self.free(now) {
                break procs;
            }
            self.start(now, head);
        };
        let mut free = self.free(now);
        let shadow =
            self.running.iter().map(|(end, _)| *end).find(|end| *end > now && self.free(*end) >= needed);
        let shadow = shadow.unwrap();
        let mut extra = self.free(shadow) - needed;
        let mut others = self.waiting[1..].to_vec();
        if self.rules.shortest_first {
            others.sort_by_key(|id| self.planned[*id].0);
        }
        for id in others {
            let procs = i64::from(self.jobs[id].procs.0);
            let ends_in_time = now + self.planned[id].0 <= shadow;
            if procs <= free && (ends_in_time || procs <= extra) {
                free -= procs;
                extra -= if ends_in_time { 0 } else { procs };
                self.start(now, id);
            }
        }
    }
}
