//! Queues of servers, for an agent that looks for better places.

use pliant_control::handoff::{Movable, Picture};
use pliant_control::names::Name;
use pliant_model::JobId;
use pliant_policy::batch::{Dump, RunningJob, Start, Submission, Waiting};

use super::proto;
use super::types::AN_ESTIMATE;
use super::{Malformed, bounds, read, write};

impl From<&Picture> for proto::Picture {
    fn from(picture: &Picture) -> proto::Picture {
        let Picture { info, tuner, queue, nodes, movable, closed } = picture;
        let planned = |one: &Waiting| proto::Planned { job: one.job.0, plan: Some((&one.plan).into()) };
        let in_line = |job: JobId, procs, walltime| proto::InLine {
            job: job.0,
            procs: write::procs(procs),
            walltime_s: write::scaled_walltime(walltime),
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
            line: queue.line.iter().map(|one| in_line(one.job, one.procs, one.walltime)).collect(),
            head: queue.head.as_ref().map(|one| in_line(one.job, one.procs, one.walltime)),
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
            shape(&one).map(|(job, procs, walltime)| Submission { job, procs, walltime })
        };
        let head = message.head.as_ref().map(shape).transpose();
        let head = head.map_err(|malformed: Malformed| malformed.under("head"))?;
        let tuner = message.tuner.parse();
        let queue = Dump {
            running: read::list("running", message.running, bounds::QUEUE_MAX, running)?,
            placed: read::list("placed", message.placed, bounds::QUEUE_MAX, planned)?,
            line: read::list("line", message.line, bounds::QUEUE_MAX, in_line)?,
            head: head.map(|(job, procs, walltime)| Start { job, procs, walltime }),
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
            moves: message.moves,
            copies: read::list("copies", message.copies, bounds::SERVERS_MAX, |name| read::name("", &name))?,
            avoids: read::list("avoids", message.avoids, bounds::SERVERS_MAX, |name| read::name("", &name))?,
        })
    }
}
