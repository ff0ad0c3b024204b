//! Makes a job run as on a slower or smaller machine: its processes are stopped and continued so that together they
//! use at most a given number of cores' worth of CPU time, on average.
//!
//! A token bucket over CPU time: credit accrues at the share, what the job uses is taken off, and it is stopped while
//! the credit is negative. Debt is carried over, so the average is exact however late the supervisor wakes up. The
//! credit is bounded by a tenth of a second's worth, so a job that waited cannot catch up at full speed.
//!
//! CPU time is read from `/proc/PID/stat` of the supervisor's descendants, with what each has inherited from the
//! children it waited for. That sum only grows, except for a process whose parent ignores SIGCHLD: its time is lost
//! from the sum, but not the time seen of it before. New processes are found by looking through the process table
//! now and then, never for more than a fiftieth of a core.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::table::{self, Process};

/// Between two looks at a running job, and the shortest pause.
const PERIOD: Duration = Duration::from_millis(20);
/// Between two looks through the process table, at least.
const TABLE_PERIOD: Duration = Duration::from_millis(200);
/// How much longer than reading the table takes it must rest.
const TABLE_REST: u32 = 50;

/// The throttle of one job.
#[derive(Debug)]
pub(super) struct Throttle {
    supervisor: Pid,
    group: Pid,
    bucket: Bucket,
    ticks_per_s: f64,
    /// The highest CPU time seen, in clock ticks.
    used_ticks: u64,
    charged_at: Instant,
    members: Vec<Process>,
    members_due: Instant,
    is_stopped: bool,
}

impl Throttle {
    /// A throttle for the job with this process group, in cores. The supervisor's own children count, waited for or not.
    pub(super) fn new(supervisor: Pid, group: Pid, share: f64, now: Instant) -> Throttle {
        Throttle {
            supervisor,
            group,
            bucket: Bucket::new(share),
            ticks_per_s: rustix::param::clock_ticks_per_second() as f64,
            used_ticks: 0,
            charged_at: now,
            members: Vec::new(),
            members_due: now,
            is_stopped: false,
        }
    }

    /// Takes off what was used, stops or continues the job, and says when to come back.
    pub(super) fn tick(&mut self, now: Instant) -> Duration {
        self.find_members(now);
        let ticks = self.used_now();
        let used_s = ticks.saturating_sub(self.used_ticks) as f64 / self.ticks_per_s;
        self.used_ticks = self.used_ticks.max(ticks);
        let elapsed_s = now.saturating_duration_since(self.charged_at).as_secs_f64();
        self.charged_at = now;
        let pause_s = self.bucket.charge(elapsed_s, used_s);
        if pause_s > 0.0 {
            self.stop();
            Duration::from_secs_f64(pause_s).max(PERIOD)
        } else {
            self.release();
            PERIOD
        }
    }

    /// Lets the job run, for good unless `tick` is called again.
    pub(super) fn release(&mut self) {
        if self.is_stopped {
            self.is_stopped = false;
            self.signal(Signal::CONT);
        }
    }

    fn stop(&mut self) {
        // Again even if it is stopped: a new process outside of the group may have been found.
        self.is_stopped = true;
        self.signal(Signal::STOP);
    }

    /// Failures mean that the processes are gone.
    fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.group, signal);
        let group = self.group.as_raw_nonzero().get();
        for outside in self.members.iter().filter(|member| member.group != group) {
            // By now its id may be another process's.
            let is_same = Process::read(outside.pid).is_some_and(|found| found.session == outside.session);
            if let (true, Some(pid)) = (is_same, outside.id()) {
                let _ = kill_process(pid, signal);
            }
        }
    }

    fn find_members(&mut self, now: Instant) {
        if now < self.members_due {
            return;
        }
        let begin = Instant::now();
        self.members = table::descendants(self.supervisor);
        self.members_due = now + TABLE_PERIOD.max(begin.elapsed() * TABLE_REST);
    }

    fn used_now(&self) -> u64 {
        let waited_for =
            Process::read(self.supervisor.as_raw_nonzero().get()).map_or(0, |own| own.children_ticks);
        let used = |member: &Process| {
            let found = Process::read(member.pid).filter(|found| found.session == member.session)?;
            Some(found.own_ticks + found.children_ticks)
        };
        waited_for + self.members.iter().filter_map(used).sum::<u64>()
    }
}

/// Credit in seconds of CPU time.
#[derive(Debug)]
struct Bucket {
    /// Cores: seconds of CPU time per second.
    share: f64,
    credit_s: f64,
}

impl Bucket {
    /// Seconds' worth of the share that can be saved up.
    const SAVED_S: f64 = 0.1;

    fn new(share: f64) -> Bucket {
        Bucket { share, credit_s: 0.0 }
    }

    /// Returns for how many seconds the job must pause; zero if it may run.
    fn charge(&mut self, elapsed_s: f64, used_s: f64) -> f64 {
        let saved_max = self.share * Bucket::SAVED_S;
        // Bounded after the use is taken off: a late look at a busy job must not lose what it was due meanwhile.
        self.credit_s = (self.credit_s + self.share * elapsed_s - used_s).min(saved_max);
        if self.credit_s < 0.0 { -self.credit_s / self.share } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job of some threads that runs whenever it may, looked at as `Throttle` does but late by `late_s`. Returns
    /// the cores it used on average.
    fn average(share: f64, threads: f64, late_s: f64) -> f64 {
        let mut bucket = Bucket::new(share);
        let (mut now_s, mut used_s, mut pause_s) = (0.0, 0.0, 0.0_f64);
        while now_s < 1000.0 {
            let elapsed_s = if pause_s > 0.0 { pause_s } else { PERIOD.as_secs_f64() } + late_s;
            let used_now_s = if pause_s > 0.0 { 0.0 } else { elapsed_s * threads };
            now_s += elapsed_s;
            used_s += used_now_s;
            pause_s = bucket.charge(elapsed_s, used_now_s);
        }
        used_s / now_s
    }

    #[test]
    fn busy_jobs_get_their_share() {
        let check = |share: f64, threads: f64, late_s: f64, expected: f64| {
            let found = average(share, threads, late_s);
            assert!((found - expected).abs() < 0.02 * expected, "{share} {threads} {late_s}: {found}");
        };
        check(0.25, 1.0, 0.0, 0.25);
        check(0.25, 1.0, 0.03, 0.25);
        check(0.01, 1.0, 0.0, 0.01);
        check(1.5, 4.0, 0.0, 1.5);
        check(2.0, 8.0, 0.01, 2.0);
        // It cannot use more than its threads can.
        check(2.0, 1.0, 0.0, 1.0);
    }

    #[test]
    fn an_idle_job_saves_little() {
        let mut bucket = Bucket::new(0.5);
        assert_eq!(bucket.charge(100.0, 0.0), 0.0);
        // A tenth of a second's worth is 0.05 s of CPU time.
        assert_eq!(bucket.charge(0.0, 0.05), 0.0);
        assert!(bucket.charge(0.0, 0.01) > 0.0);
    }
}
