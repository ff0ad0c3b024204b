//! The outcome of a job that has ended, or that the batch system does not know any more.
//!
//! Its folder has the first word: what its supervisor has recorded. Where there is no record, the accounts say how it
//! ended, or the listing.

use std::time::{Duration, Instant};

use pliant_control::batch::external::Event;
use pliant_control::job::Exit;
use pliant_control::listing::{ListedJob, State};
use pliant_model::{JobId, Time};
use pliant_site::BATCH_OUTPUT;
use pliant_site::processes::{self, FoundState, Lost};

use super::{Cluster, Job};
use crate::server::execution::{Retry, bounded, complaint, end_of, find_in};

/// How long a node's last writes may take to be seen here.
const SETTLED: Duration = Duration::from_secs(5);
/// The polling interval.
const PERIOD: Duration = Duration::from_millis(500);

impl Cluster {
    /// Polls until the outcome of a job is known.
    pub(super) async fn find_outcome(
        self,
        job: Job,
        ids: Vec<String>,
        listed: Option<Box<ListedJob>>,
    ) -> Event {
        let begin = Instant::now();
        loop {
            let found = found(&job).await;
            // What a node has written may not be seen here yet.
            let may_have_begun = listed.as_ref().is_some_and(|listed| listed.ever_started());
            let event = match found {
                FoundState::Ended(exit) => return recorded(&job, exit, listed.as_deref()),
                FoundState::Running => None,
                FoundState::Lost(_) | FoundState::NeverStarted
                    if may_have_begun && begin.elapsed() < SETTLED =>
                {
                    None
                }
                FoundState::Lost(why) => Some(self.lost(&job, &ids, listed.as_deref(), &why).await),
                FoundState::NeverStarted if job.had_started() => Some(job.missing()),
                FoundState::NeverStarted => {
                    let event = self.unclaimed(&job, &ids, listed.as_deref()).await;
                    self.stays_unclaimed(&job, &event).await.then_some(event)
                }
            };
            if let Some(event) = event {
                tracing::info!(job = job.number, ?ids, ?event, "looked for a job without a record");
                return event;
            }
            tokio::time::sleep(PERIOD).await;
        }
    }

    /// The outcome of a job that was begun and whose end is not recorded.
    async fn lost(&self, job: &Job, ids: &[String], listed: Option<&ListedJob>, why: &Lost) -> Event {
        let last = self.last_known(job, ids, listed).await;
        let exit = match last.as_ref().map(|last| &last.state) {
            Some(State::TimedOut) => Exit::OverWalltime,
            Some(State::Cancelled) => Exit::Cancelled,
            Some(State::NodeFailed | State::OutOfMemory | State::Preempted) => last
                .as_ref()
                .and_then(ListedJob::exit)
                .unwrap_or_else(|| Exit::Lost(bounded(why.to_string()))),
            _ => Exit::Lost(bounded(why.to_string())),
        };
        let started = last.as_ref().and_then(|last| last.started);
        ended(job, last.as_ref(), (exit, started, None))
    }

    /// The outcome of a job that was not begun.
    async fn unclaimed(&self, job: &Job, ids: &[String], listed: Option<&ListedJob>) -> Event {
        let number = JobId(job.number);
        let Some(last) = self.last_known(job, ids, listed).await else {
            return Event::Unclaimed { job: number };
        };
        let exit = match last.exit() {
            // From outside, perhaps when its batch script had only just begun.
            Some(Exit::Cancelled) => Exit::Cancelled,
            Some(exit) => {
                let why = self.complained(job).await;
                Exit::NotStarted(
                    why.unwrap_or_else(|| format!("its batch script ended before it began: {exit}")),
                )
            }
            None => return Event::Unclaimed { job: number },
        };
        ended(job, Some(&last), (exit, None, None))
    }

    /// Sees to it that a job which has ended without having begun never does: a copy of it may come to light that was
    /// submitted twice, or cancelled and restored. False if one has begun meanwhile.
    async fn stays_unclaimed(&self, job: &Job, event: &Event) -> bool {
        if !matches!(event, Event::Ended { .. } | Event::NodeFailed { .. }) {
            return true;
        }
        self.ask_end(job).await;
        matches!(found(job).await, FoundState::NeverStarted)
    }

    /// What the batch system or the supervisor has written into the output of the batch script.
    async fn complained(&self, job: &Job) -> Option<String> {
        let (folder, gate) = (job.folder.clone()?, self.gate(job).ok());
        let read = move || {
            let found = folder.last_line(BATCH_OUTPUT).map(|line| complaint(&line, folder.run_folder()));
            found.or_else(|| {
                gate.and_then(|gate| Some(complaint(&gate.last_line(BATCH_OUTPUT)?, gate.folder())))
            })
        };
        tokio::task::spawn_blocking(read).await.ok().flatten()
    }

    /// How the batch system says that a job ended.
    async fn last_known(&self, job: &Job, ids: &[String], listed: Option<&ListedJob>) -> Option<ListedJob> {
        if let Some(listed) = listed {
            return Some(listed.clone());
        }
        let system = self.system().await;
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let mut retry = Retry::new("see how a job ended", &job.number);
        loop {
            match system.ended(&ids).await {
                // A batch system that has lost its state gives the same ids again, perhaps to another job of this server.
                Ok(ended) => {
                    let is_its = |one: &ListedJob| one.job_number.is_none_or(|number| number == job.number);
                    return ended.into_values().rfind(is_its);
                }
                Err(error) if error.may_pass() => retry.after(&error).await,
                Err(error) => {
                    tracing::warn!(job = job.number, %error, "the batch system does not say how a job ended");
                    return None;
                }
            }
        }
    }
}

pub(super) async fn found(job: &Job) -> FoundState {
    match &job.folder {
        Some(folder) => find_in(&job.number, folder).await,
        None => FoundState::NeverStarted,
    }
}

fn recorded(job: &Job, exit: processes::Exit, listed: Option<&ListedJob>) -> Event {
    let started = i64::try_from(exit.started_unix_ms / 1000).ok().map(Time);
    let never_ran = matches!(exit.outcome, pliant_wire::Outcome::NotStarted(_));
    let (exit, elapsed_ms) = end_of(exit);
    // The batch system signals everybody at once: the job may be gone before its supervisor knows why.
    let exit = match listed.filter(|_| is_by_signal(&exit)) {
        Some(listed) => by_batch_system(exit, listed),
        None => exit,
    };
    ended(job, listed, (exit, started.filter(|_| !never_ran), elapsed_ms))
}

/// The end of a job, for its batch system: with how it has ended, when it started and how long it ran. A job that its node took with it
/// has ended in no other way.
fn ended(
    job: &Job,
    listed: Option<&ListedJob>,
    (exit, started, elapsed_ms): (Exit, Option<Time>, Option<u64>),
) -> Event {
    let job = JobId(job.number);
    let is_of_node = matches!(exit, Exit::Lost(_) | Exit::NotStarted(_));
    match listed.is_some_and(|listed| listed.state == State::NodeFailed) && is_of_node {
        true => Event::NodeFailed { job, exit, started },
        false => Event::Ended { job, exit, started, elapsed_ms },
    }
}

/// Whether it may have been ended from outside: a shell reports a signal to what it ran by a code above 128, and a supervisor that is
/// asked to end takes that for a cancellation.
fn is_by_signal(exit: &Exit) -> bool {
    matches!(exit, Exit::Signal(_) | Exit::Cancelled) || matches!(exit, Exit::Code(code) if *code > 128)
}

/// How a job ended that may have been ended by a signal.
fn by_batch_system(exit: Exit, listed: &ListedJob) -> Exit {
    match listed.state {
        State::Cancelled => Exit::Cancelled,
        State::TimedOut if exit != Exit::Cancelled => Exit::OverWalltime,
        State::NodeFailed | State::OutOfMemory | State::Preempted => listed.exit().unwrap_or(exit),
        _ => exit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_batch_system_decides_about_jobs_that_a_signal_ended() {
        let node_failed = || Exit::Lost("the batch system says: a node failed".to_owned());
        for (exit, state, expected) in [
            (Exit::Signal(15), State::Cancelled, Exit::Cancelled),
            (Exit::Code(143), State::Cancelled, Exit::Cancelled),
            (Exit::Code(137), State::TimedOut, Exit::OverWalltime),
            (Exit::Cancelled, State::TimedOut, Exit::Cancelled),
            (Exit::Cancelled, State::NodeFailed, node_failed()),
            (Exit::Code(143), State::NodeFailed, node_failed()),
            (Exit::Code(0), State::NodeFailed, Exit::Code(0)),
            (Exit::Code(3), State::Cancelled, Exit::Code(3)),
            (Exit::Code(143), State::Running, Exit::Code(143)),
        ] {
            let listed = ListedJob { state, ..ListedJob::default() };
            let exit = if is_by_signal(&exit) { by_batch_system(exit, &listed) } else { exit };
            assert_eq!(exit, expected, "{:?}", listed.state);
        }
    }
}
