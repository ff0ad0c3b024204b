//! The coordinator: a daemon beside the first agent, which crashes with it and has its clock.

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

use super::{Answered, Asked, Moment, Party};
use crate::faults::Bug;
use crate::faults::calls::{self, Request, Response};
use crate::faults::world::{World, WorldEvent};
use crate::kernel::Peer;

/// Where the coordinator is.
pub(super) const AGENT: Peer = Peer::Agent(0);
/// The power of a processor, in MFlop/s.
const POWER: f64 = 100.0;

impl World {
    pub(super) fn tell_coordinator(&mut self, event: Event) {
        if !self.launches.coordinator.node.up {
            return;
        }
        self.note(|_| format!("the coordinator is told {}", crate::faults::trace::short(&event)));
        self.launches.coordinator.tell(self.queue.now(), event, true);
        if self.bug == Some(Bug::ActsEarly) {
            self.coordinator_acts();
        }
        self.plan_coordinator();
    }

    fn coordinator_acts(&mut self) {
        let todo = self.launches.coordinator.node.take_commands();
        todo.into_iter().for_each(|(command, _)| self.coordinator_wants(command));
    }

    /// Sees to it that what the coordinator was told becomes durable, and that it is told in time.
    fn plan_coordinator(&mut self) {
        let daemon = &mut self.launches.coordinator;
        let life = daemon.node.life;
        if daemon.begins_commit() {
            let most = if self.is_stormy() { self.plan.faults.commit } else { 20 };
            let pause = self.rng.random_range(0..=most);
            self.after(pause, WorldEvent::Launches(Moment::Commit(life)));
        }
        if let Some(at) = self.launches.coordinator.next_due(self.queue.now()) {
            self.after(at - self.queue.now(), WorldEvent::Launches(Moment::Due(life)));
        }
    }

    pub(super) fn coordinator_due(&mut self, life: u32) {
        let now = self.queue.now();
        let daemon = &mut self.launches.coordinator;
        if !daemon.node.up || daemon.node.life != life {
            return;
        }
        daemon.due = None;
        let clock = daemon.clock.now(now);
        if daemon.node.machine.next_due().is_some_and(|due| due <= clock) {
            self.tell_coordinator(Event::Due);
        }
        self.plan_coordinator();
    }

    pub(super) fn coordinator_commits(&mut self, life: u32) {
        let daemon = &mut self.launches.coordinator;
        if !daemon.node.up || daemon.node.life != life {
            return;
        }
        let snapshot = self.rng.random_ratio(1, 10);
        let todo = self.launches.coordinator.commit(self.queue.now(), snapshot);
        for (command, _) in &todo {
            if let Command::Archive(record) = command {
                self.launch_is_over(record);
            }
        }
        self.check_decisions();
        let cut = self.strikes(self.plan.faults.cut);
        let most = if cut { self.rng.random_range(0..=todo.len()) } else { todo.len() };
        todo.into_iter().take(most).for_each(|(command, _)| self.coordinator_wants(command));
        let waiting = std::mem::take(&mut self.launches.coordinator.waiting);
        waiting.into_iter().for_each(|call| self.answer_look(call));
        if cut {
            self.crash(AGENT);
        }
        self.plan_coordinator();
    }

    pub(in crate::faults) fn crash_coordinator(&mut self) {
        if let Err(why) = self.launches.coordinator.crash() {
            self.wrong("journal", format!("the coordinator cannot be made again: {why}"));
        }
    }

    pub(in crate::faults) fn restart_coordinator(&mut self, by: i64) {
        self.launches.coordinator.node.up = true;
        self.launches.coordinator.clock.jump(by);
        self.plan_coordinator();
    }

    /// Its clock is the agent's.
    pub(in crate::faults) fn coordinator_jumps(&mut self, by: i64) {
        self.launches.coordinator.clock.jump(by);
        self.launches.coordinator.due = None;
        self.plan_coordinator();
    }

    fn coordinator_wants(&mut self, command: Command) {
        let life = self.launches.coordinator.node.life;
        match command {
            Command::Answer { to, answer } => self.answer_launch(to.0, Answered::User(answer)),
            Command::SubjobDecision { to, decision, heard } => {
                self.answer_launch(to.0, Answered::Decision(decision, heard));
            }
            Command::Survey { launch, group } => {
                let pause = self.rng.random_range(10..3_000);
                self.after(pause, WorldEvent::Launches(Moment::Surveyed(life, launch, group)));
            }
            Command::Call { to, id, call } => {
                let Some(to) = self.peers.get(&to.name).copied() else { return };
                if self.bug == Some(Bug::SilenceIsOver) && matches!(call, Call::Decide(SubjobDecision::End)) {
                    let over = SubjobState::Over { ended: BTreeMap::new(), exit: Exit::Cancelled };
                    let from = self.name_of(to).parse().expect("a server has a name");
                    let late = Event::SubjobStatus { from, id: id.clone(), state: over, reply: None };
                    self.after(1_500, WorldEvent::Launches(Moment::Late(life, Box::new(late))));
                }
                self.ask_launch(AGENT, to, Party::Coordinator(life, id.clone()), Asked::Subjob(id, call));
            }
            Command::Archive(_) => {}
        }
    }

    /// Servers say what machines they have: those that are there.
    pub(super) fn surveyed(&mut self, life: u32, launch: LaunchId, group: u32) {
        if self.launches.coordinator.node.life != life {
            return;
        }
        let mut sites = Vec::new();
        for index in 0..self.servers.len() {
            let me = Peer::Server(index);
            let answers =
                self.is_up(me) && !self.are_parted(AGENT, me) && !self.strikes(self.plan.faults.lost);
            if !answers || self.sites.contains_key(&index) {
                continue;
            }
            let name = self.servers[index].name.clone();
            let machine = &self.servers[index].daemon.node.machine;
            let procs = machine.procs().0;
            // What subjobs have from their turn on, as servers say; that of jobs would leave little to be launched.
            let has_turn = |state: &SubjobState| {
                matches!(
                    state,
                    SubjobState::Prepared { .. } | SubjobState::Committed | SubjobState::Runs { .. }
                )
            };
            let subjobs = machine.subjobs().filter(|(_, _, state)| has_turn(state));
            let taken: u32 = subjobs.map(|(subjob, ..)| subjob.procs.0).sum();
            let taken = f64::from(taken) / f64::from(procs.max(1));
            let below = Some(self.agents[self.servers[index].parent].name.clone());
            let below = below.filter(|agent| *agent != self.agents[0].name);
            // Of two machines, if it has as many processors.
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
        self.tell_coordinator(Event::Surveyed { launch, group, sites });
    }

    /// A server has measured the link to another one, now and then.
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
        self.tell_coordinator(Event::Measured { between, mbps, round_trip_us: 200 });
    }

    /// Makes a call about a launch.
    pub(super) fn ask_launch(&mut self, from: Peer, to: Peer, by: Party, asked: Asked) -> u64 {
        self.call(from, to, calls::Party::Launch(by), Request::Launch(Box::new(asked)))
    }

    pub(super) fn answer_launch(&mut self, call: u64, answer: Answered) {
        self.respond(call, Response::Launch(Box::new(answer)));
    }

    /// Somebody asks something about a launch.
    pub(in crate::faults) fn launch_asked(&mut self, to: Peer, number: u64, asked: Asked) {
        let reply = Token(number);
        match (to, asked) {
            (Peer::Server(index), Asked::Subjob(id, call)) => self.subjob_asked(index, reply, id, call),
            (_, Asked::Stands(from, id, state)) => {
                let state = match state {
                    SubjobState::Queued if self.bug == Some(Bug::QueuedIsHeld) => {
                        SubjobState::Prepared { addresses: BTreeMap::new() }
                    }
                    state => state,
                };
                self.tell_coordinator(Event::SubjobStatus { from, id, state, reply: Some(reply) });
            }
            (_, Asked::Launch(wanted)) => match self.launches.archive.get(&wanted.key).cloned() {
                Some(record) => self.answer_launch(number, Answered::User(Answer::Launch(Box::new(record)))),
                None => self.tell_coordinator(Event::Launch { reply, spec: wanted }),
            },
            (_, Asked::Cancel(launch)) => {
                let is_known = self.launches.coordinator.node.machine.record(&launch, &operator()).is_some();
                match self.launches.archive.get(&launch.key).filter(|_| !is_known).cloned() {
                    // Long over: the agent finds it in the archive.
                    Some(record) => {
                        self.answer_launch(number, Answered::User(Answer::Launch(Box::new(record))));
                    }
                    None => self.tell_coordinator(Event::Cancel { reply, launch, caller: operator() }),
                }
            }
            (_, Asked::Spawn(launch, spawn)) => {
                self.tell_coordinator(Event::Spawn { reply, launch, caller: operator(), spawn });
            }
            (_, Asked::Look(launch)) => {
                // What is told has to be durable: the answer waits for the commit of what has come in before.
                self.launches.looks.insert(number, launch);
                self.launches.coordinator.waiting.push(number);
                self.plan_coordinator();
            }
            _ => debug_assert!(false, "a request went to the wrong kind of daemon"),
        }
    }

    fn answer_look(&mut self, number: u64) {
        let Some(asked) = self.launches.looks.remove(&number) else { return };
        let known = self.launches.coordinator.node.machine.record(&asked, &operator());
        let known = known.or_else(|| self.launches.archive.get(&asked.key).cloned());
        let answer = known.map_or(Answer::NoSuchLaunch, |record| Answer::Launch(Box::new(record)));
        self.answer_launch(number, Answered::User(answer));
    }
}

/// Somebody who may see and end any launch.
pub(super) fn operator() -> Caller {
    let user = "operator".parse().expect("letters are a user's name");
    Caller { user, operator: true }
}
