//! Reference implementations of event-driven policies.

use super::{Ran, TestJob, Ties};

/// Which waiting jobs start at an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rule {
    /// Heads in the given shape, no other job; the shape is kept while the job waits at the head.
    InOrder(Fold),
    /// EASY, at submissions and terminations.
    Easy,
    /// The same, but the shortest of the jobs that may overtake the head goes first.
    EasyShortest,
    /// EASY's rule at terminations; at submissions only for a job at the head. The head
    /// is shaped again each time.
    AtReleases(Fold),
}

/// How a job is folded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fold {
    Never,
    H1Literal,
    H1Completion,
    H2,
}

/// First come, first served by its definition: the earliest start not before the predecessor's with enough
/// processors left by those in front.
pub(crate) fn fcfs(procs: u32, jobs: &[TestJob]) -> Vec<i64> {
    let mut starts: Vec<i64> = Vec::new();
    for job in jobs {
        let mut start = starts.last().copied().unwrap_or(job.submit).max(job.submit);
        let busy = |starts: &[i64], at: i64| {
            let before = starts.iter().zip(jobs);
            before.filter(|(start, job)| at < *start + job.runtime).map(|(_, job)| job.procs).sum::<u32>()
        };
        while busy(&starts, start) + job.procs > procs {
            start += 1;
        }
        starts.push(start);
    }
    starts
}

/// Runs `jobs`, none of which is withdrawn.
pub(crate) fn replay(rule: Rule, procs: u32, jobs: &[TestJob], ties: Ties) -> Vec<Ran> {
    let mut reference = Reference {
        rule,
        procs,
        jobs,
        running: Vec::new(),
        line: Vec::new(),
        head: None,
        ran: vec![None; jobs.len()],
    };
    let mut next = 0;
    loop {
        let submission = jobs.get(next).map(|job| job.submit);
        let finish = reference.running.iter().map(|(id, _)| reference.ran[*id].unwrap().end).min();
        let Some(now) = submission.into_iter().chain(finish).min() else { break };
        let submissions = jobs[next..].iter().take_while(|job| job.submit == now).count();
        if ties == Ties::FinishFirst {
            reference.finish(now);
        }
        for id in next..next + submissions {
            reference.line.push(id);
            let alone = reference.line.len() == 1;
            if alone || !matches!(rule, Rule::AtReleases(_)) {
                reference.decide(now);
            }
        }
        next += submissions;
        if ties == Ties::SubmitFirst {
            reference.finish(now);
        }
    }
    reference.ran.into_iter().map(Option::unwrap).collect()
}

struct Reference<'a> {
    rule: Rule,
    procs: u32,
    jobs: &'a [TestJob],
    /// Running jobs in starting order, with their expected ends.
    running: Vec<(usize, i64)>,
    line: Vec<usize>,
    head: Option<(usize, u32)>,
    ran: Vec<Option<Ran>>,
}

impl Reference<'_> {
    fn finish(&mut self, now: i64) {
        // What starts at this instant ends later: the list of those that end now does not grow.
        let ended: Vec<usize> = self.running.iter().map(|(id, _)| *id).collect();
        for id in ended.into_iter().filter(|id| self.ran[*id].unwrap().end == now).collect::<Vec<_>>() {
            self.running.retain(|(other, _)| *other != id);
            self.decide(now);
        }
    }

    /// Free processors at `at` by the expected ends of the running jobs.
    fn free(&self, at: i64) -> u32 {
        let held = self.running.iter().filter(|(_, end)| *end > at);
        self.procs - held.map(|(id, _)| self.ran[*id].unwrap().procs).sum::<u32>()
    }

    /// The first time at which that many will be free.
    fn when_free(&self, now: i64, procs: u32) -> i64 {
        (now..).find(|at| self.free(*at) >= procs).unwrap()
    }

    fn start(&mut self, now: i64, position: usize, procs: u32) {
        let id = self.line.remove(position);
        let job = self.jobs[id];
        let rounds = i64::from(job.procs.div_ceil(procs));
        self.ran[id] = Some(Ran { start: now, end: now + job.runtime * rounds, procs });
        self.running.push((id, now + job.walltime * rounds));
    }

    fn fold(&self, now: i64, fold: Fold, job: TestJob) -> u32 {
        let completion = |n: u32| self.when_free(now, n) + job.walltime * i64::from(job.procs.div_ceil(n));
        let unfolded = self.when_free(now, job.procs);
        let divisors = (1..job.procs).rev().filter(|n| job.procs.is_multiple_of(*n));
        let largest = |limit: i64| divisors.clone().find(|n| completion(*n) <= limit).unwrap_or(job.procs);
        match fold {
            Fold::Never => job.procs,
            Fold::H1Literal => largest(unfolded),
            Fold::H1Completion => largest(unfolded + job.walltime),
            Fold::H2 => (1..=job.procs).min_by_key(|n| completion(*n)).unwrap(),
        }
    }

    fn decide(&mut self, now: i64) {
        let needed = loop {
            let Some(head) = self.line.first().copied() else { return };
            let procs = match self.rule {
                Rule::Easy | Rule::EasyShortest => self.jobs[head].procs,
                Rule::AtReleases(fold) => self.fold(now, fold, self.jobs[head]),
                Rule::InOrder(fold) => match self.head {
                    Some((id, procs)) if id == head => procs,
                    _ => self.fold(now, fold, self.jobs[head]),
                },
            };
            self.head = Some((head, procs));
            if procs > self.free(now) {
                break procs;
            }
            self.start(now, 0, procs);
        };
        if matches!(self.rule, Rule::InOrder(_)) {
            return;
        }
        let mut behind = self.line[1..].to_vec();
        if self.rule == Rule::EasyShortest {
            behind.sort_by_key(|id| self.jobs[*id].walltime);
        }
        for id in behind {
            let job = self.jobs[id];
            let shadow = self.when_free(now, needed);
            let extra = self.free(shadow) - needed;
            if job.procs <= self.free(now) && (now + job.walltime <= shadow || job.procs <= extra) {
                let position = self.line.iter().position(|other| *other == id).unwrap();
                self.start(now, position, job.procs);
            }
        }
    }
}
