//! The checks after the last fault, when the federation settles.

use pliant_control::job::{Hop, JobRecord};
use pliant_control::names::Handle;
use pliant_model::MoveReason;

use super::checks::Violation;
use super::external::Site;
use super::world::World;
use crate::kernel::Peer;

/// An upper bound on the moves of a job.
const HOPS_MAX: usize = 200;

impl World {
    /// Describes something that has not settled yet.
    pub(super) fn unsettled(&self) -> Option<String> {
        let open = self.clients.iter().position(|client| !client.over || client.cancels);
        if let Some(number) = open {
            return Some(format!("client {number} waits for the outcome of its submission or cancellation"));
        }
        for server in &self.servers {
            let (name, daemon) = (&server.name, &server.daemon);
            if !daemon.node.up {
                return Some(format!("{name} is down"));
            }
            if let Some((job, to)) = daemon.node.machine.outgoing().next() {
                return Some(format!("{name} still hands {job} over to {}", to.name));
            }
            if let Some((job, to)) = daemon.node.machine.siblings().next() {
                return Some(format!("{name} has a sibling of {job} at {}", to.name));
            }
            if let Some(handoff) = daemon.node.machine.prepared().next() {
                let attempt = handoff.id.attempt;
                return Some(format!(
                    "{name} has prepared {} from {}, attempt {attempt}",
                    handoff.id.job, handoff.from.name
                ));
            }
            if let Some(process) = server.processes.values().find(|process| !process.over) {
                return Some(format!("{} runs at {name}", process.handle));
            }
            let index = self.servers.iter().position(|one| one.name == *name).unwrap_or(0);
            if let Some(why) = self.sites.get(&index).and_then(Site::unsettled) {
                return Some(format!("at {name} {why}"));
            }
            if self.unanswered(index) > 0 {
                return Some(format!("{name} has unanswered commands"));
            }
            let is_open = |record: &&JobRecord| !record.state.is_final() && record.server() == name;
            if let Some(record) = daemon.node.machine.jobs().find(is_open) {
                return Some(format!("{} is {} at {name}", record.handle, record.state));
            }
        }
        let agents = self
            .agents
            .iter()
            .map(|agent| (&agent.name, agent.daemon.node.up, agent.daemon.node.outbox().count()));
        let servers = self
            .servers
            .iter()
            .map(|server| (&server.name, server.daemon.node.up, server.daemon.node.outbox().count()));
        for (number, (name, up, updates)) in agents.chain(servers).enumerate() {
            // The master agent has no parent that acknowledges its updates.
            if !up || (updates > 0 && number > 0) {
                return Some(format!("{name} is down or has {updates} status updates that its agent lacks"));
            }
        }
        let waiting = self.agents.iter().find_map(|agent| {
            let open = agent.daemon.node.machine.jobs().find(|record| !record.state.is_final())?;
            Some(format!("{} has {} as {}", agent.name, open.handle, open.state))
        });
        let waiting = waiting.or_else(|| self.unsettled_launch());
        waiting.or_else(|| (!self.all_connected()).then(|| "a child is not connected".to_owned()))
    }

    /// The final checks, after the federation has settled and daemons have archived ended jobs.
    pub(super) fn conclude(&mut self) -> Result<(), Violation> {
        let jobs: Vec<Handle> = self.checks.accepted_jobs().cloned().collect();
        for job in &jobs {
            let record = self.resolve(job)?;
            self.checks.ended(&record)?;
            self.check_lost(&record)?;
            let master = &self.agents[0].daemon;
            let known = master.node.machine.job(job).or_else(|| master.node.archived(job));
            let Some(known) = known else {
                return Err(Violation::new("resolves", format!("the master agent has no record of {job}")));
            };
            let expected = JobRecord { compared: Vec::new(), estimates: Vec::new(), ..record };
            if *known != expected {
                let what = format!("the master agent has {known:?}, the last server {expected:?}");
                return Err(Violation::new("record", what));
            }
        }
        self.conclude_launches()?;
        for index in 0..self.servers.len() {
            let found = self.servers[index].daemon.check_journal(self.queue.now());
            found.map_err(|why| {
                Violation::new("journal", format!("of {}: {why}", self.name_of(Peer::Server(index))))
            })?;
        }
        for index in 0..self.agents.len() {
            let found = self.agents[index].daemon.check_journal(self.queue.now());
            found.map_err(|why| {
                Violation::new("journal", format!("of {}: {why}", self.name_of(Peer::Agent(index))))
            })?;
        }
        Ok(())
    }

    /// Follows a job from the server that its handle names to the one that has it.
    fn resolve(&self, job: &Handle) -> Result<JobRecord, Violation> {
        let mut at = &job.server;
        for _ in 0..HOPS_MAX {
            let record = match self.peers.get(at) {
                Some(Peer::Server(index)) => self.record_at(*index, job),
                _ => None,
            };
            let Some(record) = record else {
                return Err(Violation::new("resolves", format!("{at} has no record of {job}")));
            };
            if record.server() == at {
                return Ok(record.clone());
            }
            at = record.server();
        }
        Err(Violation::new("resolves", format!("the servers that {job} moved through form a cycle")))
    }
}

fn is_sibling_move(hop: &Hop) -> bool {
    hop.reason == MoveReason::FirstStart
}

impl World {
    /// Counts what happened in the schedule.
    pub(super) fn summary(&self) -> super::Summary {
        let jobs = self.checks.last_records();
        let crashes = self.agents.iter().map(|agent| agent.daemon.node.incarnation);
        let crashes = crashes.chain(self.servers.iter().map(|server| server.daemon.node.incarnation));
        let (launches, ran, completed) = self.launches_ended();
        super::Summary {
            events: self.events,
            jobs: jobs.clone().count() as u64,
            moves: jobs.clone().map(|record| record.hops.len() as u64).sum(),
            sibling_moves: jobs
                .clone()
                .flat_map(|record| &record.hops)
                .filter(|hop| is_sibling_move(hop))
                .count() as u64,
            requeues: jobs.clone().map(|record| u64::from(record.requeues)).sum(),
            cancelled: jobs.filter(|record| record.exit == Some(pliant_control::job::Exit::Cancelled)).count()
                as u64,
            crashes: crashes.map(u64::from).sum(),
            launches,
            ran,
            completed,
        }
    }
}
