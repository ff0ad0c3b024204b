//! Jobs that are waited for.

use pliant_client::{Client, ClientError};
use pliant_control::job::JobRecord;
use pliant_control::names::Handle;
use pyo3::prelude::*;
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::AbortHandle;

use super::errors::of_call;
use super::record::Job;
use super::task::{Task, runtime};

type Ended = (usize, Result<JobRecord, ClientError>);

/// Jobs that are waited for: each is given once it has ended. They are followed until this object is dropped.
#[pyclass(frozen, module = "pliant._pliant", name = "Pending")]
pub(crate) struct Pending {
    ended: Arc<Mutex<UnboundedReceiver<Ended>>>,
    following: AbortHandle,
}

impl Pending {
    pub(super) fn start(client: Client, jobs: Vec<Handle>) -> PyResult<Pending> {
        let (sender, ended) = unbounded_channel();
        let following = runtime()?.spawn(async move {
            // The receiver may be gone.
            let pass_on = |index, answer| drop(sender.send((index, answer)));
            client.wait_each(jobs, |_| {}, pass_on).await;
        });
        Ok(Pending { ended: Arc::new(Mutex::new(ended)), following: following.abort_handle() })
    }
}

#[pymethods]
impl Pending {
    /// The next job that ends, with its position; none after the last one. A job that cannot be followed is an error.
    fn next(&self) -> PyResult<Task> {
        let ended = self.ended.clone();
        let call = async move {
            let next = ended.lock().await.recv().await;
            next.map(|(index, answer)| Ok((index, answer.map_err(|error| of_call(&error))?))).transpose()
        };
        Task::start(call, |py, next: Option<(usize, JobRecord)>| {
            let next = next.map(|(index, record)| (index, Job::from(&record)));
            Ok(next.into_pyobject(py)?.into_any().unbind())
        })
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.following.abort();
    }
}
