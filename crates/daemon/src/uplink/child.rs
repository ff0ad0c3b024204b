//! What a daemon with parents is, and does for them.

use std::future::Future;

use pliant_control::agent::{ChildKind, DiscoveryQuery};
use pliant_control::job::JobRecord;
use pliant_control::names::{Handle, Name};
use pliant_control::server_info::ServerInfo;
use pliant_journal::Filter;
use pliant_model::{Procs, Time};
use pliant_policy::discovery::Summary;
use pliant_telemetry::RequestId;
use tonic::Status;

/// A daemon that has a parent.
pub(crate) trait Child: Send + Sync + 'static {
    /// Its name.
    fn name(&self) -> Name;

    /// What it is.
    fn kind(&self) -> ChildKind;

    /// The number of its journal.
    fn journal(&self) -> u64;

    /// The servers that it is or has below it.
    fn servers(&self) -> impl Future<Output = Vec<ServerInfo>> + Send;

    /// The parent asks; the answer goes up by [`Upward::answer`]. `discovery` is the child's own number, which no
    /// earlier question has: a parent that was started again may count from where it was before. `request` is for log
    /// lines.
    fn asked(
        &self,
        discovery: u64,
        ask: DiscoveryQuery,
        request: RequestId,
    ) -> impl Future<Output = ()> + Send;

    /// The parent has kept the status updates up to there.
    fn acknowledged(&self, sequence: u64);

    /// Up to so many jobs in memory after a position. A server leaves those out that have gone elsewhere.
    fn jobs_after(
        &self,
        after: Option<Handle>,
        limit: usize,
    ) -> impl Future<Output = Result<JobsInMemory, Status>> + Send;

    /// Which ended jobs of the archive it reports.
    fn archived_jobs(&self) -> Filter;

    /// The free processors of these servers, as far as they are known.
    fn free(&self) -> Vec<(Name, Procs)>;

    /// Those of these servers that operators have drained, as far as they are known.
    fn drained(&self) -> Vec<Name>;

    /// When work could start on these servers; none if the daemon is stopping.
    fn summary(&self) -> impl Future<Output = Option<Summary>> + Send;

    /// The last second of the own certificate, and of those of the servers below, as far as they are known.
    fn certificates(&self) -> (Option<Time>, Vec<(Name, Time)>);

    /// The server, if it does not know yet which job numbers are in use.
    fn unnumbered(&self) -> Option<Name>;

    /// The journal is as new as what the parent has kept of it, or it is an older copy of itself: how long it was, and up to which status
    /// update the parent has kept it. A server ends then.
    fn compared(&self, _compared: Result<(), (u64, u64)>) {}

    /// The highest job number that the agents above know of that server, which is this one or one below.
    fn numbered(&self, server: Name, highest: u32) -> impl Future<Output = ()> + Send;
}

/// Some of the jobs that a child has in memory.
pub(crate) struct JobsInMemory {
    pub(crate) jobs: Vec<JobRecord>,
    /// The position of the last one that was looked at; none if there are no more.
    pub(crate) last: Option<Handle>,
}
