//! What befalls daemons and the network between them.

use pliant_control::agent::{self, ReallocationChange};
use pliant_control::names::Token;
use pliant_policy::reallocation::Algorithm;
use rand::Rng;

use super::Bug;
use super::world::{World, WorldEvent};
use crate::kernel::Peer;

impl World {
    /// What becomes of a message between two peers that keep no order: when its copies arrive, if they do.
    pub(super) fn fate(&mut self, from: Peer, to: Peer) -> Vec<u64> {
        if self.are_parted(from, to) || self.strikes(self.plan.faults.lost) {
            return Vec::new();
        }
        let mut arrivals = vec![self.delay()];
        if self.strikes(self.plan.faults.doubled) {
            arrivals.push(self.delay());
        }
        arrivals
    }

    fn delay(&mut self) -> u64 {
        let late = self.strikes(self.plan.faults.late);
        let most = if late { self.plan.faults.latest } else { 300 };
        self.rng.random_range(1..=most)
    }

    /// True if two peers do not reach each other now.
    pub(super) fn are_parted(&self, one: Peer, other: Peer) -> bool {
        let pair = (one.min(other), one.max(other));
        self.partitions.get(&pair).is_some_and(|until| *until > self.queue.now())
    }

    pub(super) fn some_daemon(&mut self) -> Peer {
        let number = self.rng.random_range(0..self.agents.len() + self.servers.len());
        match number.checked_sub(self.agents.len()) {
            Some(server) => Peer::Server(server),
            None => Peer::Agent(number),
        }
    }

    pub(super) fn crash_somebody(&mut self) {
        let peer = self.some_daemon();
        self.crash(peer);
        self.next_fault(self.plan.faults.crash_every, WorldEvent::Crash);
    }

    /// A daemon is gone, with all that its journal does not say.
    pub(super) fn crash(&mut self, peer: Peer) {
        if !self.is_up(peer) {
            return;
        }
        self.note(|world| format!("{} crashes", world.name_of(peer)));
        let rebuilt = match peer {
            Peer::Agent(index) => self.agents[index].daemon.crash(),
            Peer::Server(index) => self.servers[index].daemon.crash(),
            Peer::Client(_) => Ok(()),
        };
        if let Err(why) = rebuilt {
            self.wrong("journal", format!("{} cannot be made again: {why}", self.name_of(peer)));
        }
        match peer {
            Peer::Agent(index) => self.checks.agent_crashed(index, &self.agents[index].daemon),
            Peer::Server(index) => {
                self.servers[index].stopped.clear();
                self.lose_tasks(index);
                self.check_server(index);
            }
            Peer::Client(_) => {}
        }
        if peer == Peer::Agent(0) {
            self.crash_coordinator();
        }
        self.lose_lines_of(peer);
        let pause = if self.rng.random_bool(0.2) { 120_000 } else { 10_000 };
        let pause = self.rng.random_range(200..pause);
        self.after(pause, WorldEvent::Restart(peer));
    }

    /// A daemon is started again: it goes on from its journal, and looks for what it had begun.
    pub(super) fn restart(&mut self, peer: Peer) {
        let behind = self.strikes(100).then(|| -self.rng.random_range(1_000..200_000_i64));
        match peer {
            Peer::Agent(index) => {
                let daemon = &mut self.agents[index].daemon;
                daemon.node.up = true;
                daemon.clock.jump(behind.unwrap_or(0));
            }
            Peer::Server(index) => {
                let daemon = &mut self.servers[index].daemon;
                daemon.node.up = true;
                daemon.clock.jump(behind.unwrap_or(0));
            }
            Peer::Client(_) => {}
        }
        self.note(|world| format!("{} is there again", world.name_of(peer)));
        match peer {
            Peer::Agent(index) => {
                let children = self.agents[index].daemon.node.machine.children();
                let there = children.filter(|(_, _, attached, _)| *attached).map(|(child, ..)| child.clone());
                for child in there.collect::<Vec<_>>() {
                    self.tell_agent(index, agent::Event::Detached { child });
                }
                if index == 0 {
                    self.restart_coordinator(behind.unwrap_or(0));
                }
            }
            Peer::Server(index) => {
                let forgotten = match self.bug {
                    Some(Bug::ForgetsHolds) => Some("prepared"),
                    Some(Bug::ForgetsSubjobs) => Some("subjobs"),
                    _ => None,
                };
                if let Some(part) = forgotten
                    && let Err(why) = self.servers[index].daemon.forget(self.queue.now(), part)
                {
                    self.wrong("journal", why);
                }
                self.resume(index);
                self.resume_site(index);
                self.check_server(index);
            }
            Peer::Client(_) => {}
        }
        let life = self.life(peer);
        if self.parent_of(peer).is_some() {
            self.after(100, WorldEvent::Dial(peer, life));
        }
        self.plan_due(peer);
    }

    /// An operator has waiting jobs looked at, or changes how they are moved.
    pub(super) fn operator(&mut self) {
        let index = self.rng.random_range(0..self.agents.len());
        let reply = Token(self.number());
        let mut other = super::plan::moving(&mut self.rng);
        if self.plan.copies && self.rng.random_bool(0.5) {
            other.policy.algorithm = Algorithm::Siblings;
        }
        let event = match self.rng.random_range(0..3) {
            0 => {
                let change = if self.rng.random_bool(0.8) {
                    ReallocationChange::Set(other)
                } else {
                    ReallocationChange::Off
                };
                agent::Event::Configure { reply, change: Some(change) }
            }
            wish => {
                let policy = self.rng.random_bool(0.5).then_some(other.policy);
                agent::Event::Reallocate { reply, dry_run: wish == 1, policy }
            }
        };
        self.tell_agent(index, event);
        self.next_fault(self.plan.operator_every, WorldEvent::Operator);
    }

    /// Two peers lose sight of each other for a while.
    pub(super) fn part_somebody(&mut self) {
        let one = self.some_daemon();
        let other = match self.rng.random_bool(0.2) {
            true => Peer::Client(self.rng.random_range(0..self.clients.len()) as u32),
            false => self.some_daemon(),
        };
        let length = if self.rng.random_bool(0.3) { 180_000 } else { 20_000 };
        let until = (self.queue.now() + self.rng.random_range(500..length)).min(self.plan.faults.until);
        self.partitions.insert((one.min(other), one.max(other)), until);
        self.note(|world| {
            let (one, other) = (world.name_of(one), world.name_of(other));
            format!("{one} and {other} are parted until {}.{:03}", until / 1000, until % 1000)
        });
        for (child, parent) in [(one, other), (other, one)] {
            if self.parent_of(child) == Some(parent) {
                self.break_line(child);
            }
        }
        self.next_fault(self.plan.faults.partition_every, WorldEvent::Partition);
    }

    /// A clock goes forwards by up to an hour.
    pub(super) fn jump_somebody(&mut self) {
        let peer = self.some_daemon();
        let most = if self.rng.random_bool(0.3) { 3_600_000 } else { 90_000 };
        let by = self.rng.random_range(500..=most);
        self.note(|world| format!("the clock of {} jumps by {} s", world.name_of(peer), by / 1000));
        match peer {
            Peer::Agent(index) => {
                let daemon = &mut self.agents[index].daemon;
                daemon.clock.jump(by);
                daemon.due = None;
                if index == 0 {
                    self.coordinator_jumps(by);
                }
            }
            Peer::Server(index) => {
                let daemon = &mut self.servers[index].daemon;
                daemon.clock.jump(by);
                daemon.due = None;
            }
            Peer::Client(_) => {}
        }
        self.plan_due(peer);
        self.next_fault(self.plan.faults.jump_every, WorldEvent::Jump);
    }

    pub(super) fn break_some_line(&mut self) {
        let peer = self.some_daemon();
        self.break_line(peer);
        self.next_fault(self.plan.faults.break_every, WorldEvent::Break);
    }
}
