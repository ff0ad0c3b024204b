//! Jobs as the federation keeps them: what was asked, what was promised, what happened.

use std::collections::BTreeMap;
use std::fmt;

use pliant_model::{Estimate, JobId, MoveReason, Procs, Request, Span, SpanMs, Speed, Speedup, Time};
use serde::{Deserialize, Serialize};

use crate::names::{Handle, Key, Name, User};
use crate::reason::DiscoverySummary;

/// The state of a job, by the names of PSI/J (Portable Submission Interface for Jobs).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum JobState {
    /// Accepted by the server, not yet in its batch system's queue.
    New,
    /// Waits in the queue.
    Queued,
    /// Runs.
    Active,
    /// Ended by itself with exit code 0.
    Completed,
    /// Ended in any other way: see [`JobRecord::exit`].
    Failed,
    /// Cancelled by its owner or an operator.
    Canceled,
}

impl JobState {
    /// Every state, in the order in which a job goes through them.
    pub const ALL: [JobState; 6] = [
        JobState::New,
        JobState::Queued,
        JobState::Active,
        JobState::Completed,
        JobState::Failed,
        JobState::Canceled,
    ];

    /// True if nothing more happens to a job in this state.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled)
    }

    /// The name that users and scripts see.
    pub fn word(self) -> &'static str {
        match self {
            Self::New => "NEW",
            Self::Queued => "QUEUED",
            Self::Active => "ACTIVE",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Canceled => "CANCELED",
        }
    }

    /// The state of that name.
    pub fn from_word(word: &str) -> Option<JobState> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// The shape of what is asked for, on a cluster of speed 1.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Work {
    /// Processors that the walltime is given on.
    pub procs: Procs,
    /// Walltime on `procs` processors of speed 1.
    pub walltime: Span,
    /// How the time changes with the number of processors.
    pub speedup: Speedup,
}

impl Work {
    /// The request that policies see.
    pub fn request(&self, id: JobId, submit: Time) -> Request {
        let Work { procs, walltime, speedup } = self.clone();
        Request::new(id, submit, procs, walltime, speedup)
    }

    /// The same on the fewest processors that will do, and no others: what gets most done where many such works wait
    /// for processors. None if its speedup model allows no size at all.
    pub fn narrowest(&self) -> Option<Work> {
        let request = self.request(JobId(0), Time::ZERO);
        let walltimes = request.on(Procs(u32::MAX), Speed::REFERENCE)?;
        let procs = walltimes.least();
        Some(Work { procs, walltime: walltimes.at(procs), speedup: Speedup::Rigid })
    }
}

/// How a job's process ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal, which neither its walltime nor a cancellation sent.
    Signal(i32),
    /// Over its walltime, and ended for it.
    OverWalltime,
    /// Ended because it was cancelled.
    Cancelled,
    /// Never ran: the program could not be started, and why.
    NotStarted(String),
    /// Its end was not seen: the machine or the supervisor of the job went down while it ran, and how that was
    /// found. The job is not run again.
    Lost(String),
}

impl Exit {
    /// The final state of a job that ended so.
    pub fn state(&self) -> JobState {
        match self {
            Self::Code(0) => JobState::Completed,
            Self::Cancelled => JobState::Canceled,
            _ => JobState::Failed,
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::OverWalltime => write!(f, "over its walltime"),
            Self::Cancelled => write!(f, "cancelled"),
            Self::NotStarted(why) => write!(f, "could not be started: {why}"),
            Self::Lost(why) => write!(f, "lost: {why}"),
        }
    }
}

/// One of the estimates that were compared before a job was sent where it is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Compared {
    /// The server that gave it.
    pub server: Name,
    /// What it would have given.
    pub estimate: Estimate,
}

/// A waiting job's way from one server to another.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Hop {
    /// Where it waited.
    pub from: Name,
    /// Where it waits from then on.
    pub to: Name,
    /// The attempt that succeeded: see [`HandoffId`](crate::handoff::HandoffId).
    pub attempt: u32,
    /// When the new server took it.
    pub at: Time,
    /// The completion that was expected of it where it waited; [`Time::MAX`] if it was not planned there.
    pub before: Time,
    /// What the new server promised.
    pub expected: Estimate,
    /// Why.
    pub reason: MoveReason,
}

/// How long a job does not go back to a server on which it was not planned, the first time.
const AVOIDED_FOR: Span = Span(3_600);

/// The servers that a job that came this way is not to go back to for now: it waited there without a plan, for a reason that a
/// snapshot may not show (a reservation, a limit on its owner), so that they would always seem to be better. It may after an
/// hour, and each time that this was in vain after twice as long.
pub fn avoided(hops: &[Hop], now: Time) -> Vec<Name> {
    let mut until: BTreeMap<&Name, (Time, Span)> = BTreeMap::new();
    for hop in hops.iter().filter(|hop| hop.before == Time::MAX) {
        let (end, pause) = until.entry(&hop.from).or_insert((Time(i64::MIN), AVOIDED_FOR));
        *end = hop.at + *pause;
        *pause = Span((pause.0 * 2).min(i64::MAX / 8));
    }
    until.into_iter().filter(|(_, (end, _))| now < *end).map(|(server, _)| server.clone()).collect()
}

/// Everything that is known of one job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JobRecord {
    /// What the user holds of it.
    pub handle: Handle,
    /// What makes the submission unique.
    pub key: Key,
    /// Whose it is.
    pub owner: User,
    /// The service, or the script's name.
    pub name: String,
    /// What was asked for.
    pub work: Work,
    /// Where it is.
    pub state: JobState,
    /// When it was accepted.
    pub submitted: Time,
    /// What the server promised when it accepted: the shape in which it was queued, start and completion.
    pub expected: Estimate,
    /// The processors it runs or ran on: fewer than expected if it is folded.
    pub procs: Procs,
    /// The walltime it has on them.
    pub walltime: Span,
    /// When it started.
    pub started: Option<Time>,
    /// When it ended.
    pub ended: Option<Time>,
    /// How it ended.
    pub exit: Option<Exit>,
    /// The estimates that were compared; empty in what servers tell agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compared: Vec<Compared>,
    /// What came of asking the others; empty in what servers tell agents.
    #[serde(default, skip_serializing_if = "DiscoverySummary::is_empty")]
    pub survey: DiscoverySummary,
    /// Its user chose the server: it is not moved.
    #[serde(default, skip_serializing_if = "is_false")]
    pub pinned: bool,
    /// How it came to where it is, if it was moved since it was accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<Hop>,
    /// What it teaches of how long its service takes, known once it has ended well: on a processor of speed 1 and the fewest
    /// that the work takes, divided by what the arguments make of it. Scripts teach nothing of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taught: Option<SpanMs>,
    /// How long it ran, in the same terms but whatever its arguments were; of a batch the mean of its instances. Servers of earlier
    /// versions do not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran: Option<SpanMs>,
    /// The size that would have completed it first, if it was given another one for the sake of other jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_choice: Option<SizeChoice>,
}

/// What a job gave up when its server chose a size for it, and what others gained.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SizeChoice {
    /// What the job would have got in the size that completes first.
    pub earliest: Estimate,
    /// How many other jobs ran or waited on the cluster.
    pub other_jobs: u32,
}

/// For fields that are written only where they say something.
pub(crate) fn is_false(value: &bool) -> bool {
    !value
}

impl JobRecord {
    /// The server that has the job.
    pub fn server(&self) -> &Name {
        self.hops.last().map_or(&self.handle.server, |hop| &hop.to)
    }

    /// How far the job is: of two records of a job the one that is further is the newer one.
    pub fn progress(&self) -> (usize, u8) {
        let state = match self.state {
            JobState::New | JobState::Queued => 0,
            JobState::Active => 1,
            JobState::Completed | JobState::Failed | JobState::Canceled => 2,
        };
        (self.hops.len(), state)
    }

    /// How much later than expected it started; negative if earlier.
    pub fn start_error(&self) -> Option<Span> {
        Some(self.started? - self.expected.start)
    }

    /// How much later than expected it ended; negative if earlier. A job that never ran has none.
    pub fn completion_error(&self) -> Option<Span> {
        self.started?;
        Some(self.ended? - self.expected.completion())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_a_word_of_its_own_and_is_written_as_it() {
        for state in JobState::ALL {
            assert_eq!(JobState::from_word(state.word()), Some(state));
            assert_eq!(serde_json::to_string(&state).unwrap(), format!("\"{}\"", state.word()));
        }
        assert_eq!(JobState::from_word("queued"), None);
    }

    #[test]
    fn a_job_does_not_go_back_to_where_it_was_not_planned_for_longer_each_time() {
        const H: i64 = 3_600;
        let hop = |from: &str, at, before| Hop {
            from: from.parse().unwrap(),
            to: "paris".parse().unwrap(),
            attempt: 1,
            at: Time(at),
            before,
            expected: Estimate { procs: Procs(1), walltime: Span(60), start: Time(at) },
            reason: MoveReason::EarlierCompletion,
        };
        let hops = [
            hop("lyon", 0, Time::MAX),
            hop("nancy", 10, Time(20)),
            hop("lyon", 2 * H, Time::MAX),
            hop("nancy", 2 * H, Time::MAX),
        ];
        let check = |hops: &[Hop], now, expected: &[&str]| {
            let found = avoided(hops, Time(now));
            assert_eq!(found.iter().map(Name::as_str).collect::<Vec<_>>(), expected, "at {now}");
        };
        check(&hops[..2], H - 1, &["lyon"]);
        check(&hops[..2], H, &[]);
        check(&hops, 3 * H - 1, &["lyon", "nancy"]);
        check(&hops, 3 * H, &["lyon"]);
        check(&hops, 4 * H, &[]);
    }

    #[test]
    fn only_code_0_completes() {
        assert_eq!(Exit::Code(0).state(), JobState::Completed);
        assert_eq!(Exit::Cancelled.state(), JobState::Canceled);
        let failed = [Exit::Code(1), Exit::Signal(9), Exit::OverWalltime, Exit::NotStarted(String::new())];
        assert!(failed.iter().all(|exit| exit.state() == JobState::Failed));
    }
}
