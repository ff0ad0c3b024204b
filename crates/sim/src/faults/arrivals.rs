//! Checks what a server takes in: submissions, jobs that other servers hand over, and subjobs of launches.

use pliant_control::coallocation::{SubjobId, SubjobState};
use pliant_control::handoff::HandoffId;
use pliant_control::job::JobState;
use pliant_control::names::{Handle, Key, Token, User};
use pliant_control::payload::Payload;
use pliant_control::server::{Event, LimitKey, Server, SubjobEvent, WaitingLimits};

use super::Bug;
use super::world::World;

/// A job that may arrive at a server with an event.
enum Arriving {
    Submission(Key),
    Handoff(HandoffId),
    Subjob(SubjobId),
}

/// A job that may arrive at a server with an event, and what waits there before.
pub(super) struct Arrival {
    arriving: Arriving,
    owner: User,
    /// The bytes of the job.
    bytes: u64,
    waiting: Waiting,
}

/// What waits at a server, counted by a pass over its jobs.
#[derive(Default)]
struct Waiting {
    /// The jobs of one user.
    jobs: u64,
    /// The bytes of these, and of those of the user that are prepared for other servers.
    bytes_of_user: u64,
    /// The same of all users.
    bytes: u64,
}

impl Waiting {
    /// Counts what waits without the job that arrives: it may be prepared already, or have left before without the server's knowledge
    /// that it has arrived elsewhere.
    fn count(server: &Server, user: &User, arriving: Option<&Handle>) -> Waiting {
        let mut waiting = Waiting::default();
        for (number, record) in server.jobs_after(0) {
            let waits = record.state == JobState::Queued && record.server() == server.name();
            if !waits || arriving == Some(&record.handle) {
                continue;
            }
            let bytes = server.payload(number).map_or(0, |payload| bytes_of(&record.name, payload));
            waiting.add(bytes, record.owner == *user);
            waiting.jobs += u64::from(record.owner == *user);
        }
        let others = server.prepared().filter(|handoff| arriving != Some(&handoff.id.job));
        for handoff in others {
            waiting.add(bytes_of(&handoff.name, &handoff.payload), handoff.owner == *user);
        }
        waiting
    }

    fn add(&mut self, bytes: u64, is_of_user: bool) {
        self.bytes += bytes;
        self.bytes_of_user += if is_of_user { bytes } else { 0 };
    }
}

fn bytes_of(name: &str, payload: &Payload) -> u64 {
    (name.len() + payload.bytes()) as u64
}

impl World {
    /// What may arrive at a server with an event; none if it is there already.
    pub(super) fn arrival(&self, index: usize, event: &Event) -> Option<Arrival> {
        let machine = &self.servers[index].daemon.node.machine;
        Some(match event {
            Event::Submit { submit, .. } if machine.job_of_key(&submit.key).is_none() => Arrival {
                arriving: Arriving::Submission(submit.key),
                owner: submit.owner.clone(),
                bytes: bytes_of(&submit.name, &submit.payload),
                waiting: Waiting::count(machine, &submit.owner, None),
            },
            Event::Prepare { handoff, .. } if machine.prepared_by(&handoff.id).is_none() => Arrival {
                arriving: Arriving::Handoff(handoff.id.clone()),
                owner: handoff.owner.clone(),
                bytes: bytes_of(&handoff.name, &handoff.payload),
                waiting: Waiting::count(machine, &handoff.owner, Some(&handoff.id.job)),
            },
            Event::Subjob(SubjobEvent::Prepare { subjob, .. })
                if !machine.known_subjobs().any(|known| *known == subjob.id) =>
            {
                Arrival {
                    arriving: Arriving::Subjob(subjob.id.clone()),
                    owner: subjob.owner.clone(),
                    bytes: 0,
                    waiting: Waiting::default(),
                }
            }
            _ => return None,
        })
    }

    /// Checks a job that may have arrived at a server by what an operator knows of the server.
    pub(super) fn check_arrival(&mut self, index: usize, arrival: &Arrival) {
        let machine = &self.servers[index].daemon.node.machine;
        let what = match &arrival.arriving {
            Arriving::Submission(key) if machine.job_of_key(key).is_some() => "accepts a job",
            Arriving::Handoff(id) if machine.prepared_by(id).is_some() => "prepares a job of another server",
            Arriving::Subjob(id)
                if matches!(
                    machine.subjob_state(id),
                    SubjobState::Queued | SubjobState::Prepared { .. } | SubjobState::Committed
                ) =>
            {
                "prepares a subjob"
            }
            _ => return,
        };
        let owner = &arrival.owner;
        let violation = if self.checks.drained.contains(&index) {
            Some(("drained", format!("c{index} {what} although it is drained")))
        } else if self.checks.banned.contains(&(index, owner.clone())) {
            Some(("banned", format!("c{index} {what} although {owner} is banned")))
        } else {
            let over = self.over_bounds(index, arrival);
            over.map(|over| ("waiting", format!("c{index} {what} although {over}")))
        };
        if let Some((checker, what)) = violation {
            self.report_violation(checker, what);
        }
    }

    /// The bound of what waits that a job exceeds; none if it exceeds none.
    fn over_bounds(&self, index: usize, arrival: &Arrival) -> Option<String> {
        let Arrival { arriving, owner, bytes, waiting } = arrival;
        if matches!(arriving, Arriving::Subjob(_)) {
            return None;
        }
        let (jobs, of_user) = (waiting.jobs + 1, waiting.bytes_of_user + bytes);
        let WaitingLimits { jobs_per_user, bytes_per_user, bytes: bytes_max } = self.plan.waiting;
        let of_operator = |key: LimitKey| {
            self.checks
                .limits
                .get(&(index, owner.clone()))
                .and_then(|known| known.of(key))
                .unwrap_or(u64::MAX)
        };
        let bounds = [
            (jobs, u64::from(jobs_per_user), "jobs of the user"),
            (jobs, of_operator(LimitKey::WaitingJobs), "jobs of the user, whom an operator has limited,"),
            (of_user, bytes_per_user, "bytes of the user"),
            (
                of_user,
                of_operator(LimitKey::WaitingBytes),
                "bytes of the user, whom an operator has limited,",
            ),
            (waiting.bytes + bytes, bytes_max, "bytes of all users"),
        ];
        let (count, most, what) = bounds.into_iter().find(|(count, most, _)| count > most)?;
        Some(format!("{count} {what} wait then, at most {most} may"))
    }

    /// Has a restarted server bound no bytes of waiting jobs ([`Bug::ForgetsWaitingBytes`]).
    pub(super) fn lose_waiting_bytes(&mut self, server: usize) {
        let bounds = WaitingLimits::of_jobs(self.plan.waiting.jobs_per_user);
        self.deliver_to_server(server, Event::WaitingLimits(bounds));
    }

    /// True if a server is drained and prepares jobs of others all the same ([`Bug::DrainedPrepares`]).
    pub(super) fn prepares_drained(&self, server: usize) -> bool {
        self.bug == Some(Bug::DrainedPrepares) && self.servers[server].daemon.node.machine.drained().is_some()
    }

    /// Delivers an event to a drained server as if it were not drained.
    pub(super) fn deliver_undrained(&mut self, server: usize, event: Event) {
        let by = || "operator".parse().expect("letters are a user's name");
        let (reply, why) = (Token(self.next_number()), "maintenance".to_owned());
        self.deliver_to_server(server, Event::Resume { reply, by: by(), why: why.clone() });
        self.deliver_to_server(server, event);
        let reply = Token(self.next_number());
        self.deliver_to_server(server, Event::Drain { reply, by: by(), why });
    }
}
