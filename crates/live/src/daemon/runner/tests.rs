use serde::{Deserialize, Serialize};

use super::*;
use crate::daemon::mailbox;
use crate::journal::{Archive, Loaded};

/// Wants done what it is told.
struct Echo;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
enum Word {
    /// Promises nothing.
    Early,
    /// Is to be durable before it is carried out.
    Durable,
}

impl Machine for Echo {
    type Event = Word;
    type Command = Word;
    type State = ();

    fn on(&mut self, _now: Time, event: Word, commands: &mut Vec<Word>) {
        commands.push(event);
    }

    fn next_due(&self) -> Option<Time> {
        None
    }

    fn due() -> Word {
        Word::Early
    }

    fn dump(&mut self, _now: Time) {}
}

/// Notes what it was to carry out.
#[derive(Default)]
struct Notes(Vec<Word>);

impl Driver<Echo> for Notes {
    fn keeps(&mut self, _command: &Word) -> Kept {
        Kept::Nothing
    }

    fn is_early(&self, command: &Word) -> bool {
        *command == Word::Early
    }

    fn carry_out(&mut self, _machine: &Echo, _now: Time, command: Word, _notice: Option<u64>) {
        self.0.push(command);
    }
}

/// Keeps everything, in memory.
struct Nowhere;

impl Journal for Nowhere {
    fn id(&self) -> u64 {
        1
    }

    fn load(&mut self) -> Result<Loaded, JournalError> {
        Ok(Loaded::default())
    }

    fn commit(&mut self, _batch: &Batch) -> Result<(), JournalError> {
        Ok(())
    }

    fn compact(&mut self, _snapshot: &Snapshot, _keep_after: i64) -> Result<bool, JournalError> {
        Ok(false)
    }

    fn trim(&mut self, _keep_after: i64) -> Result<bool, JournalError> {
        Ok(false)
    }

    fn archive(&self) -> Result<Box<dyn Archive>, JournalError> {
        unreachable!("nobody reads")
    }
}

fn runner() -> Runner<Echo, Notes> {
    Runner {
        machine: Echo,
        journal: Box::new(Nowhere),
        driver: Notes::default(),
        inbox: mailbox().1,
        settings: Settings::default(),
        sequence: 0,
        since_snapshot: Since::default(),
        next_notice: 1,
        clock: Clock::start(Time(0)),
        batch: Batch::default(),
        backlog: Vec::new(),
        held: VecDeque::new(),
        unwritten_since: None,
        is_long: false,
    }
}

#[test]
fn what_promises_nothing_waits_for_the_next_commit() {
    let mut runner = runner();
    assert!(!runner.is_pressing(), "there is nothing to commit");
    runner.tell(Time(1), Word::Early);
    assert_eq!(runner.driver.0, [Word::Early]);
    assert!(!runner.is_pressing());
    runner.tell(Time(1), Word::Durable);
    assert_eq!(runner.driver.0, [Word::Early], "not durable yet");
    assert!(runner.is_pressing());
    assert_eq!(runner.batch.entries.len(), 2);
    runner.commit(Time(1)).unwrap();
    assert_eq!(runner.driver.0, [Word::Early, Word::Durable]);
    assert!(!runner.is_pressing());
}

#[test]
fn nothing_waits_for_a_commit_for_ever() {
    let mut late = runner();
    late.tell(Time(1), Word::Early);
    late.unwritten_since = Instant::now().checked_sub(UNWRITTEN);
    assert!(late.is_pressing(), "it has waited");
    let mut many = runner();
    (0..BATCH).for_each(|_| many.tell(Time(1), Word::Early));
    assert!(many.is_pressing(), "it is much");
}

#[test]
fn what_the_parent_has_kept_is_forgotten_with_the_next_commit() {
    let mut runner = runner();
    runner.acknowledged(3);
    runner.acknowledged(2);
    assert_eq!(runner.batch.notices_acknowledged, Some(3));
    assert!(!runner.is_pressing());
}
