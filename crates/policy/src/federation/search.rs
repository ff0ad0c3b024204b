//! The cluster that completes a request first.

use pliant_model::{ClusterId, Estimate, Request, Speed, Time, Walltimes};

use super::Federation;
use crate::completion::Earliest;
use crate::tuning::ClassTimes;

impl Federation {
    /// The cluster that completes a request first (MCT), except `except` and completions after `latest`. Ties go to the
    /// first cluster.
    ///
    /// Groups and clusters whose completion bound is later than the best estimate so far are not asked. No estimate is
    /// earlier than its bound, so the result equals that of asking all clusters (there is a test).
    pub fn earliest(
        &mut self,
        now: Time,
        request: &Request,
        except: Option<ClusterId>,
        latest: Time,
    ) -> Option<(ClusterId, Estimate)> {
        let walltimes = request.on(self.largest, Speed::REFERENCE)?;
        let mut earliest = Earliest::until(latest);
        let Some(mut groups) = self.groups.take() else {
            self.ask_by_bounds(now, request, &walltimes, except, &mut earliest);
            return earliest.taken();
        };
        groups.begin(&mut self.clusters, now, &walltimes);
        while let Some(id) = groups.next(&mut self.clusters, now, |bound| earliest.may_take(bound)) {
            if Some(id) != except
                && let Some(estimate) = self.estimate_by(now, request, id, earliest.latest())
            {
                earliest.offer(id, estimate);
            }
        }
        groups.end();
        self.groups = Some(groups);
        earliest.taken()
    }

    /// Asks the clusters in the order of their bounds.
    fn ask_by_bounds(
        &mut self,
        now: Time,
        request: &Request,
        walltimes: &Walltimes<'_>,
        except: Option<ClusterId>,
        earliest: &mut Earliest<ClusterId>,
    ) {
        let times = ClassTimes::new(walltimes);
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        for (id, state) in self.ids().zip(&self.clusters) {
            let bounds = state.scheduler.start_bounds();
            let bound = times.completion_bound(bounds, now, state.speed, state.procs);
            if Some(id) != except && earliest.may_take_from(bound) {
                order.push(bound, id, id);
            }
        }
        order.sort();
        while let Some(id) = order.next_if(|bound| earliest.may_take(bound)) {
            if let Some(estimate) = self.estimate_by(now, request, id, earliest.latest()) {
                earliest.offer(id, estimate);
            }
        }
        self.order = order;
    }
}
