//! The folder of an execution, made ready to be run. Doing it again does no harm.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pliant_control::batch::external;
use pliant_control::exact_text::ExactText;
use pliant_control::job::JobRecord;
use pliant_control::names::Key;
use pliant_site::processes::{CallSpec, NewCall, RunSpec, TaskList, put_call};
use pliant_site::services::{PreparedCall, has_slurm_lines};
use pliant_site::{JobFiles, JobFolder};
use pliant_staging::{FileSpec, SHARED, UploadSet, WORK, copy_inputs, put_script, put_tasks};
use pliant_wire::bounds::OUTPUT_BYTES_MAX;

use super::submitted_file::{keep_submitted, submitted_text};
use super::{Allocation, Execution, Failure, Host, Program, Request, Work};

/// Bytes for the notice that ends an output which was cut.
const NOTICE_BYTES: usize = 1_024;

/// What is known of an execution whose folder is ready.
#[derive(Clone, Default, Debug)]
pub(in crate::server) struct Ready {
    /// It is a batch of instances.
    pub(in crate::server) is_batch: bool,
    /// Ties its log lines together; empty if that is not known.
    pub(in crate::server) request: String,
}

impl Execution {
    /// Makes its folder ready to be run; in any of several sizes if there are some, of which its batch system chooses one.
    pub(in crate::server) fn prepare(&self, host: &Host, sizes: &[Allocation]) -> Result<Ready, Failure> {
        match &self.work {
            Work::Job(record, program) => {
                let program: Program = program.read()?;
                self.prepare_job(host, record, &program, sizes)?;
                Ok(Ready { is_batch: program.batch.is_some(), request: program.request })
            }
            Work::Subjob(subjob) => {
                subjob.prepare(host, &self.allocation, &self.dir)?;
                Ok(Ready::default())
            }
            Work::Request(request) => {
                self.prepare_request(host, request)?;
                Ok(Ready { is_batch: false, request: request.program.request.clone() })
            }
            Work::Pause(_) => Ok(Ready::default()),
        }
    }

    /// Notes in the records as which account it runs, so that the folder of the account is found.
    pub(in crate::server) fn note_account(&self, host: &Host) -> Result<(), Failure> {
        let account = host.account_run(self.account()?.as_deref(), &self.dir)?;
        if account.is_none() || JobFolder::at(&self.dir)?.account().is_some() {
            return Ok(());
        }
        // Nothing runs by this: what runs is in the folder of the account.
        let program = vec![host.pliant()];
        Ok(RunSpec { program, account, ..self.allocation.spec(host) }.write(&self.dir)?)
    }

    fn prepare_job(
        &self,
        host: &Host,
        record: &JobRecord,
        program: &Program,
        sizes: &[Allocation],
    ) -> Result<(), Failure> {
        let (dir, Allocation { procs, walltime, .. }) = (&self.dir, &self.allocation);
        let spec = self.job_spec(host, record, program, &self.allocation)?;
        let mut specs = Vec::new();
        for size in sizes {
            let sized = self.job_spec(host, record, program, size)?;
            match of_account(&sized) {
                Some(sized) => specs.push((Some(size.procs.0), sized)),
                None => sized.write_sized(dir, size.procs.0)?,
            }
        }
        spec.write(dir)?;
        if let Some(submitted) = program.submitted_job(record.pinned) {
            keep_submitted(dir, submitted)?;
        }
        specs.extend(of_account(&spec).map(|spec| (None, spec)));
        let own = if program.shared.is_none() { program.inputs.as_slice() } else { &[] };
        // A job that may run again keeps its files as they are: each run gets copies.
        let is_kept = record.work.requeue > 0 && !own.is_empty();
        let from = if is_kept { host.kept_inputs(&record.handle) } else { dir.clone() };
        host.store.adopt(&host.sent_files(&record.owner, record.key, &record.hops), own, &from)?;
        if let Some(key) = program.shared {
            let shared = UploadSet::of_owner(record.owner.clone(), key);
            host.store.share(&shared, &program.inputs, dir)?;
        }
        let script = program.script_text().map(ExactText::as_bytes);
        let tasks = program.batch.as_ref().map(|batch| {
            let grace_s = u64::from(host.cluster.grace_s);
            let inputs = program.inputs.iter().map(|file| file.name.clone()).collect();
            TaskList::Batch(batch.spec(&program.prepared.work, *procs, *walltime, grace_s, inputs)).text()
        });
        let call = program.prepared.call.as_ref();
        let tasks = tasks.or_else(|| {
            let grace_s = u64::from(host.cluster.grace_s);
            let data = |key: &Key| host.data.path(&record.owner, key);
            call.map(|call| TaskList::Call(Box::new(call.spec((*procs, *walltime), grace_s, data))).text())
        });
        if spec.account.is_some() {
            let shared = if program.shared.is_some() { program.inputs.as_slice() } else { &[] };
            let has_records = !specs.is_empty();
            let files = JobFiles {
                specs,
                script: script.map(<[u8]>::to_vec),
                tasks,
                inputs: located(own, &from.join(WORK)),
                shared: located(shared, &dir.join(SHARED)),
            };
            JobFolder::at(dir)?.give(&files)?;
            // The account has them now. What is left here does no harm. A job that waits in an external batch system may move: then they
            // are sent from here, where the user cannot have changed them.
            if !has_records && !is_kept {
                let _ = fs::remove_dir_all(dir.join(WORK));
            }
            return Ok(());
        }
        if is_kept {
            copy_inputs(dir, own, &from.join(WORK))?;
        }
        if let Some(script) = script {
            put_script(dir, script)?;
        }
        if let Some(tasks) = tasks {
            put_tasks(dir, &tasks)?;
        }
        Ok(())
    }

    fn call_spec(&self, host: &Host, record: &JobRecord, call: &PreparedCall) -> CallSpec {
        let Allocation { procs, walltime, .. } = &self.allocation;
        let data = |key: &Key| host.data.path(&record.owner, key);
        call.spec((*procs, *walltime), u64::from(host.cluster.grace_s), data)
    }

    /// What the supervisor of a resident process needs to make the folder of a call, which has no input files.
    pub(in crate::server) fn new_call(
        &self,
        host: &Host,
        (record, program): (&JobRecord, &Program),
        call: &PreparedCall,
    ) -> NewCall {
        let submitted = program.submitted_job(record.pinned).map(submitted_text);
        NewCall { call: self.call_spec(host, record, call), submitted }
    }

    /// Makes the folder of a call for a resident process ready.
    pub(in crate::server) fn prepare_call(
        &self,
        host: &Host,
        (record, program): (&JobRecord, &Program),
        call: &PreparedCall,
    ) -> Result<(), Failure> {
        let dir = &self.dir;
        let failed = |error: io::Error| Failure::of_files("its files cannot be put in place", &error);
        put_call(dir, self.call_spec(host, record, call)).map_err(failed)?;
        if let Some(submitted) = program.submitted_job(record.pinned) {
            keep_submitted(dir, submitted)?;
        }
        let inputs = program.inputs.as_slice();
        if inputs.is_empty() {
            return Ok(());
        }
        // A job that may run again keeps its files as they are: each run gets copies.
        let is_kept = record.work.requeue > 0;
        let from = if is_kept { host.kept_inputs(&record.handle) } else { dir.clone() };
        host.store.adopt(&host.sent_files(&record.owner, record.key, &record.hops), inputs, &from)?;
        if is_kept {
            copy_inputs(dir, inputs, &from.join(WORK))?;
        }
        Ok(())
    }

    fn job_spec(
        &self,
        host: &Host,
        record: &JobRecord,
        program: &Program,
        allocation: &Allocation,
    ) -> Result<RunSpec, Failure> {
        let own = [
            ("PLIANT_JOB", record.handle.to_string()),
            ("PLIANT_OWNER", record.owner.to_string()),
            ("PLIANT_REQUEUES", record.requeues.to_string()),
        ];
        let account = host.account_run(program.account.as_deref(), &self.dir)?;
        let mut spec = program.spec(host, allocation, own);
        let of_sbatch = program.script_text().is_some_and(|text| has_slurm_lines(text.as_bytes()));
        // In front of Slurm they are Slurm's, by which `srun` finds its job.
        if of_sbatch && host.cluster.policy() != external::SLURM {
            spec.env.insert("SLURM_JOB_ID".to_owned(), record.handle.to_string());
            spec.env.insert("SLURM_JOB_NAME".to_owned(), record.name.clone());
        }
        Ok(RunSpec { account, ..spec })
    }

    /// What an earlier run of unknown outcome has left goes first.
    fn prepare_request(&self, host: &Host, request: &Request) -> Result<(), Failure> {
        let Request { key, owner, program } = request;
        let own = [
            ("PLIANT_OWNER", owner.to_string()),
            ("PLIANT_EXPLORATION", key.exploration.to_string()),
            ("PLIANT_NUMBER", key.number.to_string()),
        ];
        let mut spec = program.spec(host, &self.allocation, own);
        // Its output is sent in one message.
        spec.max_output_bytes = spec.max_output_bytes.min((OUTPUT_BYTES_MAX - NOTICE_BYTES) as u64);
        let failed = |error: io::Error| Failure::of_files("its files cannot be put in place", &error);
        JobFolder::at(&self.dir)?.remove()?;
        spec.account = host.account_run(program.account.as_deref(), &self.dir)?;
        spec.write(&self.dir)?;
        let from = host.exploration_inputs(key.exploration).join(WORK);
        let script = program.script.as_ref().map(|script| fs::read(from.join(script.name.as_str())));
        let script = script.transpose().map_err(failed)?;
        if spec.account.is_some() {
            let files = JobFiles { script, inputs: located(&program.inputs, &from), ..JobFiles::default() };
            return Ok(JobFolder::at(&self.dir)?.give(&files)?);
        }
        if let Some(script) = script {
            put_script(&self.dir, &script)?;
        }
        copy_to_request(&program.inputs, &from, &self.dir.join(WORK)).map_err(failed)
    }
}

/// What the supervisor of an execution runs that a batch system starts as the account; none of others.
pub(in crate::server) fn of_account(spec: &RunSpec) -> Option<RunSpec> {
    let is_its = spec.account.as_ref().is_some_and(|account| account.has_records);
    is_its.then(|| RunSpec { account: None, keeps_user: true, ..spec.clone() })
}

/// Files, each with where it is.
pub(in crate::server) fn located(files: &[FileSpec], folder: &Path) -> Vec<(FileSpec, PathBuf)> {
    files.iter().map(|file| (file.clone(), folder.join(file.name.as_str()))).collect()
}

/// Gives a request copies of its own: it may write to them.
fn copy_to_request(files: &[FileSpec], from: &Path, to: &Path) -> io::Result<()> {
    for file in files {
        let target = to.join(file.name.as_str());
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::copy(from.join(file.name.as_str()), target)?;
    }
    Ok(())
}
