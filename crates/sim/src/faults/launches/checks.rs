//! The checks of launches.

use pliant_control::coallocation::{
    LaunchEnd, LaunchOutcome, LaunchRecord, LaunchState, Subjob, SubjobId, SubjobState,
};
use pliant_control::names::Key;

use crate::faults::checks::Violation;
use crate::faults::world::World;
use crate::kernel::Peer;

impl World {
    /// Checks durable decisions: every subjob that is to run is prepared at its server.
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
            let is_prepared = matches!(
                state,
                SubjobState::Prepared { .. } | SubjobState::Committed | SubjobState::Runs { .. }
            );
            if !is_prepared {
                self.report_violation(
                    "alone",
                    format!("{id} was decided to run, {server} has it as {state:?}"),
                );
            }
        }
    }

    /// Checks the start of a subjob's process.
    pub(super) fn check_start(&mut self, index: usize, subjob: &Subjob) {
        let (key, id) = (subjob.id.launch.key, &subjob.id);
        let group = self.launches.coordinator.node.machine.subjobs().find(|(one, ..)| *one == id);
        let group = group.map(|(_, _, group, _)| group);
        if !group.is_some_and(|group| self.launches.decided.contains(&(key, group))) {
            self.report_violation("alone", format!("c{index} starts {id} without a journaled decision"));
        }
        if self.launches.archive.contains_key(&key) {
            self.report_violation("over", format!("c{index} starts {id} of an ended launch"));
        }
        let starts = self.launches.starts.entry(id.clone()).or_default();
        *starts += 1;
        if *starts > 1 {
            self.report_violation("once", format!("c{index} starts {id} again"));
        }
    }

    /// Archives a launch whose end is durable, and checks that none of its processes runs.
    pub(super) fn archive_launch(&mut self, record: &LaunchRecord) {
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
                return self.report_violation("over", what);
            }
        }
    }

    /// Describes a launch that has not settled yet.
    pub(in crate::faults) fn unsettled_launch(&self) -> Option<String> {
        if self.plan.launches.is_empty() {
            return None;
        }
        if let Some(number) = self.launches.users.iter().position(|user| user.outcome.is_none()) {
            return Some(format!("user {number} waits for the outcome of the launch"));
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

    /// The final checks of launches.
    pub(in crate::faults) fn conclude_launches(&mut self) -> Result<(), Violation> {
        for number in 0..self.launches.users.len() {
            let user = &self.launches.users[number];
            let found = match &user.outcome {
                Some(LaunchOutcome::Over(record)) => self.check_outcome(record, user.cancels),
                other => Err(format!("it is {other:?}")),
            };
            found.map_err(|why| Violation::new("outcome", format!("of launch {number}: {why}")))?;
        }
        let found = self.launches.coordinator.check_journal(self.queue.now());
        found.map_err(|why| Violation::new("journal", format!("of the coordinator: {why}")))
    }

    fn check_outcome(&self, record: &LaunchRecord, cancels: bool) -> Result<(), String> {
        let has_started = self.launches.starts.keys().any(|id| id.launch == record.id);
        let end = record.end.as_ref().ok_or("it is over without an end")?;
        let all_done =
            record.tasks.iter().filter(|task| task.not_spawned.is_none()).all(|task| {
                task.exit.as_ref().is_some_and(|exit| *exit == pliant_control::job::Exit::Code(0))
            });
        let fits = match end {
            LaunchEnd::Completed => all_done && has_started,
            LaunchEnd::Mapped | LaunchEnd::NotMapped(_) | LaunchEnd::NotReserved(_) => !has_started,
            LaunchEnd::Cancelled => cancels,
            // An unreachable server may have completed its subjob.
            LaunchEnd::Failed(why) => !all_done || why.ends_with("its server does not answer"),
        };
        if fits {
            Ok(())
        } else {
            Err(format!("it ended as {end}, started is {has_started}: {:?}", record.tasks))
        }
    }

    /// Counts ended launches, those that ran, and those that completed.
    pub(in crate::faults) fn launches_ended(&self) -> (u64, u64, u64) {
        let records = self.launches.archive.values();
        let has_started =
            |record: &&LaunchRecord| self.launches.starts.keys().any(|id| id.launch == record.id);
        let completed = records.clone().filter(|record| record.end == Some(LaunchEnd::Completed)).count();
        (records.len() as u64, records.filter(has_started).count() as u64, completed as u64)
    }
}
