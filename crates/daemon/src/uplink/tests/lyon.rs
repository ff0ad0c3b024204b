//! A server with a thousand jobs that have ended and three hundred in memory.

use super::*;

pub(super) struct Lyon;

impl Child for Lyon {
    fn name(&self) -> Name {
        "lyon".parse().unwrap()
    }

    fn kind(&self) -> ChildKind {
        ChildKind::Server
    }

    fn journal(&self) -> u64 {
        1
    }

    async fn servers(&self) -> Vec<ServerInfo> {
        Vec::new()
    }

    async fn asked(&self, _: u64, _: DiscoveryQuery, _: RequestId) {}

    fn acknowledged(&self, _: u64) {}

    /// `lyon.1001` to `lyon.1300`.
    async fn jobs_after(&self, after: Option<Handle>, limit: usize) -> Result<JobsInMemory, Status> {
        let numbers = after.map_or(1001, |after| after.number + 1)..=1300;
        let jobs: Vec<JobRecord> = numbers.take(limit).map(job).collect();
        let last = jobs.last().map(|last| last.handle.clone());
        Ok(JobsInMemory { jobs, last })
    }

    fn archived_jobs(&self) -> Filter {
        Filter { server: Some("lyon".to_owned()), ..Filter::default() }
    }

    fn free(&self) -> Vec<(Name, Procs)> {
        vec![(self.name(), Procs(3))]
    }

    fn drained(&self) -> Vec<Name> {
        vec![self.name()]
    }

    async fn summary(&self) -> Option<Summary> {
        Some(Summary::default())
    }

    fn certificates(&self) -> (Option<Time>, Vec<(Name, Time)>) {
        (Some(Time(7)), Vec::new())
    }

    fn unnumbered(&self) -> Option<Name> {
        None
    }

    async fn numbered(&self, _: Name, _: u32) {}
}
