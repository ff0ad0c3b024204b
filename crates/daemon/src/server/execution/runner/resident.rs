//! Calls of typed services: those of resident processes wait for their turns, and are handed over. What calls leave at the server is kept.

use std::sync::Arc;

use pliant_control::job::JobRecord;
use pliant_site::processes::{self, ProcessState, ResidentSpec, Running, SpawnError};
use pliant_site::services::PreparedCall;
use tokio::sync::watch;

use super::super::{End, Execution, Failure, Host, Program, Work, blocking};
use super::{AGAIN, Observer, Runner};
use crate::host::stopped;

/// A call of a typed service.
pub(super) struct CallRun {
    record: JobRecord,
    program: Program,
    call: PreparedCall,
}

impl CallRun {
    /// Whether a resident process carries it out.
    pub(super) fn is_resident(&self) -> bool {
        self.call.resident.is_some()
    }
}

impl Execution {
    /// Whether a resident process carries it out.
    pub(in crate::server) fn is_resident(&self) -> bool {
        self.call().is_some_and(|call| call.is_resident())
    }

    /// The call that it is; none of others, and of one that cannot be read.
    pub(super) fn call(&self) -> Option<CallRun> {
        let Work::Job(record, program) = &self.work else { return None };
        let program: Program = program.read().ok()?;
        let call = program.prepared.call.as_deref()?.clone();
        Some(CallRun { record: (**record).clone(), program, call })
    }
}

impl<O: Observer> Runner<O> {
    /// Takes the data that a call has left, before anything else is notified of its end.
    pub(super) async fn keep_data(&self, execution: &Execution, call: &CallRun, end: &End) {
        let is_success = matches!(end, End::Recorded { exit, .. } if exit.is_success());
        if !is_success || call.call.kept.is_empty() {
            return;
        }
        let (data, owner, kept) = (self.host.data.clone(), call.record.owner.clone(), call.call.kept.clone());
        let taken = blocking(&execution.dir, move |dir| data.take(&owner, dir, &kept)).await;
        if let Err(error) = taken {
            tracing::warn!(job = %execution, %error, "the data of a call cannot be kept: calls that name them are refused");
        }
    }

    /// What the folder of a call says; none once it is ready for a call that was never started.
    async fn prepared(
        &self,
        execution: &Arc<Execution>,
        call: &Arc<CallRun>,
    ) -> Result<Option<ProcessState>, Failure> {
        let (own, what, of) = (self.clone(), execution.clone(), call.clone());
        let prepare = move || {
            // What cannot be seen proves nothing, least of all that it may be started.
            let unseen = |error| Failure { may_pass: true, ..SpawnError::from(error).into() };
            match processes::find(&what.dir).map_err(unseen)? {
                ProcessState::NeverStarted => {
                    what.prepare_call(&own.host, (&of.record, &of.program), &of.call).map(|()| None)
                }
                found => Ok(Some(found)),
            }
        };
        match tokio::task::spawn_blocking(prepare).await {
            Ok(prepared) => prepared,
            Err(error) if error.is_panic() => {
                Err(Failure::lasting("internal error, the server's log says more"))
            }
            // The runtime is shutting down, and this task with it.
            Err(_) => std::future::pending().await,
        }
    }

    /// Hands a call over to its resident process once its turn has come and its folder is ready. If the call cannot have been started before,
    /// the folder is made ready while other calls have their turns, or by the supervisor if the call has no files.
    pub(super) async fn started_resident(
        &self,
        execution: &Arc<Execution>,
        (call, may_be_there): (&Arc<CallRun>, bool),
        stopping: &watch::Receiver<bool>,
    ) -> Result<Running, End> {
        let failed = |failure: Failure| {
            tracing::warn!(job = %execution, error = failure.reason, "cannot be started");
            End::NotStarted(failure.public)
        };
        let program = &call.program;
        let spec = resident_spec(&self.host, program, &call.call);
        let home = self.host.resident_dir(&program.prepared.name);
        let command: Vec<_> =
            self.host.supervisor.iter().take(1).cloned().chain(["run-resident".into()]).collect();
        let mut warned = false;
        let mut new = (!may_be_there && program.inputs.is_empty())
            .then(|| execution.new_call(&self.host, (&call.record, program), &call.call));
        let mut early = match may_be_there || new.is_some() {
            true => None,
            false => Some(self.prepared(execution, call).await),
        };
        loop {
            let turn = tokio::select! {
                turn = self.host.residents.turn(&program.prepared.name) => turn,
                () = stopped(stopping.clone()) => return Err(End::Cancelled),
            };
            let prepared = match early.take() {
                Some(prepared) => prepared,
                None if new.is_some() => Ok(None),
                None => self.prepared(execution, call).await,
            };
            let is_stopping = *stopping.borrow();
            let started = match prepared {
                Ok(Some(ProcessState::Running(running))) => return Ok(running),
                Ok(Some(ProcessState::Ended(exit))) => {
                    return Err(End::Recorded { exit, asked: is_stopping, earlier: true });
                }
                Ok(Some(ProcessState::Lost(why))) => return Err(why.into()),
                _ if is_stopping => return Err(End::Cancelled),
                Ok(Some(ProcessState::NeverStarted) | None) => {
                    tracing::info!(job = %execution, request = program.request, "call");
                    self.observer.starting(execution);
                    let started =
                        turn.hand_over((&command, &home), &spec, &execution.dir, new.take()).await;
                    started.map_err(Failure::from)
                }
                Err(failure) => Err(failure),
            };
            match started {
                Ok(running) => return Ok(running),
                Err(failure) if !failure.may_pass => return Err(failed(failure)),
                Err(failure) if !std::mem::replace(&mut warned, true) => {
                    tracing::warn!(job = %execution, reason = failure.reason, "cannot be started at the moment: tried again until it can");
                }
                Err(_) => {}
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}

/// The resident process of a service, the same for all of its calls.
fn resident_spec(host: &Host, program: &Program, call: &PreparedCall) -> ResidentSpec {
    let (command, env) = call.resident_command();
    ResidentSpec {
        program: command,
        env,
        idle_s: call.resident.as_ref().map_or(1, |resident| resident.idle_s),
        grace_s: u64::from(host.cluster.grace_s),
        max_output_bytes: program.max_output_bytes(),
        limits: host.cluster.limits.of(program.prepared.work.procs.0),
    }
}
