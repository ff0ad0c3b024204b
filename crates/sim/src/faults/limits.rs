//! Operators limit users at all servers, and end the limits before the last fault. An operator repeats an act until it is answered.

use std::collections::BTreeMap;

use pliant_control::job::{JobRecord, JobState};
use pliant_control::names::{Handle, Token, User};
use pliant_control::server::{Event, LimitChange, LimitKey, UserLimits};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::Bug;
use super::checks::Violation;
use super::drains::REPEAT_AFTER;
use super::plan::USERS;
use super::world::{World, WorldEvent};

/// The limits of a user, and when they begin and end, in milliseconds.
pub(super) struct PlannedLimit {
    user: User,
    values: Vec<(LimitKey, u64)>,
    from: u64,
    to: u64,
}

impl PlannedLimit {
    /// Draws limits of about three of four users, between the begin of a schedule and its last fault.
    pub(super) fn draw(rng: &mut ChaCha8Rng, until: u64) -> Vec<PlannedLimit> {
        let mut limits = Vec::new();
        for number in 0..USERS {
            let from = rng.random_range(0..until / 3);
            let to = from + rng.random_range(1..until / 2);
            let most = [(LimitKey::RunningJobs, 3), (LimitKey::Processors, 6), (LimitKey::WaitingJobs, 8)];
            let mut values: Vec<(LimitKey, u64)> = Vec::new();
            for (key, most) in most {
                let value = rng.random_range(1..=most);
                if rng.random_bool(0.6) {
                    values.push((key, value));
                }
            }
            if !values.is_empty() && rng.random_bool(0.8) {
                let user = format!("u{number}").parse().expect("letters and digits are a user's name");
                limits.push(PlannedLimit { user, values, from, to });
            }
        }
        limits
    }

    /// Limits the waiting bytes of some of these users too.
    pub(super) fn limit_bytes(limits: &mut [PlannedLimit], rng: &mut ChaCha8Rng) {
        for limit in limits {
            let bytes = rng.random_range(10..60);
            if rng.random_bool(0.5) {
                limit.values.push((LimitKey::WaitingBytes, bytes));
            }
        }
    }
}

/// The last act of an operator about the limits of a user at a server.
pub(super) struct LimitAct {
    number: usize,
    /// True if it sets the limits, false if it ends them.
    sets: bool,
    reply: Token,
    is_answered: bool,
}

/// The limits that operators set, by server and user, until their ends are answered.
pub(super) type OpenLimits = BTreeMap<(usize, User), LimitAct>;

/// The limits that an operator knows to hold at a server.
pub(super) struct KnownLimits {
    values: Vec<(LimitKey, u64)>,
    /// Jobs that had started before.
    started_before: Vec<Handle>,
}

impl KnownLimits {
    /// The limit of that key; none if there is none.
    pub(super) fn of(&self, key: LimitKey) -> Option<u64> {
        self.values.iter().find(|(other, _)| *other == key).map(|(_, most)| *most)
    }
}

impl World {
    pub(super) fn start_limits(&mut self) {
        for number in 0..self.plan.limits.len() {
            let PlannedLimit { from, to, .. } = self.plan.limits[number];
            self.after(from, WorldEvent::Limit(number, true));
            self.after(to, WorldEvent::Limit(number, false));
        }
    }

    /// An operator sets the limits of a user at every server, or ends them.
    pub(super) fn limit(&mut self, number: usize, sets: bool) {
        let user = self.plan.limits[number].user.clone();
        for server in 0..self.servers.len() {
            let key = (server, user.clone());
            if !sets {
                self.checks.limits.remove(&key);
            }
            let reply = Token(self.next_number());
            self.limits.insert(key, LimitAct { number, sets, reply, is_answered: false });
            self.repeat_limit(server, user.clone(), reply);
        }
    }

    /// An operator sends an act about limits, unless it was answered or another one has followed.
    pub(super) fn repeat_limit(&mut self, server: usize, user: User, reply: Token) {
        let key = (server, user);
        let Some(act) = self.limits.get(&key).filter(|act| act.reply == reply && !act.is_answered) else {
            return;
        };
        // A server with the bug has limits that are never reached.
        let factor = if self.bug == Some(Bug::IgnoresLimits) { 1_000 } else { 1 };
        let change = |(key, value): (LimitKey, u64)| {
            let value = act.sets.then_some(value * factor);
            LimitChange { key, value }
        };
        let changes: Vec<LimitChange> = self.values_at(server, act.number).map(change).collect();
        let by = "operator".parse().expect("letters are a user's name");
        let why = "exam week".to_owned();
        self.deliver_to_server(server, Event::Limit { reply, user: key.1.clone(), changes, by, why });
        self.after(REPEAT_AFTER, WorldEvent::RepeatLimit(key.0, key.1, reply));
    }

    /// The values of planned limits that a server can have. What runs on an external batch system is limited there.
    fn values_at(&self, server: usize, number: usize) -> impl Iterator<Item = (LimitKey, u64)> {
        let is_external = self.sites.contains_key(&server);
        let of_running = |key| matches!(key, LimitKey::RunningJobs | LimitKey::Processors);
        let values = self.plan.limits[number].values.iter().copied();
        values.filter(move |(key, _)| !is_external || !of_running(*key))
    }

    /// An operator gets the answer to an act about limits.
    pub(super) fn limit_answered(&mut self, to: Token, limits: Option<&UserLimits>) {
        let mut open = self.limits.iter_mut();
        let Some((key, act)) = open.find(|(_, act)| act.reply == to && !act.is_answered) else { return };
        act.is_answered = true;
        let (key, sets, number) = (key.clone(), act.sets, act.number);
        if !sets {
            self.limits.remove(&key);
        } else if limits.is_some() {
            let jobs = self.servers[key.0].daemon.node.machine.jobs();
            // Their processes may start later than the server has recorded.
            let started = jobs.filter(|record| record.owner == key.1 && record.state != JobState::Queued);
            let started_before = started.map(|record| record.handle.clone()).collect();
            let values = self.values_at(key.0, number).collect();
            self.checks.limits.insert(key, KnownLimits { values, started_before });
        }
    }

    /// Checks a job that Pliant's own batch system starts, before its process is added.
    pub(super) fn check_limits(&mut self, server: usize, record: &JobRecord) {
        let Some(known) = self.checks.limits.get(&(server, record.owner.clone())) else { return };
        if known.started_before.contains(&record.handle) {
            return;
        }
        let machine = &self.servers[server].daemon.node.machine;
        let runs = self.servers[server].processes.iter().filter(|(_, process)| !process.over);
        let owned = runs.filter_map(|(job, _)| machine.job(job.0)).filter(|one| one.owner == record.owner);
        let others: Vec<u64> = owned.map(|one| u64::from(one.procs.0)).collect();
        for (key, most) in &known.values {
            let count = match key {
                LimitKey::RunningJobs => others.len() as u64 + 1,
                LimitKey::Processors => others.iter().sum::<u64>() + u64::from(record.procs.0),
                LimitKey::WaitingJobs | LimitKey::WaitingBytes => continue,
            };
            if count > *most {
                let (job, owner, key) = (&record.handle, &record.owner, key.word());
                let what =
                    format!("c{server} starts {job} of {owner}, who has {count} {key} then, at most {most}");
                return self.checks.report_violation(Violation::new("limited", what));
            }
        }
    }
}
