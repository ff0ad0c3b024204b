//! The requests that reach a controller: about jobs, and for listings.

use pliant_control::batch::external::Event;
use pliant_model::Span;
use pliant_policy::runtimes::limit_usage::Expect;
use rand::Rng;

use super::controller::{ControllerAnswer, ControllerRequest, JobEnd};
use super::folders::RunFolder;
use super::{SiteEvent, TIMEOUT, UNCHANGED_EVERY};
use crate::faults::Bug;
use crate::faults::trace::shorten;
use crate::faults::world::{World, WorldEvent};
use crate::kernel::Peer;

impl World {
    pub(super) fn receive_request(
        &mut self,
        index: usize,
        generation: u32,
        ask: ControllerRequest,
        by: Option<(u64, u64)>,
    ) {
        let now = self.queue.now();
        let Some(site) = self.sites.get_mut(&index) else { return };
        if generation != site.generation || !site.is_up {
            return;
        }
        if site.hangs_until > now {
            // The controller executes it after the outage, when the server may have stopped waiting.
            let pause = site.hangs_until - now + 1;
            return self
                .after(pause, WorldEvent::Site(index, SiteEvent::RequestArrives { generation, ask, by }));
        }
        let answer = self.execute_request(index, &ask);
        if let Some((task, step_number)) = by {
            let pause = self.rng.random_range(1..50);
            self.after(pause, WorldEvent::Site(index, SiteEvent::Answer { task, step_number, answer }));
        }
    }

    /// Executes a request at the controller and returns its answer.
    pub(super) fn execute_request(&mut self, index: usize, ask: &ControllerRequest) -> ControllerAnswer {
        let (now, bug) = (self.queue.now(), self.bug);
        let Some(site) = self.sites.get_mut(&index) else { return ControllerAnswer::Nothing };
        let id = match ask {
            ControllerRequest::Hold(id)
            | ControllerRequest::Release(id)
            | ControllerRequest::CancelWaiting(id)
            | ControllerRequest::Cancel(id) => id.parse().ok(),
            _ => None,
        };
        let about = id.and_then(|id: u64| site.controller.jobs.get(&id).map(|job| (id, job.clone())));
        let mut answer = site.controller.execute(now, ask);
        if let (ControllerRequest::Status(_, id), Some(Bug::TrustsIds)) = (ask, bug) {
            let job = id.parse().ok().and_then(|id: u64| site.controller.jobs.get(&id));
            answer = ControllerAnswer::Job(job.map(|job| job.status(now)));
        }
        if let Some((id, job)) = about {
            match &job.folder {
                None if job.is_open() => {
                    let what = format!("{ask:?} affects a local user's job in the queue of c{index}");
                    self.report_violation("local jobs", what);
                }
                Some(folder) if matches!(ask, ControllerRequest::Cancel(_)) => {
                    self.signal_job(index, id, folder)
                }
                _ => {}
            }
        }
        self.log(|_| format!("the controller of c{index}: {} is {}", shorten(ask), shorten(&answer)));
        self.schedule_jobs(index);
        answer
    }

    /// Makes the batch system end a running job by a signal.
    pub(super) fn signal_job(&mut self, index: usize, id: u64, folder: &RunFolder) {
        let now = self.queue.now();
        let Some(site) = self.sites.get_mut(&index) else { return };
        site.folders.signal(folder, id, now);
        site.start_gates.signal(id, folder);
        site.controller.end(id, JobEnd::Cancelled, now);
        self.reschedule_end(index, folder);
    }

    /// Runs the scheduler of the controller: it starts the jobs that fit.
    pub(super) fn schedule_jobs(&mut self, index: usize) {
        let now = self.queue.now();
        let Some(site) = self.sites.get_mut(&index).filter(|site| site.is_up) else { return };
        let started = site.controller.start(now);
        if !started.is_empty() {
            self.check_over_commitment(index);
        }
        for id in started {
            let pause = self.rng.random_range(0..1_000);
            self.after(pause, WorldEvent::Site(index, SiteEvent::JobStarts { id, since: now }));
        }
    }

    /// Requests a listing for the server.
    pub(super) fn request_listing(&mut self, index: usize, incarnation: u32) {
        if !self.is_up(Peer::Server(index)) || self.incarnation(Peer::Server(index)) != incarnation {
            return;
        }
        let at = self.servers[index].daemon.clock.now(self.queue.now());
        let step_number = self.next_number();
        let Some(site) = self.sites.get_mut(&index) else { return };
        site.listing = step_number;
        let (plan, answers) = (site.plan.clone(), site.is_up && site.hangs_until <= self.queue.now());
        let silence = SiteEvent::ListAnswer { incarnation, step_number, answer: ControllerAnswer::Nothing };
        self.after(TIMEOUT, WorldEvent::Site(index, silence));
        if !answers || self.draw_fault(plan.lost) {
            return;
        }
        let Some(site) = self.sites.get_mut(&index) else { return };
        let answer = site.controller.execute(self.queue.now(), &ControllerRequest::List(at));
        let most = if self.draw_fault(plan.delayed) { TIMEOUT } else { 100 };
        let pause = self.rng.random_range(1..=most);
        self.after(
            pause,
            WorldEvent::Site(index, SiteEvent::ListAnswer { incarnation, step_number, answer }),
        );
    }

    /// Checks that the server can plan what it has listed: without a valid snapshot it has no estimates, and says nothing of it.
    fn check_snapshot(&mut self, index: usize) {
        let now = self.servers[index].daemon.clock.now(self.queue.now());
        let snapshot = self.servers[index].daemon.node.machine.nodes(now);
        if let Some(Err(why)) = snapshot.map(|snapshot| snapshot.check()) {
            self.report_violation("resources", format!("c{index} cannot plan: {why}"));
        }
    }

    pub(super) fn receive_listing(&mut self, index: usize, incarnation: u32, answer: ControllerAnswer) {
        if !self.is_up(Peer::Server(index)) || self.incarnation(Peer::Server(index)) != incarnation {
            return;
        }
        let now = self.queue.now();
        let Some(site) = self.sites.get_mut(&index) else { return };
        site.listing = 0;
        let period = site.plan.period;
        let mut events = Vec::new();
        if let ControllerAnswer::Listing(listing) = answer {
            if !std::mem::replace(&mut site.described, true) {
                events.push(Event::configured(Span(5), None, Expect::Limits));
            }
            let changes = listing.changes(&site.mirror);
            if !changes.is_empty() || site.reported.is_none_or(|at| at + UNCHANGED_EVERY <= now) {
                site.reported = Some(now);
                events.push(Event::Listed(changes));
            }
            site.mirror = *listing;
        }
        for event in events {
            self.deliver_batch_event(index, event);
        }
        self.check_snapshot(index);
        self.after(period, WorldEvent::Site(index, SiteEvent::List(incarnation)));
    }
}
