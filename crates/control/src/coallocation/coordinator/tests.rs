//! A coordinator and real servers that exchange messages at once, except those that a test withholds.

mod ends;
mod lost_agent;
mod placing;
mod spawning;
mod usage;

use crate::payload::Payload;
use std::collections::VecDeque;

use pliant_model::{JobId, Procs, Span, Speed, Time};
use pliant_policy::tuning::Tuner;

use super::*;
use crate::batch::{self, Usage};
use crate::coallocation::{
    Addresses, Application, Call, LaunchState, Machine as Host, Mapping, PlacedTask, Subjob, TaskEdge,
    TaskSpec,
};
use crate::job::Exit;
use crate::names::User;
use crate::server::{self, Server, ServerConfig, SubjobCommand, SubjobEvent, WaitingLimits};

/// The power of a processor, in MFlop/s.
const POWER: f64 = 100.0;

struct Federation {
    now: Time,
    coordinator: Coordinator,
    servers: Vec<Server>,
    /// Servers without a connection.
    silent: Vec<usize>,
    /// Servers whose subjobs get no task addresses.
    unlocated: Vec<usize>,
    /// Servers that report no load.
    without_load: Vec<usize>,
    /// The answers to users' calls.
    answers: Vec<Answer>,
    /// The acts in the audit trail.
    audited: Vec<AuditAct>,
    /// Started processes: the server, its job number, and the subjob.
    started: Vec<(usize, u32, Subjob, Addresses)>,
    /// Terminated processes.
    terminated: Vec<(usize, u32)>,
    archived: Vec<LaunchRecord>,
}

/// A message and its receiver.
enum Message {
    Coordinator(Event),
    Server(usize, server::Event),
}

fn name(number: usize) -> Name {
    format!("s{number}").parse().unwrap()
}

fn alice() -> User {
    "alice".parse().unwrap()
}

fn caller(user: &str) -> Caller {
    Caller { user: user.parse().unwrap(), operator: false }
}

/// An application of tasks in a row: each communicates with the next one.
fn row(rcrs: &[f64]) -> Application {
    let wish = |(at, rcr): (usize, &f64)| TaskSpec {
        name: format!("t{at}"),
        rcr: *rcr,
        payload: Payload::default(),
    };
    let edge = |at: u32| TaskEdge { between: [at - 1, at], rqoc: 2.0 };
    Application {
        mcr_mflops: POWER,
        bandwidth_mbps: None,
        tasks: rcrs.iter().enumerate().map(wish).collect(),
        edges: (1..rcrs.len() as u32).map(edge).collect(),
    }
}

fn launch_spec(application: Application) -> LaunchSpec {
    LaunchSpec {
        key: Key([7; 16]),
        owner: alice(),
        name: "row".to_owned(),
        application,
        walltime: Span(100),
        timeout: Span(300),
        user_lan: None,
        threshold: 0.5,
        mapping: Mapping::Wase,
        dry_run: false,
        signed: Payload::default(),
    }
}

fn id() -> LaunchId {
    LaunchId { agent: "agent".parse().unwrap(), key: Key([7; 16]) }
}

/// The token of a call between the coordinator and a server about a subjob.
fn token(server: usize, id: &SubjobId) -> Token {
    Token(u64::from(id.launch.key.0[0]) * 1_000_000 + server as u64 * 1000 + u64::from(id.number))
}

/// The server and the subjob of a token.
fn subjob_of(token: Token) -> (usize, SubjobId) {
    let key = Key([(token.0 / 1_000_000) as u8; 16]);
    let (server, number) = ((token.0 / 1000 % 1000) as usize, (token.0 % 1000) as u32);
    (server, SubjobId { launch: LaunchId { key, ..id() }, number })
}

impl Federation {
    /// Makes servers of these processors, one machine per server.
    fn of(procs: &[u32]) -> Federation {
        let own = Peer { name: "agent".parse().unwrap(), address: String::new() };
        let server = |(number, procs): (usize, &u32)| {
            let config = ServerConfig {
                name: name(number),
                address: String::new(),
                procs: Procs(*procs),
                speed: Speed::REFERENCE,
                policy: "fcfs".to_owned(),
                tuner: Tuner::Exhaustive,
                waiting: WaitingLimits::of_jobs(10),
                host: None,
            };
            Server::new(config, Time(0)).unwrap()
        };
        Federation {
            now: Time(0),
            coordinator: Coordinator::new(CoordinatorConfig { own }),
            servers: procs.iter().enumerate().map(server).collect(),
            silent: Vec::new(),
            unlocated: Vec::new(),
            without_load: Vec::new(),
            answers: Vec::new(),
            audited: Vec::new(),
            started: Vec::new(),
            terminated: Vec::new(),
            archived: Vec::new(),
        }
    }

    fn handle(&mut self, event: Event) {
        self.deliver(VecDeque::from([Message::Coordinator(event)]));
    }

    fn handle_at_server(&mut self, server: usize, event: server::Event) {
        self.deliver(VecDeque::from([Message::Server(server, event)]));
    }

    fn launch(&mut self, spec: LaunchSpec) {
        self.handle(Event::Launch { reply: Token(0), spec: Box::new(spec) });
    }

    /// Delivers messages until none is left at this time.
    fn deliver(&mut self, mut messages: VecDeque<Message>) {
        loop {
            let Some(message) = messages.pop_front() else {
                messages.extend(self.dues());
                if messages.is_empty() {
                    return;
                }
                continue;
            };
            match message {
                Message::Coordinator(event) => {
                    let mut commands = Vec::new();
                    self.coordinator.on(self.now, event, &mut commands);
                    commands.into_iter().for_each(|command| self.carry_out(command, &mut messages));
                }
                Message::Server(server, event) => {
                    let mut commands = Vec::new();
                    self.servers[server].on(self.now, event, &mut commands);
                    for command in commands {
                        self.carry_out_of_server(server, command, &mut messages);
                    }
                }
            }
        }
    }

    fn dues(&self) -> Vec<Message> {
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= self.now);
        let servers = self.servers.iter().enumerate().filter(|(_, server)| is_due(server.next_due()));
        let mut dues: Vec<Message> =
            servers.map(|(number, _)| Message::Server(number, server::Event::Due)).collect();
        if is_due(self.coordinator.next_due()) {
            dues.push(Message::Coordinator(Event::Due));
        }
        dues
    }

    /// Advances the time second by second.
    fn pass(&mut self, seconds: i64) {
        for _ in 0..seconds {
            self.now += Span(1);
            self.deliver(VecDeque::new());
        }
    }

    fn sites(&self) -> Vec<Site> {
        let site = |(number, server): (usize, &Server)| {
            let procs = server.procs().0;
            let power_mflops = POWER * f64::from(procs);
            let load = 1.0 - f64::from(server.usage().free.0) / f64::from(procs);
            let load = if self.without_load.contains(&number) { 0.0 } else { load };
            Site {
                server: Peer { name: name(number), address: String::new() },
                local_agent: None,
                machines: vec![Host { name: "host".to_owned(), power_mflops, procs, load }],
            }
        };
        self.servers.iter().enumerate().map(site).collect()
    }

    fn carry_out(&mut self, command: Command, messages: &mut VecDeque<Message>) {
        match command {
            Command::Audit(record) => self.audited.push(record.act),
            Command::Answer { answer, .. } => self.answers.push(answer),
            Command::SubjobDecision { to, decision, end_acknowledged } => {
                let (server, id) = subjob_of(to);
                let decided = SubjobEvent::Decided { reply: None, id, decision, end_acknowledged };
                messages.push_back(Message::Server(server, server::Event::Subjob(decided)));
            }
            Command::ListMachines { launch, group } => {
                let sites = self.sites();
                messages.push_back(Message::Coordinator(Event::MachinesListed { launch, group, sites }));
            }
            Command::Call { to, id, call } => {
                let server = (0..self.servers.len()).find(|number| name(*number) == to.name).unwrap();
                if self.silent.contains(&server) {
                    return;
                }
                let reply = token(server, &id);
                let event = match call {
                    Call::Prepare(subjob) => SubjobEvent::Prepare { reply, subjob },
                    Call::Decide(decision) => {
                        SubjobEvent::Decided { reply: Some(reply), id, decision, end_acknowledged: false }
                    }
                };
                messages.push_back(Message::Server(server, server::Event::Subjob(event)));
            }
            Command::Archive(record) => self.archived.push(*record),
        }
    }

    fn carry_out_of_server(
        &mut self,
        server: usize,
        command: server::Command,
        messages: &mut VecDeque<Message>,
    ) {
        let from = name(server);
        match command {
            server::Command::Reply { to, answer: server::Answer::Subjob(state) }
                if !self.silent.contains(&server) =>
            {
                let (_, id) = subjob_of(to);
                messages.push_back(Message::Coordinator(Event::SubjobStatus {
                    from,
                    id,
                    state,
                    reply: None,
                }));
            }
            server::Command::Subjob(SubjobCommand::Report { id, state, .. })
                if !self.silent.contains(&server) =>
            {
                let reply = Some(token(server, &id));
                messages.push_back(Message::Coordinator(Event::SubjobStatus { from, id, state, reply }));
            }
            server::Command::Subjob(SubjobCommand::Locate { id }) if !self.unlocated.contains(&server) => {
                let subjob = self.servers[server].subjobs().find(|(subjob, ..)| subjob.id == id).unwrap().0;
                let address = |task: &PlacedTask| (task.name.clone(), format!("{from}:{}", task.name));
                let addresses = Ok(subjob.tasks.iter().map(address).collect());
                let located = SubjobEvent::Located { id, addresses };
                messages.push_back(Message::Server(server, server::Event::Subjob(located)));
            }
            server::Command::Batch(batch::Command::Run(run)) => {
                let (subjob, peers) = self.servers[server].subjob(run.job.0).unwrap();
                self.started.push((server, run.job.0, subjob.clone(), peers.clone()));
            }
            server::Command::Batch(batch::Command::Terminate { job }) => {
                self.terminated.push((server, job.0));
                messages.push_back(Message::Server(server, ended(job.0, Exit::Cancelled)));
            }
            _ => {}
        }
    }

    /// Ends every started process with this exit code.
    fn all_end(&mut self, code: i32) {
        for (server, number, ..) in self.started.clone() {
            self.handle_at_server(server, ended(number, Exit::Code(code)));
        }
    }

    fn record(&self) -> LaunchRecord {
        self.coordinator.record(&id(), &caller("alice")).unwrap()
    }

    /// Checks that the launch has ended this way and nothing of it is left.
    fn is_over(&mut self, end: &LaunchEnd) {
        self.pass(10);
        let record = self.record();
        assert_eq!((record.state, record.end.as_ref()), (LaunchState::Over, Some(end)), "{record:?}");
        assert_eq!(self.archived.len(), 1);
        for server in &self.servers {
            let Usage { free, running, waiting } = server.usage();
            assert_eq!((free, running, waiting, server.unacknowledged_subjobs()), (server.procs(), 0, 0, 0));
        }
    }
}

fn ended(number: u32, exit: Exit) -> server::Event {
    server::Event::Batch(batch::Event::Ended { job: JobId(number), exit, elapsed_ms: None })
}
