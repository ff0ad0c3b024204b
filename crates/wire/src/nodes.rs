//! The picture of a cluster whose batch system is not Pliant's, as a server shows it to agents.

use pliant_model::{JobId, Span};
use pliant_policy::nodes::{Holder, Node, Pending, Picture, Rules, Shape, Share};

use super::{Malformed, bounds, proto, read, write};

/// How many passes are played at most.
const PASSES_MAX: u32 = 10_000;

impl From<&Picture> for proto::NodesPicture {
    fn from(picture: &Picture) -> proto::NodesPicture {
        let Picture { nodes, running, pending, rules } = picture;
        proto::NodesPicture {
            nodes: write::list(nodes, bounds::QUEUE_MAX),
            running: write::list(running, bounds::QUEUE_MAX),
            pending: write::list(pending, bounds::QUEUE_MAX),
            rules: Some(rules.into()),
        }
    }
}

impl TryFrom<proto::NodesPicture> for Picture {
    type Error = Malformed;
    fn try_from(message: proto::NodesPicture) -> Result<Picture, Malformed> {
        Ok(Picture {
            nodes: read::list("nodes", message.nodes, bounds::QUEUE_MAX, Node::try_from)?,
            running: read::list("running", message.running, bounds::QUEUE_MAX, Holder::try_from)?,
            pending: read::list("pending", message.pending, bounds::QUEUE_MAX, Pending::try_from)?,
            rules: read::required("rules", "how the batch system plans", message.rules)?,
        })
    }
}

impl From<&Node> for proto::PictureNode {
    fn from(node: &Node) -> proto::PictureNode {
        proto::PictureNode {
            name: write::text(&node.name, bounds::NAME_BYTES_MAX),
            cores: write::free(node.cores),
            up: node.up,
            taken: node.taken.map(write::free),
        }
    }
}

impl TryFrom<proto::PictureNode> for Node {
    type Error = Malformed;
    fn try_from(message: proto::PictureNode) -> Result<Node, Malformed> {
        Ok(Node {
            name: read::text("name", message.name, bounds::NAME_BYTES_MAX)?,
            cores: read::free("cores", message.cores)?,
            up: message.up,
            taken: message.taken.map(|taken| read::free("taken", taken)).transpose()?,
        })
    }
}

impl From<&Holder> for proto::Holder {
    fn from(holder: &Holder) -> proto::Holder {
        let share =
            |share: &Share| proto::holder::Share { node: share.node, cores: share.cores.map(write::free) };
        proto::Holder {
            job: holder.job.0,
            cores: write::free(holder.cores),
            on: holder.on.iter().take(bounds::QUEUE_MAX).map(share).collect(),
            end: write::time(holder.end),
            expected_end: write::optional_time(holder.expected),
        }
    }
}

impl TryFrom<proto::Holder> for Holder {
    type Error = Malformed;
    fn try_from(message: proto::Holder) -> Result<Holder, Malformed> {
        let share = |share: proto::holder::Share| {
            let cores = share.cores.map(|cores| read::free("cores", cores)).transpose()?;
            Ok(Share { node: share.node, cores })
        };
        Ok(Holder {
            job: JobId(message.job),
            cores: read::free("cores", message.cores)?,
            on: read::list("on", message.on, bounds::QUEUE_MAX, share)?,
            end: read::time("end", message.end)?,
            expected: read::optional_time("expected_end", message.expected_end)?,
        })
    }
}

impl From<&Pending> for proto::PendingJob {
    fn from(pending: &Pending) -> proto::PendingJob {
        let Shape { cores, nodes, per_node, exclusive } = pending.shape;
        proto::PendingJob {
            job: pending.job.0,
            cores: write::procs(cores),
            nodes,
            per_node: write::procs(per_node),
            exclusive,
            walltime_s: write::scaled_walltime(pending.walltime),
            expected_s: pending.expected.map(write::scaled_walltime),
            begin: write::optional_time(pending.begin),
            blocked: pending.blocked,
        }
    }
}

impl TryFrom<proto::PendingJob> for Pending {
    type Error = Malformed;
    fn try_from(message: proto::PendingJob) -> Result<Pending, Malformed> {
        Ok(Pending {
            job: JobId(message.job),
            shape: Shape {
                cores: read::procs("cores", message.cores)?,
                nodes: message.nodes,
                per_node: read::procs("per_node", message.per_node)?,
                exclusive: message.exclusive,
            },
            walltime: read::scaled_walltime("walltime_s", message.walltime_s)?,
            expected: message
                .expected_s
                .map(|expected| read::scaled_walltime("expected_s", expected))
                .transpose()?,
            begin: read::optional_time("begin", message.begin)?,
            blocked: message.blocked,
            published: None,
        })
    }
}

impl From<&Rules> for proto::PlanRules {
    fn from(rules: &Rules) -> proto::PlanRules {
        let seconds = |span: Span| write::number(&(0..=*bounds::TIME_S.end()), span.0);
        proto::PlanRules {
            resolution_s: seconds(rules.resolution),
            window_s: seconds(rules.window),
            strict_holes: rules.strict_holes,
            reserve: rules.reserve.name().to_owned(),
            whole_nodes: rules.whole_nodes,
            walltime_unit_s: seconds(rules.walltime_unit),
            grace_s: seconds(rules.grace),
            pause_s: seconds(rules.pause),
            interval_s: seconds(rules.interval),
            passes: rules.passes.min(PASSES_MAX),
        }
    }
}

impl TryFrom<proto::PlanRules> for Rules {
    type Error = Malformed;
    fn try_from(message: proto::PlanRules) -> Result<Rules, Malformed> {
        let seconds = |field: &str, found: i64| {
            read::number(field, "seconds", &(0..=*bounds::TIME_S.end()), found).map(Span)
        };
        let reserve = message.reserve.parse();
        Ok(Rules {
            resolution: seconds("resolution_s", message.resolution_s)?,
            window: seconds("window_s", message.window_s)?,
            strict_holes: message.strict_holes,
            reserve: reserve
                .map_err(|_| Malformed::text("reserve", "a kind of reservation", &message.reserve))?,
            whole_nodes: message.whole_nodes,
            walltime_unit: seconds("walltime_unit_s", message.walltime_unit_s)?,
            grace: seconds("grace_s", message.grace_s)?,
            pause: seconds("pause_s", message.pause_s)?,
            interval: seconds("interval_s", message.interval_s)?,
            passes: read::number("passes", "a number of passes", &(0..=PASSES_MAX), message.passes)?,
            published: false,
        })
    }
}
