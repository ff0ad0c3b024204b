//! The server's side: calls of `pliant job-folder` as an account. They block.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;
use std::time::Duration;

use pliant_staging::{FileSpec, ResultLimits, ResultName, SealedResults, StagingError};
use rustix::process::Pid;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::call::{Call, GateCall, REPLY_BYTES_MAX, Reply, line, read_line};
use super::slots::{CallSlot, READ_AT_ONCE, ReadingSlot};
use super::{FilesError, JobFiles, off_thread};
use crate::accounts::{AccountRun, Launched, LauncherError};
use crate::processes::{
    FileUsage, FoundState, Marks, Measured, Reservation, RunSpec, StartPermit, TaskAddresses, TaskEnd,
};

/// The verb of this program.
const VERB: &str = "job-folder";

/// Where that is run which has to be done although a job has closed its folder to its own account: nothing can run in there then.
pub(super) const ANYWHERE: &str = "/";

/// How long a short answer may take: a folder on a file system that hangs keeps its callers no longer.
pub(super) const ANSWERS_WITHIN: Duration = Duration::from_secs(30);
/// How long the next piece of a file may take.
const PIECE_WITHIN: Duration = Duration::from_secs(60);
/// How long it may take to give an account the files of a job, in addition to what they take at the slowest rate that is accepted.
const GIVEN_WITHIN: Duration = if cfg!(test) { Duration::from_secs(1) } else { Duration::from_secs(600) };
const GIVEN_BYTES_PER_S: u64 = 1 << 20;
/// How long it may take to measure the files of a job.
const MEASURED_WITHIN: Duration = Duration::from_secs(600);
/// How long it may take to sum up what a job has left: to read as much as is fetched, from a slow file system.
const SUMMED_UP_WITHIN: Duration = Duration::from_secs(3_600);

/// What stands behind this program's name for a folder.
pub(crate) fn arguments(folder: &Path) -> [OsString; 2] {
    [VERB.into(), folder.into()]
}

/// The call that has the process become a program.
pub(crate) fn start_call(spec: &RunSpec, env: BTreeMap<String, String>) -> Vec<u8> {
    let RunSpec { program, folder, streams, .. } = spec.clone();
    line(&Call::Start { program, env, place: folder, streams })
}

/// Has what is left of a job killed.
pub(crate) fn end_survivors(account: &AccountRun, marks: Marks) -> Result<usize, FilesError> {
    match Answer::of(begun_in(ANYWHERE, account, &Call::EndSurvivors { marks }, None)?)?.finish(account)? {
        Reply::Ended { killed } => Ok(killed),
        _ => Err(unexpected(account)),
    }
}

/// A measurement of what the files of a job use.
#[derive(Debug)]
pub(crate) struct UsageCall {
    account: AccountRun,
    launched: Launched,
}

/// Begins to measure the files of a job. Does not wait.
pub(crate) fn begin_usage(account: &AccountRun, measured: Measured) -> Result<UsageCall, FilesError> {
    let number = |pid: Option<Pid>| pid.map(|pid| pid.as_raw_nonzero().get());
    let (files_of, memory_of) = (number(measured.files_of), number(measured.memory_of));
    let launched = begun(account, &Call::Usage { most: measured.files_max, files_of, memory_of }, None)?;
    Ok(UsageCall { account: account.clone(), launched })
}

impl UsageCall {
    /// The process that measures.
    pub(crate) fn process(&self) -> Option<i32> {
        self.launched.process()
    }

    /// Waits for the answer, and not for the end of the process: a supervisor waits for that elsewhere.
    pub(crate) fn answer(mut self) -> Result<FileUsage, FilesError> {
        self.launched.wait_longer(MEASURED_WITHIN)?;
        let answer = Answer::of(self.launched)?;
        match answer.reply {
            Some(Reply::Usage(usage)) => Ok(usage),
            Some(_) => Err(unexpected(&self.account)),
            None => {
                answer.finish(&self.account)?;
                Err(unexpected(&self.account))
            }
        }
    }
}

pub(super) fn put(account: &AccountRun, files: &JobFiles) -> Result<(), FilesError> {
    let _slot = account.has_records.then(|| CallSlot::of(account)).transpose()?;
    let JobFiles { specs, script, tasks, inputs, shared } = files;
    let of = |files: &[(FileSpec, _)]| files.iter().map(|(spec, _)| spec.clone()).collect();
    let bytes = |text: &Option<Vec<u8>>| text.as_ref().map(|text| text.len() as u64);
    let call = Call::Put {
        specs: specs.clone(),
        script: bytes(script),
        tasks: bytes(tasks),
        inputs: of(inputs),
        shared: of(shared),
    };
    let sizes = inputs.iter().chain(shared).map(|(spec, _)| spec.size);
    let all_bytes = sizes.chain(bytes(script)).chain(bytes(tasks)).fold(0, u64::saturating_add);
    // However little it takes at a time: the job may have its processors by now.
    let within = GIVEN_WITHIN + Duration::from_secs(all_bytes / GIVEN_BYTES_PER_S);
    let mut launched = begun(account, &call, Some(within))?;
    let sent = script.iter().chain(tasks).try_for_each(|text| launched.write_all(text)).and_then(|()| {
        inputs.iter().chain(shared).try_for_each(|(spec, path)| send(spec, path, &mut launched))
    });
    // One that takes no more has said why.
    if let Err(error) = sent
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        return Err(match error.kind() {
            io::ErrorKind::TimedOut => launched.disorder(format!("does not take its files: {error}")).into(),
            _ => StagingError::Io { path: account.folder.clone(), source: error }.into(),
        });
    }
    match Answer::of(launched)?.finish(account)? {
        Reply::Put => Ok(()),
        _ => Err(unexpected(account)),
    }
}

fn send(spec: &FileSpec, path: &Path, launched: &mut Launched) -> io::Result<()> {
    let sent = io::copy(&mut File::open(path)?.take(spec.size), launched)?;
    if sent == spec.size {
        return Ok(());
    }
    let why = format!("expected {} bytes of {}, found {sent}", spec.size, spec.name.as_str());
    Err(io::Error::new(io::ErrorKind::InvalidData, why))
}

pub(super) fn results(
    account: &AccountRun,
    task: Option<&str>,
    limits: ResultLimits,
) -> Result<SealedResults, FilesError> {
    let task = task.map(str::parse).transpose().map_err(StagingError::Name)?;
    let launched = begun(account, &Call::Results { task, limits }, Some(SUMMED_UP_WITHIN))?;
    let Reply::Results(found) = Answer::of(launched)?.finish(account)? else {
        return Err(unexpected(account));
    };
    if found.is_within(limits) { Ok(found) } else { Err(unexpected(account)) }
}

pub(super) fn longest(account: &AccountRun) -> Result<Option<u64>, FilesError> {
    match Answer::of(begun(account, &Call::Longest, None)?)?.finish(account)? {
        Reply::Longest(found) => Ok(found),
        _ => Err(unexpected(account)),
    }
}

/// Opens a file, which takes one of the slots of the account until its stream is dropped.
pub(super) async fn open(
    account: &AccountRun,
    task: Option<&str>,
    name: &ResultName,
    offset: u64,
) -> Result<AccountStream, FilesError> {
    let task = task.map(str::parse).transpose().map_err(StagingError::Name)?;
    let busy = || FilesError::Busy { account: account.name.clone(), limit: READ_AT_ONCE };
    let slot = ReadingSlot::of(account).await.ok_or_else(busy)?;
    let (account, call) = (account.clone(), Call::Open { task, name: name.clone(), offset });
    // Who asks may go meanwhile, but not the thread: it keeps the slot.
    let (opened, slot) = off_thread(move || Ok((opened(&account, &call)?, slot))).await?;
    AccountStream::of(opened, slot)
        .map_err(|source| LauncherError::Io { action: "read from what runs as the account", source }.into())
}

/// Something that has answered that the bytes of a file follow.
fn opened(account: &AccountRun, call: &Call) -> Result<BufReader<Launched>, FilesError> {
    // An account that answers nothing keeps few threads.
    let _slot = CallSlot::of(account)?;
    let answer = Answer::of(begun(account, call, Some(ANSWERS_WITHIN))?)?;
    match answer.reply {
        Some(Reply::Content) => Ok(answer.launched),
        _ => {
            answer.finish(account)?;
            Err(unexpected(account))
        }
    }
}

/// How the job of a folder stands whose records are the account's.
pub(super) fn find(account: &AccountRun) -> Result<FoundState, FilesError> {
    match answered_anywhere(account, &Call::Find)? {
        Reply::Found(found) => Ok(found),
        _ => Err(unexpected(account)),
    }
}

pub(super) fn ask_end(account: &AccountRun) -> Result<(), FilesError> {
    done(answered(account, &Call::AskEnd)?, account)
}

pub(super) fn last_line(account: &AccountRun, file: &str) -> Result<Option<String>, FilesError> {
    let file = file.parse().map_err(StagingError::Name)?;
    match answered(account, &Call::LastLine { file })? {
        Reply::LastLine(line) => Ok(line),
        _ => Err(unexpected(account)),
    }
}

pub(super) fn task_ends(
    account: &AccountRun,
    unless: u64,
) -> Result<(u64, Option<Vec<TaskEnd>>), FilesError> {
    match answered(account, &Call::TaskEnds { unless })? {
        Reply::TaskEnds(length, ends) => Ok((length, ends)),
        _ => Err(unexpected(account)),
    }
}

pub(super) fn gate_create(account: &AccountRun, reservation: Option<Reservation>) -> Result<(), FilesError> {
    done(answered(account, &Call::Gate(GateCall::Create(reservation)))?, account)
}

pub(super) fn gate_decide(account: &AccountRun, permit: StartPermit) -> Result<StartPermit, FilesError> {
    match answered(account, &Call::Gate(GateCall::Decide(permit)))? {
        Reply::Decided(permit) => Ok(permit),
        _ => Err(unexpected(account)),
    }
}

pub(super) fn gate_has_arrived(account: &AccountRun) -> Result<Option<bool>, FilesError> {
    match answered(account, &Call::Gate(GateCall::HasArrived))? {
        Reply::Arrived(arrived) => Ok(arrived),
        _ => Err(unexpected(account)),
    }
}

pub(super) fn gate_addresses(account: &AccountRun) -> Result<Option<TaskAddresses>, FilesError> {
    match answered(account, &Call::Gate(GateCall::Addresses))? {
        Reply::Addresses(addresses) => Ok(addresses),
        _ => Err(unexpected(account)),
    }
}

/// The answer to a call that takes little time: what runs as the account does not keep the caller waiting for long.
pub(super) fn answered(account: &AccountRun, call: &Call) -> Result<Reply, FilesError> {
    let _slot = CallSlot::of(account)?;
    let launched = begun(account, call, Some(ANSWERS_WITHIN))?;
    Answer::of(launched)?.finish(account)
}

/// The same of a call that a folder which its job has closed does not keep from being answered.
pub(super) fn answered_anywhere(account: &AccountRun, call: &Call) -> Result<Reply, FilesError> {
    let _slot = CallSlot::of(account)?;
    Answer::of(begun_in(ANYWHERE, account, call, Some(ANSWERS_WITHIN))?)?.finish(account)
}

pub(super) fn unexpected(account: &AccountRun) -> FilesError {
    let problem = "has given an answer that makes no sense".to_owned();
    LauncherError::Disorder { account: account.name.clone(), problem }.into()
}

/// Makes the folder of the account.
pub(super) fn make_folder(account: &AccountRun) -> Result<(), FilesError> {
    let _slot = CallSlot::of(account)?;
    Ok(account.make_folder()?)
}

pub(super) fn done(reply: Reply, account: &AccountRun) -> Result<(), FilesError> {
    match reply {
        Reply::Done => Ok(()),
        _ => Err(unexpected(account)),
    }
}

/// Calls this program as the account, which may take so long for the call, all of what follows it and its answer. Without such a bound
/// only its silence is limited.
pub(super) fn begun(
    account: &AccountRun,
    call: &Call,
    within: Option<Duration>,
) -> Result<Launched, FilesError> {
    begun_in(&account.folder, account, call, within)
}

pub(super) fn begun_in(
    place: impl AsRef<Path>,
    account: &AccountRun,
    call: &Call,
    within: Option<Duration>,
) -> Result<Launched, FilesError> {
    let launched = account.launcher().run(account.pliant(arguments(&account.folder)), place.as_ref())?;
    asked(launched, call, within)
}

/// Writes a call to this program, which was begun.
pub(super) fn asked(
    mut launched: Launched,
    call: &Call,
    within: Option<Duration>,
) -> Result<Launched, FilesError> {
    launched.answer_within(within);
    match launched.write_all(&line(call)) {
        Ok(()) => Ok(launched),
        Err(error) => match error.kind() {
            // It has said why.
            io::ErrorKind::BrokenPipe => Ok(launched),
            io::ErrorKind::TimedOut => {
                Err(launched.disorder(format!("does not take what it is asked for: {error}")).into())
            }
            _ => {
                Err(LauncherError::Io { action: "talk with what runs as the account", source: error }.into())
            }
        },
    }
}

/// An answer, and what follows it.
pub(super) struct Answer {
    /// None if there was no line: then how the process ends says why.
    reply: Option<Reply>,
    launched: BufReader<Launched>,
    problem: Option<io::Error>,
}

impl Answer {
    pub(super) fn of(mut launched: Launched) -> Result<Answer, FilesError> {
        launched.end_input();
        let mut launched = BufReader::with_capacity(64 << 10, launched);
        Ok(match read_line(&mut launched, REPLY_BYTES_MAX) {
            Ok(reply) => Answer { reply: Some(reply), launched, problem: None },
            Err(error) => Answer { reply: None, launched, problem: Some(error) },
        })
    }

    /// The answer, once the process has ended.
    pub(super) fn finish(self, account: &AccountRun) -> Result<Reply, FilesError> {
        let Answer { reply, launched, problem } = self;
        match reply {
            Some(Reply::Failed(failed)) => Err(failed.into_error(account.folder.clone())),
            Some(reply) => {
                launched.into_inner().finish_soon()?;
                Ok(reply)
            }
            None => {
                let launched = launched.into_inner();
                let said = problem.map_or_else(|| "nothing".to_owned(), |problem| problem.to_string());
                let disorder = launched.disorder(format!("does not answer: {said}"));
                launched.finish_soon()?;
                Err(disorder.into())
            }
        }
    }
}

/// A file of an account's that is being read. While nothing comes it keeps no thread.
#[derive(Debug)]
pub struct AccountStream {
    /// What reads it, with its slot; none once all was read.
    launched: Option<(Launched, ReadingSlot)>,
    /// What came with the answer.
    front: Vec<u8>,
    /// The socket of what was launched.
    socket: UnixStream,
}

impl AccountStream {
    fn of(opened: BufReader<Launched>, slot: ReadingSlot) -> io::Result<AccountStream> {
        let front = opened.buffer().to_vec();
        let launched = opened.into_inner();
        let socket = launched.with_socket(std::os::unix::net::UnixStream::try_clone)?;
        socket.set_nonblocking(true)?;
        let socket = UnixStream::from_std(socket)?;
        Ok(AccountStream { launched: Some((launched, slot)), front, socket })
    }

    /// The next bytes, as many as have come and at most so many; none at the end of the file.
    ///
    /// # Errors
    /// Nothing comes for too long, or the file was cut off.
    pub(super) async fn piece(&mut self, bytes_max: usize) -> io::Result<Vec<u8>> {
        if !self.front.is_empty() {
            let rest = self.front.split_off(self.front.len().min(bytes_max));
            return Ok(std::mem::replace(&mut self.front, rest));
        }
        let mut piece = vec![0; bytes_max];
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "what runs as the account does not answer");
        let mut length = timeout(PIECE_WITHIN, self.socket.read(&mut piece)).await.map_err(late)??;
        if length == 0 {
            // What was cut off is not the whole file.
            if let Some((launched, slot)) = self.launched.take() {
                // The slot stays with the thread.
                let finish = move || (launched.finish_soon(), slot).0;
                let finished = tokio::task::spawn_blocking(finish).await;
                finished.map_err(io::Error::other)?.map_err(io::Error::other)?;
            }
        }
        while length > 0 && length < bytes_max {
            match self.socket.try_read(&mut piece[length..]) {
                Ok(0) => break,
                Ok(more) => length += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        piece.truncate(length);
        Ok(piece)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use super::*;

    /// A launcher that takes longer for an answer than what it starts may be silent.
    fn slow_launcher(dir: &Path, reply: &Reply) -> AccountRun {
        let answer = dir.join("answer");
        fs::write(&answer, line(reply)).unwrap();
        launcher(dir, &format!("cat > /dev/null\nsleep 1\ncat '{}'", answer.display()))
    }

    fn launcher(dir: &Path, script: &str) -> AccountRun {
        let launcher = dir.join("launcher");
        fs::write(&launcher, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755)).unwrap();
        AccountRun {
            name: "alice".parse().unwrap(),
            folder: dir.join("job"),
            launcher,
            pliant: "/pliant".into(),
            processes_max: None,
            has_records: true,
            guard: None,
        }
    }

    #[test]
    fn results_may_take_longer_than_the_time_between_two_lines() {
        let dir = tempfile::tempdir().unwrap();
        let found = SealedResults { left_out_count: 7, ..SealedResults::default() };
        let account = slow_launcher(dir.path(), &Reply::Results(found.clone()));
        let limits = ResultLimits { files: 10, bytes: 10 };
        assert_eq!(results(&account, None, limits).unwrap(), found);
    }

    #[test]
    fn other_answers_may_not() {
        let dir = tempfile::tempdir().unwrap();
        let account = slow_launcher(dir.path(), &Reply::Longest(Some(7)));
        let error = longest(&account).unwrap_err();
        assert!(error.to_string().contains("does not answer"), "{error}");
    }

    #[test]
    fn an_account_that_takes_its_files_too_slowly_fails() {
        let dir = tempfile::tempdir().unwrap();
        // A piece is never late, and all of them would take six seconds.
        let account = launcher(dir.path(), "while head -c 65536 | grep -q .; do sleep 0.2; done");
        let files = JobFiles { script: Some(vec![b'x'; 2 << 20]), ..JobFiles::default() };
        let error = put(&account, &files).unwrap_err();
        assert!(error.to_string().contains("does not take its files") && error.is_of_account(), "{error}");
    }

    #[test]
    fn a_list_of_files_counts_for_the_time_in_which_they_are_taken() {
        let dir = tempfile::tempdir().unwrap();
        // A piece is never late, and all of them would take six seconds.
        let account = launcher(dir.path(), "while head -c 65536 | grep -q .; do sleep 0.2; done");
        let file = |number: usize| {
            let name = format!("{number:0>200}").parse().unwrap();
            (FileSpec { name, size: 0, sha256: pliant_staging::Checksum::of(b"") }, PathBuf::new())
        };
        let files = JobFiles { inputs: (0..6_000).map(file).collect(), ..JobFiles::default() };
        let error = put(&account, &files).unwrap_err();
        assert!(error.to_string().contains("does not take what it is asked for"), "{error}");
        assert!(error.is_of_account(), "{error}");
    }
}
