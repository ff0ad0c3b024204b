//! Operators ban users at all servers, and end the bans before the last fault. An operator repeats an act until it is answered.

use std::collections::BTreeMap;

use pliant_control::job::{JobRecord, JobState};
use pliant_control::names::{Token, User};
use pliant_control::server::{Ban, Event};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::checks::Checks;
use super::drains::REPEAT_AFTER;
use super::plan::USERS;
use super::world::{World, WorldEvent};

/// When a user is banned and when the ban ends, in milliseconds.
pub(super) struct PlannedBan {
    user: User,
    from: u64,
    to: u64,
}

impl PlannedBan {
    /// Draws a ban of about every second user, between the begin of a schedule and its last fault.
    pub(super) fn draw(rng: &mut ChaCha8Rng, until: u64) -> Vec<PlannedBan> {
        let mut bans = Vec::new();
        for number in 0..USERS {
            let from = rng.random_range(0..until / 3);
            let to = from + rng.random_range(1..until / 2);
            if rng.random_bool(0.5) {
                let user = format!("u{number}").parse().expect("letters and digits are a user's name");
                bans.push(PlannedBan { user, from, to });
            }
        }
        bans
    }
}

/// The last act of an operator about a user at a server.
pub(super) struct UserAct {
    /// True if it bans the user, false if it ends the ban.
    bans: bool,
    reply: Token,
    is_answered: bool,
}

/// The users whom operators ban, by server, until the ends of the bans are answered.
pub(super) type OpenBans = BTreeMap<(usize, User), UserAct>;

impl World {
    pub(super) fn start_bans(&mut self) {
        for number in 0..self.plan.bans.len() {
            let PlannedBan { from, to, .. } = self.plan.bans[number];
            self.after(from, WorldEvent::Ban(number, true));
            self.after(to, WorldEvent::Ban(number, false));
        }
    }

    /// An operator bans a user at every server, or ends that.
    pub(super) fn ban(&mut self, number: usize, bans: bool) {
        let user = self.plan.bans[number].user.clone();
        for server in 0..self.servers.len() {
            if !bans {
                self.checks.unbanned(server, &user);
            }
            let reply = Token(self.next_number());
            self.bans.insert((server, user.clone()), UserAct { bans, reply, is_answered: false });
            self.repeat_ban(server, user.clone(), reply);
        }
    }

    /// An operator sends an act about a user, unless it was answered or another one has followed.
    pub(super) fn repeat_ban(&mut self, server: usize, user: User, reply: Token) {
        let key = (server, user);
        let Some(act) = self.bans.get(&key).filter(|act| act.reply == reply && !act.is_answered) else {
            return;
        };
        let event = event(key.1.clone(), act.bans, reply);
        self.deliver_to_server(server, event);
        self.after(REPEAT_AFTER, WorldEvent::RepeatBan(key.0, key.1, reply));
    }

    /// An operator gets the answer to an act about a user.
    pub(super) fn ban_answered(&mut self, to: Token, banned: Option<&Ban>) {
        let mut open = self.bans.iter_mut();
        let Some((key, act)) = open.find(|(_, act)| act.reply == to && !act.is_answered) else { return };
        act.is_answered = true;
        let ((server, user), bans) = (key.clone(), act.bans);
        if !bans {
            self.bans.remove(&(server, user));
        } else if banned.is_some() {
            self.checks.banned(server, user, self.servers[server].daemon.node.machine.jobs());
        }
    }

    /// A restarted server ends the bans of operators ([`super::Bug::BannedStarts`]).
    pub(super) fn lose_bans(&mut self, server: usize) {
        let banned = self.bans.iter().filter(|((at, _), act)| *at == server && act.bans);
        for user in banned.map(|((_, user), _)| user.clone()).collect::<Vec<_>>() {
            let reply = Token(self.next_number());
            self.deliver_to_server(server, event(user, false, reply));
        }
    }
}

fn event(user: User, bans: bool, reply: Token) -> Event {
    let by = "operator".parse().expect("letters are a user's name");
    let why = "stolen key".to_owned();
    match bans {
        true => Event::Ban { reply, user, by, why },
        false => Event::Unban { reply, user, by, why },
    }
}

impl Checks {
    /// Records that an operator knows a user to be banned at a server, which has these jobs.
    fn banned<'a>(&mut self, server: usize, user: User, jobs: impl Iterator<Item = &'a JobRecord>) {
        // Their processes may start later than the server has recorded.
        let started = jobs.filter(|record| record.owner == user && record.state != JobState::Queued);
        self.started_before_bans.extend(started.map(|record| record.handle.clone()));
        self.banned.insert((server, user));
    }

    /// Records that an operator ends the ban of a user at a server, from now on.
    fn unbanned(&mut self, server: usize, user: &User) {
        self.banned.remove(&(server, user.clone()));
    }

    /// Checks a job that Pliant's own batch system starts.
    pub(super) fn check_banned(&mut self, server: usize, record: &JobRecord) {
        let is_banned = self.banned.contains(&(server, record.owner.clone()));
        if is_banned && !self.started_before_bans.contains(&record.handle) {
            let what = format!("c{server} starts {} although {} is banned", record.handle, record.owner);
            self.report_violation(super::Violation::new("banned", what));
        }
    }
}
