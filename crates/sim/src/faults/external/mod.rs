//! Servers with external batch systems: faults between a server and its controller.
//!
//! A [`Site`] outlives its server: a controller with its queue and nodes (module `controller`), and the folders of jobs with
//! their supervisors (module `folders`). A command of the server is a task of several requests to the controller (module
//! `tasks`). Tasks end with the server; after a restart its machine repeats their commands. A request is executed late, twice
//! or never, and its answer may be lost. The controller hangs, or is killed and restarts from its last saved state. Local
//! users submit jobs, an administrator cancels or holds jobs of the server, and nodes fail under them.
//!
//! Not modelled: jobs that Slurm refuses or requeues, and a file system that shows writes late.

mod controller;
mod folders;
mod node_resources;
mod nodes;
mod outages;
mod requests;
mod start_gates;
mod tasks;

use std::collections::BTreeMap;

use controller::{Controller, ControllerAnswer, ControllerRequest};
use folders::{Folders, RunFolder};
use node_resources::NodeResources;
use pliant_control::batch;
use pliant_control::batch::external::{Command, Event};
use pliant_control::job::Exit;
use pliant_control::listing::Listing;
use pliant_control::names::Handle;
use pliant_control::server;
use pliant_model::ClusterNodes;
use rand::Rng;
use start_gates::StartGates;
use tasks::{NextAction, Task, TaskCommand, WithdrawalStep};

use super::Bug;
use super::world::{World, WorldEvent};
use crate::kernel::Peer;

/// How long the server waits for an answer, in milliseconds.
const TIMEOUT: u64 = 10_000;
/// How often the controller saves its state, in milliseconds.
const SAVES_EVERY: u64 = 5_000;
/// How often the machine receives a listing without changes, in milliseconds.
const UNCHANGED_EVERY: u64 = 60_000;
/// The first job number in tags of an earlier journal of the server.
const EARLIER_JOURNAL: u32 = 900_000;

/// An external batch system and its fault rates. Times in milliseconds, probabilities in thousandths.
#[derive(Clone)]
pub(super) struct SitePlan {
    /// The cores of its nodes.
    pub(super) nodes: Vec<u32>,
    /// What each of its nodes has besides, and its licences; none if it counts cores alone.
    pub(super) counted: Option<ClusterNodes>,
    /// True if some jobs of its local users have tasks of several cores.
    pub(super) has_tasks: bool,
    /// The time between two listings.
    pub(super) period: u64,
    /// Requests that are lost, executed twice, and delayed, and answers that are lost.
    pub(super) lost: u32,
    pub(super) duplicated: u32,
    pub(super) delayed: u32,
    pub(super) unanswered: u32,
    /// The maximal delay.
    pub(super) delay_max: u64,
    /// Mean time between two outages, local jobs and actions of an administrator; 0: none.
    pub(super) outage_every: u64,
    pub(super) local_job_every: u64,
    pub(super) admin_every: u64,
    /// Mean time between two failures of nodes under jobs of the server; 0: none.
    pub(super) node_failure_every: u64,
}

/// An event at a site.
pub(super) enum SiteEvent {
    /// A request reaches the controller of that generation. `by` is the task and its step that wait for the answer.
    RequestArrives {
        generation: u32,
        ask: ControllerRequest,
        by: Option<(u64, u64)>,
    },
    /// A task gets an answer, or none in time.
    Answer {
        task: u64,
        step_number: u64,
        answer: ControllerAnswer,
    },
    /// A task continues after a pause.
    Continue {
        task: u64,
        step_number: u64,
    },
    /// The server of that incarnation lists the jobs.
    List(u32),
    /// The server gets the listing, or none in time.
    ListAnswer {
        incarnation: u32,
        step_number: u64,
        answer: ControllerAnswer,
    },
    /// A node starts a job of the queue.
    JobStarts {
        id: u64,
        since: u64,
    },
    /// A supervisor that waits at a start gate checks it.
    CheckGate {
        id: u64,
        since: u64,
    },
    /// A supervisor's job may have ended.
    JobEnds(RunFolder),
    /// A local user's job may have ended.
    LocalJobEnds(u64),
    LocalJob,
    Administrator,
    Outage,
    /// A node fails under a job of the server.
    NodeFailure,
    /// The controller restarts.
    Restart,
    Save,
}

pub(super) struct Site {
    plan: SitePlan,
    controller: Controller,
    folders: Folders,
    start_gates: StartGates,
    /// How often the controller was killed. Requests to an earlier generation are lost.
    generation: u32,
    is_up: bool,
    hangs_until: u64,
    /// The tasks of the server, while it is up.
    tasks: BTreeMap<u64, Task>,
    /// The listing that the machine has, and when it received the last one.
    mirror: Listing,
    reported: Option<u64>,
    /// The number of the pending listing.
    listing: u64,
    described: bool,
}

impl Site {
    pub(super) fn new(plan: SitePlan) -> Site {
        let controller = Controller::new(NodeResources::new(&plan.nodes, plan.counted.as_ref()));
        Site {
            plan,
            controller,
            folders: Folders::default(),
            start_gates: StartGates::default(),
            generation: 0,
            is_up: true,
            hangs_until: 0,
            tasks: BTreeMap::new(),
            mirror: Listing::default(),
            reported: None,
            listing: 0,
            described: false,
        }
    }

    /// How often a job runs here.
    pub(super) fn running(&self, job: &Handle) -> usize {
        self.folders.running().filter(|(folder, ..)| folder.job == *job).count()
    }

    /// Describes something that has not settled at the site yet.
    pub(super) fn unsettled(&self) -> Option<String> {
        let is_open_job = |job: &&controller::QueueEntry| job.folder.is_some() && job.is_open();
        let left = self.controller.jobs.values().find(is_open_job);
        let left = left.map(|job| format!("job {:?} is in the queue: {:?}", job.number, job.stage));
        let waits = || {
            self.start_gates
                .waiting
                .values()
                .next()
                .map(|wait| format!("a supervisor waits for {}", wait.folder))
        };
        left.or_else(|| self.folders.running().next().map(|(job, ..)| format!("{job} runs"))).or_else(waits)
    }
}

impl World {
    /// Starts the external batch systems and delivers their first listings.
    pub(super) fn start_sites(&mut self) {
        for index in self.sites.keys().copied().collect::<Vec<_>>() {
            if let Some(site) = self.sites.get_mut(&index) {
                site.controller.counts_cores_alone = self.bug == Some(Bug::OverCommits);
                site.controller.splits_tasks = self.bug == Some(Bug::SplitsTasks);
            }
            let SitePlan { outage_every, local_job_every, admin_every, node_failure_every, .. } =
                self.sites[&index].plan;
            for (every, moment) in [
                (outage_every, SiteEvent::Outage),
                (local_job_every, SiteEvent::LocalJob),
                (admin_every, SiteEvent::Administrator),
                (node_failure_every, SiteEvent::NodeFailure),
            ] {
                self.schedule_fault(every, WorldEvent::Site(index, moment));
            }
            self.after(SAVES_EVERY, WorldEvent::Site(index, SiteEvent::Save));
            self.resume_site(index);
            // A server accepts nothing before it knows its size.
            let incarnation = self.incarnation(Peer::Server(index));
            let now = self.servers[index].daemon.clock.now(self.queue.now());
            if let Some(site) = self.sites.get_mut(&index) {
                let answer = site.controller.execute(self.queue.now(), &ControllerRequest::List(now));
                self.receive_listing(index, incarnation, answer);
            }
        }
    }

    /// Starts the listings of a server that has started, and repeats its unanswered commands.
    pub(super) fn resume_site(&mut self, index: usize) {
        let machine = &self.servers[index].daemon.node.machine;
        let (mirror, unanswered) = (machine.mirror().cloned().unwrap_or_default(), machine.unanswered());
        let Some(site) = self.sites.get_mut(&index) else { return };
        (site.mirror, site.reported, site.described) = (mirror, None, false);
        let incarnation = self.incarnation(Peer::Server(index));
        self.after(100, WorldEvent::Site(index, SiteEvent::List(incarnation)));
        for command in unanswered {
            if let batch::Command::External(command) = command {
                self.execute_external_command(index, command);
            }
        }
    }

    /// Drops the tasks of a server that has crashed.
    pub(super) fn drop_tasks(&mut self, index: usize) {
        if let Some(site) = self.sites.get_mut(&index) {
            site.tasks.clear();
        }
    }

    /// Executes a command of a server for its external batch system.
    pub(super) fn execute_external_command(&mut self, index: usize, command: Command) {
        self.log(|_| format!("c{index} commands {}", super::trace::shorten(&command)));
        let withdraw = |ids: Vec<String>, removes, tentative| TaskCommand::Withdraw {
            ids: ids.into(),
            step: WithdrawalStep::Query,
            stays: false,
            removes,
            tentative,
        };
        let (job, command) = match command {
            Command::Queue(queue) => (queue.job, TaskCommand::Queue { queue, queried: false }),
            Command::Release { job, tentative: true, .. } => (job, TaskCommand::Permit),
            Command::Release { job, ids, .. } => {
                (job, TaskCommand::Release { ids: ids.into(), queried: false })
            }
            Command::Withdraw { job, ids, tentative } => (job, withdraw(ids, false, tentative)),
            Command::Remove { job, .. } if self.bug == Some(Bug::LeavesQueuedJobs) => {
                (job, withdraw(vec![], true, false))
            }
            Command::Remove { job, ids } => (job, withdraw(ids, true, false)),
            Command::Terminate { job, ids } => {
                (job, TaskCommand::Terminate { ids: ids.into(), queried: false })
            }
            Command::Inspect { job, listed, .. } => (job, TaskCommand::Inspect { listed }),
        };
        let machine = &self.servers[index].daemon.node.machine;
        let record = machine.job(job.0).map(|record| (&record.handle, record.requeues));
        let is_ours = record.is_some();
        let folder = record.or(machine.prepared_as(job.0));
        let folder = folder.map(|(job, requeues)| RunFolder { job: job.clone(), requeues });
        let (number, now) = (self.next_number(), self.queue.now());
        if let Some(site) = self.sites.get_mut(&index) {
            let task = Task { number: job.0, folder, is_ours, command, step_number: 0, started_at: now };
            site.tasks.insert(number, task);
            self.advance(index, number, None);
        }
    }

    fn advance(&mut self, index: usize, number: u64, answer: Option<ControllerAnswer>) {
        let (now, bug) = (self.queue.now(), self.bug);
        let Some(site) = self.sites.get_mut(&index) else { return };
        let Some(task) = site.tasks.get_mut(&number) else { return };
        let is_withdrawal = matches!(task.command, TaskCommand::Withdraw { removes: false, .. });
        let mut empty = Folders::default();
        let folders = match bug {
            // The bug removes the folder from an empty set instead.
            Some(Bug::LeavesFolders) if is_withdrawal => &mut empty,
            _ => &mut site.folders,
        };
        if let (TaskCommand::Queue { queue, .. }, Some(Bug::LosesRequestedResources)) =
            (&mut task.command, bug)
            && queue.resubmitted
        {
            queue.resources = None;
        }
        let next = task.advance(now, answer, folders, &mut site.start_gates);
        task.step_number += 1;
        let step_number = task.step_number;
        let running = task.folder.as_ref().filter(|folder| site.folders.runs(folder)).cloned();
        if let Some(folder) = running {
            // The task may have asked it to end.
            self.reschedule_end(index, &folder);
        }
        match next {
            NextAction::Request(ask) => self.send_request(index, (number, step_number), ask),
            NextAction::Retry => {
                let pause = self.rng.random_range(1_000..15_000);
                self.after(pause, WorldEvent::Site(index, SiteEvent::Continue { task: number, step_number }));
            }
            NextAction::After(pause) => {
                self.after(pause, WorldEvent::Site(index, SiteEvent::Continue { task: number, step_number }));
            }
            NextAction::Report(event) => {
                if let Some(site) = self.sites.get_mut(&index) {
                    site.tasks.remove(&number);
                }
                let event = match event {
                    Event::Unclaimed { job } if bug == Some(Bug::ForgottenIsCancelled) => {
                        Event::Ended { job, exit: Exit::Cancelled, started: None, elapsed_ms: None }
                    }
                    event => event,
                };
                self.deliver_batch_event(index, event);
            }
        }
    }

    fn deliver_batch_event(&mut self, index: usize, event: Event) {
        self.deliver_to_server(index, server::Event::Batch(batch::Event::External(event)));
    }

    /// Sends a request of a task to the controller.
    fn send_request(&mut self, index: usize, (task, step_number): (u64, u64), ask: ControllerRequest) {
        let Some(Site { plan, generation, .. }) = self.sites.get(&index) else { return };
        let (plan, generation) = (plan.clone(), *generation);
        let silence = SiteEvent::Answer { task, step_number, answer: ControllerAnswer::Nothing };
        self.after(TIMEOUT, WorldEvent::Site(index, silence));
        if self.draw_fault(plan.lost) {
            return;
        }
        let by = (!self.draw_fault(plan.unanswered)).then_some((task, step_number));
        for _ in 0..1 + u32::from(self.draw_fault(plan.duplicated)) {
            let most = if self.draw_fault(plan.delayed) { plan.delay_max } else { 100 };
            let pause = self.rng.random_range(1..=most);
            let moment = SiteEvent::RequestArrives { generation, ask: ask.clone(), by };
            self.after(pause, WorldEvent::Site(index, moment));
        }
    }

    /// Handles an event at a site.
    pub(super) fn handle_site_event(&mut self, index: usize, moment: SiteEvent) {
        match moment {
            SiteEvent::RequestArrives { generation, ask, by } => {
                self.receive_request(index, generation, ask, by)
            }
            SiteEvent::Answer { task, step_number, answer } => {
                let open = self.sites[&index].tasks.get(&task);
                if open.is_some_and(|open| open.step_number == step_number) {
                    self.advance(index, task, Some(answer));
                }
            }
            SiteEvent::Continue { task, step_number } => {
                let open = self.sites[&index].tasks.get(&task);
                if open.is_some_and(|open| open.step_number == step_number) {
                    self.advance(index, task, None);
                }
            }
            SiteEvent::List(incarnation) => self.request_listing(index, incarnation),
            SiteEvent::ListAnswer { incarnation, step_number, answer } => {
                if self.sites[&index].listing == step_number {
                    self.receive_listing(index, incarnation, answer);
                }
            }
            SiteEvent::JobStarts { id, since } => self.start_on_node(index, id, since),
            SiteEvent::CheckGate { id, since } => self.check_gate(index, id, since),
            SiteEvent::JobEnds(job) => self.end_on_node(index, &job),
            SiteEvent::LocalJobEnds(id) => self.end_local_job(index, id),
            SiteEvent::LocalJob => self.submit_local_job(index),
            SiteEvent::Administrator => self.act_as_admin(index),
            SiteEvent::Outage => self.start_outage(index),
            SiteEvent::NodeFailure => self.fail_node(index),
            SiteEvent::Restart => self.restart_controller(index),
            SiteEvent::Save => {
                if let Some(site) = self.sites.get_mut(&index).filter(|site| site.is_up) {
                    site.controller.save();
                }
                // Jobs that waited for another reason than processors may start without a further event.
                self.schedule_jobs(index);
                self.after(SAVES_EVERY, WorldEvent::Site(index, SiteEvent::Save));
            }
        }
    }

    /// The number of unanswered commands to the batch system of a server.
    pub(super) fn unanswered(&self, index: usize) -> usize {
        self.servers[index].daemon.node.machine.unanswered().len()
    }
}
