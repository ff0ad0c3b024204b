//! Clients, one for each job.

use pliant_control::access::Caller;
use pliant_control::agent::{self, DiscoveryQuery, DiscoverySubject, Requester};
use pliant_control::client::{self, Command, Submission, SubmissionOutcome};
use pliant_control::job::{ComparedEstimate, Work};
use pliant_control::names::Token;
use pliant_control::names::{Key, Name, User};
use pliant_control::payload::Payload;
use pliant_control::reason::{Cause, DiscoverySummary, Reason};
use pliant_control::server::{self, AdmissionRefusal, Submit};
use pliant_model::{ClusterId, Job, JobId, RefusalCause, Request, Speedup, Time};
use pliant_policy::mapping;

use super::Unplaced;
use super::Unsupported;
use super::driver::{Driver, Submitted};
use super::network::{Link, NetworkMessage};
use crate::kernel::Peer;
use crate::{SimError, SimJob};

/// How many offers a client asks for: the best one, and others in case of a refusal.
const BEST: u32 = 3;

/// The master agent.
const MASTER: usize = 0;

/// The client of a job.
pub(super) enum Client {
    /// A client of the federation.
    Federation {
        /// Its submission.
        submission: Box<Submission>,
        /// The requested work.
        work: Work,
        /// The owner of the job.
        owner: User,
        /// The number of its crashes.
        crashes: u32,
    },
    /// A local user who has submitted to that cluster.
    Local(ClusterId),
}

impl Driver<'_> {
    /// Submits a job of the workload.
    pub(super) fn submit(&mut self, now: Time, number: u32, next: &SimJob) -> Result<(), SimError> {
        let SimJob { job, speedup, true_speedup, managed } = next;
        if true_speedup.is_some() {
            return Err(SimError::Protocol(Unsupported::Misjudged));
        }
        self.submitted.insert(number, Submitted { job: job.clone(), managed: *managed });
        if !managed {
            return self.submit_locally(now, number, job);
        }
        let resources = self.needs.of(job);
        let work = Work { resources, ..Work::new(job.procs, job.walltime, speedup.clone()) };
        let submission = Box::new(Submission::new(Time::MAX));
        let client = Client::Federation { submission, work, owner: owner(job), crashes: 0 };
        self.clients.insert(number, client);
        self.deliver_to_client(now, number, client::Event::Begin);
        Ok(())
    }

    /// Submits a local user's rigid job to its own cluster, with the shape and time of the log.
    fn submit_locally(&mut self, now: Time, number: u32, job: &Job) -> Result<(), SimError> {
        let clusters = self.platform.clusters();
        let only = (clusters.len() == 1).then_some(ClusterId(0));
        let known = job.origin.filter(|origin| origin.index() < clusters.len());
        let Some(id) = known.or(only) else {
            self.refuse(number, RefusalCause::NoOrigin);
            return Ok(());
        };
        self.clients.insert(number, Client::Local(id));
        // What its log says of a local job counts only where it ran.
        let resources = self.needs.of(job).filter(|_| clusters[id.index()].nodes.is_some());
        let work = Work { resources, ..Work::new(job.procs, job.walltime, Speedup::Rigid) };
        let submit = Submit { own_time: true, ..submit(number, work, owner(job), None, Default::default()) };
        self.send_submission(now, token(number, 0), id.index(), submit);
        Ok(())
    }

    /// Delivers an answer to a client, unless the client has crashed since.
    pub(super) fn answer_client(&mut self, now: Time, to: Token, event: client::Event) {
        if let Some(number) = self.waiting_client(to) {
            self.deliver_to_client(now, number, event);
        }
    }

    /// Removes a client whose job has ended already.
    pub(super) fn remove_known(&mut self, to: Token) {
        if let Some(number) = self.waiting_client(to) {
            self.clients.remove(&number);
            self.set_timer(Peer::Client(number), None);
        }
    }

    /// The number of the client that waits for an answer to this token.
    fn waiting_client(&self, to: Token) -> Option<u32> {
        let number = to.0 as u32;
        let waits = match self.clients.get(&number)? {
            Client::Federation { crashes, .. } => token(number, *crashes) == to,
            Client::Local(_) => true,
        };
        waits.then_some(number)
    }

    pub(super) fn deliver_to_client(&mut self, now: Time, number: u32, event: client::Event) {
        match self.clients.get_mut(&number) {
            Some(Client::Federation { submission, .. }) => {
                if let Some(command) = submission.on(now, event) {
                    self.execute_client_command(now, number, command);
                }
            }
            Some(Client::Local(cluster)) => {
                let cluster = *cluster;
                self.clients.remove(&number);
                self.answer_local_user(number, cluster, event);
            }
            None => debug_assert!(false, "job {number} has no client any more"),
        }
    }

    /// Executes a command of a client.
    fn execute_client_command(&mut self, now: Time, number: u32, command: Command) {
        let Some(Client::Federation { work, owner, crashes, .. }) = self.clients.get(&number) else { return };
        let token = token(number, *crashes);
        match command {
            Command::Discover => {
                let caller = Caller { user: owner.clone(), operator: false };
                let what = DiscoverySubject::Work(work.clone());
                let ask = DiscoveryQuery {
                    subject: what,
                    caller,
                    best: BEST,
                    only: None,
                    timeout: None,
                    latest: None,
                };
                let ask = Box::new(ask);
                let asked = agent::Event::Queried { requester: Requester::Client(token), query: ask };
                self.send(now, Link::ClientAgent, NetworkMessage::Agent(MASTER, asked));
            }
            Command::Submit { to, latest, compared, discovery } => {
                let submit = submit(number, work.clone(), owner.clone(), latest, (compared, discovery));
                self.send_from_client(now, token, to.server, submit);
            }
            Command::Repeat { server } => {
                let submit = submit(number, work.clone(), owner.clone(), None, Default::default());
                self.send_from_client(now, token, server, submit);
            }
            Command::WakeAt(at) => self.set_timer(Peer::Client(number), Some(at)),
            Command::Done(outcome) => {
                let request = work.request(JobId(0), now);
                self.clients.remove(&number);
                self.set_timer(Peer::Client(number), None);
                self.record_outcome(now, number, &request, *outcome);
            }
        }
    }

    /// Sends a submission; the client may crash right after.
    fn send_from_client(&mut self, now: Time, token: Token, to: Name, submit: Submit) {
        let Some(Peer::Server(server)) = self.peers.get(&to) else {
            return debug_assert!(false, "{to} is no server");
        };
        self.send_submission(now, token, *server, submit);
        let number = token.0 as u32;
        if self.links.draw_crash()
            && let Some(Client::Federation { submission, crashes, .. }) = self.clients.get_mut(&number)
        {
            **submission = Submission::resumed(Time::MAX, to);
            *crashes += 1;
            self.deliver_to_client(now, number, client::Event::Begin);
        }
    }

    fn send_submission(&mut self, now: Time, token: Token, server: usize, submit: Submit) {
        let event = server::Event::Submit { reply: token, submit: Box::new(submit) };
        self.send(now, Link::ClientServer, NetworkMessage::Server(server, event));
    }

    /// Records the outcome of a submission to the federation.
    fn record_outcome(&mut self, now: Time, number: u32, request: &Request, outcome: SubmissionOutcome) {
        let why = match outcome {
            SubmissionOutcome::Accepted(_) => return,
            SubmissionOutcome::Refused(reasons) => sentence(&reasons),
            SubmissionOutcome::Unknown { server, why } => format!("{server} may have accepted it: {why}"),
        };
        match mapping::earliest(&mut self.empty, now, request) {
            Err(cause) => self.refuse(number, cause),
            Ok(_) => {
                if let Some(Submitted { job, .. }) = self.submitted.remove(&number) {
                    self.unplaced.insert(number, Unplaced { log_id: job.log_id, why });
                }
            }
        }
    }

    fn answer_local_user(&mut self, number: u32, cluster: ClusterId, event: client::Event) {
        match event {
            client::Event::Refused(AdmissionRefusal::TooLarge { needed: requested, available }) => {
                self.refuse(number, RefusalCause::LargerThanCluster { cluster, requested, available });
            }
            client::Event::Refused(AdmissionRefusal::Other(reason)) if reason.cause == Cause::Resources => {
                self.refuse(number, RefusalCause::InsufficientResources);
            }
            other => debug_assert!(matches!(other, client::Event::Accepted(_)), "{other:?}"),
        }
    }

    fn refuse(&mut self, number: u32, cause: RefusalCause) {
        if let Some(Submitted { job, .. }) = self.submitted.remove(&number) {
            self.refused.insert(number, (job.log_id, cause));
        }
    }
}

fn submit(
    number: u32,
    work: Work,
    owner: User,
    latest: Option<Time>,
    asked: (Vec<ComparedEstimate>, DiscoverySummary),
) -> Submit {
    let (compared, discovery) = asked;
    let key = Key(u128::from(number).to_be_bytes());
    let name = format!("job-{number}");
    Submit {
        key,
        owner,
        name,
        work,
        own_time: false,
        pinned: false,
        latest,
        compared,
        discovery,
        payload: Payload::of(&number),
        sample: None,
        claim: None,
    }
}

/// The token of a job's client after that number of crashes.
fn token(number: u32, crashes: u32) -> Token {
    Token(u64::from(crashes) << 32 | u64::from(number))
}

/// The log's user as a name: `u17`, or `u-1` if unknown.
fn owner(job: &Job) -> User {
    format!("u{}", job.user).parse().expect("a letter and a whole number are a user's name")
}

fn sentence(reasons: &[(Option<Name>, Reason)]) -> String {
    let one = |(server, why): &(Option<Name>, Reason)| match server {
        Some(server) => format!("{server}: {why}"),
        None => why.to_string(),
    };
    reasons.iter().map(one).collect::<Vec<_>>().join("; ")
}
