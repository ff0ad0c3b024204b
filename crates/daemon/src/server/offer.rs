//! What a server makes of a request: the same for a question and for a submission.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pliant_control::agent::{ChildKind, DiscoveryQuery, DiscoveryResult, DiscoverySubject};
use pliant_control::handoff::{MoveOutcome, MoveProposal, StayReason};
use pliant_control::job::Work;
use pliant_control::names::{Handle, Name, User};
use pliant_control::reason::{Cause, Reason};
use pliant_control::server::{Answer, Event, Server};
use pliant_control::server_info::ServerInfo;
use pliant_control::shared_folder::{SharedFileSystems, SharedFolder};
use pliant_journal::Filter;
use pliant_model::{Procs, Span, Speed, Time};
use pliant_policy::discovery::Summary;
use pliant_site::accounts::AccountName;
use pliant_site::processes::Streams;
use pliant_site::services::{
    Batch, Catalogue, Prepared, Refusal, RunFolder, Script, Service as ServiceDeclaration, SpeedupSpec,
    batch_margin, task_variables,
};
use pliant_staging::FileName;
use pliant_telemetry::RequestId;
use pliant_transport::ClientTls;
use pliant_wire::{Executable, InstanceBatch, InstanceCall, SubmittedWork};
use tokio::sync::watch;
use tonic::Status;

use super::accounts::Accounts;
use super::closures::Closures;
use super::cluster::FreshListings;
use super::comparison::Comparison;
use super::service::stopping;
use crate::host::{Mailbox, Replies, Stopped};
use crate::uplink::{Child, JobsInMemory, Upward};

/// What a server is to others, and what it offers.
#[derive(Clone, Debug)]
pub(super) struct ServiceOffer {
    pub(super) info: ServerInfo,
    pub(super) catalogue: Arc<Catalogue>,
    /// As which accounts users' jobs run.
    pub(super) accounts: Arc<Accounts>,
    /// The path of this program, for services that use it.
    pub(super) pliant: String,
    /// Seconds between TERM and KILL.
    pub(super) grace_s: u32,
    /// The file systems that it shares with its users.
    pub(super) shared: Arc<SharedFileSystems>,
}

/// What a request runs.
pub(super) struct PreparedWork {
    pub(super) prepared: Prepared,
    /// The instances, if it is a batch.
    pub(super) batch: Option<Batch>,
    /// The account as which it runs; none if that is the server's own user.
    pub(super) account: Option<AccountName>,
}

impl ServiceOffer {
    /// What a request runs.
    pub(super) fn prepare(
        &self,
        what: &SubmittedWork,
        user: &User,
        learned: Option<Span>,
    ) -> Result<PreparedWork, Refusal> {
        let account = self.accounts.of_owner(user)?;
        match what {
            SubmittedWork::Service { name, arguments } => {
                let service = untyped(self.catalogue.find(name, user)?)?;
                let prepared = service.prepare(arguments, &self.pliant, learned)?;
                Ok(PreparedWork { prepared, batch: None, account })
            }
            SubmittedWork::Call(call) => {
                let service = self.catalogue.find(&call.service, user)?;
                let prepared = service.prepare_call(call, &self.pliant, learned)?;
                Ok(PreparedWork { prepared, batch: None, account })
            }
            SubmittedWork::Batch(batch) => {
                let InstanceBatch { executable, arguments, varied, instances, inputs_key: batch_inputs } =
                    batch;
                let parameters = arguments.keys().chain(varied).map(String::as_str).collect();
                let (place, folder) = self.instance_folder(executable)?;
                let service = self.service(executable, &parameters, place, user)?;
                let calls = instances.iter();
                let calls = calls.map(|InstanceCall { number, values }| (*number, values.clone()));
                let (mut prepared, mut batch) =
                    service.prepare_batch(arguments, varied, calls, &self.pliant, learned)?;
                if let Executable::Script(script) = executable {
                    prepared.work = needed(prepared.work, &script.work);
                    if folder.is_some() && batch_inputs.is_some() {
                        return Err(Refusal::InputsInPlace);
                    }
                    // In a folder of the user's own it is there already.
                    prepared.inputs.extend(script.stdin.iter().filter(|_| folder.is_none()).cloned());
                    let streams = Streams { stdin: script.stdin.clone(), merge_output: script.merge_output };
                    batch = batch.of_script(script.text.clone(), folder, streams);
                }
                let margin = self.margin(&prepared.work);
                Ok(PreparedWork { prepared: prepared.with_margin(margin), batch: Some(batch), account })
            }
            SubmittedWork::Script(script) => {
                let name: FileName = script.name.parse().map_err(|_| Refusal::Value {
                    argument: "script".to_owned(),
                    expected: "the name of a file".to_owned(),
                    found: script.name.clone(),
                })?;
                let Work { procs, walltime, speedup, .. } = script.work.clone();
                let given = Script {
                    name: &name,
                    content: script.text.as_bytes(),
                    arguments: &script.arguments,
                    speedup: SpeedupSpec { speedup, procs },
                    walltime,
                    folder: script.folder.as_ref().map(|folder| self.in_place(folder)).transpose()?,
                    environment: &script.environment,
                    streams: Streams { stdin: script.stdin.clone(), merge_output: script.merge_output },
                };
                let mut prepared = self.catalogue.prepare_script(&given, None, None)?;
                prepared.work = needed(prepared.work, &script.work);
                prepared.environment.extend(task_variables(script.text.as_bytes(), &prepared.work));
                Ok(PreparedWork { prepared, batch: None, account })
            }
        }
    }

    /// What one run of an executable with these arguments is, in a folder of that kind.
    pub(super) fn prepare_run(
        &self,
        executable: &Executable,
        arguments: &BTreeMap<String, String>,
        (folder, user): (RunFolder, &User),
        learned: Option<Span>,
    ) -> Result<PreparedWork, Refusal> {
        let account = self.accounts.of_owner(user)?;
        let parameters = arguments.keys().map(String::as_str).collect();
        let service = self.service(executable, &parameters, folder, user)?;
        let mut prepared = service.prepare(arguments, &self.pliant, learned)?;
        if let Some(script) = executable.script() {
            prepared.work = needed(prepared.work, &script.work);
        }
        Ok(PreparedWork { prepared, batch: None, account })
    }

    /// Makes sure that a user may have an executable run here, whatever its arguments are.
    pub(super) fn offers(&self, executable: &Executable, user: &User) -> Result<(), Refusal> {
        match executable {
            Executable::Service(name) => self.catalogue.find(name, user).map(drop),
            Executable::Script(_) if self.catalogue.takes_scripts() => Ok(()),
            Executable::Script(_) => Err(Refusal::NoScripts),
        }
    }

    /// Where the instances of an executable run: each in a folder of its own, or all in one of the user's own, whose path here it is.
    pub(super) fn instance_folder(
        &self,
        executable: &Executable,
    ) -> Result<(RunFolder, Option<PathBuf>), Refusal> {
        match executable.script().and_then(|script| script.folder.as_ref()) {
            Some(folder) => Ok((RunFolder::Work, Some(self.in_place(folder)?))),
            None => Ok((RunFolder::OfInstance, None)),
        }
    }

    /// The service of an executable: of this server, or the user's script with these parameters.
    fn service(
        &self,
        executable: &Executable,
        parameters: &BTreeSet<&str>,
        folder: RunFolder,
        user: &User,
    ) -> Result<Cow<'_, ServiceDeclaration>, Refusal> {
        match executable {
            Executable::Service(name) => untyped(self.catalogue.find(name, user)?).map(Cow::Borrowed),
            Executable::Script(script) => {
                self.catalogue.script_service(script, parameters, folder).map(Cow::Owned)
            }
        }
    }

    /// How much longer the walltime of a batch is than those of its instances, as its work is sized.
    pub(super) fn margin(&self, work: &Work) -> Span {
        batch_margin(self.grace_s, if work.fixed_time { Speed::REFERENCE } else { self.info.speed })
    }

    /// Where a folder of a user's own is on this cluster.
    fn in_place(&self, folder: &SharedFolder) -> Result<PathBuf, Refusal> {
        let file_system = || folder.file_system.clone();
        self.shared.path_of(folder).ok_or_else(|| Refusal::NotShared { file_system: file_system() })
    }

    /// The runtime of a user's next run of a service by finished runs, if it is learned.
    pub(super) async fn learned(
        &self,
        service: &str,
        user: &User,
        mailbox: &Mailbox<Server>,
    ) -> Option<Span> {
        if !self.catalogue.is_learned(service) {
            return None;
        }
        let (name, user) = (service.to_owned(), user.clone());
        // A server that is stopping says so elsewhere.
        mailbox.ask_briefly(move |server, _| server.learned(&name, &user)).await.ok().flatten()
    }

    /// The shape of what is asked for.
    fn work(&self, what: &DiscoverySubject, user: &User, learned: Option<Span>) -> Result<Work, Reason> {
        let refused = |refusal: Refusal| refusal.cause().because(refusal.to_string());
        if !matches!(what, DiscoverySubject::Snapshots | DiscoverySubject::Move(_)) {
            self.accounts.of_owner(user).map_err(refused)?;
        }
        match what {
            DiscoverySubject::Work(work) if self.catalogue.takes_scripts() => Ok(work.clone()),
            DiscoverySubject::InPlace { work, folder } if self.catalogue.takes_scripts() => {
                self.in_place(folder).map(|_| work.clone()).map_err(refused)
            }
            DiscoverySubject::Work(_) | DiscoverySubject::InPlace { .. } => Err(refused(Refusal::NoScripts)),
            DiscoverySubject::Snapshots | DiscoverySubject::Move(_) => {
                Err(Cause::Invalid.because("it is no work"))
            }
            DiscoverySubject::Service { name, arguments } => {
                let service = self.catalogue.find(name, user).map_err(refused)?;
                let prepared = service.prepare(arguments, &self.pliant, learned);
                prepared.map(|prepared| prepared.work).map_err(refused)
            }
        }
    }
}

/// The service, if it takes arguments by name: a typed service is called with values.
fn untyped(service: &ServiceDeclaration) -> Result<&ServiceDeclaration, Refusal> {
    match service.call {
        None => Ok(service),
        Some(_) => Err(Refusal::OnlyCalls { service: service.name.clone() }),
    }
}

/// Work of that size, with all else that its user asks for.
fn needed(Work { procs, walltime, speedup, .. }: Work, asked: &Work) -> Work {
    Work { procs, walltime, speedup, ..asked.clone() }
}

/// A server as the child of its agent.
#[derive(Clone)]
pub(super) struct ServerChild {
    pub(super) offer: ServiceOffer,
    /// The listings of a batch system that is not the embedded one.
    pub(super) fresh: Option<FreshListings>,
    pub(super) journal: u64,
    pub(super) comparison: Comparison,
    pub(super) mailbox: Mailbox<Server>,
    pub(super) upward: Upward,
    /// Calls that wait for an answer.
    pub(super) replies: Replies<Answer>,
    /// Whether the server knows which numbers its jobs may have.
    pub(super) numbered: watch::Sender<bool>,
    /// The processors that no job uses.
    pub(super) free: FreeProcs,
    /// Whether an operator has drained the server.
    pub(super) closures: Closures,
    pub(super) tls: Arc<ClientTls>,
}

/// The free processors of a cluster, as its driver last knew them.
#[derive(Clone)]
pub(super) struct FreeProcs(Arc<AtomicU32>);

impl FreeProcs {
    pub(super) fn new(procs: Procs) -> FreeProcs {
        FreeProcs(Arc::new(AtomicU32::new(procs.0)))
    }

    pub(super) fn set(&self, procs: Procs) {
        self.0.store(procs.0, Ordering::Relaxed);
    }

    fn get(&self) -> Procs {
        Procs(self.0.load(Ordering::Relaxed))
    }
}

impl Child for ServerChild {
    fn name(&self) -> Name {
        self.offer.info.name.clone()
    }

    fn kind(&self) -> ChildKind {
        ChildKind::Server
    }

    fn journal(&self) -> u64 {
        self.journal
    }

    async fn servers(&self) -> Vec<ServerInfo> {
        // How many processors it has is known when they were listed.
        match self.mailbox.ask(|server, _| server.procs()).await {
            Ok(procs) => vec![ServerInfo { procs, ..self.offer.info.clone() }],
            Err(Stopped) => Vec::new(),
        }
    }

    async fn asked(&self, discovery: u64, ask: DiscoveryQuery, request: RequestId) {
        match ask.subject {
            // That takes as long as the batch system does: the connection goes on meanwhile.
            DiscoverySubject::Move(_) => {
                let own = self.clone();
                tokio::spawn(async move { own.reply(discovery, &ask, &request).await });
            }
            _ => self.reply(discovery, &ask, &request).await,
        }
    }

    fn free(&self) -> Vec<(Name, Procs)> {
        vec![(self.name(), self.free.get())]
    }

    fn drained(&self) -> Vec<Name> {
        if self.closures.is_drained() { vec![self.name()] } else { Vec::new() }
    }

    async fn summary(&self) -> Option<Summary> {
        self.mailbox.ask(|server, now| server.summary(now)).await.ok()
    }

    fn certificates(&self) -> (Option<Time>, Vec<(Name, Time)>) {
        (Some(self.tls.own().not_after), Vec::new())
    }

    fn acknowledged(&self, sequence: u64) {
        self.mailbox.acknowledged(sequence);
    }

    async fn jobs_after(&self, after: Option<Handle>, limit: usize) -> Result<JobsInMemory, Status> {
        let (own, after) = (self.name(), after.map_or(0, |after| after.number));
        let jobs = move |server: &mut Server, _| {
            let page: Vec<_> = server.jobs_after(after).take(limit).collect();
            let last = page.last().map(|(number, _)| Handle { server: own.clone(), number: *number });
            let here = page.into_iter().map(|(_, job)| job).filter(|job| *job.server() == own);
            JobsInMemory { jobs: here.cloned().collect(), last }
        };
        self.mailbox.ask(jobs).await.map_err(|Stopped| stopping())
    }

    fn archived_jobs(&self) -> Filter {
        Filter { server: Some(self.name().to_string()), ..Filter::default() }
    }

    fn compared(&self, compared: Result<(), (u64, u64)>) {
        let (comparison, mailbox) = (self.comparison.clone(), self.mailbox.clone());
        tokio::spawn(async move {
            // Another host that has taken the journal over uses the same folder.
            mailbox.leads().await;
            comparison.compared(compared);
        });
    }

    fn unnumbered(&self) -> Option<Name> {
        (!*self.numbered.borrow()).then(|| self.name())
    }

    async fn numbered(&self, server: Name, highest: u32) {
        if server == self.name() && self.unnumbered().is_some() {
            tracing::info!(
                highest,
                "the journal is new: the agents above send the job numbers that are in use"
            );
            // A server that has stopped asks again when it starts.
            if self.mailbox.send(Event::Numbered { highest }).is_ok() {
                // What is submitted from now on is journaled after that.
                self.numbered.send_replace(true);
            }
        }
    }
}

impl ServerChild {
    /// Answers what the parent asked.
    async fn reply(&self, discovery: u64, ask: &DiscoveryQuery, request: &RequestId) {
        let found = self.answer(ask).await.unwrap_or_else(|why| {
            let refusals = vec![(self.name(), why)];
            DiscoveryResult { refusals, ..DiscoveryResult::default() }
        });
        request.span().in_scope(|| {
            let completion = found.vectors.first().map(|vector| vector.estimate.completion().0);
            let refused = found.refusals.first().map(|(_, reason)| reason.why.as_str());
            // The agent logs the outcome of the whole discovery; this would be a log line per server and question.
            tracing::debug!(user = %ask.caller.user, completion, refused, "asked by the parent");
        });
        self.upward.answer(discovery, found);
    }

    /// Has the machine carry out what an agent proposes, as far as it sees fit.
    async fn propose_move(&self, proposal: Box<MoveProposal>) -> Result<MoveOutcome, Stopped> {
        let reply = self.replies.wait();
        let limit = Duration::from_secs(proposal.timeout.0.unsigned_abs() + 5);
        tracing::info!(job = %proposal.job, to = %proposal.to, "the agent proposes to move a job");
        self.mailbox.send(Event::ProposeMove { reply: reply.token(), proposal })?;
        match reply.within(limit).await {
            Ok(Answer::MoveOutcome(outcome)) => Ok(outcome),
            _ => Ok(MoveOutcome::Stays(StayReason::NoAnswer)),
        }
    }

    /// What a question to this server leads to. One with which an agent proposes a move is answered when the job has been
    /// handed over, or stays.
    async fn answer(&self, ask: &DiscoveryQuery) -> Result<DiscoveryResult, Reason> {
        let stopping = |_| Cause::Stopping.because("is stopping");
        if let (Some(fresh), false) = (&self.fresh, matches!(ask.subject, DiscoverySubject::Move(_))) {
            fresh.refresh().await;
        }
        match &ask.subject {
            DiscoverySubject::Snapshots => {
                let info = self.offer.info.clone();
                let snapshot = self.mailbox.glance(move |server, now| server.snapshot(now, &info)).await;
                return Ok(DiscoveryResult {
                    snapshots: vec![snapshot.map_err(stopping)?],
                    ..DiscoveryResult::default()
                });
            }
            DiscoverySubject::Move(proposal) => {
                let outcome = self.propose_move(proposal.clone()).await.map_err(stopping)?;
                return Ok(DiscoveryResult { outcome: Some(outcome), ..DiscoveryResult::default() });
            }
            DiscoverySubject::Work(_)
            | DiscoverySubject::InPlace { .. }
            | DiscoverySubject::Service { .. } => {}
        }
        let learned = match &ask.subject {
            DiscoverySubject::Service { name, .. } => {
                self.offer.learned(name, &ask.caller.user, &self.mailbox).await
            }
            DiscoverySubject::Work(_)
            | DiscoverySubject::InPlace { .. }
            | DiscoverySubject::Snapshots
            | DiscoverySubject::Move(_) => None,
        };
        let work = self.offer.work(&ask.subject, &ask.caller.user, learned)?;
        let info = self.offer.info.clone();
        let user = ask.caller.user.clone();
        let question = move |server: &mut Server, now| server.answer(now, &info, &user, &work);
        self.mailbox.glance(question).await.map_err(|_| Cause::Stopping.because("is stopping"))
    }
}
