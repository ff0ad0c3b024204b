//! Jobs that clients watch.

use std::sync::Arc;

use pliant_control::access::Caller;
use pliant_control::job::JobRecord;
use pliant_wire::proto;
use tokio::sync::{broadcast, mpsc};
use tonic::Status;

use super::service::Service;

impl Service {
    /// Sends each change of a job until it has ended.
    pub(super) async fn follow(
        &self,
        caller: Caller,
        mut record: JobRecord,
        mut changes: broadcast::Receiver<Arc<JobRecord>>,
        sender: &mpsc::Sender<Result<proto::Job, Status>>,
    ) {
        loop {
            let is_here = *record.server() == self.offer.info.name;
            // Wherever it went, the client follows it there.
            if sender.send(Ok((&record).into())).await.is_err() || record.state.is_final() || !is_here {
                return;
            }
            record = loop {
                match changes.recv().await {
                    Ok(change)
                        if change.handle == record.handle && change.progress() != record.progress() =>
                    {
                        let JobRecord { compared, discovery, .. } = record;
                        break JobRecord { compared, discovery, ..(*change).clone().without_signatures() };
                    }
                    Ok(_) => {}
                    // Too many changes of other jobs at once: read the record.
                    Err(broadcast::error::RecvError::Lagged(_)) => {
                        match self.find(&caller, &record.handle.to_string()).await {
                            Ok(found) if found.progress() != record.progress() => break found,
                            _ => {}
                        }
                    }
                    Err(broadcast::error::RecvError::Closed) => return,
                }
            };
        }
    }
}
