//! Status updates of children: which are accepted.
//!
//! A server reports the jobs that users have signed for it, or that came to it by handoffs that other servers have signed
//! (`pliant_control::handoff_chain::check_reporter`). Agents pass on what they have checked. What contradicts the record of a job in
//! memory, the machine refuses; what contradicts the archive is refused here.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pliant_control::agent::{Agent, ChildKind, Contradiction};
use pliant_control::handoff_chain::check_reporter;
use pliant_control::job::{Hop, JobRecord};
use pliant_control::names::{Handle, Key, Name, User};
use pliant_control::signed::{ClaimSubject, Expected};
use pliant_journal::Archive;
use pliant_telemetry::names;
use pliant_transport::{Revocations, ServerTls, ValidAt};
use pliant_wire::bounds::RESTORED_JOBS_MAX;
use tokio::time::Instant;
use tonic::Status;

use super::child_connection::stopped;
use super::numbers::Numbers;
use crate::call_log::log_call;
use crate::host::{archived, record};
use crate::signatures::{SignatureRefusal, check_claim, check_handoff};

/// For how long a job that was compared with the archive is not compared again. Shorter than the machine keeps an ended job in
/// memory, so that no report of an ended job passes both.
const COMPARED: Duration = Duration::from_secs(30);

/// What servers have reported since the agent started, over all connections: it saves verifying each signature more than once,
/// and most looks into the archive.
#[derive(Clone, Default)]
pub(super) struct ReportedJobs(Arc<Mutex<Reported>>);

#[derive(Default)]
struct Reported {
    /// The highest number of each server's own jobs: a job with a higher one is new.
    highest: BTreeMap<Name, u32>,
    /// Jobs that wait or run.
    open: BTreeMap<Handle, OpenJob>,
}

/// A job as a server has reported it. Its signatures were verified.
struct OpenJob {
    server: Name,
    owner: User,
    key: Key,
    moves: Vec<Hop>,
    /// When the archive knew nothing to the contrary.
    compared: Instant,
}

impl OpenJob {
    fn is_same(&self, record: &JobRecord) -> bool {
        let JobRecord { owner, key, hops, .. } = record;
        let moves = &self.moves;
        let is_path =
            moves.len() == hops.len() && moves.iter().zip(hops).all(|(one, other)| one.is_same(other));
        is_path && (&self.owner, &self.key) == (owner, key)
    }
}

/// The status updates of one child, over one connection.
pub(super) struct Reports {
    child: Name,
    kind: ChildKind,
    tls: Arc<ServerTls>,
    numbers: Numbers,
}

/// Why a status update is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ReportRefusal {
    word: &'static str,
    why: String,
}

impl ReportRefusal {
    /// Logs and counts the refusal.
    pub(super) fn note(&self, child: &Name, job: &Handle) {
        metrics::counter!(names::STATUS_UPDATES_REFUSED, "reason" => self.word).increment(1);
        log_call!(warn, child, %child, %job, reason = %self, "status update refused");
    }
}

impl fmt::Display for ReportRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl From<Contradiction> for ReportRefusal {
    fn from(found: Contradiction) -> ReportRefusal {
        ReportRefusal { word: found.word(), why: found.to_string() }
    }
}

impl From<SignatureRefusal> for ReportRefusal {
    fn from(refusal: SignatureRefusal) -> ReportRefusal {
        ReportRefusal { word: refusal.word(), why: refusal.to_string() }
    }
}

impl Reports {
    pub(super) fn new(child: Name, kind: ChildKind, tls: Arc<ServerTls>, numbers: Numbers) -> Reports {
        Reports { child, kind, tls, numbers }
    }

    /// What to record of a reported job: the report, or what the archive knows better; or why the report is refused.
    pub(super) async fn checked(
        &self,
        reported: JobRecord,
    ) -> Result<Result<JobRecord, ReportRefusal>, Status> {
        if self.kind == ChildKind::Server
            && !self.is_open(&reported, None)
            && let Err(refusal) = self.verify(&reported, None)
        {
            // Certificates of an authority that was replaced since verify nothing. What is known already needs no signatures.
            let Some(known) = self.known(&reported.handle).await? else { return Ok(Err(refusal)) };
            if let Some(contradiction) = Contradiction::of(&known, &reported.clone().without_signatures()) {
                return Ok(Err(contradiction.into()));
            }
            if let Err(refusal) = self.verify(&reported, Some(&known)) {
                return Ok(Err(refusal));
            }
        }
        let reported = reported.without_signatures();
        let known = self.compared(&reported).await?;
        let checked = match known.as_ref().map(|known| (known, Contradiction::of(known, &reported))) {
            Some((_, Some(contradiction))) => return Ok(Err(contradiction.into())),
            Some((known, None)) if known.progress() > reported.progress() => known.clone(),
            _ => reported,
        };
        self.remember(&checked);
        Ok(Ok(checked))
    }

    /// The agent's records of those of some jobs that the child accepted or took over.
    pub(super) async fn known_of(&self, jobs: Vec<Handle>) -> Result<Vec<JobRecord>, Status> {
        let mut found = Vec::new();
        for handle in jobs {
            let is_own = |record: &JobRecord| {
                let came = || record.hops.iter().any(|hop| hop.to == self.child);
                record.handle.server == self.child || came()
            };
            found.extend(self.known(&handle).await?.filter(is_own));
        }
        Ok(found)
    }

    /// What the agent knows of the child's own jobs with the next higher numbers, in their order; none if there are no more.
    pub(super) async fn later_than(&self, number: u32) -> Result<Vec<JobRecord>, Status> {
        let server = self.child.clone();
        let present = move |agent: &mut Agent, _| -> Vec<JobRecord> {
            agent.jobs_later_than(&server, number).take(RESTORED_JOBS_MAX).cloned().collect()
        };
        // In this order: what leaves the memory is in the archive by then.
        let present = self.numbers.mailbox.ask(present).await.map_err(|_| stopped())?;
        let server = self.child.clone();
        let look = move |archive: &mut dyn Archive| {
            archive.jobs_later_than(server.as_str(), number, RESTORED_JOBS_MAX as u32)
        };
        let ended = archived(&self.numbers.archive, look).await?;
        let mut later = BTreeMap::new();
        for known in ended.iter().map(record) {
            let known = known?;
            later.insert(known.handle.number, known);
        }
        later.extend(present.into_iter().map(|known| (known.handle.number, known)));
        Ok(later.into_values().take(RESTORED_JOBS_MAX).collect())
    }

    /// The same of a job that is reported again; none if the agent knows as much of it, unless that shows that the job is not lost.
    pub(super) async fn checked_again(
        &self,
        reported: JobRecord,
    ) -> Result<Option<Result<JobRecord, ReportRefusal>>, Status> {
        match self.known(&reported.handle).await? {
            Some(known) if known.state.is_final() => Ok(None),
            Some(known) if known.progress() >= reported.progress() => Ok(Some(Ok(known))),
            _ => self.checked(reported).await.map(Some),
        }
    }

    /// Verifies that the user has signed for the server of the job ID, and that the job came to the child by signed handoffs. Of
    /// a job that is known neither its user's signature nor those of its known moves are needed.
    fn verify(&self, reported: &JobRecord, known: Option<&JobRecord>) -> Result<(), ReportRefusal> {
        let tls = &self.tls;
        if known.is_none() {
            let unsigned =
                || SignatureRefusal::new("unsigned", "expected the signature of the job's user, found none");
            let signed = reported.claim.as_deref().ok_or_else(unsigned)?;
            let JobRecord { handle, owner, key, submitted, .. } = reported;
            let (digest, audience, accepted) = (signed.claim.digest, &handle.server, *submitted);
            let expected = Expected { owner, key: *key, digest, audience, accepted };
            let (valid, revoked) = (ValidAt::Then(accepted), Revocations::AreLater);
            check_claim(tls, ClaimSubject::Submission, signed, &expected, (valid, revoked))?;
        }
        let moves: &[Hop] = known.map_or(&[], |known| &known.hops);
        let verified = check_reporter(reported, &self.child, |statement, signature| {
            let is_known = |hop: &Hop| {
                (&hop.from, &hop.to, hop.attempt) == (statement.from, statement.to, statement.attempt)
            };
            if moves.iter().any(is_known) {
                return Ok(());
            }
            check_handoff(tls, statement, signature, Revocations::AreLater)
        });
        verified.map_err(|fault| ReportRefusal { word: fault.word(), why: fault.to_string() })
    }

    /// True if the child has reported the job before, and its signatures were verified then; with a duration only if that was
    /// compared with the archive so recently.
    fn is_open(&self, reported: &JobRecord, within: Option<Duration>) -> bool {
        let jobs = self.numbers.reported.0.lock();
        jobs.open.get(&reported.handle).is_some_and(|open| {
            let is_here = open.server == self.child && *reported.server() == self.child;
            let is_recent = within.is_none_or(|within| open.compared.elapsed() < within);
            is_here && is_recent && open.is_same(reported)
        })
    }

    /// What the agent knows of a job.
    async fn known(&self, handle: &Handle) -> Result<Option<JobRecord>, Status> {
        let wanted = handle.clone();
        let present = move |agent: &mut Agent, _| agent.job(&wanted).cloned();
        match self.numbers.mailbox.ask(present).await.map_err(|_| stopped())? {
            Some(known) => Ok(Some(known)),
            None => self.archived(handle).await,
        }
    }

    /// What the archive knows of a job, unless it can know nothing: the job has ended or gone elsewhere long ago, and its
    /// server reports it late, or falsely.
    async fn compared(&self, reported: &JobRecord) -> Result<Option<JobRecord>, Status> {
        if self.is_new(&reported.handle).await? || self.is_open(reported, Some(COMPARED)) {
            return Ok(None);
        }
        self.archived(&reported.handle).await
    }

    async fn archived(&self, handle: &Handle) -> Result<Option<JobRecord>, Status> {
        let handle = handle.clone();
        let look = move |archive: &mut dyn Archive| archive.job(handle.server.as_str(), handle.number);
        archived(&self.numbers.archive, look).await?.as_ref().map(record).transpose()
    }

    /// True if this is the first report of one of the server's own jobs, which it numbers in order.
    async fn is_new(&self, handle: &Handle) -> Result<bool, Status> {
        if self.kind != ChildKind::Server || handle.server != self.child {
            return Ok(false);
        }
        let known = self.numbers.reported.0.lock().highest.get(&self.child).copied();
        let highest = match known {
            Some(highest) => highest,
            None => {
                let found = self.numbers.highest(self.child.clone()).await?;
                *self.numbers.reported.0.lock().highest.entry(self.child.clone()).or_insert(found)
            }
        };
        Ok(handle.number > highest)
    }

    /// Remembers a report that is passed on to the machine.
    fn remember(&self, checked: &JobRecord) {
        let Reported { highest, open } = &mut *self.numbers.reported.0.lock();
        let JobRecord { handle, owner, key, hops, .. } = checked;
        if let Some(highest) = highest.get_mut(&handle.server) {
            *highest = handle.number.max(*highest);
        }
        let is_open =
            self.kind == ChildKind::Server && !checked.state.is_final() && *checked.server() == self.child;
        if !is_open {
            open.remove(handle);
            return;
        }
        let known = open.get(handle).filter(|known| known.server == self.child && known.is_same(checked));
        let compared = known.map(|known| known.compared).filter(|compared| compared.elapsed() < COMPARED);
        let (server, compared) = (self.child.clone(), compared.unwrap_or_else(Instant::now));
        let (owner, key, moves) = (owner.clone(), *key, hops.clone());
        open.insert(handle.clone(), OpenJob { server, owner, key, moves, compared });
    }
}

/// Logs and counts a status update that the machine has refused.
pub(super) fn note_contradiction(child: &Name, job: &Handle, why: Contradiction) {
    ReportRefusal::from(why).note(child, job);
}
