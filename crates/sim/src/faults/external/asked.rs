//! What reaches a controller: questions about jobs, and listings.

use pliant_control::batch::external::Event;
use pliant_control::names::Handle;
use pliant_model::Span;
use pliant_policy::runtimes::limit_usage::Expect;
use rand::Rng;

use super::controller::{Ask, How, Said};
use super::{Moment, NOTHING_NEW, TIMEOUT};
use crate::faults::Bug;
use crate::faults::trace::short;
use crate::faults::world::{World, WorldEvent};
use crate::kernel::Peer;

impl World {
    pub(super) fn arrives(&mut self, index: usize, generation: u32, ask: Ask, by: Option<(u64, u64)>) {
        let now = self.queue.now();
        let Some(site) = self.sites.get_mut(&index) else { return };
        if generation != site.generation || !site.is_up {
            return;
        }
        if site.hangs_until > now {
            // It is worked off when nobody waits for it any more.
            let pause = site.hangs_until - now + 1;
            return self.after(pause, WorldEvent::Site(index, Moment::Arrives { generation, ask, by }));
        }
        let said = self.execute(index, &ask);
        if let Some((task, turn)) = by {
            let pause = self.rng.random_range(1..50);
            self.after(pause, WorldEvent::Site(index, Moment::Answer { task, turn, said }));
        }
    }

    /// The controller does what is asked for.
    pub(super) fn execute(&mut self, index: usize, ask: &Ask) -> Said {
        let (now, bug) = (self.queue.now(), self.bug);
        let Some(site) = self.sites.get_mut(&index) else { return Said::Nothing };
        let id = match ask {
            Ask::Hold(id) | Ask::Release(id) | Ask::CancelWaiting(id) | Ask::Cancel(id) => id.parse().ok(),
            _ => None,
        };
        let about = id.and_then(|id: u64| site.controller.jobs.get(&id).map(|job| (id, job.clone())));
        let mut said = site.controller.execute(now, ask);
        if let (Ask::Look(_, id), Some(Bug::TrustsIds)) = (ask, bug) {
            let job = id.parse().ok().and_then(|id: u64| site.controller.jobs.get(&id));
            said = Said::Job(job.map(|job| job.glance(now)));
        }
        if let Some((id, job)) = about {
            match &job.folder {
                None if job.is_there() => {
                    let what = format!("{ask:?} meets a job of somebody else in the queue of c{index}");
                    self.wrong("strangers", what);
                }
                Some(folder) if matches!(ask, Ask::Cancel(_)) => self.signals(index, id, folder),
                _ => {}
            }
        }
        self.note(|_| format!("the controller of c{index}: {} is {}", short(ask), short(&said)));
        self.pass(index);
        said
    }

    /// A job that runs is to be ended by the batch system.
    pub(super) fn signals(&mut self, index: usize, id: u64, folder: &Handle) {
        let now = self.queue.now();
        let Some(site) = self.sites.get_mut(&index) else { return };
        site.folders.signal(folder, id, now);
        site.rooms.signal(id, folder);
        site.controller.over(id, How::Cancelled, now);
        self.look_at_end(index, folder);
    }

    /// The controller starts what has room.
    pub(super) fn pass(&mut self, index: usize) {
        let now = self.queue.now();
        let Some(site) = self.sites.get_mut(&index).filter(|site| site.is_up) else { return };
        for id in site.controller.start(now) {
            let pause = self.rng.random_range(0..1_000);
            self.after(pause, WorldEvent::Site(index, Moment::Begins { id, since: now }));
        }
    }

    /// The server lists the jobs.
    pub(super) fn list(&mut self, index: usize, life: u32) {
        if !self.is_up(Peer::Server(index)) || self.life(Peer::Server(index)) != life {
            return;
        }
        let at = self.servers[index].daemon.clock.now(self.queue.now());
        let turn = self.number();
        let Some(site) = self.sites.get_mut(&index) else { return };
        site.listing = turn;
        let (plan, answers) = (site.plan.clone(), site.is_up && site.hangs_until <= self.queue.now());
        let silence = Moment::ListedJob { life, turn, said: Said::Nothing };
        self.after(TIMEOUT, WorldEvent::Site(index, silence));
        if !answers || self.strikes(plan.lost) {
            return;
        }
        let Some(site) = self.sites.get_mut(&index) else { return };
        let said = site.controller.execute(self.queue.now(), &Ask::List(at));
        let most = if self.strikes(plan.late) { TIMEOUT } else { 100 };
        let pause = self.rng.random_range(1..=most);
        self.after(pause, WorldEvent::Site(index, Moment::ListedJob { life, turn, said }));
    }

    pub(super) fn listed(&mut self, index: usize, life: u32, said: Said) {
        if !self.is_up(Peer::Server(index)) || self.life(Peer::Server(index)) != life {
            return;
        }
        let now = self.queue.now();
        let Some(site) = self.sites.get_mut(&index) else { return };
        site.listing = 0;
        let period = site.plan.period;
        let mut events = Vec::new();
        if let Said::Listing(listing) = said {
            if !std::mem::replace(&mut site.described, true) {
                events.push(Event::Configured { interval: Span(5), partition: None, expect: Expect::Limits });
            }
            let changes = listing.changes(&site.mirror);
            if !changes.is_empty() || site.told.is_none_or(|at| at + NOTHING_NEW <= now) {
                site.told = Some(now);
                events.push(Event::Listed(changes));
            }
            site.mirror = *listing;
        }
        for event in events {
            self.tell_external(index, event);
        }
        self.after(period, WorldEvent::Site(index, Moment::Lists(life)));
    }
}
