use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};

use http_body::{Body, Frame};
use pliant_control::agent::{DiscoveryQuery, DiscoveryResult};
use pliant_control::handoff::{Movable, ServerSnapshot};
use pliant_control::job::{JobRecord, Work};
use pliant_control::names::{Handle, Key, Name};
use pliant_control::server_info::ServerInfo;
use pliant_journal::{
    Archive, AuditRow, Entry, Filter, JobCursor, JobRow, JournalError, LocalJobCursor, LocalJobRow,
    StatusUpdate,
};
use pliant_model::{Estimate, JobId, Owner, Procs, Span, Speed, Speedup, Time};
use pliant_policy::batch::{Dump, Waiting};
use pliant_policy::discovery::Summary;
use pliant_policy::tuning::Tuner;
use pliant_wire::Pieces;
use prost::Message;

use super::reading::PAGE;
use super::*;
use crate::config::{LimitsFile, SummariesFile};
use crate::host::row;

mod lyon;
mod masters;

use lyon::Lyon;

/// A journal with status updates from one number to another.
#[derive(Clone)]
struct Updates {
    from: u64,
    to: Arc<AtomicU64>,
    /// How many were read.
    read: Arc<AtomicU64>,
    /// How many attempts to read fail before one succeeds, and how many there were.
    failing: u32,
    attempts: Arc<AtomicU32>,
}

const RECORD: &str = r#"{"handle":"lyon.1","key":"0123456789abcdef0123456789abcdef","owner":"alice",
    "name":"test","work":{"procs":1,"walltime":1,"speedup":"rigid"},"state":"QUEUED","submitted":100,
    "expected":{"procs":1,"walltime":1,"start":100},"procs":1,"walltime":1,"started":null,"ended":null,"exit":null}"#;

impl Archive for Updates {
    fn status_updates(&mut self, after: u64, limit: u32) -> Result<Vec<StatusUpdate>, JournalError> {
        let numbers = (after + 1).max(self.from)..=self.to.load(Ordering::Relaxed);
        if self.attempts.fetch_add(1, Ordering::Relaxed) < self.failing {
            return Err(JournalError::Unreachable { why: "for now".to_owned() });
        }
        let update = |seq| StatusUpdate { seq, body: RECORD.to_owned() };
        let page: Vec<StatusUpdate> = numbers.take(limit as usize).map(update).collect();
        self.read.fetch_add(page.len() as u64, Ordering::Relaxed);
        Ok(page)
    }

    fn job(&mut self, _: &str, _: u32) -> Result<Option<JobRow>, JournalError> {
        unreachable!("only status updates are read")
    }

    fn job_by_key(&mut self, _: &[u8; 16]) -> Result<Option<JobRow>, JournalError> {
        unreachable!("only status updates are read")
    }

    /// `lyon.1` to `lyon.1000` have ended, the last to be submitted first.
    fn jobs(&mut self, filter: &Filter) -> Result<Vec<JobRow>, JournalError> {
        assert_eq!(filter.server.as_deref(), Some("lyon"));
        let before = filter.before.as_ref().map_or(1001, |(_, _, number)| *number);
        Ok((1..before).rev().take(filter.limit as usize).map(|number| row(&job(number))).collect())
    }

    fn ended_since(&mut self, _: i64, _: Option<JobCursor>, _: u32) -> Result<Vec<JobRow>, JournalError> {
        unreachable!("only status updates are read")
    }

    fn servers(&mut self) -> Result<Vec<String>, JournalError> {
        unreachable!("only status updates are read")
    }

    fn accuracy(&mut self, _: &str, _: u32) -> Result<Vec<(i64, i64)>, JournalError> {
        unreachable!("only status updates are read")
    }

    fn local_jobs(
        &mut self,
        _: i64,
        _: Option<LocalJobCursor>,
        _: u32,
    ) -> Result<Vec<(LocalJobCursor, LocalJobRow)>, JournalError> {
        unreachable!("only status updates are read")
    }

    fn audit(&mut self, _: u64, _: u32) -> Result<Vec<(u64, AuditRow)>, JournalError> {
        unreachable!("only status updates are read")
    }

    fn entries(&mut self, _: u64, _: u32) -> Result<Vec<Entry>, JournalError> {
        unreachable!("only status updates are read")
    }

    fn jobs_later_than(&mut self, _: &str, _: u32, _: u32) -> Result<Vec<JobRow>, JournalError> {
        unreachable!("only status updates are read")
    }

    fn last_number(&mut self, _: &str) -> Result<Option<u32>, JournalError> {
        unreachable!("only status updates are read")
    }

    fn ended(&mut self) -> Result<u64, JournalError> {
        unreachable!("only status updates are read")
    }
}

fn job(number: u32) -> JobRecord {
    let record: JobRecord = serde_json::from_str(RECORD).unwrap();
    JobRecord { handle: Handle { number, ..record.handle.clone() }, ..record }
}

/// A parent that says nothing.
struct Silent;

impl Body for Silent {
    type Data = bytes::Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
        Poll::Pending
    }
}

/// A connection over which status updates go, and what its parent has not taken in.
struct Bench {
    upward: Upward,
    to: Arc<AtomicU64>,
    read: Arc<AtomicU64>,
    attempts: Arc<AtomicU32>,
    parent: mpsc::Receiver<proto::Up>,
    line: tokio::task::JoinHandle<()>,
}

fn connection(
    archive: SharedArchive,
    outbound: Outbound,
    again: Option<ReportingAgain>,
) -> ParentConnection<Lyon> {
    let loaded = Some(*outbound.last_update.borrow());
    ParentConnection {
        child: Arc::new(Lyon),
        journal: Lyon.journal(),
        loaded,
        contact: ParentContact::start(),
        archive,
        clock: Clock::start(Time(0)),
        outbound,
        share: MasterShare::default(),
        all: Arc::new(AllParents::new(1)),
        index: 0,
        last_sent: 0,
        last_reported: 0,
        read_to: 0,
        page: VecDeque::new(),
        again,
        announce: false,
        freed: false,
        summaries: ConnectionSummaries::new(SummariesFile::default().rule()),
        said: VecDeque::new(),
        acknowledged: 0,
        next_page: Instant::now(),
        next_question: 1,
        questions: BTreeMap::from([(8, 80)]),
    }
}

/// The way to one parent.
fn way(next_update: u64) -> (Upward, Outbound) {
    let (upward, mut outbounds) = upward(next_update, 1);
    (upward, outbounds.remove(0))
}

impl Bench {
    /// The journal has status updates up to a number, and those before `from` no more.
    fn new(from: u64, last: u64, failing: u32) -> Bench {
        Bench::with(from, last, failing, None)
    }

    /// The same, with jobs to report again.
    fn with(from: u64, last: u64, failing: u32, again: Option<ReportingAgain>) -> Bench {
        Bench::of_share(from, last, failing, again, MasterShare::default())
    }

    /// The same, with a master that has the jobs of a share of the users.
    fn of_share(
        from: u64,
        last: u64,
        failing: u32,
        again: Option<ReportingAgain>,
        share: MasterShare,
    ) -> Bench {
        let (to, read, attempts) = (Arc::new(AtomicU64::new(last)), Arc::default(), Arc::default());
        let updates = Updates {
            from,
            to: Arc::clone(&to),
            read: Arc::clone(&read),
            failing,
            attempts: Arc::clone(&attempts),
        };
        let (upward, outbound) = way(last + 1);
        let archive = SharedArchive::open(|| Ok(Box::new(updates.clone()))).unwrap();
        let mut line = ParentConnection { share, ..connection(archive, outbound, again) };
        let (sender, parent) = mpsc::channel(WINDOW);
        let line = tokio::spawn(async move {
            let decoder = tonic_prost::ProstDecoder::<proto::Down>::default();
            let mut down = Streaming::new_request(decoder, Silent, None, None);
            let _ = line.converse(&sender, &mut down).await;
        });
        Bench { upward, to, read, attempts, parent, line }
    }

    /// The next message that is no heartbeat.
    async fn next(&mut self) -> FromChild {
        loop {
            let message = self.parent.recv().await.expect("the connection holds");
            match FromChild::try_from(message).unwrap() {
                FromChild::Heartbeat { now, free, certificate, certificates, drained } => {
                    assert!(now.is_some());
                    assert_eq!((certificate, certificates), Lyon.certificates());
                    assert_eq!((free, drained), (Lyon.free(), Lyon.drained()));
                }
                message => return message,
            }
        }
    }

    async fn next_update(&mut self) -> u64 {
        match self.next().await {
            FromChild::StatusUpdate { sequence, .. } => sequence,
            other => panic!("expected a status update, found {other:?}"),
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.line.abort();
    }
}

#[tokio::test]
async fn status_updates_stay_in_the_journal_until_the_parent_takes_them_in() {
    const LAST: u64 = 20_000;
    const AHEAD: u64 = WINDOW as u64 + 2 * PAGE as u64;
    let mut bench = Bench::new(1, LAST, 0);
    // A parent that takes nothing in.
    while bench.parent.len() < WINDOW {
        tokio::task::yield_now().await;
    }
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert!(bench.read.load(Ordering::Relaxed) <= AHEAD, "they gather in memory");
    // What is of use at once does not wait for all of them.
    bench.upward.announce();
    let mut is_announced = false;
    for expected in 1..=LAST {
        let mut message = bench.next().await;
        if let FromChild::Servers(_) = message {
            assert!(expected <= AHEAD, "after {expected}");
            is_announced = true;
            message = bench.next().await;
        }
        assert!(
            matches!(message, FromChild::StatusUpdate { sequence, .. } if sequence == expected),
            "{message:?}"
        );
        assert!(bench.read.load(Ordering::Relaxed) <= expected + AHEAD, "they gather in memory");
    }
    assert!(is_announced);
    // And those that come later.
    bench.to.store(LAST + 2, Ordering::Relaxed);
    bench.upward.status_update(LAST + 2);
    assert_eq!((bench.next_update().await, bench.next_update().await), (LAST + 1, LAST + 2));
}

#[tokio::test]
async fn status_updates_that_come_within_the_pause_share_a_page() {
    let begun = Instant::now();
    let mut bench = Bench::new(1, 1, 0);
    for number in 1..=50 {
        bench.to.store(number, Ordering::Relaxed);
        bench.upward.status_update(number);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for expected in 1..=50 {
        assert_eq!(bench.next_update().await, expected);
    }
    let pauses = begun.elapsed().as_millis() / PAGE_PAUSE.as_millis();
    let pages = bench.attempts.load(Ordering::Relaxed);
    assert!(u128::from(pages) <= pauses + 2, "{pages} pages in {pauses} pauses");
}

/// A journal with these status updates.
fn updates(from: u64, to: u64) -> SharedArchive {
    let (to, read, attempts) = (Arc::new(AtomicU64::new(to)), Arc::default(), Arc::default());
    let updates = Updates { from, to, read, failing: 0, attempts };
    SharedArchive::open(move || Ok(Box::new(updates.clone()))).unwrap()
}

#[tokio::test]
async fn a_parent_without_what_it_had_acknowledged_gets_all_jobs_again() {
    // The journal ends at 12, and has those from 10 on still.
    for kept in [9, 10, 12] {
        assert_eq!(ReportingAgain::to(&updates(10, 12), kept, 12).await.unwrap(), None);
        assert_eq!(ReportingAgain::to(&updates(13, 12), 12, 12).await.unwrap(), None);
    }
    let again = ReportingAgain::to(&updates(10, 12), 3, 12).await.unwrap().unwrap();
    assert_eq!(again.acknowledged(), 9);

    let mut bench = Bench::with(10, 12, 0, Some(again));
    let mut numbers = Vec::new();
    loop {
        match bench.next().await {
            FromChild::ReportedAgain(record) => numbers.push(record.handle.number),
            message => break assert_eq!(message, FromChild::AllReported { sequence: 9 }),
        }
    }
    let expected: Vec<u32> = (1001..=1300).chain((1..=1000).rev()).collect();
    assert_eq!(numbers, expected);
    for expected in 10..=12 {
        assert_eq!(bench.next_update().await, expected);
    }
}

#[tokio::test]
async fn early_free_processors_are_notified_once() {
    let mut bench = Bench::new(1, 0, 0);
    bench.upward.freed();
    bench.upward.freed();
    assert_eq!(bench.next().await, FromChild::Freed);
    bench.upward.announce();
    assert_eq!(bench.next().await, FromChild::Servers(Vec::new()));
}

#[tokio::test]
async fn a_summary_that_has_not_changed_is_reported_once() {
    let mut bench = Bench::new(1, 0, 0);
    bench.upward.summary_changed();
    assert_eq!(bench.next().await, FromChild::Summary(Summary::default()));
    bench.upward.summary_changed();
    bench.upward.freed();
    assert_eq!(bench.next().await, FromChild::Freed);
    bench.upward.announce();
    assert_eq!(bench.next().await, FromChild::Servers(Vec::new()));
}

#[test]
fn a_journal_that_was_put_back_is_no_journal_of_the_parents_child() {
    assert!(not_older(7, 0).is_ok() && not_older(7, 7).is_ok());
    let why = not_older(7, 8).unwrap_err();
    assert!(why.message().contains("ended at status update 7") && why.message().contains("up to 8"), "{why}");
}

#[tokio::test]
async fn an_older_journal_is_noticed_after_it_has_caught_up() {
    let updates =
        Updates { from: 1, to: Arc::default(), read: Arc::default(), failing: 0, attempts: Arc::default() };
    let archive = SharedArchive::open(move || Ok(Box::new(updates.clone()))).unwrap();
    let (upward, outbound) = way(7 + 1);
    let mut older = connection(archive, outbound, None);
    upward.status_update(9);
    for _ in 0..2 {
        assert!(older.compare(8).unwrap_err().message().contains("ended at status update 7"));
    }
    assert_eq!(older.journal, Lyon.journal(), "a server's journal is not given another number");
    // One that is as new as the parent's records goes on from there.
    older.compare(7).unwrap();
    older.compare(9).unwrap();
    older.compare(10).unwrap_err();
}

#[tokio::test]
async fn a_journal_that_cannot_be_read_is_read_later() {
    let mut bench = Bench::new(1, 1, 1);
    assert_eq!(bench.next_update().await, 1);
    assert_eq!(bench.attempts.load(Ordering::Relaxed), 2, "with the next heartbeat and not at once");
}

#[tokio::test]
async fn status_updates_that_another_parent_has_kept_are_not_waited_for() {
    let mut bench = Bench::new(10, 9, 0);
    // An answer to a question that was not asked over this connection is not sent.
    bench.upward.answer(7, DiscoveryResult::default());
    bench.upward.unnumbered("lyon".parse().unwrap());
    assert_eq!(bench.next().await, FromChild::Unnumbered { server: "lyon".parse().unwrap() });
    while bench.attempts.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    bench.to.store(10, Ordering::Relaxed);
    bench.upward.status_update(10);
    assert_eq!(bench.next_update().await, 10);
    assert_eq!(bench.attempts.load(Ordering::Relaxed), 2, "looked for once before");
}

/// The queue of a cluster with so many waiting jobs, each of which may be moved.
fn queue(waiting: u32) -> DiscoveryResult {
    let estimate = Estimate { procs: Procs(8), walltime: Span(86_400), start: Time(1_795_258_985) };
    let movable = |number| Movable {
        number,
        job: Handle { server: "lyon".parse().unwrap(), number },
        key: Key([7; 16]),
        work: Work::new(Procs(8), Span(86_400), Speedup::Rigid),
        submitted: Time(1_795_258_985),
        owner: Owner::UNKNOWN,
        moves: 0,
        avoids: Vec::new(),
        siblings: Vec::new(),
    };
    let placed = (1..=waiting).map(|number| Waiting { job: JobId(number), plan: estimate }).collect();
    let info = ServerInfo {
        name: "lyon".parse().unwrap(),
        address: "localhost:7000".to_owned(),
        rank: 0,
        procs: Procs(64),
        speed: Speed::REFERENCE,
        policy: "cbf".to_owned(),
        services: Vec::new(),
        scripts: true,
        optional_cores: 0,
        optional_per_core: 0,
    };
    let queue = Dump { planned: placed, ..Dump::default() };
    let movable = (1..=waiting).map(movable).collect();
    let snapshot = ServerSnapshot {
        info,
        tuner: Tuner::Exact,
        queue,
        nodes: None,
        movable,
        closed: None,
        drained: false,
    };
    DiscoveryResult { snapshots: vec![snapshot], ..DiscoveryResult::default() }
}

#[tokio::test]
async fn the_queue_of_50_000_waiting_jobs_goes_up_in_pieces_among_other_messages() {
    let long = queue(50_000);
    let length = proto::Up::from(&FromChild::Answer { discovery: 80, found: long.clone() }).encoded_len();
    assert!(length > LimitsFile::default().message_bytes, "one message would do: {length} bytes");
    let mut bench = Bench::new(1, 1000, 0);
    bench.upward.answer(8, long.clone());
    let (mut pieces, mut updates, mut taken) = (Pieces::default(), 0, 0);
    let answer = loop {
        let message = bench.parent.recv().await.expect("the connection holds");
        assert!(
            message.encoded_len() <= LimitsFile::default().message_bytes / 8,
            "{}",
            message.encoded_len()
        );
        match FromChild::try_from(message).unwrap() {
            FromChild::Piece { discovery, bytes, last } => {
                taken += 1;
                if let Some(answer) = pieces.take(discovery, &bytes, last).unwrap() {
                    break answer;
                }
            }
            FromChild::StatusUpdate { .. } => updates += 1,
            FromChild::Heartbeat { .. } => {}
            other => panic!("expected a piece, found {other:?}"),
        }
    };
    assert_eq!(answer, FromChild::Answer { discovery: 80, found: long });
    assert!(taken > 50 && updates <= 1000, "{taken} pieces, {updates} status updates");
}

#[test]
fn what_is_no_answer_is_found_out() {
    let mut pieces = Pieces::default();
    assert!(pieces.take(1, &[0xff; 9], true).is_err());
    // What is left of an answer that was given up does not get into the next one.
    assert_eq!(pieces.take(2, &[0xff; 9], false), Ok(None));
    let answer = FromChild::Answer { discovery: 3, found: DiscoveryResult::default() };
    let proto::Up { message: Some(proto::up::Message::Answer(short)) } = proto::Up::from(&answer) else {
        panic!("an answer is one")
    };
    assert_eq!(pieces.take(3, &short.encode_to_vec(), true), Ok(Some(answer)));
}

#[test]
fn two_processes_with_one_certificate_displace_each_other_ever_more_slowly() {
    // The first one was connected for a day, then the second one came. Each is connected while the other one pauses.
    let hour = Duration::from_secs(3_600);
    let (mut pauses, mut held) = ([PAUSE.0; 2], 24 * hour);
    let (mut passed, mut displacements) = (Duration::ZERO, 0);
    while passed < hour {
        let pause = &mut pauses[displacements % 2];
        *pause = next_pause(*pause, held);
        held = *pause;
        passed += held;
        displacements += 1;
    }
    assert!(PAUSE.1 < SILENCE, "a longer pause would let the other one begin anew");
    assert!((720..735).contains(&displacements), "{displacements}: every {} s", PAUSE.1.as_secs());
}
