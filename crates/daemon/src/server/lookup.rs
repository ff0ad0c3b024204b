//! Jobs of this server as callers ask for them: in memory, or in the archive.

use std::collections::BTreeSet;

use pliant_control::access::Caller;
use pliant_control::job::JobRecord;
use pliant_control::names::{Handle, Key};
use pliant_control::server::Server;
use pliant_journal::Archive;
use pliant_wire as wire;
use tonic::Status;

use super::service::{Service, stopping};
use crate::host::no_such_job;
use crate::host::{archived, record};

impl Service {
    pub(super) async fn accepted_before(
        &self,
        caller: &Caller,
        key: Key,
    ) -> Result<Option<JobRecord>, Status> {
        let present = move |server: &mut Server, _| server.job_of_key(&key).cloned();
        let present = self.mailbox.ask(present).await.map_err(|_| stopping())?;
        let found = match present {
            Some(record) => Some(record),
            None => {
                let row = archived(&self.archive, move |archive| archive.job_by_key(&key.0)).await?;
                row.as_ref().map(record).transpose()?
            }
        };
        match found.map(JobRecord::without_signatures) {
            Some(record) if record.owner != caller.user => {
                Err(Status::already_exists("the key of this submission belongs to another job"))
            }
            found => Ok(found),
        }
    }

    /// Those of some keys that no job has, neither here nor in the archive.
    pub(super) async fn new_keys(&self, mut keys: Vec<Key>) -> Result<BTreeSet<Key>, Status> {
        let unknown = move |server: &mut Server, _| {
            keys.retain(|key| server.job_of_key(key).is_none());
            keys
        };
        let keys = self.mailbox.ask(unknown).await.map_err(|_| stopping())?;
        let look = move |archive: &mut dyn Archive| {
            let mut new = BTreeSet::new();
            for key in keys {
                if archive.job_by_key(&key.0)?.is_none() {
                    new.insert(key);
                }
            }
            Ok(new)
        };
        archived(&self.archive, look).await
    }

    /// A job of this server that the caller may see.
    pub(super) async fn find(&self, caller: &Caller, handle: &str) -> Result<JobRecord, Status> {
        let handle = wire::handle_of(handle)?;
        let wanted = handle.clone();
        let present = move |server: &mut Server, _| server.job(server.number_of(&wanted)?).cloned();
        match self.mailbox.ask(present).await.map_err(|_| stopping())? {
            Some(record) if caller.may_access(&record.owner) => Ok(record.without_signatures()),
            Some(_) => Err(no_such_job(&handle)),
            None => self.archived(caller, &handle).await,
        }
    }

    pub(super) async fn archived(&self, caller: &Caller, handle: &Handle) -> Result<JobRecord, Status> {
        let wanted = handle.clone();
        let look = move |archive: &mut dyn pliant_journal::Archive| {
            archive.job(wanted.server.as_str(), wanted.number)
        };
        let row = archived(&self.archive, look).await?;
        let found = row.as_ref().map(record).transpose()?.map(JobRecord::without_signatures);
        found.filter(|record| caller.may_access(&record.owner)).ok_or_else(|| no_such_job(handle))
    }

    /// The same, if it is at this server: whose files are asked for elsewhere.
    pub(super) async fn find_here(&self, caller: &Caller, handle: &str) -> Result<JobRecord, Status> {
        let record = self.find(caller, handle).await?;
        match record.server() {
            there if *there == self.offer.info.name => Ok(record),
            there => Err(wire::moved(&record.handle, there)),
        }
    }

    /// The number here of a job in memory.
    pub(super) async fn number(&self, handle: &Handle) -> Result<Option<u32>, Status> {
        let wanted = handle.clone();
        let number = move |server: &mut Server, _| {
            server.number_of(&wanted).filter(|number| server.job(*number).is_some())
        };
        self.mailbox.ask(number).await.map_err(|_| stopping())
    }
}
