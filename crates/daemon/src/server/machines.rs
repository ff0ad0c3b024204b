//! The machines of a server, to which tasks are mapped: how powerful they are, and how much of that is taken.
//!
//! *Power* is what one processor of the server's own host does on a dense product of two 64x64 matrices of doubles, which
//! fit its first-level cache: the best of five tries of 10 ms each, made once when the server starts. What it says of a
//! machine is that times the machine's processors, and times `cluster.cpu_share` where slower processors are emulated, or
//! else times `cluster.speed`. So it is a figure of plain compiled code without a tuned library, good for comparing machines;
//! nodes behind Slurm are taken to be as fast as the server's host times that speed. `cluster.power_mflops` says what one
//! processor does, if an operator has measured it, and then nothing is measured.
//!
//! *Load* is the share of the processors that jobs have now, subjobs of launches included. In front of Slurm
//! that is known node by node. On the server's own host there are also the processes of others: what its load average of one
//! minute shows beyond the jobs. `F` of them besides Pliant's on `H` processors leave Pliant's at least `H / (F + H)` of
//! these when the system shares them fairly, so that much is left of what jobs leave, unless `cluster.host_load` is false.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pliant_control::coallocation::Machine;
use pliant_control::names::Name;
use pliant_control::server::Server;
use pliant_policy::nodes::ClusterSnapshot;
use tokio::sync::OnceCell;

use crate::config::ClusterFile;
use crate::host::{Mailbox, Stopped};

/// The side of the matrices.
const SIDE: usize = 64;
/// What a product of them takes.
const FLOP: f64 = 2.0 * (SIDE * SIDE * SIDE) as f64;
/// How often is measured, and for how long each time.
const TRIES: (u32, Duration) = (5, Duration::from_millis(10));

/// The machines of a server.
#[derive(Clone, Debug)]
pub(super) struct Machines {
    /// What the one machine of an embedded batch system is called.
    name: Name,
    cluster: ClusterFile,
    /// What one processor of this host does, in MFlop/s.
    measured: Arc<OnceCell<f64>>,
}

impl Machines {
    /// Begins to measure, unless that was done before.
    pub(super) fn start(name: Name, cluster: ClusterFile) -> Machines {
        let machines = Machines { name, cluster, measured: Arc::default() };
        let own = machines.clone();
        tokio::spawn(async move { own.power_of_one().await });
        machines
    }

    /// What one processor does, in MFlop/s.
    async fn power_of_one(&self) -> f64 {
        let ClusterFile { power_mflops, cpu_share, speed, .. } = self.cluster;
        match power_mflops {
            Some(known) => known,
            None => {
                let measured = self.measured.get_or_init(|| async {
                    let measured = tokio::task::spawn_blocking(measure).await.unwrap_or(f64::NAN);
                    tracing::info!(mflops = measured, "one processor was measured");
                    measured
                });
                measured.await * cpu_share.unwrap_or(speed)
            }
        }
    }

    /// The machines as they are now.
    ///
    /// # Errors
    /// The daemon has stopped.
    pub(super) async fn list_machines(&self, mailbox: &Mailbox<Server>) -> Result<Vec<Machine>, Stopped> {
        let power = self.power_of_one().await;
        let seen = mailbox.ask(|server, now| (server.nodes(now), server.procs().0, server.usage().free.0));
        let (nodes, procs, free) = seen.await?;
        if self.cluster.oar.is_some() {
            // subjobs of launches are not run there.
            return Ok(Vec::new());
        }
        // A host whose memory and GPUs are counted is planned as a node as well, and is one machine like any other host.
        if let Some(snapshot) = nodes.filter(|_| self.cluster.slurm.is_some()) {
            return Ok(of_nodes(&snapshot, power));
        }
        let taken = procs.saturating_sub(free);
        let others = if self.cluster.host_load { self.other_load(taken) } else { 0.0 };
        let name = self.name.to_string();
        Ok(vec![Machine {
            name,
            power_mflops: power * f64::from(procs),
            procs,
            load: load(procs, taken, others, host_processors()),
        }])
    }

    /// How many processes of others want a processor of this host.
    fn other_load(&self, taken: u32) -> f64 {
        let of_jobs = f64::from(taken) * self.cluster.cpu_share.unwrap_or(1.0);
        (load_average().unwrap_or(0.0) - of_jobs).max(0.0)
    }
}

/// The share of a machine's power that is not left: of `procs` processors jobs have `taken`, and `others` processes want
/// some of its host's.
fn load(procs: u32, taken: u32, others: f64, host: f64) -> f64 {
    let free = 1.0 - f64::from(taken) / f64::from(procs.max(1));
    1.0 - free * host / (others + host)
}

/// The nodes of a cluster on which something may start.
fn of_nodes(snapshot: &ClusterSnapshot, power_of_one: f64) -> Vec<Machine> {
    let taken = |at: usize| {
        let shares = snapshot.running.iter().flat_map(|job| job.on.iter().map(move |share| (job, share)));
        let there = shares.filter(|(_, share)| share.node as usize == at);
        // Of a job on several nodes it may not be known how it is spread: it may have all of them here.
        let cores = there.map(|(job, share)| share.cores.unwrap_or(job.cores).0);
        snapshot.nodes[at].taken.map_or_else(|| cores.sum(), |taken| taken.0)
    };
    let up = snapshot.nodes.iter().enumerate().filter(|(_, node)| node.up && node.cores.0 > 0);
    let machine = |(at, node): (usize, &pliant_policy::nodes::Node)| {
        let procs = node.cores.0;
        let taken = match taken(at).min(procs) {
            some if some > 0 && snapshot.rules.whole_nodes => procs,
            some => some,
        };
        Machine {
            name: node.name.clone(),
            power_mflops: power_of_one * f64::from(procs),
            procs,
            load: load(procs, taken, 0.0, 1.0),
        }
    };
    up.map(machine).collect()
}

/// What one processor of this host does, in MFlop/s.
fn measure() -> f64 {
    let (one, other) = (filled(0.5), filled(0.25));
    let mut product = filled(0.0);
    let once = || {
        let (begin, mut products) = (Instant::now(), 0_u32);
        while begin.elapsed() < TRIES.1 {
            multiply(black_box(&one), black_box(&other), &mut product);
            black_box(&mut product);
            products += 1;
        }
        f64::from(products) * FLOP / begin.elapsed().as_secs_f64() / 1e6
    };
    std::iter::repeat_with(once).take(TRIES.0 as usize).fold(0.0, f64::max)
}

fn filled(value: f64) -> Vec<f64> {
    vec![value; SIDE * SIDE]
}

/// Adds the product of two matrices, row by row.
fn multiply(one: &[f64], other: &[f64], product: &mut [f64]) {
    for (row, sums) in one.chunks_exact(SIDE).zip(product.chunks_exact_mut(SIDE)) {
        for (factor, values) in row.iter().zip(other.chunks_exact(SIDE)) {
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum += factor * value;
            }
        }
    }
}

/// How many processes of this host want to run, on the average of the last minute.
fn load_average() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_ascii_whitespace().next()?.parse().ok()
}

fn host_processors() -> f64 {
    std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64)
}

#[cfg(test)]
mod tests {
    use pliant_model::{JobId, Procs, Time};
    use pliant_policy::nodes::{AllocatedJob, Node, NodeShare, Rules};

    use super::*;

    #[test]
    fn a_product_is_right_and_a_processor_does_something() {
        let mut product = filled(1.0);
        multiply(&filled(0.5), &filled(0.25), &mut product);
        assert!(product.iter().all(|value| *value == 1.0 + SIDE as f64 / 8.0));
        assert!(measure() > 0.0);
    }

    #[test]
    fn other_processes_have_a_fair_share_of_what_jobs_leave() {
        let cases = [
            (4, 0, 0.0, 2.0, 0.0),
            (4, 1, 0.0, 2.0, 0.25),
            (4, 4, 0.0, 2.0, 1.0),
            (4, 0, 2.0, 2.0, 0.5),
            (4, 2, 2.0, 2.0, 0.75),
            (4, 0, 6.0, 2.0, 0.75),
        ];
        for (procs, taken, others, host, expected) in cases {
            assert_eq!(load(procs, taken, others, host), expected, "{taken} of {procs}, {others} on {host}");
        }
        assert!(load_average().is_some_and(|average| average >= 0.0) && host_processors() >= 1.0);
    }

    #[test]
    fn nodes_are_machines_if_they_are_up() {
        let node = |name: &str, up, taken: Option<u32>| Node {
            up,
            taken: taken.map(Procs),
            ..Node::of(name, Procs(4))
        };
        let share = |node, cores: Option<u32>| NodeShare { node, cores: cores.map(Procs), gpus: 0 };
        let job = |cores, on| AllocatedJob { on, ..AllocatedJob::of(JobId(1), Procs(cores), Time(9)) };
        let mut snapshot = ClusterSnapshot {
            nodes: vec![
                node("a", true, None),
                node("b", false, None),
                node("c", true, Some(3)),
                node("d", true, None),
            ],
            running: vec![job(1, vec![share(0, Some(1))]), job(6, vec![share(2, None), share(3, None)])],
            ..ClusterSnapshot::default()
        };
        let seen = |snapshot: &ClusterSnapshot| -> Vec<(String, f64, f64)> {
            let machines = of_nodes(snapshot, 10.0).into_iter();
            machines.map(|machine| (machine.name, machine.power_mflops, machine.load)).collect()
        };
        let expected = |a: f64, c: f64| {
            [("a", a), ("c", c), ("d", 1.0)].map(|(name, load)| (name.to_owned(), 40.0, load))
        };
        assert_eq!(seen(&snapshot), expected(0.25, 0.75));
        snapshot.rules = Rules { whole_nodes: true, ..snapshot.rules };
        assert_eq!(seen(&snapshot), expected(1.0, 1.0), "no other job gets a part of a node");
    }
}
