//! Captured situations: a small text format for what a real cluster said at one moment, and what it did
//! afterwards. One thing a line; times in seconds since some full hour:
//!
//! ```text
//! now S
//! slurm resolution=1 window=604800 interval=30
//! node NAME CORES up|down taken=CORES
//! run JOB cores=N end=S on NODE:CORES ...
//! wait JOB cores=N walltime=S [nodes=N] [per=N] [exclusive] [blocked] [begin=S] [plan=S@NODES] [began=S]
//! ```
//!
//! `plan` is the start that the batch system announced, `began` when the job really started.

use std::collections::BTreeMap;

use pliant_model::{JobId, Procs, Span, Time};
use pliant_policy::nodes::{
    AllocatedJob, ClusterSnapshot, Node, NodeShare, Pending, PublishedStart, Rules, Shape,
};

/// A capture.
pub(crate) struct Situation {
    pub(crate) snapshot: ClusterSnapshot,
    /// When it was made.
    pub(crate) now: Time,
    /// Seconds between two passes of the batch system's scheduler.
    pub(crate) interval_s: i64,
    /// When jobs really started.
    pub(crate) began: BTreeMap<JobId, i64>,
}

pub(crate) fn parse(text: &str) -> Situation {
    let mut snapshot = ClusterSnapshot::default();
    let (mut now, mut interval_s, mut began) = (Time::ZERO, 0, BTreeMap::new());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let value = |key: &str| {
            words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('=').map(str::to_owned))
        };
        let number = |key: &str| value(key).map(|text| text.parse::<i64>().unwrap());
        let procs = |key: &str| number(key).map(|count| Procs(count as u32));
        let job = || JobId(words[1].parse().unwrap());
        let node = |name: &str| snapshot.nodes.iter().position(|node| node.name == name).unwrap() as u32;
        match words.first().copied() {
            Some("now") => now = Time(words[1].parse().unwrap()),
            Some("slurm") => {
                let (resolution, window) = (number("resolution").unwrap(), number("window").unwrap());
                snapshot.rules = Rules::slurm_announced(Span(resolution), Span(window));
                interval_s = number("interval").unwrap();
            }
            Some("node") => {
                let cores = Procs(words[2].parse().unwrap());
                let up = words[3] == "up";
                snapshot.nodes.push(Node { up, taken: procs("taken"), ..Node::of(words[1], cores) });
            }
            Some("run") => {
                let on = words.iter().skip_while(|word| **word != "on").skip(1).map(|share| {
                    let (name, cores) = share.split_once(':').unwrap();
                    NodeShare { node: node(name), cores: Some(Procs(cores.parse().unwrap())), gpus: 0 }
                });
                let (cores, end) = (procs("cores").unwrap(), Time(number("end").unwrap()));
                let on = on.collect();
                snapshot.running.push(AllocatedJob { on, ..AllocatedJob::of(job(), cores, end) });
            }
            Some("wait") => {
                let exclusive = words.contains(&"exclusive");
                let nodes = number("nodes").map(|count| count as u32);
                let per_node = procs("per").unwrap_or(Procs::ONE);
                let shape = Shape { nodes, per_node, exclusive, ..Shape::of(procs("cores").unwrap()) };
                let published = value("plan").map(|plan| {
                    let (start, on) = plan.split_once('@').unwrap();
                    let names = on.split(',').filter(|name| !name.is_empty());
                    PublishedStart { start: Time(start.parse().unwrap()), nodes: names.map(node).collect() }
                });
                began.extend(number("began").map(|start| (job(), start)));
                snapshot.pending.push(Pending {
                    job: job(),
                    shape,
                    walltime: Span(number("walltime").unwrap()),
                    expected: None,
                    begin: number("begin").map(Time),
                    blocked: words.contains(&"blocked"),
                    published,
                });
            }
            _ => {}
        }
    }
    Situation { snapshot, now, interval_s, began }
}
