//! A mailbox whose machine does not keep up, and a thread that ends by itself.

use pliant_control::replay::Machine;
use pliant_journal::{Journal, open_sqlite};
use pliant_model::Time;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::mailbox::TurnedAway;
use super::*;

/// Does what it is told.
struct Obedient;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
enum Word {
    Rest,
    Panic,
}

impl Machine for Obedient {
    type Event = Word;
    type Command = Word;
    type State = ();

    fn on(&mut self, _now: Time, event: Word, _commands: &mut Vec<Word>) {
        assert_eq!(event, Word::Rest, "told to");
    }

    fn next_due(&self) -> Option<Time> {
        None
    }

    fn due() -> Word {
        Word::Rest
    }

    fn dump(&mut self, _now: Time) {}
}

/// Has nothing to do.
struct Idle;

impl Driver<Obedient> for Idle {
    fn keeps(&mut self, _command: &Word) -> Kept {
        Kept::Nothing
    }

    fn carry_out(&mut self, _machine: &Obedient, _now: Time, _command: Word, _notice: Option<u64>) {}
}

fn thread(
    journal: Box<dyn Journal>,
    ends: (Mailbox<Obedient>, mailbox::Inbox<Obedient>),
) -> MachineThread<Obedient> {
    let mut journal = journal;
    let recovered = recover(journal.as_mut(), |_| Obedient, |()| Ok(Obedient)).unwrap();
    MachineThread::start("test", recovered, journal, Idle, ends, Settings::default()).unwrap()
}

#[tokio::test]
async fn what_clients_want_is_turned_away_while_too_much_waits() {
    let folder = tempfile::tempdir().unwrap();
    let (mailbox, inbox) = mailbox::<Obedient>();
    let want = |bytes| mailbox.want(Word::Rest, bytes);
    // Nobody takes anything in yet. By their bytes:
    for _ in 0..64 {
        want(1 << 20).unwrap();
    }
    assert_eq!(want(1), Err(TurnedAway::Busy));
    assert_eq!(want(0), Ok(()), "what was turned away does not count");
    // By their number:
    for _ in 65..10_000 {
        mailbox.tell(Word::Rest).unwrap();
    }
    assert_eq!(want(0), Err(TurnedAway::Busy));
    mailbox.tell(Word::Rest).unwrap();
    let thread = thread(open_sqlite(folder.path()).unwrap(), (mailbox.clone(), inbox));
    mailbox.settled().await.unwrap();
    assert_eq!(want(1 << 20), Ok(()), "it was taken in");
    let (halt, _halted) = watch::channel(false);
    let (_stop, stopped) = watch::channel(true);
    thread.serve(std::future::pending(), stopped, &halt).await.unwrap();
    assert_eq!(want(0), Err(TurnedAway::Stopped));
}

#[tokio::test]
async fn a_daemon_ends_with_its_thread() {
    let folder = tempfile::tempdir().unwrap();
    let ends = mailbox::<Obedient>();
    let mailbox = ends.0.clone();
    let thread = thread(open_sqlite(folder.path()).unwrap(), ends);
    mailbox.tell(Word::Panic).unwrap();
    let (halt, halted) = watch::channel(false);
    let (_stop, stopped) = watch::channel(false);
    let ended = thread.serve(std::future::pending(), stopped, &halt).await;
    assert!(matches!(ended, Err(DaemonError::Panicked)), "{ended:?}");
    assert!(*halted.borrow(), "everything else of it ends, too");
}
