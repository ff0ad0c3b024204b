//! Calls that daemons make: none twice at the same time, and each with a time limit.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tonic::Request;

use crate::host::crash_points::{self, CrashPoint};

/// How long one call may take.
const CALL: Duration = Duration::from_secs(30);

/// The calls that are under way, by what they are about and which step of it.
pub(crate) struct UnderWay<Id>(Arc<Mutex<BTreeSet<(Id, &'static str)>>>);

impl<Id> Clone for UnderWay<Id> {
    fn clone(&self) -> UnderWay<Id> {
        UnderWay(self.0.clone())
    }
}

impl<Id> Default for UnderWay<Id> {
    fn default() -> UnderWay<Id> {
        UnderWay(Arc::default())
    }
}

impl<Id: Ord + Clone> UnderWay<Id> {
    /// Makes a call; none if the same one is under way.
    pub(crate) async fn once<T, E>(
        &self,
        id: &Id,
        step: &'static str,
        call: impl Future<Output = Result<T, E>>,
    ) -> Option<Result<T, E>> {
        let key = (id.clone(), step);
        if !self.0.lock().insert(key.clone()) {
            return None;
        }
        crash_points::reached(CrashPoint::BeforeCall, [step].iter());
        let made = call.await;
        crash_points::reached(CrashPoint::AfterCall, made.is_ok().then_some(step).iter());
        self.0.lock().remove(&key);
        Some(made)
    }
}

/// A question that is answered in time or not at all.
pub(crate) fn timed<Q>(question: Q) -> Request<Q> {
    let mut request = Request::new(question);
    request.set_timeout(CALL);
    request
}
