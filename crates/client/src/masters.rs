//! Masters side by side: whom a client asks what.
//!
//! What is the same at every master is asked of the first one that answers, the one of the user before others. What a master knows of its own
//! users' jobs alone is asked of the master of the user, or of all masters, and joined.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use pliant_control::agent::ReallocationReport;
use pliant_control::job::JobRecord;
use pliant_control::masters::Masters;
use pliant_control::names::{Name, User};
use pliant_transport::AgentAddress;
use pliant_wire::{Federation, JobCursor, JobMove, JobsPage, JobsQuery};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use super::{AgentClient, Client, ClientError, ClientFile, is_unavailable};

/// What to do while the master with the records of jobs is down.
const MASTER_DOWN: &str =
    "the records of these users' jobs are there; `pliant status JOB` asks the server of the job";

/// The agents of a client's file in the order in which a user looks for one.
pub(super) struct AgentOrder {
    pub(super) agents: Vec<AgentAddress>,
    pub(super) groups: MasterGroups,
}

/// The masters, each with the positions of its agents in the client's list. One of all agents, if they are not side by side.
#[derive(Clone)]
pub(super) struct MasterGroups {
    masters: Masters,
    each: Vec<(Name, Range<usize>)>,
}

impl AgentOrder {
    pub(super) fn of(file: &ClientFile, user: &str) -> AgentOrder {
        let masters = Masters::new(file.master.iter().map(|master| master.name.clone()));
        let order: Vec<Name> =
            user.parse().map_or(Vec::new(), |user| masters.order(&user).into_iter().cloned().collect());
        let mut sorted: Vec<_> = file.master.iter().collect();
        sorted.sort_by_key(|master| order.iter().position(|name| *name == master.name));
        let (mut agents, mut each) = (file.agent.clone(), Vec::new());
        if let Some(first) = agents.first() {
            each.push((first.name.clone(), 0..agents.len()));
        }
        for master in sorted {
            let begin = agents.len();
            agents.extend(master.agents());
            each.push((master.name.clone(), begin..agents.len()));
        }
        AgentOrder { agents, groups: MasterGroups { masters, each } }
    }
}

impl MasterGroups {
    /// True if there are several masters.
    pub(super) fn are_several(&self) -> bool {
        self.masters.are_several()
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.each.len()
    }

    /// The agents of the master that has the jobs of a user; all, if there is one master.
    fn of(&self, user: &User) -> Range<usize> {
        let order = self.masters.order(user);
        let own = self.each.iter().find(|(name, _)| order.first().is_none_or(|own| *own == name));
        own.map_or(0..0, |(_, agents)| agents.clone())
    }
}

impl Client {
    /// Asks the first agent that is up.
    pub(super) async fn ask_agent<Q, A, F, C>(&self, question: Q, call: C) -> Result<A, ClientError>
    where
        Q: Clone,
        C: Fn(AgentClient<Channel>, Request<Q>) -> F,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        self.ask_one_of(0..self.agents.len(), question, &call).await
    }

    /// Asks the first of some agents that is up.
    async fn ask_one_of<Q, A, F, C>(
        &self,
        agents: Range<usize>,
        question: Q,
        call: &C,
    ) -> Result<A, ClientError>
    where
        Q: Clone,
        C: Fn(AgentClient<Channel>, Request<Q>) -> F,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let mut last = ClientError::usage("the client's file names no agent");
        for (name, agent) in &self.agents[agents] {
            match call(agent.clone(), self.request(question.clone())).await {
                Ok(reply) => return Ok(reply.into_inner()),
                Err(status) => {
                    let unavailable = is_unavailable(&status);
                    last = ClientError::call(format!("agent {name}"), &status);
                    if !unavailable {
                        break;
                    }
                }
            }
        }
        Err(last)
    }

    /// Asks the master that has the jobs of a user: of no other one are they to be had.
    pub(super) async fn ask_master_of<Q, A, F, C>(
        &self,
        user: &User,
        question: Q,
        call: C,
    ) -> Result<A, ClientError>
    where
        Q: Clone,
        C: Fn(AgentClient<Channel>, Request<Q>) -> F,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let answer = self.ask_one_of(self.masters.of(user), question, &call).await;
        answer.map_err(|error| match error.is_down() && self.masters.are_several() {
            true => error.with_hint(MASTER_DOWN),
            false => error,
        })
    }

    /// Asks a master, the user's own if it is the first.
    pub(super) async fn ask_nth<Q, A, F, C>(
        &self,
        master: usize,
        question: Q,
        call: C,
    ) -> Result<A, ClientError>
    where
        Q: Clone,
        C: Fn(AgentClient<Channel>, Request<Q>) -> F,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        self.ask_one_of(self.masters.each[master].1.clone(), question, &call).await
    }

    /// Asks every master, the user's own first.
    pub(super) async fn ask_each<Q, A, F, C>(
        &self,
        question: Q,
        call: C,
    ) -> Vec<(Name, Result<A, ClientError>)>
    where
        Q: Clone,
        C: Fn(AgentClient<Channel>, Request<Q>) -> F,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let mut answers = Vec::with_capacity(self.masters.each.len());
        for (name, agents) in &self.masters.each {
            answers.push((name.clone(), self.ask_one_of(agents.clone(), question.clone(), &call).await));
        }
        answers
    }

    /// The answers of all masters.
    ///
    /// # Errors
    /// One of them does not answer, or refuses: the whole would look complete without being so.
    pub(super) async fn ask_all<Q, A, F, C>(&self, question: Q, call: C) -> Result<Vec<A>, ClientError>
    where
        Q: Clone,
        C: Fn(AgentClient<Channel>, Request<Q>) -> F,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        if self.masters.each.is_empty() {
            return Err(ClientError::usage("the client's file names no agent"));
        }
        self.ask_each(question, call).await.into_iter().map(|(_, answer)| answer).collect()
    }

    /// The user of this client, as a name of jobs' owners.
    pub(super) fn own_name(&self) -> Result<User, ClientError> {
        self.user().parse().map_err(ClientError::usage)
    }

    /// Whose jobs a query asks for; none if for those of all users.
    pub(super) fn owner_of(&self, query: &JobsQuery) -> Result<Option<User>, ClientError> {
        match &query.owner {
            Some(owner) => Ok(Some(owner.clone())),
            None if query.all => Ok(None),
            None => self.own_name().map(Some),
        }
    }
}

/// The pages of all masters as one: at most `limit` jobs, the last to be submitted first. A job that two masters list, since the masters were
/// others before, is as the master with the most progress knows it.
pub(super) fn joined_pages(pages: Vec<JobsPage>, limit: usize) -> JobsPage {
    let mut joined = JobsPage::default();
    let mut jobs: Vec<JobRecord> = Vec::new();
    // Each page has all of its master's down to its last job, and nothing is known of earlier ones.
    let mut reached: Option<JobCursor> = None;
    for page in pages {
        if let Some(next) = page.next
            && reached.as_ref().is_none_or(|reached| position(&next) > position(reached))
        {
            reached = Some(next);
        }
        jobs.extend(page.jobs);
        joined.reporting_again.extend(page.reporting_again);
        joined.children = joined.children.max(page.children);
    }
    jobs.sort_by(|one, other| {
        let (at, other_at) = (JobCursor::of(one), JobCursor::of(other));
        position(&other_at).cmp(&position(&at)).then(other.progress().cmp(&one.progress()))
    });
    jobs.dedup_by(|later, earlier| later.handle == earlier.handle);
    if let Some(reached) = &reached {
        jobs.retain(|job| position(&JobCursor::of(job)) >= position(reached));
    }
    let is_more = reached.is_some() || jobs.len() > limit;
    jobs.truncate(limit);
    joined.next = jobs.last().filter(|_| is_more).map(JobCursor::of);
    joined.reporting_again =
        joined.reporting_again.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
    JobsPage { jobs, ..joined }
}

fn position(cursor: &JobCursor) -> (pliant_model::Time, &Name, u32) {
    (cursor.submitted, &cursor.server, cursor.number)
}

/// What all masters know of the daemons, as one: each server is attached to all of them, and each counts the jobs of its own users.
pub(super) fn joined_federations(all: Vec<Federation>) -> Federation {
    let mut all = all.into_iter();
    let Some(mut joined) = all.next() else { return Federation::default() };
    for other in all {
        let mut by_name: BTreeMap<Name, usize> = BTreeMap::new();
        for (at, server) in joined.servers.iter().enumerate() {
            by_name.insert(server.info.name.clone(), at);
        }
        for server in other.servers {
            match by_name.get(&server.info.name) {
                Some(at) => {
                    let known = &mut joined.servers[*at];
                    let (queued, active) = (known.queued + server.queued, known.active + server.active);
                    if server.attached && !known.attached {
                        *known = server;
                    }
                    (known.queued, known.active) = (queued, active);
                }
                None => joined.servers.push(server),
            }
        }
        for agent in other.agents {
            match joined.agents.iter_mut().find(|known| known.name == agent.name) {
                Some(known) if agent.attached && !known.attached => *known = agent,
                Some(_) => {}
                None => joined.agents.push(agent),
            }
        }
    }
    joined
}

/// The moves that all masters know, the last ones first.
pub(super) fn joined_moves(all: impl IntoIterator<Item = JobMove>, limit: u32) -> Vec<JobMove> {
    let mut moves: Vec<JobMove> = all.into_iter().collect();
    moves.sort_by(|one, other| (other.hop.at, &one.job).cmp(&(one.hop.at, &other.job)));
    moves.truncate(limit as usize);
    moves
}

/// The cycles of all masters as one: each moves the jobs of its own users.
pub(super) fn joined_cycles(all: Vec<ReallocationReport>) -> ReallocationReport {
    let mut all = all.into_iter();
    let Some(mut joined) = all.next() else { return ReallocationReport::default() };
    for other in all {
        joined.refused = joined.refused.or(other.refused);
        joined.servers = joined.servers.max(other.servers);
        joined.movable += other.movable;
        joined.silent.extend(other.silent);
        joined.silent.sort();
        joined.silent.dedup();
        if other.closed.len() > joined.closed.len() {
            joined.closed = other.closed;
        }
        joined.proposals.extend(other.proposals);
    }
    joined
}
