//! What operators see and do.

use std::collections::BTreeMap;
use std::str::FromStr;

use pliant_control::agent::{ProposedMove, ReallocationConfig, ReallocationReport};
use pliant_control::names::Name;
use pliant_control::server::{Ban, Drain, LimitKey};
use pliant_model::Span;
use pliant_policy::reallocation::Reallocation;
use pliant_wire::{AuditEntry, LimitsList, ListedBan, ListedLimits, MovingChange};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{EstimateView, SilentView};

/// An act of an operator that lasts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct ActView {
    /// When.
    at_s: i64,
    /// The operator.
    by: String,
    /// The operator's reason.
    why: String,
}

impl From<Drain> for ActView {
    fn from(Drain { at, by, why }: Drain) -> ActView {
        ActView { at_s: at.0, by: by.to_string(), why }
    }
}

impl From<Ban> for ActView {
    fn from(Ban { at, by, why }: Ban) -> ActView {
        ActView { at_s: at.0, by: by.to_string(), why }
    }
}

/// What a server does after an act.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct ServerActView {
    /// The server.
    pub(crate) server: String,
    /// The act that holds there now; none if none does.
    pub(crate) act: Option<ActView>,
}

/// What servers do after an act, and those that did not answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct ServerActsView {
    /// The servers that answered.
    pub(crate) servers: Vec<ServerActView>,
    /// Those that did not.
    pub(crate) silent: Vec<SilentView>,
}

/// The limits of a user at a server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct UserLimitsView {
    /// The server.
    server: String,
    /// The user.
    user: String,
    /// The limits, by `running-jobs`, `processors`, `waiting-jobs` and `waiting-bytes`.
    limits: BTreeMap<&'static str, u64>,
    /// When they were last changed, by whom, and why.
    act: ActView,
}

impl UserLimitsView {
    /// Limits at that server.
    pub(crate) fn of(server: &Name, listed: ListedLimits) -> UserLimitsView {
        let ListedLimits { user, limits, at, by, why } = listed;
        let values = limits.into_iter().filter_map(|limit| Some((limit.key.word(), limit.value?)));
        UserLimitsView {
            server: server.to_string(),
            user: user.to_string(),
            limits: values.collect(),
            act: ActView { at_s: at.0, by: by.to_string(), why },
        }
    }
}

/// A user of whom a server accepts nothing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct UserBanView {
    /// The server.
    server: String,
    /// The user.
    user: String,
    /// When the user was banned, by whom, and why.
    act: ActView,
}

impl UserBanView {
    /// A ban at that server.
    pub(crate) fn of(server: &Name, ListedBan { user, ban }: ListedBan) -> UserBanView {
        UserBanView { server: server.to_string(), user: user.to_string(), act: ban.into() }
    }
}

/// The limits of users, and the banned users.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct LimitsView {
    /// The limits, by user and server.
    pub(crate) limits: Vec<UserLimitsView>,
    /// The banned users, by user and server; none in the answer to an act.
    pub(crate) bans: Vec<UserBanView>,
    /// Servers that did not answer.
    pub(crate) silent: Vec<SilentView>,
}

impl LimitsView {
    /// The answers of servers, and those that did not answer.
    pub(crate) fn of(came: Vec<(Name, LimitsList)>, silent: Vec<SilentView>) -> LimitsView {
        let mut view = LimitsView { limits: Vec::new(), bans: Vec::new(), silent };
        for (server, LimitsList { users, bans }) in came {
            view.limits.extend(users.into_iter().map(|limits| UserLimitsView::of(&server, limits)));
            view.bans.extend(bans.into_iter().map(|ban| UserBanView::of(&server, ban)));
        }
        view.limits.sort_by(|one, other| (&one.user, &one.server).cmp(&(&other.user, &other.server)));
        view.bans.sort_by(|one, other| (&one.user, &one.server).cmp(&(&other.user, &other.server)));
        view
    }
}

/// A reason.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WhyBody {
    /// The reason, of one line; journals keep it, and users may see it.
    pub(crate) why: String,
}

/// A priority for a waiting job.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PriorityBody {
    /// The reason, of one line.
    pub(crate) why: String,
    /// The highest is served first; others have 0. From -1,000,000 to 1,000,000.
    pub(crate) priority: i64,
}

/// An act about a server.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DrainBody {
    /// The server.
    pub(crate) server: String,
    /// True to accept no new jobs, false to accept jobs again.
    pub(crate) drained: bool,
    /// The reason, of one line; users see that of a drain.
    pub(crate) why: String,
}

/// An act about a user.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BanBody {
    /// The user.
    pub(crate) user: String,
    /// True to accept nothing of the user, false to end that.
    pub(crate) banned: bool,
    /// The reason, of one line; the user sees that of a ban.
    pub(crate) why: String,
    /// The servers; all if there are none.
    #[serde(default)]
    pub(crate) servers: Vec<String>,
}

/// Limits for a user.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitBody {
    /// The user.
    pub(crate) user: String,
    /// The limits to change, by `running-jobs`, `processors`, `waiting-jobs` and `waiting-bytes`: a number, or null for no limit.
    pub(crate) limits: BTreeMap<String, Option<u64>>,
    /// The reason, of one line; the user sees it.
    pub(crate) why: String,
    /// The servers; all if there are none.
    #[serde(default)]
    pub(crate) servers: Vec<String>,
}

/// The words of all limits.
pub(crate) fn limit_words() -> String {
    LimitKey::ALL.map(LimitKey::word).join(", ")
}

/// A record of the audit trail.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct AuditEntryView {
    /// The server or agent that keeps it.
    server: String,
    /// Its number there.
    number: u64,
    /// When.
    at_s: i64,
    /// The caller, as `user/alice`, `operator/root` or `server/lyon`.
    by: String,
    /// The act, in a word.
    act: String,
    /// The job, if the act is about one.
    job_id: Option<String>,
    /// The user, if the act is about one.
    user: Option<String>,
    /// The reason, the other server of a move, or what was refused.
    why: String,
}

impl AuditEntryView {
    /// A record of that daemon.
    pub(crate) fn of(daemon: &Name, entry: AuditEntry) -> AuditEntryView {
        let AuditEntry { number, at, by, act, job, why, user } = entry;
        AuditEntryView {
            server: daemon.to_string(),
            number,
            at_s: at.0,
            by,
            act,
            job_id: job.map(|job| job.to_string()),
            user: user.map(|user| user.to_string()),
            why,
        }
    }

    /// The newest first; those of one daemon by their numbers.
    pub(crate) fn order(&self) -> impl Ord + use<> {
        std::cmp::Reverse((self.at_s, self.server.clone(), self.number))
    }
}

/// The last records of audit trails.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct AuditView {
    /// The records, the newest first.
    pub(crate) records: Vec<AuditEntryView>,
    /// Servers and agents that did not answer.
    pub(crate) silent: Vec<SilentView>,
}

/// How waiting jobs are moved.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct ReallocationView {
    /// The policy; none if jobs are not moved.
    pub(crate) policy: Option<ReallocationPolicyView>,
}

/// A reallocation policy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct ReallocationPolicyView {
    /// The algorithm.
    algorithm: &'static str,
    /// The heuristic.
    heuristic: &'static str,
    /// The time between two cycles.
    period_s: i64,
    /// How much earlier a job has to complete elsewhere.
    threshold_s: i64,
    /// How many waiting jobs of a cluster are looked at.
    window: usize,
    /// A cycle also starts when a job has ended early, at least this long after the last one; none: only by the period.
    early_s: Option<i64>,
}

impl From<&ReallocationConfig> for ReallocationPolicyView {
    fn from(config: &ReallocationConfig) -> ReallocationPolicyView {
        let policy = &config.policy;
        ReallocationPolicyView {
            algorithm: policy.algorithm.name(),
            heuristic: policy.heuristic.name(),
            period_s: policy.period.0,
            threshold_s: policy.threshold.0,
            window: policy.window,
            early_s: config.early.map(|early| early.0),
        }
    }
}

/// A change of how waiting jobs are moved, until it is changed again, also over restarts of the agent.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum ReallocationBody {
    /// Moves jobs by this policy.
    Set {
        /// The algorithm, as `pliant policies` lists it.
        algorithm: String,
        /// The heuristic, as `pliant policies` lists it.
        heuristic: String,
        /// The time between two cycles, 1 s to a week.
        period_s: i64,
        /// How much earlier a job has to complete elsewhere, at most a week.
        threshold_s: i64,
        /// How many waiting jobs are looked at together, at least 1.
        window: u32,
        /// A cycle also starts when a job has ended early, at least this long after the last one; none: only by the period.
        #[serde(default)]
        early_s: Option<i64>,
    },
    /// Moves no jobs.
    Off,
    /// Returns to the policy in the file of the agent.
    Reset,
}

/// The longest period, threshold and pause of a reallocation policy, in seconds: a week, as in the file of an agent.
const WEEK_S: i64 = 7 * 86_400;

impl TryFrom<ReallocationBody> for MovingChange {
    type Error = String;

    fn try_from(body: ReallocationBody) -> Result<MovingChange, String> {
        let (algorithm, heuristic, period_s, threshold_s, window, early_s) = match body {
            ReallocationBody::Off => return Ok(MovingChange::Off),
            ReallocationBody::Reset => return Ok(MovingChange::Reset),
            ReallocationBody::Set { algorithm, heuristic, period_s, threshold_s, window, early_s } => {
                (algorithm, heuristic, period_s, threshold_s, window, early_s)
            }
        };
        let span = |key: &str, found: i64, least: i64| match found {
            found if (least..=WEEK_S).contains(&found) => Ok(Span(found)),
            found => Err(format!("{key}: expected {least} s to a week, found {found}")),
        };
        if window == 0 {
            return Err("window: expected at least 1 job, found 0".to_owned());
        }
        let policy = Reallocation {
            algorithm: named("algorithm", &algorithm)?,
            heuristic: named("heuristic", &heuristic)?,
            period: span("period_s", period_s, 1)?,
            threshold: span("threshold_s", threshold_s, 0)?,
            window: window as usize,
        };
        let early = early_s.map(|early_s| span("early_s", early_s, 1)).transpose()?;
        Ok(MovingChange::Set(ReallocationConfig { policy, early }))
    }
}

/// A name of a policy.
fn named<T: FromStr<Err: std::fmt::Display>>(key: &str, word: &str) -> Result<T, String> {
    word.parse().map_err(|error| format!("{key}: {error}"))
}

/// What a reallocation cycle would do now.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct TrialView {
    /// Why no cycle ran.
    refused: Option<String>,
    /// How many jobs could be moved.
    movable: u32,
    /// Servers that sent no queue.
    silent: Vec<String>,
    /// The moves that it would make.
    moves: Vec<ProposalView>,
}

/// A move that a cycle would make.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct ProposalView {
    /// The job ID.
    job_id: String,
    /// The server where it waits.
    from: String,
    /// The server where it would wait.
    to: String,
    /// The completion that is expected where it waits; none if it is not planned there.
    before_s: Option<i64>,
    /// What the other server estimates.
    expected: EstimateView,
}

impl From<&ReallocationReport> for TrialView {
    fn from(report: &ReallocationReport) -> TrialView {
        let proposal = |one: &ProposedMove| ProposalView {
            job_id: one.job.to_string(),
            from: one.from.to_string(),
            to: one.to.to_string(),
            before_s: Some(one.before)
                .filter(|before| *before != pliant_model::Time::MAX)
                .map(|before| before.0),
            expected: (&one.expected).into(),
        };
        TrialView {
            refused: report.refused.clone(),
            movable: report.movable,
            silent: report.silent.iter().map(Name::to_string).collect(),
            moves: report.proposals.iter().map(proposal).collect(),
        }
    }
}
