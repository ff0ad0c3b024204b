//! Injects faults into daemons and the network between them.

use pliant_control::agent::{self, ReallocationChange};
use pliant_control::names::Token;
use pliant_policy::reallocation::Algorithm;
use rand::Rng;

use super::Bug;
use super::world::{World, WorldEvent};
use crate::kernel::Peer;

impl World {
    /// Draws the delays of a message between two peers: none if it is lost, two if it is duplicated.
    pub(super) fn draw_arrivals(&mut self, from: Peer, to: Peer) -> Vec<u64> {
        if self.are_partitioned(from, to) || self.draw_fault(self.plan.faults.lost) {
            return Vec::new();
        }
        let mut arrivals = vec![self.delay()];
        if self.draw_fault(self.plan.faults.duplicated) {
            arrivals.push(self.delay());
        }
        arrivals
    }

    fn delay(&mut self) -> u64 {
        let late = self.draw_fault(self.plan.faults.delayed);
        let most = if late { self.plan.faults.delay_max } else { 300 };
        self.rng.random_range(1..=most)
    }

    /// True if a partition separates two peers.
    pub(super) fn are_partitioned(&self, one: Peer, other: Peer) -> bool {
        let pair = (one.min(other), one.max(other));
        self.partitions.get(&pair).is_some_and(|until| *until > self.queue.now())
    }

    pub(super) fn draw_daemon(&mut self) -> Peer {
        let number = self.rng.random_range(0..self.agents.len() + self.servers.len());
        match number.checked_sub(self.agents.len()) {
            Some(server) => Peer::Server(server),
            None => Peer::Agent(number),
        }
    }

    pub(super) fn crash_random_daemon(&mut self) {
        let peer = self.draw_daemon();
        self.crash(peer);
        self.schedule_fault(self.plan.faults.crash_every, WorldEvent::Crash);
    }

    /// Crashes a daemon, which loses everything that is not durable, and schedules its restart.
    pub(super) fn crash(&mut self, peer: Peer) {
        if !self.is_up(peer) {
            return;
        }
        self.log(|world| format!("{} crashes", world.name_of(peer)));
        let rebuilt = match peer {
            Peer::Agent(index) => self.agents[index].daemon.crash(),
            Peer::Server(index) => self.servers[index].daemon.crash(),
            Peer::Client(_) => Ok(()),
        };
        if let Err(why) = rebuilt {
            self.report_violation("journal", format!("{} cannot be rebuilt: {why}", self.name_of(peer)));
        }
        match peer {
            Peer::Agent(index) => {
                self.checks.agent_crashed(index, &self.agents[index].daemon);
                self.lose_unjournaled_changes(index);
            }
            Peer::Server(index) => {
                self.servers[index].stopped.clear();
                self.drop_tasks(index);
                self.restart_host(index);
                self.check_server(index);
            }
            Peer::Client(_) => {}
        }
        if peer == Peer::Agent(0) {
            self.crash_coordinator();
        }
        self.break_connections_of(peer);
        let pause = if self.rng.random_bool(0.2) { 120_000 } else { 10_000 };
        let pause = self.rng.random_range(200..pause);
        self.after(pause, WorldEvent::Restart(peer));
    }

    /// Restarts a daemon from its journal; a server then finds the processes that it had started.
    pub(super) fn restart(&mut self, peer: Peer) {
        let behind = self.draw_fault(100).then(|| -self.rng.random_range(1_000..200_000_i64));
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
        self.log(|world| format!("{} restarts", world.name_of(peer)));
        match peer {
            Peer::Agent(index) => {
                if self.bug == Some(Bug::ForgetsReallocation) {
                    self.lose_reallocation(index);
                }
                let children = self.agents[index].daemon.node.machine.children();
                let attached =
                    children.filter(|(_, _, attached, _)| *attached).map(|(child, ..)| child.clone());
                for child in attached.collect::<Vec<_>>() {
                    self.deliver_to_agent(index, agent::Event::Detached { child });
                }
                if index == 0 {
                    self.restart_coordinator(behind.unwrap_or(0));
                }
            }
            Peer::Server(index) => {
                let forgotten = match self.bug {
                    Some(Bug::ForgetsPrepared) => Some(("", "prepared")),
                    Some(Bug::ForgetsSubjobs) => Some(("", "subjobs")),
                    Some(Bug::DrainedAccepts) => Some(("", "drained")),
                    Some(Bug::BannedAccepts) => Some(("", "banned")),
                    Some(Bug::ForgetsLimits) => Some(("", "limits")),
                    Some(Bug::ForgetsPriorities) => Some(("/batch", "priorities")),
                    _ => None,
                };
                if let Some(field) = forgotten
                    && let Err(why) = self.servers[index].daemon.forget(self.queue.now(), field)
                {
                    self.report_violation("journal", why);
                }
                if self.bug == Some(Bug::ForgetsRequeues) {
                    self.lose_requeues(index);
                }
                if self.bug == Some(Bug::ForgetsHeldResources) {
                    self.lose_held_resources(index);
                }
                self.resume(index);
                if self.bug == Some(Bug::ForgetsWaitingBytes) {
                    self.lose_waiting_bytes(index);
                }
                if self.bug == Some(Bug::HeldStarts) {
                    self.lose_holds(index);
                }
                if self.bug == Some(Bug::BannedStarts) {
                    self.lose_bans(index);
                }
                self.resume_site(index);
                self.check_server(index);
            }
            Peer::Client(_) => {}
        }
        let incarnation = self.incarnation(peer);
        if self.parent_of(peer).is_some() {
            self.after(100, WorldEvent::Connect(peer, incarnation));
        }
        self.schedule_timer(peer);
    }

    /// Sends a request of an operator: a reallocation cycle, or a change of its configuration.
    pub(super) fn send_operator_request(&mut self) {
        let index = self.rng.random_range(0..self.agents.len());
        let reply = Token(self.next_number());
        let mut other = super::plan::draw_moving(&mut self.rng);
        if self.plan.siblings && self.rng.random_bool(0.5) {
            other.policy.algorithm = Algorithm::Siblings;
        }
        match self.rng.random_range(0..3) {
            0 => {
                let change = if self.rng.random_bool(0.8) {
                    ReallocationChange::Set(other)
                } else {
                    ReallocationChange::Off
                };
                self.send_change(index, reply, Some(change), None);
            }
            wish => {
                let policy = self.rng.random_bool(0.5).then_some(other.policy);
                self.deliver_to_agent(index, agent::Event::Reallocate { reply, dry_run: wish == 1, policy });
            }
        }
        self.schedule_fault(self.plan.operator_every, WorldEvent::Operator);
    }

    /// Separates two random peers for a while.
    pub(super) fn partition_random_peers(&mut self) {
        let one = self.draw_daemon();
        let other = match self.rng.random_bool(0.2) {
            true => Peer::Client(self.rng.random_range(0..self.clients.len()) as u32),
            false => self.draw_daemon(),
        };
        let length = if self.rng.random_bool(0.3) { 180_000 } else { 20_000 };
        let until = (self.queue.now() + self.rng.random_range(500..length)).min(self.plan.faults.until);
        self.partitions.insert((one.min(other), one.max(other)), until);
        self.log(|world| {
            let (one, other) = (world.name_of(one), world.name_of(other));
            format!("{one} and {other} are partitioned until {}.{:03}", until / 1000, until % 1000)
        });
        for (child, parent) in [(one, other), (other, one)] {
            if self.parent_of(child) == Some(parent) {
                self.break_connection(child);
            }
        }
        self.schedule_fault(self.plan.faults.partition_every, WorldEvent::Partition);
    }

    /// Moves a random clock forward by up to an hour.
    pub(super) fn jump_random_clock(&mut self) {
        let peer = self.draw_daemon();
        let most = if self.rng.random_bool(0.3) { 3_600_000 } else { 90_000 };
        let by = self.rng.random_range(500..=most);
        self.log(|world| format!("the clock of {} jumps by {} s", world.name_of(peer), by / 1000));
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
        self.schedule_timer(peer);
        self.schedule_fault(self.plan.faults.jump_every, WorldEvent::ClockJump);
    }

    pub(super) fn break_random_connection(&mut self) {
        let peer = self.draw_daemon();
        self.break_connection(peer);
        self.schedule_fault(self.plan.faults.break_every, WorldEvent::ConnectionBreak);
    }
}
