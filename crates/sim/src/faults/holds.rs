//! Operators hold waiting jobs, and release them before the last fault. An operator repeats an act until it is answered.

use std::collections::BTreeMap;

use pliant_control::job::{JobRecord, JobState};
use pliant_control::names::{Handle, Token};
use pliant_control::server::{Answer, Event};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::drains::REPEAT_AFTER;
use super::world::{World, WorldEvent};

/// When an operator holds a job that waits at a server, and when the operator releases it, in milliseconds.
pub(super) struct PlannedHold {
    server: usize,
    from: u64,
    to: u64,
}

impl PlannedHold {
    /// Draws some holds at each server, between the begin of a schedule and its last fault.
    pub(super) fn draw(rng: &mut ChaCha8Rng, servers: usize, until: u64) -> Vec<PlannedHold> {
        let mut holds = Vec::new();
        for server in 0..servers {
            for _ in 0..rng.random_range(0..=6) {
                let from = rng.random_range(0..until / 2);
                let to = from + rng.random_range(1..until / 2);
                holds.push(PlannedHold { server, from, to });
            }
        }
        holds
    }
}

/// The last act of an operator about a job.
pub(super) struct JobAct {
    server: usize,
    /// True if it holds the job, false if it releases it.
    holds: bool,
    reply: Token,
    is_answered: bool,
}

/// The jobs that operators hold, until their releases are answered.
pub(super) type OpenHolds = BTreeMap<Handle, JobAct>;

impl World {
    pub(super) fn start_holds(&mut self) {
        for number in 0..self.plan.holds.len() {
            self.after(self.plan.holds[number].from, WorldEvent::Hold(number));
        }
    }

    /// An operator holds a random job that waits at a server and that no operator holds.
    pub(super) fn hold(&mut self, number: usize) {
        let PlannedHold { server, from, to } = self.plan.holds[number];
        let name = &self.servers[server].name;
        let is_chosen_from = |record: &&JobRecord| {
            let waits = record.state == JobState::Queued && record.server() == name;
            waits && !self.holds.contains_key(&record.handle)
        };
        let waiting = self.servers[server].daemon.node.machine.jobs().filter(is_chosen_from);
        let mut waiting: Vec<Handle> = waiting.map(|record| record.handle.clone()).collect();
        if waiting.is_empty() {
            return;
        }
        waiting.sort();
        let job = waiting.swap_remove(self.rng.random_range(0..waiting.len()));
        self.after(to - from, WorldEvent::Release(server, job.clone()));
        self.act_on_job(server, job, true);
    }

    /// An operator releases a job.
    pub(super) fn release(&mut self, server: usize, job: Handle) {
        self.checks.released(&job);
        self.act_on_job(server, job, false);
    }

    fn act_on_job(&mut self, server: usize, job: Handle, holds: bool) {
        let reply = Token(self.next_number());
        self.holds.insert(job.clone(), JobAct { server, holds, reply, is_answered: false });
        self.repeat_job_act(job, reply);
    }

    /// An operator sends an act about a job, unless it was answered or another one has followed.
    pub(super) fn repeat_job_act(&mut self, job: Handle, reply: Token) {
        let Some(&JobAct { server, holds, .. }) =
            self.holds.get(&job).filter(|act| act.reply == reply && !act.is_answered)
        else {
            return;
        };
        if let Some(event) = self.job_act(server, &job, holds, reply) {
            self.deliver_to_server(server, event);
            self.after(REPEAT_AFTER, WorldEvent::RepeatJobAct(job, reply));
        } else if !holds {
            self.holds.remove(&job);
        }
    }

    /// An act about a job; none if the server does not know the job, for example because its acceptance was lost.
    fn job_act(&self, server: usize, job: &Handle, holds: bool, reply: Token) -> Option<Event> {
        let number = self.servers[server].daemon.node.machine.number_of(job)?;
        let by = "operator".parse().expect("letters are a user's name");
        let why = "maintenance".to_owned();
        Some(match holds {
            true => Event::Hold { reply, number, by, why },
            false => Event::Release { reply, number, by, why },
        })
    }

    /// An operator gets the answer to an act about a job. False if no operator waits for the answer.
    pub(super) fn job_act_answered(&mut self, to: Token, answer: &Answer) -> bool {
        let mut open = self.holds.iter_mut();
        let Some((job, act)) = open.find(|(_, act)| act.reply == to && !act.is_answered) else {
            return false;
        };
        act.is_answered = true;
        let (job, holds) = (job.clone(), act.holds);
        if !holds {
            self.holds.remove(&job);
        } else if matches!(answer, Answer::Job(_)) {
            self.checks.held(job);
        }
        true
    }

    /// A restarted server releases the jobs that operators hold ([`super::Bug::HeldStarts`]).
    pub(super) fn lose_holds(&mut self, server: usize) {
        let held = self.holds.iter().filter(|(_, act)| act.server == server && act.holds);
        for job in held.map(|(job, _)| job.clone()).collect::<Vec<_>>() {
            let reply = Token(self.next_number());
            if let Some(event) = self.job_act(server, &job, false, reply) {
                self.deliver_to_server(server, event);
            }
        }
    }
}
