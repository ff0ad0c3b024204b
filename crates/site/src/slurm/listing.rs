//! Listings of a cluster, each put together from what several commands print.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use pliant_control::listing::{CountedResources, ListedJob, Listing, Node, Phase};
use pliant_model::{Mebibytes, Resources, Time};

use super::mark::Mark;
use super::nodes::{self, Nodes, fill};
use super::queue::leave_out_over;
use super::{Slurm, call, requests, reservations};
use crate::batch_system::error::BatchSystemError;
use crate::batch_system::{ListedJobs, PrintedJobs};

impl Slurm {
    /// Lists all jobs, and the nodes as of at most `nodes_every_s` ago. `now` is noted in the listing. Others' jobs that
    /// are over are listed once, if they were not over when the first listing was made.
    ///
    /// # Errors
    /// The controller does not answer, or not as expected.
    pub async fn list(&self, now: Time) -> Result<ListedJobs, BatchSystemError> {
        let Nodes { nodes, partitions, counted, reservations, missing_reservations, unread: not_understood } =
            self.nodes().await?;
        let PrintedJobs { mut jobs, mut unread } = self.queue(None).await?;
        unread.extend(not_understood);
        leave_out_over(&mut jobs, &mut self.over.lock());
        let has_more = |node: &Node| node.gpus > 0 || node.scratch > Mebibytes::ZERO;
        if counted != CountedResources::default() || nodes.iter().any(has_more) {
            let mark = Mark::draw();
            let printed = self.run(&call::requests(&requests::format(&mark))).await?.stdout;
            let (requests, not_understood) = requests::read(&printed, &mark);
            unread.extend(not_understood);
            requests::fill(&mut jobs, &requests, counted.memory);
        }
        self.spread(&nodes, &mut jobs).await?;
        let listing = Listing {
            partitions,
            counted,
            reservations,
            missing_reservations,
            ..Listing::new(now, nodes, jobs)
        };
        Ok(ListedJobs { listing, unread })
    }

    /// The cores of the largest node of a job's partition, for a job that needs more than cores.
    pub(super) async fn node_cores(
        &self,
        resources: Option<&Resources>,
        partition: Option<&str>,
    ) -> Result<u32, BatchSystemError> {
        if resources.is_none() {
            return Ok(1);
        }
        let Nodes { nodes, partitions, .. } = self.nodes().await?;
        let default = || partitions.iter().find(|one| one.is_default).map(|one| one.name.as_str());
        let name = partition.or(self.settings.partition.as_deref()).or_else(default);
        let is_in = |node: &&Node| name.is_none_or(|name| node.partitions.iter().any(|one| one == name));
        Ok(nodes.iter().filter(is_in).map(|node| node.cores).max().unwrap_or(1))
    }

    async fn nodes(&self) -> Result<Nodes, BatchSystemError> {
        let every = Duration::from_secs(self.settings.nodes_every_s.into());
        if let Some((at, nodes)) = &*self.nodes.lock()
            && at.elapsed() < every
        {
            return Ok(nodes.clone());
        }
        let mut nodes = nodes::read(&self.run(&call::nodes(nodes::FORMAT)).await?.stdout)?;
        if !self.about.counts_gpus() {
            nodes.nodes.iter_mut().for_each(|node| (node.gpus, node.gpu_kind) = (0, None));
        }
        if self.about.counts_memory() {
            let printed = self.run(&call::partitions()).await?.stdout;
            let own = nodes::default_memory(&printed)?;
            for partition in &mut nodes.partitions {
                partition.default_memory = own.get(&partition.name).copied();
            }
            nodes.counted = CountedResources {
                memory: true,
                default_memory: self.about.default_memory,
                ..CountedResources::default()
            };
        }
        if self.about.has_licences {
            nodes.counted.licences = nodes::licences(&self.run(&call::licences()).await?.stdout)?;
        }
        let own = reservations::named(&self.settings.extra);
        let printed = self.run(&call::reservations()).await?.stdout;
        let (reservations, not_understood) = reservations::read(&printed, &nodes.nodes, &own);
        // What is hidden may be there.
        if self.sees_reservations {
            let is_there = |name: &String| reservations.iter().any(|one| one.name == *name);
            nodes.missing_reservations = own.into_iter().filter(|name| !is_there(name)).collect();
        }
        nodes.reservations = reservations;
        nodes.unread = not_understood.iter().map(ToString::to_string).collect();
        *self.nodes.lock() = Some((Instant::now(), nodes.clone()));
        Ok(nodes)
    }

    /// Completes how many cores the running jobs have on each of their nodes. Nothing is asked unless a job began on
    /// several nodes of which it has only some cores.
    async fn spread(&self, nodes: &[Node], jobs: &mut [ListedJob]) -> Result<(), BatchSystemError> {
        let cores: BTreeMap<&str, u32> = nodes.iter().map(|node| (node.name.as_str(), node.cores)).collect();
        let mut unknown = Vec::new();
        let mut running = BTreeSet::new();
        for job in jobs.iter_mut().filter(|job| job.phase() == Phase::Running && job.allocations.len() > 1) {
            let whole: Vec<Option<u32>> = job
                .allocations
                .iter()
                .map(|allocation| cores.get(allocation.node.as_str()).copied())
                .collect();
            if whole.iter().copied().sum::<Option<u32>>() == Some(job.shape.cores) {
                job.allocations
                    .iter_mut()
                    .zip(whole)
                    .for_each(|(allocation, cores)| allocation.cores = cores);
                continue;
            }
            let key = (job.id.clone(), job.started.unwrap_or_default());
            match self.spreads.lock().get(&key) {
                Some(spread) => _ = fill(job, spread),
                None => unknown.push((key.clone(), job)),
            }
            running.insert(key);
        }
        if !unknown.is_empty() {
            let printed = self.run(&call::details()).await?.stdout;
            let wanted = unknown.iter().map(|((id, _), job)| (id.as_str(), job.allocations.len())).collect();
            let mut spreads = nodes::spreads(&printed, &wanted);
            for ((id, started), job) in unknown {
                // An array's task and a part have a number of their own there: these stay unknown, bounded by totals,
                // and are not asked for again.
                let spread = spreads.remove(&id).filter(|spread| fill(job, spread)).unwrap_or_default();
                self.spreads.lock().insert((id, started), spread);
            }
        }
        self.spreads.lock().retain(|key, _| running.contains(key));
        Ok(())
    }
}
