//! Queues of servers, for an agent that looks for better places.

use pliant_control::handoff::{Movable, Picture};
use pliant_control::names::Name;
use pliant_model::{JobId, Owner};
use pliant_policy::batch::order::{Charge, Shares, UserUsage};
use pliant_policy::batch::{Dump, RunningJob, Start, Submission, Waiting};

use super::proto;
use super::types::AN_ESTIMATE;
use super::{Malformed, bounds, read, write};

impl From<&Picture> for proto::Picture {
    fn from(picture: &Picture) -> proto::Picture {
        let Picture { info, tuner, queue, nodes, movable, closed } = picture;
        let planned = |one: &Waiting| proto::Planned { job: one.job.0, plan: Some((&one.plan).into()) };
        let head = |one: &Start| proto::InLine {
            job: one.job.0,
            procs: write::procs(one.procs),
            walltime_s: write::scaled_walltime(one.walltime),
            submitted: 0,
            owner: None,
        };
        let in_line = |one: &Submission| proto::InLine {
            job: one.job.0,
            procs: write::procs(one.procs),
            walltime_s: write::scaled_walltime(one.walltime),
            submitted: write::time(one.submit),
            owner: Some(one.owner.0),
        };
        proto::Picture {
            info: Some(info.into()),
            tuner: tuner.to_string(),
            running: queue
                .running
                .iter()
                .map(|one| proto::RunningJob {
                    job: one.job.0,
                    procs: write::procs(one.procs),
                    end: write::time(one.end),
                })
                .collect(),
            placed: queue.placed.iter().map(planned).collect(),
            line: queue.line.iter().map(in_line).collect(),
            head: queue.head.as_ref().map(head),
            shares: queue.shares.as_ref().map(proto::Shares::from),
            movable: movable.iter().map(proto::Movable::from).collect(),
            nodes: nodes.as_ref().map(proto::NodesPicture::from),
            closed: write::optional_text(closed.as_deref()),
        }
    }
}

impl TryFrom<proto::Picture> for Picture {
    type Error = Malformed;
    fn try_from(message: proto::Picture) -> Result<Picture, Malformed> {
        let planned = |one: proto::Planned| {
            let plan = read::required("plan", AN_ESTIMATE, one.plan)?;
            Ok(Waiting { job: JobId(one.job), plan })
        };
        let running = |one: proto::RunningJob| {
            let (procs, end) = (read::procs("procs", one.procs)?, read::time("end", one.end)?);
            Ok(RunningJob { job: JobId(one.job), procs, end })
        };
        let shape = |one: &proto::InLine| {
            let procs = read::procs("procs", one.procs)?;
            Ok((JobId(one.job), procs, read::scaled_walltime("walltime_s", one.walltime_s)?))
        };
        let in_line = |one: proto::InLine| {
            let (submit, owner) = (read::time("submitted", one.submitted)?, owner(one.owner));
            shape(&one).map(|(job, procs, walltime)| Submission { job, procs, walltime, submit, owner })
        };
        let head = message.head.as_ref().map(shape).transpose();
        let head = head.map_err(|malformed: Malformed| malformed.under("head"))?;
        let tuner = message.tuner.parse();
        let queue = Dump {
            running: read::list("running", message.running, bounds::QUEUE_MAX, running)?,
            placed: read::list("placed", message.placed, bounds::QUEUE_MAX, planned)?,
            line: read::list("line", message.line, bounds::QUEUE_MAX, in_line)?,
            head: head.map(|(job, procs, walltime)| Start { job, procs, walltime }),
            shares: read::optional("shares", message.shares)?,
        };
        Ok(Picture {
            info: read::required("info", "a server", message.info)?,
            tuner: tuner.map_err(|_| Malformed::text("tuner", "the name of a tuner", &message.tuner))?,
            queue,
            nodes: read::optional("nodes", message.nodes)?,
            movable: read::list("movable", message.movable, bounds::QUEUE_MAX, Movable::try_from)?,
            closed: read::optional_text("closed", message.closed)?,
        })
    }
}

/// Whose a job is; nobody knows if its server does not say.
fn owner(number: Option<u64>) -> Owner {
    number.map_or(Owner::UNKNOWN, Owner)
}

impl From<&Shares> for proto::Shares {
    fn from(shares: &Shares) -> proto::Shares {
        let usage = |one: &UserUsage| proto::UserUsage { owner: one.owner.0, used: one.used, hour: one.hour };
        let charge = |one: &Charge| proto::Charge {
            job: one.job.0,
            owner: one.owner.0,
            procs: write::procs(one.procs),
            start: write::time(one.start),
        };
        proto::Shares {
            since: write::time(shares.since),
            users: shares.users.iter().map(usage).collect(),
            running: shares.running.iter().map(charge).collect(),
        }
    }
}

impl TryFrom<proto::Shares> for Shares {
    type Error = Malformed;
    fn try_from(message: proto::Shares) -> Result<Shares, Malformed> {
        let usage =
            |one: proto::UserUsage| Ok(UserUsage { owner: Owner(one.owner), used: one.used, hour: one.hour });
        let charge = |one: proto::Charge| {
            let (procs, start) = (read::procs("procs", one.procs)?, read::time("start", one.start)?);
            Ok(Charge { job: JobId(one.job), owner: Owner(one.owner), procs, start })
        };
        Ok(Shares {
            since: read::time("since", message.since)?,
            users: read::list("users", message.users, bounds::QUEUE_MAX, usage)?,
            running: read::list("running", message.running, bounds::QUEUE_MAX, charge)?,
        })
    }
}

impl From<&Movable> for proto::Movable {
    fn from(job: &Movable) -> proto::Movable {
        proto::Movable {
            number: job.number,
            job: job.job.to_string(),
            key: job.key.0.to_vec(),
            work: Some((&job.work).into()),
            submitted: write::time(job.submitted),
            moves: job.moves,
            copies: job.copies.iter().take(bounds::SERVERS_MAX).map(Name::to_string).collect(),
            avoids: job.avoids.iter().take(bounds::SERVERS_MAX).map(Name::to_string).collect(),
            owner: Some(job.owner.0),
        }
    }
}

impl TryFrom<proto::Movable> for Movable {
    type Error = Malformed;
    fn try_from(message: proto::Movable) -> Result<Movable, Malformed> {
        Ok(Movable {
            number: message.number,
            job: read::handle("job", &message.job)?,
            key: read::key("key", &message.key)?,
            work: read::required("work", "the work", message.work)?,
            submitted: read::time("submitted", message.submitted)?,
            owner: owner(message.owner),
            moves: message.moves,
            copies: read::list("copies", message.copies, bounds::SERVERS_MAX, |name| read::name("", &name))?,
            avoids: read::list("avoids", message.avoids, bounds::SERVERS_MAX, |name| read::name("", &name))?,
        })
    }
}
