//! What is checked of launches.

use pliant_control::coallocation::{
    LaunchEnd, LaunchOutcome, LaunchRecord, LaunchState, Subjob, SubjobId, SubjobState,
};
use pliant_control::names::Key;

use crate::faults::checks::Violation;
use crate::faults::world::World;
use crate::kernel::Peer;

impl World {
    /// What the coordinator has decided is durable now: every subjob that is to run is held.
    pub(super) fn check_decisions(&mut self) {
        let machine = &self.launches.coordinator.node.machine;
        let new = |key: Key, group| !self.launches.decided.contains(&(key, group));
        let subjobs = machine.subjobs().filter(|(_, _, _, runs)| *runs);
        let subjobs = subjobs.filter(|(id, _, group, _)| new(id.launch.key, *group));
        let subjobs: Vec<_> =
            subjobs.map(|(id, server, group, _)| (id.clone(), server.clone(), group)).collect();
        for (id, server, group) in subjobs {
            self.launches.decided.insert((id.launch.key, group));
            let Some(Peer::Server(index)) = self.peers.get(&server).copied() else { continue };
            let state = self.servers[index].daemon.node.machine.subjob_state(&id);
            let is_held = matches!(
                state,
                SubjobState::Prepared { .. } | SubjobState::Committed | SubjobState::Runs { .. }
            );
            if !is_held {
                self.wrong("alone", format!("it is decided that {id} runs, which {server} has as {state:?}"));
            }
        }
    }

    /// A process of a subjob begins.
    pub(super) fn check_begin(&mut self, index: usize, subjob: &Subjob) {
        let (key, id) = (subjob.id.launch.key, &subjob.id);
        let group = self.launches.coordinator.node.machine.subjobs().find(|(one, ..)| *one == id);
        let group = group.map(|(_, _, group, _)| group);
        if !group.is_some_and(|group| self.launches.decided.contains(&(key, group))) {
            self.wrong("alone", format!("c{index} begins {id}, of which no journal says that it runs"));
        }
        if self.launches.archive.contains_key(&key) {
            self.wrong("over", format!("c{index} begins {id} of a launch that is over"));
        }
        let begun = self.launches.begun.entry(id.clone()).or_default();
        *begun += 1;
        if *begun > 1 {
            self.wrong("once", format!("{id} is begun again, by c{index}"));
        }
    }

    /// It is durable that a launch is over.
    pub(super) fn launch_is_over(&mut self, record: &LaunchRecord) {
        let key = record.id.key;
        self.launches.archive.insert(key, record.clone());
        for index in 0..self.servers.len() {
            let server = &self.servers[index];
            let runs = |id: &SubjobId, number: u32| {
                let process = server.processes.get(&pliant_model::JobId(number));
                id.launch.key == key && process.is_some_and(|process| !process.over)
            };
            let left =
                server.daemon.node.machine.subjobs().find(|(subjob, number, _)| runs(&subjob.id, *number));
            if let Some((subjob, ..)) = left {
                let what = format!("{} is over, and {} runs at c{index}", record.id, subjob.id);
                return self.wrong("over", what);
            }
        }
    }

    /// What of launches is not settled.
    pub(in crate::faults) fn unsettled_launch(&self) -> Option<String> {
        if self.plan.launches.is_empty() {
            return None;
        }
        if let Some(number) = self.launches.users.iter().position(|user| user.outcome.is_none()) {
            return Some(format!("user {number} does not know how the launch has ended"));
        }
        let daemon = &self.launches.coordinator;
        if !daemon.node.up {
            return Some("the coordinator is down".to_owned());
        }
        if let Some(record) = daemon.node.machine.records().find(|record| record.state != LaunchState::Over) {
            return Some(format!("{} is {}", record.id, record.state.word()));
        }
        for server in &self.servers {
            let machine = &server.daemon.node.machine;
            if machine.unacknowledged_subjobs() > 0 {
                return Some(format!("{} has subjobs of launches", server.name));
            }
            let free = machine.usage().free;
            if free != machine.procs() {
                return Some(format!("{free} of {} processors of {} are free", machine.procs(), server.name));
            }
        }
        None
    }

    /// The last checks of launches.
    pub(in crate::faults) fn conclude_launches(&mut self) -> Result<(), Violation> {
        for number in 0..self.launches.users.len() {
            let user = &self.launches.users[number];
            let found = match &user.outcome {
                Some(LaunchOutcome::Over(record)) => self.check_told(record, user.cancels),
                other => Err(format!("it is {other:?}")),
            };
            found.map_err(|why| Violation::new("told", format!("of launch {number}: {why}")))?;
        }
        let found = self.launches.coordinator.check_journal(self.queue.now());
        found.map_err(|why| Violation::new("journal", format!("of the coordinator: {why}")))
    }

    fn check_told(&self, record: &LaunchRecord, cancels: bool) -> Result<(), String> {
        let begun = self.launches.begun.keys().any(|id| id.launch == record.id);
        let end = record.end.as_ref().ok_or("it is over without an end")?;
        let all_done =
            record.tasks.iter().filter(|task| task.not_spawned.is_none()).all(|task| {
                task.exit.as_ref().is_some_and(|exit| *exit == pliant_control::job::Exit::Code(0))
            });
        let fits = match end {
            LaunchEnd::Completed => all_done && begun,
            LaunchEnd::Mapped | LaunchEnd::NotMapped(_) | LaunchEnd::NotReserved(_) => !begun,
            LaunchEnd::Cancelled => cancels,
            // A server that nothing is heard of may have completed its subjob.
            LaunchEnd::Failed(why) => !all_done || why.ends_with("its server does not answer"),
        };
        if fits {
            Ok(())
        } else {
            Err(format!("it ended as {end}, and begun is {begun}: {:?}", record.tasks))
        }
    }

    /// Launches that are over, those that ran, and those that completed.
    pub(in crate::faults) fn launches_ended(&self) -> (u64, u64, u64) {
        let records = self.launches.archive.values();
        let began = |record: &&LaunchRecord| self.launches.begun.keys().any(|id| id.launch == record.id);
        let completed = records.clone().filter(|record| record.end == Some(LaunchEnd::Completed)).count();
        (records.len() as u64, records.filter(began).count() as u64, completed as u64)
    }
}
