//! The coordinator of launches: a daemon on the host of the first agent. It crashes with the agent and shares its clock.

use std::collections::BTreeMap;

use pliant_control::access::Caller;
use pliant_control::coallocation::{
    Answer, Call, Command, Event, LaunchId, Machine, Site, SubjobDecision, SubjobState,
};
use pliant_control::handoff;
use pliant_control::job::Exit;
use pliant_control::names::Token;
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::{LaunchAnswer, LaunchCaller, LaunchEvent, LaunchRequest};
use crate::faults::Bug;
use crate::faults::calls::{self, Request, Response};
use crate::faults::world::{World, WorldEvent};
use crate::kernel::Peer;

/// The peer that hosts the coordinator.
pub(super) const AGENT: Peer = Peer::Agent(0);
/// The power of a processor, in MFlop/s.
const POWER: f64 = 100.0;

impl World {
    pub(super) fn deliver_to_coordinator(&mut self, event: Event) {
        if !self.launches.coordinator.node.up {
            return;
        }
        self.log(|_| format!("the coordinator receives {}", crate::faults::trace::shorten(&event)));
        self.launches.coordinator.handle(self.queue.now(), event, true);
        if self.bug == Some(Bug::ActsEarly) {
            self.execute_coordinator_commands();
        }
        self.schedule_coordinator();
    }

    fn execute_coordinator_commands(&mut self) {
        let todo = self.launches.coordinator.node.take_commands();
        todo.into_iter().for_each(|(command, _)| self.execute_coordinator_command(command));
    }

    /// Schedules the next commit and the next time event of the coordinator.
    fn schedule_coordinator(&mut self) {
        let daemon = &mut self.launches.coordinator;
        let incarnation = daemon.node.incarnation;
        if daemon.starts_commit() {
            let most = if self.has_faults() { self.plan.faults.commit } else { 20 };
            let pause = self.rng.random_range(0..=most);
            self.after(pause, WorldEvent::Launch(LaunchEvent::Commit(incarnation)));
        }
        if let Some(at) = self.launches.coordinator.next_due(self.queue.now()) {
            self.after(at - self.queue.now(), WorldEvent::Launch(LaunchEvent::Due(incarnation)));
        }
    }

    pub(super) fn coordinator_due(&mut self, incarnation: u32) {
        let now = self.queue.now();
        let daemon = &mut self.launches.coordinator;
        if !daemon.node.up || daemon.node.incarnation != incarnation {
            return;
        }
        daemon.due = None;
        let clock = daemon.clock.now(now);
        if daemon.node.machine.next_due().is_some_and(|due| due <= clock) {
            self.deliver_to_coordinator(Event::Due);
        }
        self.schedule_coordinator();
    }

    pub(super) fn coordinator_commits(&mut self, incarnation: u32) {
        let daemon = &mut self.launches.coordinator;
        if !daemon.node.up || daemon.node.incarnation != incarnation {
            return;
        }
        let snapshot = self.rng.random_ratio(1, 10);
        let todo = self.launches.coordinator.commit(self.queue.now(), snapshot);
        for (command, _) in &todo {
            if let Command::Archive(record) = command {
                self.archive_launch(record);
            }
        }
        self.check_decisions();
        let cut = self.draw_fault(self.plan.faults.cut);
        let most = if cut { self.rng.random_range(0..=todo.len()) } else { todo.len() };
        todo.into_iter().take(most).for_each(|(command, _)| self.execute_coordinator_command(command));
        let waiting = std::mem::take(&mut self.launches.coordinator.waiting);
        waiting.into_iter().for_each(|call| self.answer_status_query(call));
        if cut {
            self.crash(AGENT);
        }
        self.schedule_coordinator();
    }

    pub(in crate::faults) fn crash_coordinator(&mut self) {
        if let Err(why) = self.launches.coordinator.crash() {
            self.report_violation("journal", format!("the coordinator cannot be rebuilt: {why}"));
        }
    }

    pub(in crate::faults) fn restart_coordinator(&mut self, by: i64) {
        self.launches.coordinator.node.up = true;
        self.launches.coordinator.clock.jump(by);
        self.schedule_coordinator();
    }

    /// Moves its clock, which is that of the agent.
    pub(in crate::faults) fn coordinator_jumps(&mut self, by: i64) {
        self.launches.coordinator.clock.jump(by);
        self.launches.coordinator.due = None;
        self.schedule_coordinator();
    }

    fn execute_coordinator_command(&mut self, command: Command) {
        let incarnation = self.launches.coordinator.node.incarnation;
        match command {
            Command::Answer { to, answer } => self.send_launch_answer(to.0, LaunchAnswer::User(answer)),
            Command::SubjobDecision { to, decision, end_acknowledged } => {
                self.send_launch_answer(to.0, LaunchAnswer::Decision(decision, end_acknowledged));
            }
            Command::ListMachines { launch, group } => {
                let pause = self.rng.random_range(10..3_000);
                self.after(
                    pause,
                    WorldEvent::Launch(LaunchEvent::MachinesListed(incarnation, launch, group)),
                );
            }
            Command::Call { to, id, call } => {
                let Some(to) = self.peers.get(&to.name).copied() else { return };
                if self.bug == Some(Bug::SilenceIsEnd) && matches!(call, Call::Decide(SubjobDecision::End)) {
                    let over = SubjobState::Over { ended: BTreeMap::new(), exit: Exit::Cancelled };
                    let from = self.name_of(to).parse().expect("a server has a name");
                    let late = Event::SubjobStatus { from, id: id.clone(), state: over, reply: None };
                    self.after(1_500, WorldEvent::Launch(LaunchEvent::Injected(incarnation, Box::new(late))));
                }
                self.send_launch_request(
                    AGENT,
                    to,
                    LaunchCaller::Coordinator(incarnation, id.clone()),
                    LaunchRequest::Subjob(id, call),
                );
            }
            Command::Audit(_) | Command::Archive(_) => {}
        }
    }

    /// Delivers the machines of all servers that answer.
    pub(super) fn machines_listed(&mut self, incarnation: u32, launch: LaunchId, group: u32) {
        if self.launches.coordinator.node.incarnation != incarnation {
            return;
        }
        let mut sites = Vec::new();
        for index in 0..self.servers.len() {
            let me = Peer::Server(index);
            let answers =
                self.is_up(me) && !self.are_partitioned(AGENT, me) && !self.draw_fault(self.plan.faults.lost);
            if !answers || self.sites.contains_key(&index) {
                continue;
            }
            let name = self.servers[index].name.clone();
            let machine = &self.servers[index].daemon.node.machine;
            let procs = machine.procs().0;
            // As live, the load counts subjobs that have their processors. Jobs are left out: they would leave little for launches.
            let has_processors = |state: &SubjobState| {
                matches!(
                    state,
                    SubjobState::Prepared { .. } | SubjobState::Committed | SubjobState::Runs { .. }
                )
            };
            let subjobs = machine.subjobs().filter(|(_, _, state)| has_processors(state));
            let taken: u32 = subjobs.map(|(subjob, ..)| subjob.procs.0).sum();
            let taken = f64::from(taken) / f64::from(procs.max(1));
            let below = Some(self.agents[self.servers[index].parent].name.clone());
            let below = below.filter(|agent| *agent != self.agents[0].name);
            // Each server describes itself as up to two machines.
            let machine = |name: &str, procs: u32, load: f64| Machine {
                name: name.to_owned(),
                power_mflops: POWER * f64::from(procs),
                procs,
                load: (load + taken).min(1.0),
            };
            let load = f64::from(self.rng.random_range(0..4_u32)) / 10.0;
            let machines = [machine("m0", procs.div_ceil(2), load), machine("m1", procs / 2, 0.0)];
            let machines = machines.into_iter().filter(|machine| machine.procs > 0).collect();
            let server = handoff::Peer { name, address: String::new() };
            sites.push(Site { server, local_agent: below, machines });
        }
        self.link_is_measured();
        self.deliver_to_coordinator(Event::MachinesListed { launch, group, sites });
    }

    /// Delivers the measurement of a random link, in some of the calls.
    fn link_is_measured(&mut self) {
        let drawn = |rng: &mut ChaCha8Rng, most| rng.random_range(0..most);
        let servers = self.servers.len();
        if servers < 2 || self.rng.random_bool(0.3) {
            return;
        }
        let one = drawn(&mut self.rng, servers);
        let other = (one + 1 + drawn(&mut self.rng, servers - 1)) % servers;
        let between = [one, other].map(|index| self.servers[index].name.clone());
        let mbps = f64::from(self.rng.random_range(1..1_000_u32)) / 10.0;
        self.deliver_to_coordinator(Event::Measured { between, mbps, round_trip_us: 200 });
    }

    /// Sends a request about a launch; returns the number of the call.
    pub(super) fn send_launch_request(
        &mut self,
        from: Peer,
        to: Peer,
        by: LaunchCaller,
        asked: LaunchRequest,
    ) -> u64 {
        self.call(from, to, calls::CallParty::Launch(by), Request::Launch(Box::new(asked)))
    }

    pub(super) fn send_launch_answer(&mut self, call: u64, answer: LaunchAnswer) {
        self.respond(call, Response::Launch(Box::new(answer)));
    }

    /// Delivers a request about a launch to its receiver.
    pub(in crate::faults) fn receive_launch_request(&mut self, to: Peer, number: u64, asked: LaunchRequest) {
        let reply = Token(number);
        match (to, asked) {
            (Peer::Server(index), LaunchRequest::Subjob(id, call)) => {
                self.receive_subjob_call(index, reply, id, call)
            }
            (_, LaunchRequest::Report(from, id, state)) => {
                let state = match state {
                    SubjobState::Queued if self.bug == Some(Bug::QueuedIsPrepared) => {
                        SubjobState::Prepared { addresses: BTreeMap::new() }
                    }
                    state => state,
                };
                self.deliver_to_coordinator(Event::SubjobStatus { from, id, state, reply: Some(reply) });
            }
            (_, LaunchRequest::Launch(spec)) => match self.launches.archive.get(&spec.key).cloned() {
                Some(record) => {
                    self.send_launch_answer(number, LaunchAnswer::User(Answer::Launch(Box::new(record))))
                }
                None => self.deliver_to_coordinator(Event::Launch { reply, spec }),
            },
            (_, LaunchRequest::Cancel(launch)) => {
                let is_known = self.launches.coordinator.node.machine.record(&launch, &operator()).is_some();
                match self.launches.archive.get(&launch.key).filter(|_| !is_known).cloned() {
                    // An ended launch is in the agent's archive.
                    Some(record) => {
                        self.send_launch_answer(number, LaunchAnswer::User(Answer::Launch(Box::new(record))));
                    }
                    None => self.deliver_to_coordinator(Event::Cancel { reply, launch, caller: operator() }),
                }
            }
            (_, LaunchRequest::Spawn(launch, spawn)) => {
                self.deliver_to_coordinator(Event::Spawn { reply, launch, caller: operator(), spawn });
            }
            (_, LaunchRequest::Status(launch)) => {
                // The answer must be durable before it is sent, so the call waits for the next commit.
                self.launches.status_queries.insert(number, launch);
                self.launches.coordinator.waiting.push(number);
                self.schedule_coordinator();
            }
            _ => debug_assert!(false, "a request reached the wrong kind of daemon"),
        }
    }

    fn answer_status_query(&mut self, number: u64) {
        let Some(asked) = self.launches.status_queries.remove(&number) else { return };
        let known = self.launches.coordinator.node.machine.record(&asked, &operator());
        let known = known.or_else(|| self.launches.archive.get(&asked.key).cloned());
        let answer = known.map_or(Answer::NoSuchLaunch, |record| Answer::Launch(Box::new(record)));
        self.send_launch_answer(number, LaunchAnswer::User(answer));
    }
}

/// A caller that may see and cancel any launch.
pub(super) fn operator() -> Caller {
    let user = "operator".parse().expect("letters are a user's name");
    Caller { user, operator: true }
}
