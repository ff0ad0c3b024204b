//! Servers in front of batch systems that are not Pliant's: the weather between a server and its controller.
//!
//! A [`Site`] is what is there when the server is down: a controller with its queue and nodes (module `controller`), and
//! the folders of jobs with their supervisors (module `folders`). What the server wants done is a task of several
//! questions (module `tasks`), which ends with the server and is given again by its machine. A question is carried out
//! late, twice or never, and its answer may be lost. The controller hangs, or is killed and started again as it was some
//! seconds before; others submit jobs of their own, and an administrator cancels some of ours.
//!
//! Not modelled: jobs that Slurm refuses or requeues, nodes that fail, and a file system that shows writes late.

mod controller;
mod folders;
mod tasks;

use std::collections::BTreeMap;

use pliant_control::batch;
use pliant_control::foreign::{Command, Event};
use pliant_control::job::Exit;
use pliant_control::listing::Listing;
use pliant_control::names::Handle;
use pliant_control::server;
use pliant_model::Span;
use rand::Rng;

use super::Bug;
use super::plan::Planned;
use super::world::{Happening, World};
use crate::protocol::dues::Peer;
use controller::{Ask, Controller, How, Said, Stage, Wish};
use folders::{Finds, Folders};
use tasks::{Doing, Next, Step, Task};

/// How long an answer is waited for, in milliseconds.
const PATIENCE: u64 = 10_000;
/// How often the controller saves its state.
const SAVES_EVERY: u64 = 5_000;
/// After this long the machine is told that nothing has changed.
const NOTHING_NEW: u64 = 60_000;
/// Numbers from there on are in tags of an earlier journal of the server.
const EARLIER: u32 = 900_000;

/// A foreign batch system, and how bad the weather around it is. Times in milliseconds, shares in thousandths.
#[derive(Clone)]
pub(super) struct SitePlan {
    /// The cores of its nodes.
    pub(super) nodes: Vec<u32>,
    /// Between two listings.
    pub(super) period: u64,
    /// Questions that are not carried out, carried out twice, and late, and answers that are lost.
    pub(super) lost: u32,
    pub(super) doubled: u32,
    pub(super) late: u32,
    pub(super) unanswered: u32,
    /// How late at most.
    pub(super) latest: u64,
    /// Mean time between two outages, two jobs of others, two cancellations by an administrator; 0: never.
    pub(super) outage_every: u64,
    pub(super) stranger_every: u64,
    pub(super) admin_every: u64,
}

/// Something that happens at a site.
pub(super) enum Moment {
    /// A question arrives at the controller of that life; whoever asked waits with that task and turn.
    Arrives {
        generation: u32,
        ask: Ask,
        by: Option<(u64, u64)>,
    },
    /// An answer to a task, or that none came in time.
    Answer {
        task: u64,
        turn: u64,
        said: Said,
    },
    /// A task goes on after a pause.
    GoesOn {
        task: u64,
        turn: u64,
    },
    /// The server in that life lists the jobs.
    Lists(u32),
    /// An answer to that, or none.
    Listed {
        life: u32,
        turn: u64,
        said: Said,
    },
    /// A node begins a job of the queue.
    Begins {
        id: u64,
        since: u64,
    },
    /// A supervisor's job may be over.
    Ends(Handle),
    /// A stranger's job may be over.
    StrangerEnds(u64),
    Stranger,
    Admin,
    Outage,
    /// The controller answers again.
    Back,
    Saves,
}

pub(super) struct Site {
    plan: SitePlan,
    controller: Controller,
    folders: Folders,
    /// How often the controller was killed: what was asked of an earlier life is lost.
    generation: u32,
    is_up: bool,
    hangs_until: u64,
    /// Under way for the server, as long as it is up.
    tasks: BTreeMap<u64, Task>,
    /// What the machine was told, and when it was told something.
    mirror: Listing,
    told: Option<u64>,
    /// Which listing is waited for.
    listing: u64,
    described: bool,
}

impl Site {
    pub(super) fn new(plan: SitePlan) -> Site {
        let controller = Controller::new(plan.nodes.clone());
        Site {
            plan,
            controller,
            folders: Folders::default(),
            generation: 0,
            is_up: true,
            hangs_until: 0,
            tasks: BTreeMap::new(),
            mirror: Listing::default(),
            told: None,
            listing: 0,
            described: false,
        }
    }

    /// What is not settled here.
    pub(super) fn unsettled(&self) -> Option<String> {
        let ours = |job: &&controller::Entry| job.folder.is_some() && job.is_there();
        let left = self.controller.jobs.values().find(ours);
        let left = left.map(|job| format!("job {:?} is in the queue: {:?}", job.number, job.stage));
        left.or_else(|| self.folders.running().next().map(|(job, ..)| format!("{job} runs")))
    }
}

impl World {
    /// The foreign batch systems begin, and are listed for the first time.
    pub(super) fn begin_sites(&mut self) {
        for index in self.sites.keys().copied().collect::<Vec<_>>() {
            let SitePlan { outage_every, stranger_every, admin_every, .. } = self.sites[&index].plan;
            for (every, moment) in [
                (outage_every, Moment::Outage),
                (stranger_every, Moment::Stranger),
                (admin_every, Moment::Admin),
            ] {
                self.next_fault(every, Happening::Site(index, moment));
            }
            self.after(SAVES_EVERY, Happening::Site(index, Moment::Saves));
            self.resume_site(index);
            // Nothing is asked of a server before it knows its size.
            let life = self.life(Peer::Server(index));
            let now = self.servers[index].daemon.clock.now(self.now);
            if let Some(site) = self.sites.get_mut(&index) {
                let said = site.controller.execute(self.now, &Ask::List(now));
                self.listed(index, life, said);
            }
        }
    }

    /// A server is there, for the first time or again.
    pub(super) fn resume_site(&mut self, index: usize) {
        let machine = &self.servers[index].daemon.machine;
        let (mirror, unanswered) = (machine.mirror().cloned().unwrap_or_default(), machine.unanswered());
        let Some(site) = self.sites.get_mut(&index) else { return };
        (site.mirror, site.told, site.described) = (mirror, None, false);
        let life = self.life(Peer::Server(index));
        self.after(100, Happening::Site(index, Moment::Lists(life)));
        for command in unanswered {
            if let batch::Command::Foreign(command) = command {
                self.foreign_wants(index, command);
            }
        }
    }

    /// A server is gone, and with it what it was about.
    pub(super) fn lose_tasks(&mut self, index: usize) {
        if let Some(site) = self.sites.get_mut(&index) {
            site.tasks.clear();
        }
    }

    /// A server wants something done.
    pub(super) fn foreign_wants(&mut self, index: usize, command: Command) {
        self.note(|_| format!("c{index} wants {}", super::trace::short(&command)));
        let withdraw = |ids: Vec<String>, removes| Doing::Withdraw {
            ids: ids.into(),
            step: Step::Look,
            stays: false,
            removes,
        };
        let (job, doing) = match command {
            Command::Queue(queue) => (queue.job, Doing::Queue { queue, looks: false }),
            Command::Release { job, ids } => (job, Doing::Release { ids: ids.into(), looks: false }),
            Command::Withdraw { job, ids } => (job, withdraw(ids, false)),
            Command::Remove { job, .. } if self.bug == Some(Bug::LeavesCopies) => {
                (job, withdraw(vec![], true))
            }
            Command::Remove { job, ids } => (job, withdraw(ids, true)),
            Command::Terminate { job, ids } => (job, Doing::Terminate { ids: ids.into(), looks: false }),
            Command::Look { job, listed, .. } => (job, Doing::Look { listed }),
        };
        let machine = &self.servers[index].daemon.machine;
        let record = machine.job(job.0).map(|record| &record.handle);
        let is_ours = record.is_some();
        let folder = record.or(machine.held_as(job.0)).cloned();
        let (number, now) = (self.number(), self.now);
        if let Some(site) = self.sites.get_mut(&index) {
            let task = Task { number: job.0, folder, is_ours, doing, turn: 0, begun: now };
            site.tasks.insert(number, task);
            self.go_on(index, number, None);
        }
    }

    fn go_on(&mut self, index: usize, number: u64, said: Option<Said>) {
        let (now, bug) = (self.now, self.bug);
        let Some(site) = self.sites.get_mut(&index) else { return };
        let Some(task) = site.tasks.get_mut(&number) else { return };
        let is_withdrawal = matches!(task.doing, Doing::Withdraw { removes: false, .. });
        let mut aside = Folders::default();
        let folders = match bug {
            // It takes nothing out of the way.
            Some(Bug::LeavesFolders) if is_withdrawal => &mut aside,
            _ => &mut site.folders,
        };
        let next = task.go_on(now, said, folders);
        task.turn += 1;
        let turn = task.turn;
        let running = task.folder.as_ref().filter(|folder| site.folders.runs(folder)).cloned();
        if let Some(folder) = running {
            // It may have been asked to end.
            self.look_at_end(index, &folder);
        }
        match next {
            Next::Ask(ask) => self.ask(index, (number, turn), ask),
            Next::Again => {
                let pause = self.rng.random_range(1_000..15_000);
                self.after(pause, Happening::Site(index, Moment::GoesOn { task: number, turn }));
            }
            Next::In(pause) => {
                self.after(pause, Happening::Site(index, Moment::GoesOn { task: number, turn }));
            }
            Next::Tell(event) => {
                if let Some(site) = self.sites.get_mut(&index) {
                    site.tasks.remove(&number);
                }
                let event = match event {
                    Event::Unclaimed { job } if bug == Some(Bug::ForgottenIsOver) => {
                        Event::Ended { job, exit: Exit::Cancelled, started: None, elapsed_ms: None }
                    }
                    event => event,
                };
                self.tell_foreign(index, event);
            }
        }
    }

    fn tell_foreign(&mut self, index: usize, event: Event) {
        self.tell_server(index, server::Event::Batch(batch::Event::Foreign(event)));
    }

    /// Something is asked of the controller.
    fn ask(&mut self, index: usize, (task, turn): (u64, u64), ask: Ask) {
        let Some(Site { plan, generation, .. }) = self.sites.get(&index) else { return };
        let (plan, generation) = (plan.clone(), *generation);
        let silence = Moment::Answer { task, turn, said: Said::Nothing };
        self.after(PATIENCE, Happening::Site(index, silence));
        if self.strikes(plan.lost) {
            return;
        }
        let by = (!self.strikes(plan.unanswered)).then_some((task, turn));
        for _ in 0..1 + u32::from(self.strikes(plan.doubled)) {
            let most = if self.strikes(plan.late) { plan.latest } else { 100 };
            let pause = self.rng.random_range(1..=most);
            let moment = Moment::Arrives { generation, ask: ask.clone(), by };
            self.after(pause, Happening::Site(index, moment));
        }
    }

    /// Something happens at a site.
    pub(super) fn site(&mut self, index: usize, moment: Moment) {
        match moment {
            Moment::Arrives { generation, ask, by } => self.arrives(index, generation, ask, by),
            Moment::Answer { task, turn, said } => {
                let open = self.sites[&index].tasks.get(&task);
                if open.is_some_and(|open| open.turn == turn) {
                    self.go_on(index, task, Some(said));
                }
            }
            Moment::GoesOn { task, turn } => {
                let open = self.sites[&index].tasks.get(&task);
                if open.is_some_and(|open| open.turn == turn) {
                    self.go_on(index, task, None);
                }
            }
            Moment::Lists(life) => self.list(index, life),
            Moment::Listed { life, turn, said } => {
                if self.sites[&index].listing == turn {
                    self.listed(index, life, said);
                }
            }
            Moment::Begins { id, since } => self.node_begins(index, id, since),
            Moment::Ends(job) => self.node_ends(index, &job),
            Moment::StrangerEnds(id) => self.stranger_ends(index, id),
            Moment::Stranger => self.stranger(index),
            Moment::Admin => self.admin(index),
            Moment::Outage => self.outage(index),
            Moment::Back => self.back(index),
            Moment::Saves => {
                if let Some(site) = self.sites.get_mut(&index).filter(|site| site.is_up) {
                    site.controller.save();
                }
                self.after(SAVES_EVERY, Happening::Site(index, Moment::Saves));
            }
        }
    }

    fn arrives(&mut self, index: usize, generation: u32, ask: Ask, by: Option<(u64, u64)>) {
        let now = self.now;
        let Some(site) = self.sites.get_mut(&index) else { return };
        if generation != site.generation || !site.is_up {
            return;
        }
        if site.hangs_until > now {
            // It is worked off when nobody waits for it any more.
            let pause = site.hangs_until - now + 1;
            return self.after(pause, Happening::Site(index, Moment::Arrives { generation, ask, by }));
        }
        let said = self.execute(index, &ask);
        if let Some((task, turn)) = by {
            let pause = self.rng.random_range(1..50);
            self.after(pause, Happening::Site(index, Moment::Answer { task, turn, said }));
        }
    }

    /// The controller does what is asked for.
    fn execute(&mut self, index: usize, ask: &Ask) -> Said {
        let (now, bug) = (self.now, self.bug);
        let Some(site) = self.sites.get_mut(&index) else { return Said::Nothing };
        let id = match ask {
            Ask::Hold(id) | Ask::Release(id) | Ask::CancelWaiting(id) | Ask::Cancel(id) => id.parse().ok(),
            _ => None,
        };
        let about = id.and_then(|id: u64| site.controller.jobs.get(&id).map(|job| (id, job.clone())));
        let mut said = site.controller.execute(now, ask);
        if let (Ask::Look(_, id), Some(Bug::TrustsIds)) = (ask, bug) {
            let job = id.parse().ok().and_then(|id: u64| site.controller.jobs.get(&id));
            said = Said::Job(job.map(controller::Entry::glance));
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
    fn signals(&mut self, index: usize, id: u64, folder: &Handle) {
        let now = self.now;
        let Some(site) = self.sites.get_mut(&index) else { return };
        site.folders.signal(folder, id, now);
        site.controller.over(id, How::Cancelled, now);
        self.look_at_end(index, folder);
    }

    /// The controller starts what has room.
    fn pass(&mut self, index: usize) {
        let now = self.now;
        let Some(site) = self.sites.get_mut(&index).filter(|site| site.is_up) else { return };
        for id in site.controller.start(now) {
            let pause = self.rng.random_range(0..1_000);
            self.after(pause, Happening::Site(index, Moment::Begins { id, since: now }));
        }
    }

    /// A node begins a job.
    fn node_begins(&mut self, index: usize, id: u64, started: u64) {
        let now = self.now;
        let Some(site) = self.sites.get_mut(&index) else { return };
        let Some(job) = site.controller.jobs.get(&id).cloned() else { return };
        let Stage::Runs { since, .. } = job.stage else { return };
        if since != started {
            return;
        }
        let Some(folder) = job.folder else {
            let end = since + job.walltime;
            return self.after(end.saturating_sub(now), Happening::Site(index, Moment::StrangerEnds(id)));
        };
        let machine = &self.servers[index].daemon.machine;
        let record = machine.number_of(&folder).and_then(|number| machine.job(number)).cloned();
        let planned =
            record.as_ref().and_then(|record| self.plan.jobs.iter().find(|one| one.key == record.key));
        let (length, exit) = length(planned, job.walltime);
        let claims = self.bug != Some(Bug::IgnoresClaims);
        let found = site.folders.claim(&folder, id, now, (length, exit), claims);
        self.note(|_| format!("a supervisor of c{index} finds {found:?} for {folder} as {id}"));
        match found {
            Finds::Own => {
                match record {
                    Some(record) => self.checks.started(index, &record),
                    None => self.wrong("once", format!("c{index} runs {folder}, which it does not know")),
                }
                self.after(length, Happening::Site(index, Moment::Ends(folder)));
            }
            Finds::EndAsked | Finds::Nothing | Finds::Claimed => {
                let Some(site) = self.sites.get_mut(&index) else { return };
                let how = if found == Finds::EndAsked { How::Completed } else { How::Failed };
                site.controller.over(id, how, now);
                self.pass(index);
            }
        }
    }

    /// The end of a job may have been moved.
    fn look_at_end(&mut self, index: usize, job: &Handle) {
        let ends = self.sites[&index].folders.running().find(|(one, ..)| *one == job).map(|(.., ends)| ends);
        if let Some(ends) = ends {
            let pause = ends.saturating_sub(self.now);
            self.after(pause, Happening::Site(index, Moment::Ends(job.clone())));
        }
    }

    fn node_ends(&mut self, index: usize, job: &Handle) {
        let now = self.now;
        let Some(site) = self.sites.get_mut(&index) else { return };
        let Some((id, exit)) = site.folders.end(job, now) else { return };
        let how = if exit == Exit::Code(0) { How::Completed } else { How::Failed };
        // The id may be another's by now.
        let is_it = |entry: &controller::Entry| entry.folder.as_ref() == Some(job);
        if site.is_up && site.controller.jobs.get(&id).is_some_and(is_it) {
            site.controller.over(id, how, now);
        }
        self.note(|_| format!("{job} at c{index} is over: {exit}"));
        self.pass(index);
    }

    fn stranger_ends(&mut self, index: usize, id: u64) {
        let now = self.now;
        let Some(site) = self.sites.get_mut(&index).filter(|site| site.is_up) else { return };
        let is_due = |job: &controller::Entry| {
            job.folder.is_none()
                && matches!(job.stage, Stage::Runs { since, .. } if since + job.walltime <= now)
        };
        if site.controller.jobs.get(&id).is_some_and(is_due) {
            site.controller.over(id, How::Completed, now);
            self.pass(index);
        }
    }

    /// Somebody else submits a job, perhaps a held one, or one with a tag of an earlier journal.
    fn stranger(&mut self, index: usize) {
        let now = self.now;
        let most = self.sites[&index].controller.cores();
        let wish = Wish {
            number: self.rng.random_bool(0.2).then(|| EARLIER + self.rng.random_range(0..100)),
            folder: None,
            cores: self.rng.random_range(1..=most),
            walltime: self.rng.random_range(2_000..60_000),
            held: self.rng.random_bool(0.2),
        };
        let Some(site) = self.sites.get_mut(&index) else { return };
        let every = site.plan.stranger_every;
        if site.is_up {
            site.controller.submit(now, wish);
            self.pass(index);
        }
        self.next_fault(every, Happening::Site(index, Moment::Stranger));
    }

    /// An administrator cancels a job of ours.
    fn admin(&mut self, index: usize) {
        let now = self.now;
        let site = &self.sites[&index];
        let (every, is_up) = (site.plan.admin_every, site.is_up);
        let there = site.controller.jobs.iter().filter(|(_, job)| job.is_there());
        let ours: Vec<(u64, Handle)> =
            there.filter_map(|(id, job)| Some((*id, job.folder.clone()?))).collect();
        if is_up && !ours.is_empty() {
            let (id, folder) = ours[self.rng.random_range(0..ours.len())].clone();
            self.note(|_| format!("an administrator of c{index} cancels {folder}, its job {id}"));
            if let Some(site) = self.sites.get_mut(&index) {
                site.controller.execute(now, &Ask::Cancel(id.to_string()));
            }
            self.checks.cancelled_by_others(&folder);
            self.signals(index, id, &folder);
            self.pass(index);
        }
        self.next_fault(every, Happening::Site(index, Moment::Admin));
    }

    /// The controller hangs, or is killed.
    fn outage(&mut self, index: usize) {
        let hangs = self.rng.random_bool(0.4);
        let most = if self.rng.random_bool(0.3) { 60_000 } else { 8_000 };
        let length = self.rng.random_range(500..most);
        let now = self.now;
        let Some(site) = self.sites.get_mut(&index) else { return };
        let every = site.plan.outage_every;
        if hangs {
            site.hangs_until = now + length;
        } else if site.is_up {
            site.is_up = false;
            site.generation += 1;
            self.after(length, Happening::Site(index, Moment::Back));
        }
        let what = if hangs { "hangs" } else { "is killed" };
        self.note(|_| format!("the controller of c{index} {what} for {length} ms"));
        self.next_fault(every, Happening::Site(index, Moment::Outage));
    }

    /// The controller is started again, as it was when it last saved its state. Nodes tell it what runs: what it does not
    /// know to run is killed, but for nodes that do not tell.
    fn back(&mut self, index: usize) {
        let now = self.now;
        let Some(site) = self.sites.get_mut(&index) else { return };
        site.is_up = true;
        site.controller.begin_again();
        let running: Vec<(Handle, u64)> =
            site.folders.running().map(|(job, id, _)| (job.clone(), id)).collect();
        let mut orphans = Vec::new();
        for (job, id) in &running {
            let is_theirs = |entry: &controller::Entry| {
                entry.folder.as_ref() == Some(job) && matches!(entry.stage, Stage::Runs { .. })
            };
            if !site.controller.jobs.get(id).is_some_and(is_theirs) {
                orphans.push(job.clone());
            }
        }
        let known: Vec<u64> = site.controller.jobs.keys().copied().collect();
        let mut strangers = Vec::new();
        for id in known {
            let Some(entry) = site.controller.jobs.get(&id) else { continue };
            match (&entry.folder, &entry.stage) {
                (Some(folder), Stage::Runs { .. }) if !running.contains(&(folder.clone(), id)) => {
                    // It has ended meanwhile, or was never begun.
                    site.controller.over(id, How::Failed, now);
                }
                (None, Stage::Runs { since, .. }) => {
                    strangers.push((id, (since + entry.walltime).saturating_sub(now)));
                }
                _ => {}
            }
        }
        for (id, pause) in strangers {
            self.after(pause, Happening::Site(index, Moment::StrangerEnds(id)));
        }
        self.note(|_| format!("the controller of c{index} is there again, without knowing of {orphans:?}"));
        for job in orphans {
            if self.rng.random_bool(0.5) {
                self.checks.killed(&job);
                if let Some(site) = self.sites.get_mut(&index) {
                    site.folders.kill(&job);
                }
            }
        }
        self.pass(index);
    }

    /// The server lists the jobs.
    fn list(&mut self, index: usize, life: u32) {
        if !self.is_up(Peer::Server(index)) || self.life(Peer::Server(index)) != life {
            return;
        }
        let at = self.servers[index].daemon.clock.now(self.now);
        let turn = self.number();
        let Some(site) = self.sites.get_mut(&index) else { return };
        site.listing = turn;
        let (plan, answers) = (site.plan.clone(), site.is_up && site.hangs_until <= self.now);
        let silence = Moment::Listed { life, turn, said: Said::Nothing };
        self.after(PATIENCE, Happening::Site(index, silence));
        if !answers || self.strikes(plan.lost) {
            return;
        }
        let Some(site) = self.sites.get_mut(&index) else { return };
        let said = site.controller.execute(self.now, &Ask::List(at));
        let most = if self.strikes(plan.late) { PATIENCE } else { 100 };
        let pause = self.rng.random_range(1..=most);
        self.after(pause, Happening::Site(index, Moment::Listed { life, turn, said }));
    }

    fn listed(&mut self, index: usize, life: u32, said: Said) {
        if !self.is_up(Peer::Server(index)) || self.life(Peer::Server(index)) != life {
            return;
        }
        let now = self.now;
        let Some(site) = self.sites.get_mut(&index) else { return };
        site.listing = 0;
        let period = site.plan.period;
        let mut events = Vec::new();
        if let Said::Listing(listing) = said {
            if !std::mem::replace(&mut site.described, true) {
                events.push(Event::Described { interval: Span(5), partition: None });
            }
            let changes = listing.changes(&site.mirror);
            if !changes.is_empty() || site.told.is_none_or(|at| at + NOTHING_NEW <= now) {
                site.told = Some(now);
                events.push(Event::Listed(changes));
            }
            site.mirror = *listing;
        }
        for event in events {
            self.tell_foreign(index, event);
        }
        self.after(period, Happening::Site(index, Moment::Lists(life)));
    }

    /// Commands to the batch system of a server that nobody has answered.
    pub(super) fn unanswered(&self, index: usize) -> usize {
        self.servers[index].daemon.machine.unanswered().len()
    }
}

fn short(what: &impl std::fmt::Debug) -> String {
    super::trace::short(what)
}

/// How long a job takes, and how it ends then.
fn length(planned: Option<&Planned>, walltime: u64) -> (u64, Exit) {
    let (percent, code) = planned.map_or((50, 0), |planned| (planned.percent, planned.code));
    match percent {
        101.. => (walltime, Exit::OverWalltime),
        _ => ((walltime * percent / 100).max(10), Exit::Code(code)),
    }
}
