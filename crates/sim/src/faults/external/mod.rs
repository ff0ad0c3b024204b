//! Servers in front of external batch systems: faults between a server and its controller.
//!
//! A [`Site`] is what is there when the server is down: a controller with its queue and nodes (module `controller`), and
//! the folders of jobs with their supervisors (module `folders`). What the server wants done is a task of several
//! questions (module `tasks`), which ends with the server and is given again by its machine. A question is carried out
//! late, twice or never, and its answer may be lost. The controller hangs, or is killed and started again as it was some
//! seconds before; others submit jobs of their own, and an administrator cancels some of ours or holds them back.
//!
//! Not modelled: jobs that Slurm refuses or requeues, nodes that fail, and a file system that shows writes late.

mod asked;
mod controller;
mod folders;
mod nodes;
mod outages;
mod rooms;
mod tasks;

use std::collections::BTreeMap;

use controller::{Ask, Controller, Said};
use folders::Folders;
use pliant_control::batch;
use pliant_control::batch::external::{Command, Event};
use pliant_control::job::Exit;
use pliant_control::listing::Listing;
use pliant_control::names::Handle;
use pliant_control::server;
use rand::Rng;
use rooms::Rooms;
use tasks::{Doing, Next, Step, Task};

use super::Bug;
use super::world::{World, WorldEvent};
use crate::kernel::Peer;

/// How long an answer is waited for, in milliseconds.
const TIMEOUT: u64 = 10_000;
/// How often the controller saves its state.
const SAVES_EVERY: u64 = 5_000;
/// After this long the machine is told that nothing has changed.
const NOTHING_NEW: u64 = 60_000;
/// Numbers from there on are in tags of an earlier journal of the server.
const EARLIER: u32 = 900_000;

/// An external batch system and its fault rates. Times in milliseconds, shares in thousandths.
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
    ListedJob {
        life: u32,
        turn: u64,
        said: Said,
    },
    /// A node begins a job of the queue.
    Begins {
        id: u64,
        since: u64,
    },
    /// A supervisor that waits for word looks.
    Room {
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
    rooms: Rooms,
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
            rooms: Rooms::default(),
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
        let waits = || self.rooms.waits.values().next().map(|wait| format!("{} is waited for", wait.folder));
        left.or_else(|| self.folders.running().next().map(|(job, ..)| format!("{job} runs"))).or_else(waits)
    }
}

impl World {
    /// The external batch systems begin, and are listed for the first time.
    pub(super) fn begin_sites(&mut self) {
        for index in self.sites.keys().copied().collect::<Vec<_>>() {
            let SitePlan { outage_every, stranger_every, admin_every, .. } = self.sites[&index].plan;
            for (every, moment) in [
                (outage_every, Moment::Outage),
                (stranger_every, Moment::Stranger),
                (admin_every, Moment::Admin),
            ] {
                self.next_fault(every, WorldEvent::Site(index, moment));
            }
            self.after(SAVES_EVERY, WorldEvent::Site(index, Moment::Saves));
            self.resume_site(index);
            // Nothing is asked of a server before it knows its size.
            let life = self.life(Peer::Server(index));
            let now = self.servers[index].daemon.clock.now(self.queue.now());
            if let Some(site) = self.sites.get_mut(&index) {
                let said = site.controller.execute(self.queue.now(), &Ask::List(now));
                self.listed(index, life, said);
            }
        }
    }

    /// A server is there, for the first time or again.
    pub(super) fn resume_site(&mut self, index: usize) {
        let machine = &self.servers[index].daemon.node.machine;
        let (mirror, unanswered) = (machine.mirror().cloned().unwrap_or_default(), machine.unanswered());
        let Some(site) = self.sites.get_mut(&index) else { return };
        (site.mirror, site.told, site.described) = (mirror, None, false);
        let life = self.life(Peer::Server(index));
        self.after(100, WorldEvent::Site(index, Moment::Lists(life)));
        for command in unanswered {
            if let batch::Command::External(command) = command {
                self.external_wants(index, command);
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
    pub(super) fn external_wants(&mut self, index: usize, command: Command) {
        self.note(|_| format!("c{index} wants {}", super::trace::short(&command)));
        let withdraw = |ids: Vec<String>, removes, tentative| Doing::Withdraw {
            ids: ids.into(),
            step: Step::Look,
            stays: false,
            removes,
            tentative,
        };
        let (job, doing) = match command {
            Command::Queue(queue) => (queue.job, Doing::Queue { queue, looks: false }),
            Command::Release { job, tentative: true, .. } => (job, Doing::Decide),
            Command::Release { job, ids, .. } => (job, Doing::Release { ids: ids.into(), looks: false }),
            Command::Withdraw { job, ids, tentative } => (job, withdraw(ids, false, tentative)),
            Command::Remove { job, .. } if self.bug == Some(Bug::LeavesCopies) => {
                (job, withdraw(vec![], true, false))
            }
            Command::Remove { job, ids } => (job, withdraw(ids, true, false)),
            Command::Terminate { job, ids } => (job, Doing::Terminate { ids: ids.into(), looks: false }),
            Command::Inspect { job, listed, .. } => (job, Doing::Look { listed }),
        };
        let machine = &self.servers[index].daemon.node.machine;
        let record = machine.job(job.0).map(|record| &record.handle);
        let is_ours = record.is_some();
        let folder = record.or(machine.prepared_as(job.0)).cloned();
        let (number, now) = (self.number(), self.queue.now());
        if let Some(site) = self.sites.get_mut(&index) {
            let task = Task { number: job.0, folder, is_ours, doing, turn: 0, begun: now };
            site.tasks.insert(number, task);
            self.go_on(index, number, None);
        }
    }

    fn go_on(&mut self, index: usize, number: u64, said: Option<Said>) {
        let (now, bug) = (self.queue.now(), self.bug);
        let Some(site) = self.sites.get_mut(&index) else { return };
        let Some(task) = site.tasks.get_mut(&number) else { return };
        let is_withdrawal = matches!(task.doing, Doing::Withdraw { removes: false, .. });
        let mut aside = Folders::default();
        let folders = match bug {
            // It takes nothing out of the way.
            Some(Bug::LeavesFolders) if is_withdrawal => &mut aside,
            _ => &mut site.folders,
        };
        let next = task.go_on(now, said, folders, &mut site.rooms);
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
                self.after(pause, WorldEvent::Site(index, Moment::GoesOn { task: number, turn }));
            }
            Next::In(pause) => {
                self.after(pause, WorldEvent::Site(index, Moment::GoesOn { task: number, turn }));
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
                self.tell_external(index, event);
            }
        }
    }

    fn tell_external(&mut self, index: usize, event: Event) {
        self.tell_server(index, server::Event::Batch(batch::Event::External(event)));
    }

    /// Something is asked of the controller.
    fn ask(&mut self, index: usize, (task, turn): (u64, u64), ask: Ask) {
        let Some(Site { plan, generation, .. }) = self.sites.get(&index) else { return };
        let (plan, generation) = (plan.clone(), *generation);
        let silence = Moment::Answer { task, turn, said: Said::Nothing };
        self.after(TIMEOUT, WorldEvent::Site(index, silence));
        if self.strikes(plan.lost) {
            return;
        }
        let by = (!self.strikes(plan.unanswered)).then_some((task, turn));
        for _ in 0..1 + u32::from(self.strikes(plan.doubled)) {
            let most = if self.strikes(plan.late) { plan.latest } else { 100 };
            let pause = self.rng.random_range(1..=most);
            let moment = Moment::Arrives { generation, ask: ask.clone(), by };
            self.after(pause, WorldEvent::Site(index, moment));
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
            Moment::ListedJob { life, turn, said } => {
                if self.sites[&index].listing == turn {
                    self.listed(index, life, said);
                }
            }
            Moment::Begins { id, since } => self.node_begins(index, id, since),
            Moment::Room { id, since } => self.room(index, id, since),
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
                // What has waited for something else may start without anything having happened.
                self.pass(index);
                self.after(SAVES_EVERY, WorldEvent::Site(index, Moment::Saves));
            }
        }
    }

    /// Commands to the batch system of a server that nobody has answered.
    pub(super) fn unanswered(&self, index: usize) -> usize {
        self.servers[index].daemon.node.machine.unanswered().len()
    }
}
