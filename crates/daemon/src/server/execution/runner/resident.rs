//! Calls of resident processes: each waits for its turn, and is handed over.

use std::sync::Arc;

use pliant_control::job::JobRecord;
use pliant_site::processes::{ResidentSpec, Running};
use pliant_site::services::PreparedCall;
use tokio::sync::watch;

use super::super::{End, Execution, Failure, Host, Program, Work};
use super::{AGAIN, Observer, Runner};
use crate::host::stopped;

impl Execution {
    /// Whether a resident process carries it out.
    pub(in crate::server) fn is_resident(&self) -> bool {
        matches!(self.resident_call(), Ok(Some(_)))
    }

    /// The call that a resident process carries out; none of others.
    fn resident_call(&self) -> Result<Option<(&JobRecord, Program)>, Failure> {
        let Work::Job(record, program) = &self.work else { return Ok(None) };
        let program: Program = program.read()?;
        let is_resident = program.prepared.call.as_ref().is_some_and(|call| call.resident.is_some());
        Ok(is_resident.then_some((&**record, program)))
    }
}

impl<O: Observer> Runner<O> {
    /// Hands a call over to its resident process once its turn has come and its folder is ready.
    pub(super) async fn started_resident(
        &self,
        execution: &Arc<Execution>,
        stopping: &watch::Receiver<bool>,
    ) -> Result<Running, End> {
        let failed = |failure: Failure| {
            tracing::warn!(job = %execution, error = failure.reason, "cannot be started");
            End::NotStarted(failure.public)
        };
        let (record, program) = match execution.resident_call() {
            Ok(Some(found)) => found,
            Ok(None) => return Err(End::NotStarted("it is no call".to_owned())),
            Err(failure) => return Err(failed(failure)),
        };
        let Some(call) = program.prepared.call.clone() else {
            return Err(End::NotStarted("it is no call".to_owned()));
        };
        let (record, program) = (Arc::new(record.clone()), Arc::new(program));
        let spec = resident_spec(&self.host, &program, &call);
        let home = self.host.resident_dir(&program.prepared.name);
        let command: Vec<_> =
            self.host.supervisor.iter().take(1).cloned().chain(["run-resident".into()]).collect();
        let mut warned = false;
        loop {
            let turn = tokio::select! {
                turn = self.host.residents.turn(&program.prepared.name) => turn,
                () = stopped(stopping.clone()) => return Err(End::Cancelled),
            };
            let (own, what, of, call) =
                (self.clone(), execution.clone(), (record.clone(), program.clone()), call.clone());
            let prepare = move || what.prepare_call(&own.host, (&of.0, &of.1), &call);
            let prepared = match tokio::task::spawn_blocking(prepare).await {
                Ok(prepared) => prepared,
                Err(error) if error.is_panic() => {
                    Err(Failure::lasting("internal error, the server's log says more"))
                }
                // The runtime is shutting down, and this task with it.
                Err(_) => std::future::pending().await,
            };
            if *stopping.borrow() {
                return Err(End::Cancelled);
            }
            let started = match prepared {
                Ok(()) => {
                    tracing::info!(job = %execution, request = program.request, "call");
                    self.observer.starting(execution);
                    turn.hand_over((&command, &home), &spec, &execution.dir).await.map_err(Failure::from)
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
