//! What has to hold at the end, when there are no more faults.

use pliant_control::job::{Hop, JobRecord};
use pliant_control::names::Handle;
use pliant_model::MoveReason;

use super::checks::Violation;
use super::external::Site;
use super::world::World;
use crate::kernel::Peer;

/// More moves than any job makes.
const CHAIN_MOST: usize = 200;

impl World {
    /// What is not settled yet.
    pub(super) fn unsettled(&self) -> Option<String> {
        let open = self.clients.iter().position(|client| !client.over || client.cancels);
        if let Some(number) = open {
            return Some(format!("client {number} has not heard how its job or its cancellation stands"));
        }
        for server in &self.servers {
            let (name, daemon) = (&server.name, &server.daemon);
            if !daemon.node.up {
                return Some(format!("{name} is down"));
            }
            if let Some((job, to)) = daemon.node.machine.outgoing().next() {
                return Some(format!("{name} does not get rid of {job}, which goes to {}", to.name));
            }
            if let Some((job, to)) = daemon.node.machine.siblings().next() {
                return Some(format!("{name} has a copy of {job} at {}", to.name));
            }
            if let Some(handoff) = daemon.node.machine.prepared().next() {
                let attempt = handoff.id.attempt;
                return Some(format!(
                    "{name} holds {} from {}, attempt {attempt}",
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
                return Some(format!("{name} has commands that nobody has answered"));
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
        for (number, (name, up, news)) in agents.chain(servers).enumerate() {
            // Nobody acknowledges what the master agent would tell.
            if !up || (news > 0 && number > 0) {
                return Some(format!("{name} is down or has {news} news that its agent does not have"));
            }
        }
        let waiting = self.agents.iter().find_map(|agent| {
            let open = agent.daemon.node.machine.jobs().find(|record| !record.state.is_final())?;
            Some(format!("{} has {} as {}", agent.name, open.handle, open.state))
        });
        let waiting = waiting.or_else(|| self.unsettled_launch());
        waiting.or_else(|| (!self.have_lines()).then(|| "a child has no line".to_owned()))
    }

    /// The last checks, when everything is settled and what has ended has left the daemons' memory.
    pub(super) fn conclude(&mut self) -> Result<(), Violation> {
        let jobs: Vec<Handle> = self.checks.accepted_jobs().cloned().collect();
        for job in &jobs {
            let record = self.resolve(job)?;
            self.checks.ended(&record)?;
            let master = &self.agents[0].daemon;
            let known = master.node.machine.job(job).or_else(|| master.node.archived(job));
            let Some(known) = known else {
                return Err(Violation::new("resolves", format!("the master agent knows nothing of {job}")));
            };
            let told = JobRecord { compared: Vec::new(), ..record };
            if *known != told {
                let what = format!("the master agent has {known:?}, the last server {told:?}");
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
        for _ in 0..CHAIN_MOST {
            let record = match self.peers.get(at) {
                Some(Peer::Server(index)) => self.record_at(*index, job),
                _ => None,
            };
            let Some(record) = record else {
                return Err(Violation::new("resolves", format!("{at} knows nothing of {job}")));
            };
            if record.server() == at {
                return Ok(record.clone());
            }
            at = record.server();
        }
        Err(Violation::new("resolves", format!("following {job} does not end")))
    }
}

fn is_copy(hop: &Hop) -> bool {
    hop.reason == MoveReason::FirstStart
}

impl World {
    /// What the schedule was like.
    pub(super) fn summary(&self) -> super::Summary {
        let jobs = self.checks.last_records();
        let crashes = self.agents.iter().map(|agent| agent.daemon.node.life);
        let crashes = crashes.chain(self.servers.iter().map(|server| server.daemon.node.life));
        let (launches, ran, completed) = self.launches_ended();
        super::Summary {
            events: self.events,
            jobs: jobs.clone().count() as u64,
            moves: jobs.clone().map(|record| record.hops.len() as u64).sum(),
            copies: jobs.clone().flat_map(|record| &record.hops).filter(|hop| is_copy(hop)).count() as u64,
            cancelled: jobs.filter(|record| record.exit == Some(pliant_control::job::Exit::Cancelled)).count()
                as u64,
            crashes: crashes.map(u64::from).sum(),
            launches,
            ran,
            completed,
        }
    }
}
