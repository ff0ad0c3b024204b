//! Watching one running job until nothing of it is left: its walltime, its cancellation, its throttle, its end.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use pliant_launcher::Signal;
use pliant_wire::Outcome;
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, getpid, kill_process, waitid};
use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM};

use super::account::{Signalled, Signaller};
use super::cgroup::Cgroup;
use super::disk::DiskMeter;
use super::folder::Folder;
use super::group::ProcessGroup;
use super::job_folder::remove_leftovers;
use super::limits::LimitWatch;
use super::persistence::complain;
use super::spec::RunSpec;
use super::table::{self, Process};
use super::throttle::Throttle;

/// How often a cancellation is looked for that came without a signal.
const CANCEL_PERIOD: Duration = Duration::from_secs(1);
/// How soon the end is asked for again that could not be asked for.
const ASK_PERIOD: Duration = Duration::from_millis(100);
/// Who wakes up so much later than asked for was stopped, with all of the job, as batch systems suspend jobs.
const SUSPENDED: Duration = Duration::from_secs(2);
/// How often killing is repeated, and how long at most, for a process that the kernel does not let go.
const KILL_PERIOD: Duration = Duration::from_millis(20);
const KILL_AT_MOST: Duration = Duration::from_secs(5);
/// How often processes are stopped before they are killed, until no new ones appear, and how long at most.
const STOP_ROUNDS: u32 = 50;
const STOP_AT_MOST: Duration = Duration::from_secs(1);
/// How often killing may be refused, once a second, before a job ends with what is left of it. It runs as another user by then, and no more
/// can be done here.
const REFUSALS_MAX: u32 = 10;
/// How many processes are named that are left.
const NAMED_MAX: usize = 20;

/// The signals that a supervisor listens to.
#[derive(Debug)]
pub(super) struct Signals {
    wakes: UnixStream,
    is_terminated: Arc<AtomicBool>,
}

impl Signals {
    /// Listens from now on. SIGINT is the same as SIGTERM. What the job does about signals is not touched: handlers
    /// end with `exec`.
    ///
    /// # Errors
    /// The system refuses, for example for want of open files.
    pub(super) fn listen() -> io::Result<Signals> {
        let (wakes, waker) = UnixStream::pair()?;
        // All of them before anything is registered for good: this may be tried again for want of open files.
        let wakers = [(SIGTERM, waker.try_clone()?), (SIGINT, waker.try_clone()?)];
        let is_terminated = Arc::new(AtomicBool::new(false));
        for (signal, waker) in wakers {
            // Actions run in this order: the woken supervisor finds the flag set.
            signal_hook::flag::register(signal, is_terminated.clone())?;
            signal_hook::low_level::pipe::register(signal, waker)?;
        }
        signal_hook::low_level::pipe::register(SIGCHLD, waker)?;
        Ok(Signals { wakes, is_terminated })
    }

    pub(super) fn is_terminated(&self) -> bool {
        self.is_terminated.load(Ordering::SeqCst)
    }

    /// Sleeps until a signal comes or came since the last call, or the time is over.
    pub(super) fn wait(&mut self, at_most: Duration) {
        // Zero would mean for ever.
        let at_most = at_most.max(Duration::from_millis(1));
        let mut wakes = [0; 64];
        let woken = self.wakes.set_read_timeout(Some(at_most)).and_then(|()| self.wakes.read(&mut wakes));
        // A timeout and an interruption are both a reason to look again, and there is no other failure.
        drop(woken);
    }
}

/// The outcome of a job.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) outcome: Outcome,
    pub(super) over_walltime: bool,
    pub(super) over_limit: Option<String>,
    pub(super) cancelled: bool,
    /// What could not be ended.
    pub(super) left: Vec<String>,
    /// When its first process was gone.
    pub(super) ended_at: Instant,
    pub(super) cpu_s: f64,
    pub(super) max_rss_kb: Option<u64>,
}

/// Why a job is being ended.
#[derive(PartialEq, Eq)]
enum Reason {
    OverWalltime,
    OverLimit(String),
    Cancelled,
}

/// A running job.
pub(super) struct Watch<'a> {
    pub(super) folder: &'a Folder,
    pub(super) spec: &'a RunSpec,
    pub(super) signals: &'a mut Signals,
    /// Its processes, but for those that left the group.
    pub(super) group: ProcessGroup,
    /// The cgroup that all of its processes are in, if it has one.
    pub(super) cgroup: Option<&'a Cgroup>,
    /// How they are signalled, if the job runs as an account.
    pub(super) account: Option<Signaller>,
    pub(super) started_at: Instant,
}

impl Watch<'_> {
    /// Watches the job to its end. Must be called in a process that has no other children.
    pub(super) fn run(mut self) -> Watched {
        let mut throttle = self
            .spec
            .cpu_share
            .map(|share| Throttle::new(getpid(), self.group.leader(), share, self.started_at));
        let limits = &self.spec.limits;
        let mut limit_watch =
            LimitWatch::new(limits, getpid(), self.disk_meter(), self.cgroup, self.started_at);
        // A walltime beyond what the clock can express is none.
        let mut deadline = self.started_at.checked_add(Duration::from_secs(self.spec.walltime_s));
        let mut cancel_due = self.started_at;
        let mut ending: Option<(Reason, Option<Instant>)> = None;
        let (mut is_asked, mut refusals) = (false, 0);
        // When it was last known to be awake, and how long it has slept on purpose since: it may have been stopped before this.
        let (mut awake, mut slept) = (self.started_at, Duration::ZERO);
        let outcome = loop {
            if let Some(outcome) = self.group.outcome() {
                break outcome;
            }
            self.reap_others();
            let now = Instant::now();
            let late = (now - awake).saturating_sub(slept);
            if late >= SUSPENDED {
                // The batch system had stopped the whole job, wherever we were: that time is not the job's.
                deadline = deadline.and_then(|deadline| deadline.checked_add(late));
            }
            (awake, slept) = (now, Duration::ZERO);
            let mut wake_in = CANCEL_PERIOD;
            match &mut ending {
                None => {
                    let looks = now >= cancel_due;
                    if looks {
                        cancel_due = now + CANCEL_PERIOD;
                    }
                    let reason = if self.signals.is_terminated() || looks && self.folder.is_cancel_asked() {
                        Some(Reason::Cancelled)
                    } else {
                        deadline.filter(|&deadline| now >= deadline).map(|_| Reason::OverWalltime)
                    };
                    if let Some(reason) = reason {
                        is_asked = self.ask_to_end();
                        if let Some(mut throttle) = throttle.take() {
                            throttle.release();
                        }
                        ending = Some((reason, now.checked_add(Duration::from_secs(self.spec.grace_s))));
                        continue;
                    }
                    if let Some(deadline) = deadline {
                        wake_in = wake_in.min(deadline - now);
                    }
                    let (exceeded, look_in) = limit_watch.look(now);
                    if let Some(what) = exceeded {
                        // At once: it would use more until then.
                        self.kill_all();
                        is_asked = true;
                        ending = Some((Reason::OverLimit(what), now.checked_add(CANCEL_PERIOD)));
                        continue;
                    }
                    wake_in = look_in.map_or(wake_in, |look_in| wake_in.min(look_in));
                    if let Some(throttle) = &mut throttle {
                        wake_in = wake_in.min(throttle.tick(now));
                    }
                }
                Some((_, kill_at)) => match *kill_at {
                    Some(at) if now < at && !is_asked => {
                        is_asked = self.ask_to_end();
                        wake_in = wake_in.min(at - now).min(ASK_PERIOD);
                    }
                    Some(at) if now >= at => {
                        refusals = if self.kill_all() == Signalled::Refused { refusals + 1 } else { 0 };
                        if refusals >= REFUSALS_MAX {
                            break Outcome::Signal(rustix::process::Signal::KILL.as_raw());
                        }
                        // Again, if the kernel does not let it go.
                        *kill_at = Some(now + CANCEL_PERIOD);
                    }
                    Some(at) => wake_in = wake_in.min(at - now),
                    None => {}
                },
            }
            self.signals.wait(wake_in);
            slept = wake_in;
        };
        let ended_at = Instant::now();
        self.end_rest();
        let left = self.left(limit_watch.meter());
        let (cpu_s, max_rss_kb) = usage();
        let by_kernel = || self.cgroup.and_then(Cgroup::exceeded).map(Reason::OverLimit);
        let reason = ending.map(|(reason, _)| reason).or_else(by_kernel);
        if let Some(account) = &self.spec.account
            && let Err(error) = remove_leftovers(account, limit_watch.meter())
        {
            complain(&error);
        }
        Watched {
            outcome,
            over_walltime: reason == Some(Reason::OverWalltime),
            cancelled: reason == Some(Reason::Cancelled),
            over_limit: match reason {
                Some(Reason::OverLimit(what)) => Some(what),
                _ => None,
            },
            left,
            ended_at,
            cpu_s,
            max_rss_kb,
        }
    }

    /// What measures the files of the job.
    fn disk_meter(&self) -> DiskMeter {
        match &self.spec.account {
            None => {
                let outputs = ["stdout", "stderr"].map(|name| self.folder.path().join(name));
                DiskMeter::own(self.folder.work(), outputs)
            }
            Some(account) => DiskMeter::account(account.clone()),
        }
    }

    /// TERM for the group. False if it has to be sent again.
    fn ask_to_end(&self) -> bool {
        match &self.account {
            Some(account) => account.ask_to_end(self.leader()),
            None => {
                self.group.ask_to_end();
                true
            }
        }
    }

    fn leader(&self) -> i32 {
        self.group.leader().as_raw_nonzero().get()
    }

    /// KILL for the group and for whatever left it.
    fn kill_all(&self) -> Signalled {
        if self.cgroup.is_some_and(Cgroup::kill) {
            return Signalled::All;
        }
        self.stop_all();
        match &self.account {
            Some(account) => _ = account.kill_group(self.leader()),
            None => self.group.kill(),
        }
        // One by one: a signal to a group succeeds if one of it can be signalled.
        self.signal_descendants(Signal::Kill, |_| true).1
    }

    /// The processes of the job that are still there, with their users.
    fn left(&self, meter: Option<i32>) -> Vec<String> {
        let processes = table::descendants(getpid());
        let left = processes.iter().filter(|process| !process.is_zombie && Some(process.pid) != meter);
        let named =
            left.take(NAMED_MAX).map(|process| format!("{} (uids {:?})", process.pid, process.uids()));
        named.collect()
    }

    /// Stops all processes, so that none starts others while they are killed one by one: the processes of a fork bomb are more at
    /// the end of each round than at its beginning.
    fn stop_all(&self) {
        let (begin, mut stopped) = (Instant::now(), 0);
        for _ in 0..STOP_ROUNDS {
            let (now, _) = self.signal_descendants(Signal::Stop, |_| true);
            if now <= stopped || begin.elapsed() >= STOP_AT_MOST {
                return;
            }
            stopped = now;
            // What has ended already counts for the processes that the account may have.
            self.reap_others();
        }
    }

    /// Signals those of the job's processes that a function selects. Returns how many there are.
    fn signal_descendants(&self, signal: Signal, is_meant: impl Fn(&Process) -> bool) -> (usize, Signalled) {
        let processes = table::descendants(getpid());
        let alive = processes.iter().filter(|process| !process.is_zombie && is_meant(process));
        // Its parents up to us are alive or waiting to be reaped by us, so the id is still its own or not in use.
        let alive: Vec<Pid> = alive.filter_map(Process::id).collect();
        let signalled = match &self.account {
            // The launcher is not called for nothing: most jobs leave nothing.
            _ if alive.is_empty() => Signalled::All,
            Some(account) => {
                account.send(signal, alive.iter().map(|pid| pid.as_raw_nonzero().get()).collect())
            }
            None => {
                let is_refused = |pid: &Pid| kill_process(*pid, system_signal(signal)) == Err(Errno::PERM);
                match alive.iter().filter(|pid| is_refused(pid)).count() {
                    0 => Signalled::All,
                    _ => Signalled::Refused,
                }
            }
        };
        (alive.len(), signalled)
    }

    /// After the leader's end: kills and reaps until nothing is left.
    fn end_rest(&mut self) {
        // Without leaving a moment in which the group's id could be given to another process: the leader is a zombie.
        self.kill_rest();
        let _ = waitid(WaitId::Pid(self.group.leader()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        let begin = Instant::now();
        // `Err` is ECHILD: no children, and a descendant without a parent is our child.
        while self.reap_any() && begin.elapsed() < KILL_AT_MOST {
            // What measures the files of an account's job is not in the job's cgroup.
            if !self.cgroup.is_some_and(Cgroup::kill) || self.account.is_some() {
                self.stop_all();
                self.signal_descendants(Signal::Kill, |_| true);
            }
            if self.reap_any() {
                self.signals.wait(KILL_PERIOD);
            }
        }
    }

    /// KILL for what is left of the group; of a job that runs as an account, for all that is left.
    fn kill_rest(&self) {
        match &self.account {
            None => self.group.kill(),
            Some(_) => _ = self.signal_descendants(Signal::Kill, |_| true),
        }
    }

    /// Reaps children that are gone; says whether there are children left.
    fn reap_any(&self) -> bool {
        loop {
            match waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    /// While the leader runs: reaps orphans of the job, which are our children, but not the leader.
    fn reap_others(&self) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        // Cheap when there is nothing to do; only if a child is gone does it take the process table to learn which.
        let Ok(Some(_)) = waitid(WaitId::All, options | WaitIdOptions::NOWAIT) else { return };
        let own = getpid().as_raw_nonzero().get();
        for orphan in table::all() {
            let is_ours = orphan.parent == own && orphan.is_zombie;
            if let (true, Some(pid)) = (is_ours && Some(self.group.leader()) != orphan.id(), orphan.id()) {
                let _ = waitid(WaitId::Pid(pid), options);
            }
        }
    }
}

fn system_signal(signal: Signal) -> rustix::process::Signal {
    match signal {
        Signal::Term => rustix::process::Signal::TERM,
        Signal::Kill => rustix::process::Signal::KILL,
        Signal::Stop => rustix::process::Signal::STOP,
        Signal::Cont => rustix::process::Signal::CONT,
    }
}

/// CPU seconds and KiB of all descendants that are gone: everybody, since orphans are ours to reap.
fn usage() -> (f64, Option<u64>) {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return (0.0, None) };
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    (seconds(usage.user_time()) + seconds(usage.system_time()), u64::try_from(usage.max_rss()).ok())
}
