use parking_lot::Mutex;
use pliant_journal::{Archive, Inodes, KeepFrom, Loaded, SnapshotPart};
use serde::{Deserialize, Serialize};

use super::*;
use crate::host::mailbox;

/// Wants done what it is sent.
pub(super) struct Echo;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) enum Word {
    /// Asks, and is of a question itself.
    Ask,
    /// Promises nothing: a question follows from it.
    Early,
    /// Is to be durable before it is carried out.
    Durable,
    /// Changes nothing.
    Refused,
}

impl Machine for Echo {
    type Event = Word;
    type Command = Word;
    type State = ();

    fn on(&mut self, _now: Time, event: Word, commands: &mut Vec<Word>) {
        commands.push(if event == Word::Early { Word::Ask } else { event });
    }

    fn next_due(&self) -> Option<Time> {
        None
    }

    fn due() -> Word {
        Word::Early
    }

    fn dump(&mut self, _now: Time) {}

    fn is_question(event: &Word) -> bool {
        *event == Word::Ask
    }

    fn is_of_question(command: &Word) -> bool {
        *command == Word::Ask
    }

    fn is_without_effect(commands: &[Word]) -> bool {
        commands == [Word::Refused]
    }
}

/// Notes what it was to carry out.
#[derive(Default)]
pub(super) struct Notes(pub(super) Vec<Word>, pub(super) Vec<u64>);

impl Driver<Echo> for Notes {
    fn keeps(&mut self, _command: &Word) -> DurableRecord {
        DurableRecord::Nothing
    }

    fn carry_out(&mut self, _machine: &Echo, _now: Time, command: Word, _notice: Option<u64>) {
        self.0.push(command);
    }

    fn synced(&mut self, notice: u64) {
        self.1.push(notice);
    }
}

/// A journal in memory with what tests examine.
#[derive(Clone, Default)]
pub(super) struct Memory(pub(super) Arc<Mutex<Kept>>);

#[derive(Default)]
pub(super) struct Kept {
    entries: usize,
    pub(super) commits: Vec<Durability>,
    pub(super) syncs: usize,
    pub(super) sync_failures: Vec<JournalError>,
    parts: Vec<SnapshotPart>,
    /// How often parts were refused, if there is no space for any.
    refused: Option<usize>,
    /// What is left of its disk, if it has one.
    free_bytes: Option<u64>,
    /// How many bytes of that were kept for commits.
    reserved_bytes: u64,
    /// The inodes of its disk, if that has a limit of them.
    inodes: Option<Inodes>,
    /// Nothing can be trimmed.
    is_busy: bool,
    /// Which snapshot was being written whenever the rest was trimmed.
    trimmed: Vec<Option<u64>>,
    /// What a look at the leader finds next; nothing wrong if there is none.
    leader: VecDeque<JournalError>,
}

impl Journal for Memory {
    fn id(&self) -> u64 {
        1
    }

    fn claim(&mut self, _owner: &str) -> Result<(), JournalError> {
        Ok(())
    }

    fn load(&mut self) -> Result<Loaded, JournalError> {
        Ok(Loaded::default())
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        let mut kept = self.0.lock();
        if let (Some(refused), Some(_)) = (&mut kept.refused, &batch.snapshot_part) {
            *refused += 1;
            return Err(JournalError::Failed { why: "string or blob too big".to_owned() });
        }
        kept.entries += batch.entries.len();
        kept.commits.push(batch.durability);
        kept.parts.extend(batch.snapshot_part.clone());
        Ok(())
    }

    fn sync(&mut self) -> Result<(), JournalError> {
        let mut kept = self.0.lock();
        kept.syncs += 1;
        kept.sync_failures.pop().map_or(Ok(()), Err)
    }

    fn snapshot_part(&mut self, _seq: u64, _part: u32) -> Result<Vec<u8>, JournalError> {
        unreachable!("no test reads")
    }

    fn entries(&mut self, _after: u64, _limit: u32) -> Result<Vec<Entry>, JournalError> {
        unreachable!("no test reads")
    }

    fn trim(&mut self, _keep_from: &KeepFrom, writing: Option<u64>) -> Result<bool, JournalError> {
        let mut kept = self.0.lock();
        kept.trimmed.push(writing);
        if kept.is_busy {
            Err(JournalError::Failed { why: "database is locked".to_owned() })
        } else {
            Ok(false)
        }
    }

    fn check_leader(&mut self) -> Result<(), JournalError> {
        self.0.lock().leader.pop_front().map_or(Ok(()), Err)
    }

    fn reserve(&mut self, bytes: u64) -> Result<(), JournalError> {
        let mut kept = self.0.lock();
        match kept.free_bytes.map(|free_bytes| free_bytes.checked_sub(bytes)) {
            Some(None) => Err(JournalError::Full { why: format!("{bytes} bytes for its reserve") }),
            left => {
                (kept.free_bytes, kept.reserved_bytes) = (left.flatten(), bytes);
                Ok(())
            }
        }
    }

    fn free_bytes(&self) -> Result<Option<u64>, JournalError> {
        Ok(self.0.lock().free_bytes)
    }

    fn inodes(&self) -> Result<Option<Inodes>, JournalError> {
        Ok(self.0.lock().inodes)
    }

    fn stored_bytes(&self) -> Result<Option<u64>, JournalError> {
        Ok(None)
    }

    fn archive(&self) -> Result<Box<dyn Archive>, JournalError> {
        unreachable!("no test reads")
    }
}

/// What a runner of these tests keeps for commits.
const RESERVE_BYTES: u64 = 100;

pub(super) fn runner() -> Runner<Echo, Notes> {
    let clock = Clock::start(Time(0));
    Runner {
        shared: Arc::new(Shared::new(Echo, clock)),
        journal: Box::new(Memory::default()),
        driver: Notes::default(),
        inbox: mailbox().1,
        settings: Settings::default(),
        health: JournalHealth::default(),
        disk: DiskSpace::new(RESERVE_BYTES),
        history: History::new(u64::MAX, Vec::new()),
        sequence: 0,
        since_snapshot: Since::default(),
        next_update: 1,
        clock,
        batch: Batch::default(),
        backlog: Vec::new(),
        barriers: Vec::new(),
        leader_checks: LeaderChecks::default(),
        held: VecDeque::new(),
        postponed: VecDeque::new(),
        unwritten_since: None,
        unsynced: Unsynced::default(),
        snapshots: Snapshots::new(),
        before_snapshot: Since::default(),
        is_long: false,
        trimmed: Instant::now(),
        trim_pause: Pause::default(),
    }
}

#[test]
fn what_promises_nothing_waits_for_the_next_commit() {
    let mut runner = runner();
    assert!(!runner.is_pressing(), "there is nothing to commit");
    runner.deliver(Word::Early, Durability::Power);
    assert_eq!(runner.driver.0, [Word::Ask]);
    assert!(!runner.is_pressing());
    runner.deliver(Word::Durable, Durability::Power);
    assert_eq!(runner.driver.0, [Word::Ask], "not durable yet");
    assert!(runner.is_pressing());
    assert_eq!(runner.batch.entries.len(), 2);
    runner.commit().unwrap();
    assert_eq!(runner.driver.0, [Word::Ask, Word::Durable]);
    assert!(!runner.is_pressing());
}

#[test]
fn nothing_waits_for_a_commit_for_ever() {
    let mut late = runner();
    late.deliver(Word::Early, Durability::Power);
    late.unwritten_since = Instant::now().checked_sub(UNWRITTEN);
    assert!(late.is_pressing(), "it has waited");
    let mut many = runner();
    (0..BATCH).for_each(|_| many.deliver(Word::Early, Durability::Power));
    assert!(many.is_pressing(), "it is much");
}

#[test]
fn what_the_parent_has_kept_is_forgotten_with_the_next_commit() {
    let mut runner = runner();
    runner.acknowledged(3);
    runner.acknowledged(2);
    assert_eq!(runner.batch.updates_acknowledged, Some(3));
    assert!(!runner.is_pressing());
}

#[test]
fn a_barrier_falls_when_what_came_before_is_durable() {
    let mut runner = runner();
    runner.deliver(Word::Early, Durability::Power);
    assert!(!runner.is_pressing());
    let (sender, mut settled) = oneshot::channel();
    runner.barriers.push(sender);
    assert!(runner.is_pressing(), "a call waits");
    assert!(settled.try_recv().is_err(), "it is not durable yet");
    runner.commit().unwrap();
    assert_eq!(settled.try_recv(), Ok(()));
}

/// A daemon whose machine is asked while its journal waits.
#[tokio::test]
async fn a_glance_needs_no_thread_and_a_barrier_waits_for_it() {
    let (mailbox, inbox) = mailbox::<Echo>();
    let runner = Runner { inbox, ..runner() };
    runner.inbox.show(runner.shared.clone());
    // The thread does not run: only what needs none is answered.
    assert_eq!(mailbox.glance(|_, now| now > Time(0)).await, Ok(true));
    assert_eq!(mailbox.ask_briefly(|_, now| now > Time(0)).await, Ok(true));
    let waits = tokio::spawn({
        let mailbox = mailbox.clone();
        async move { mailbox.settled().await }
    });
    mailbox.send(Word::Early).unwrap();
    // The machine does not have that event yet.
    let mut brief = std::pin::pin!(mailbox.ask_briefly(|_, _| ()));
    tokio::select! {
        biased;
        answered = &mut brief => panic!("{answered:?} before what was sent before"),
        () = std::future::ready(()) => {}
    }
    let thread = std::thread::spawn(move || runner.run().map_err(|error| error.to_string()));
    assert_eq!(waits.await.unwrap(), Ok(()));
    assert_eq!(brief.await, Ok(()));
    mailbox.stop();
    thread.join().unwrap().unwrap();
    assert!(mailbox.settled().await.is_err(), "it has stopped");
}

/// Callers that ask whether a daemon leads whose journal answers that next.
#[tokio::test]
async fn who_acts_outside_of_the_journal_goes_on_only_if_the_daemon_leads() {
    let unreachable = || JournalError::Unreachable { why: "no answer".to_owned() };
    let deposed = || JournalError::Deposed { why: "expected term 1, found term 2".to_owned() };
    for (found, leads) in
        [(vec![], true), (vec![unreachable()], true), (vec![unreachable(), deposed()], false)]
    {
        let (mailbox, inbox) = mailbox::<Echo>();
        let journal = Memory::default();
        journal.0.lock().leader.extend(found);
        let runner = Runner { inbox, journal: Box::new(journal.clone()), ..runner() };
        let thread = std::thread::spawn(move || runner.run().map_err(|error| error.to_string()));
        if leads {
            mailbox.leads().await;
            mailbox.stop();
            thread.join().unwrap().unwrap();
        } else {
            let asking = tokio::spawn({
                let mailbox = mailbox.clone();
                async move { mailbox.leads().await }
            });
            let ended = tokio::task::spawn_blocking(move || thread.join().unwrap()).await.unwrap();
            assert!(ended.unwrap_err().contains("another daemon has taken over"));
            assert!(!asking.is_finished(), "it does nothing more");
        }
        assert_eq!(journal.0.lock().entries, 0, "nothing is committed for that");
    }
}

#[test]
fn questions_are_not_journaled() {
    let mut runner = runner();
    runner.deliver(Word::Ask, Durability::Power);
    assert_eq!((&runner.driver.0[..], runner.batch.entries.len(), runner.sequence), (&[Word::Ask][..], 0, 0));
    assert_eq!(digest::<Echo>(&[Word::Ask, Word::Durable]), digest::<Echo>(&[Word::Durable]));
    assert_ne!(digest::<Echo>(&[Word::Durable]), digest::<Echo>(&[]));
}

#[test]
fn what_changed_nothing_is_not_journaled_and_waits_for_what_came_before() {
    let mut runner = runner();
    runner.deliver(Word::Refused, Durability::Power);
    assert!(!runner.is_pressing(), "there is nothing to commit");
    runner.follow().unwrap();
    assert_eq!((&runner.driver.0[..], runner.sequence), (&[Word::Refused][..], 0));
    // It may rest on something that is not durable yet.
    runner.deliver(Word::Durable, Durability::Power);
    runner.deliver(Word::Refused, Durability::Power);
    assert!(runner.is_pressing());
    assert_eq!((runner.driver.0.len(), runner.batch.entries.len()), (1, 1));
    runner.commit().unwrap();
    assert_eq!(runner.driver.0[1..], [Word::Durable, Word::Refused]);
    runner.deliver(Word::Early, Durability::Power);
    runner.deliver(Word::Refused, Durability::Power);
    assert!(runner.is_pressing(), "a call waits for an answer");
}

/// A runner that takes a snapshot after so many entries, and its journal.
fn snapshotting(snapshot_every: u64) -> (Runner<Echo, Notes>, Memory) {
    let journal = Memory::default();
    let settings = Settings { snapshot_every, ..Settings::default() };
    (Runner { journal: Box::new(journal.clone()), settings, ..runner() }, journal)
}

/// Commits events, and parts of snapshots as they come, until something is so.
fn go_on(runner: &mut Runner<Echo, Notes>, is_done: impl Fn(&Runner<Echo, Notes>) -> bool) {
    let begun = Instant::now();
    while !is_done(runner) {
        assert!(begun.elapsed() < Duration::from_secs(60), "in vain");
        runner.deliver(Word::Durable, Durability::Power);
        runner.add_part();
        runner.commit().unwrap();
        runner.compact().unwrap();
    }
}

#[test]
fn a_snapshot_is_made_while_events_go_on() {
    let (mut runner, journal) = snapshotting(10);
    let is_complete = |journal: &Memory| journal.0.lock().parts.iter().any(|part| part.is_last);
    go_on(&mut runner, |_| is_complete(&journal));
    let kept = journal.0.lock();
    assert_eq!(kept.parts[0].seq, 10);
    assert_eq!(kept.trimmed, [runner.snapshots.seq()], "parts of the next one are kept, if it has begun");
    let since = kept.entries as u64 - 10;
    drop(kept);
    let expected = (0..since).fold(Since::snapshot(4), |mut since, _| {
        since.record_event("\"Durable\"");
        since
    });
    assert_eq!(runner.since_snapshot, expected, "later entries count for the next one");
    // Without a pause.
    go_on(&mut runner, |runner| runner.snapshots.seq().is_some_and(|seq| seq > 10));
}

/// 1,000 commits after the first failure try no other snapshot; all are durable, and the daemon says what is wrong.
#[test]
fn a_snapshot_that_fails_is_not_tried_with_every_commit() {
    let (mut runner, journal) = snapshotting(10);
    journal.0.lock().refused = Some(0);
    go_on(&mut runner, |runner| runner.health.snapshot_failure().is_some());
    let before = journal.0.lock().entries;
    go_on(&mut runner, |runner| runner.sequence >= before as u64 + 1_000);
    let kept = journal.0.lock();
    assert_eq!((kept.refused, kept.entries), (Some(1), before + 1_000));
    assert_eq!((kept.parts.len(), runner.driver.0.len()), (0, kept.entries));
    assert_eq!(kept.trimmed, [None], "what was written of it is deleted");
    drop(kept);
    let failure = runner.health.snapshot_failure().unwrap();
    assert!(failure.contains("string or blob too big"), "{failure}");
    assert_eq!(runner.health.failure(), None, "the journal is written");
    // At the end it is tried once more, and the journal is complete without it.
    runner.last_snapshot().unwrap();
    assert_eq!(journal.0.lock().refused, Some(2));
}

#[test]
fn a_trim_that_fails_is_not_tried_with_every_commit() {
    let (mut runner, journal) = snapshotting(1_000_000);
    runner.is_long = true;
    journal.0.lock().is_busy = true;
    go_on(&mut runner, |runner| runner.sequence >= 1_000);
    assert_eq!((journal.0.lock().trimmed.len(), runner.is_long), (1, true));
    // The pause is over, and the next attempt succeeds.
    journal.0.lock().is_busy = false;
    runner.trim_pause = Pause::default();
    go_on(&mut runner, |runner| runner.sequence >= 2_000);
    assert_eq!((journal.0.lock().trimmed.len(), runner.is_long), (2, false));
}

#[test]
fn a_daemon_without_snapshots_trims_its_journal_too() {
    let (mut runner, journal) = snapshotting(1_000_000);
    go_on(&mut runner, |runner| runner.sequence >= 10);
    assert!(journal.0.lock().trimmed.is_empty());
    for trims in 1..3 {
        runner.trimmed = Instant::now().checked_sub(TRIM_EVERY).expect("this machine runs longer than that");
        runner.compact().unwrap();
        runner.compact().unwrap();
        assert_eq!((journal.0.lock().trimmed.len(), runner.is_long), (trims, false));
    }
}

#[test]
fn a_disk_is_looked_at_before_it_is_full() {
    let (mut runner, journal) = snapshotting(1_000);
    let shortage_at = |runner: &mut Runner<Echo, Notes>, free_bytes| {
        journal.0.lock().free_bytes = free_bytes;
        runner.disk.look_again();
        runner.disk.observe(runner.journal.as_mut(), &runner.health);
        assert_eq!(runner.disk.is_short(), runner.health.shortage().is_some());
        runner.health.shortage()
    };
    let none = shortage_at(&mut runner, Some(RESERVE_BYTES - 1)).unwrap();
    assert!(none.contains("no space for the journal: 100 bytes for its reserve"), "{none}");
    assert_eq!(journal.0.lock().reserved_bytes, 0);
    assert_eq!(shortage_at(&mut runner, Some(2 * RESERVE_BYTES)), None);
    assert_eq!(journal.0.lock().reserved_bytes, RESERVE_BYTES, "made as soon as there is room");
    let little = shortage_at(&mut runner, Some(RESERVE_BYTES - 1)).unwrap();
    assert!(little.contains("99 bytes left, new work needs 100"), "{little}");
    journal.0.lock().free_bytes = Some(RESERVE_BYTES);
    runner.disk.observe(runner.journal.as_mut(), &runner.health);
    assert!(runner.health.shortage().is_some(), "it is not looked at all the time");
    assert_eq!(shortage_at(&mut runner, Some(RESERVE_BYTES)), None);
    assert_eq!(shortage_at(&mut runner, None), None, "a database has a disk of its own");
}

#[test]
fn a_disk_without_free_inodes_takes_no_new_work() {
    let (mut runner, journal) = snapshotting(1_000);
    let shortage_at = |runner: &mut Runner<Echo, Notes>, free_inodes: Option<u64>| {
        let mut kept = journal.0.lock();
        kept.free_bytes = Some(1_000 * RESERVE_BYTES);
        kept.inodes = free_inodes.map(|free| Inodes { free, total: 65_536 });
        drop(kept);
        runner.disk.look_again();
        runner.disk.observe(runner.journal.as_mut(), &runner.health);
        assert_eq!(runner.disk.is_short(), runner.health.shortage().is_some());
        runner.health.shortage()
    };
    assert_eq!(shortage_at(&mut runner, Some(655)), None);
    let little = shortage_at(&mut runner, Some(654)).unwrap();
    assert!(little.contains("654 inodes left for files and folders, new work needs 655"), "{little}");
    assert_eq!(shortage_at(&mut runner, None), None, "a file system without a limit of inodes");
    assert!(shortage_at(&mut runner, Some(0)).is_some());
    runner.disk = DiskSpace::new(0);
    assert_eq!(shortage_at(&mut runner, Some(0)), None, "nothing is kept free");
}

#[test]
fn no_snapshot_is_made_while_the_disk_is_almost_full() {
    let (mut runner, journal) = snapshotting(10);
    journal.0.lock().free_bytes = Some(RESERVE_BYTES - 1);
    runner.disk.observe(runner.journal.as_mut(), &runner.health);
    go_on(&mut runner, |runner| runner.sequence >= 100);
    runner.last_snapshot().unwrap();
    assert!(journal.0.lock().parts.is_empty());
    journal.0.lock().free_bytes = Some(2 * RESERVE_BYTES);
    runner.disk.look_again();
    runner.disk.observe(runner.journal.as_mut(), &runner.health);
    runner.last_snapshot().unwrap();
    assert!(journal.0.lock().parts.iter().any(|part| part.is_last));
}

#[test]
fn at_the_end_there_is_a_snapshot_of_what_is_new() {
    let (mut runner, journal) = snapshotting(1_000);
    runner.last_snapshot().unwrap();
    assert_eq!(journal.0.lock().parts, [], "nothing has happened");
    runner.deliver(Word::Durable, Durability::Power);
    runner.commit().unwrap();
    runner.last_snapshot().unwrap();
    let part = SnapshotPart { seq: 1, at: 0, part: 0, bytes: b"null".to_vec(), is_last: true };
    let parts = &journal.0.lock().parts;
    assert_eq!((parts.len(), SnapshotPart { at: 0, ..parts[0].clone() }), (1, part));
}
