//! A mailbox whose machine does not keep up, and a thread that ends by itself.

use std::path::Path;

use pliant_control::replay::Machine;
use pliant_journal::open_sqlite;
use pliant_model::Time;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::mailbox::{Input, Rejected};
use super::thread::supervise;
use super::*;

/// Does what it is asked.
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
        assert_eq!(event, Word::Rest, "as ordered");
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
    fn keeps(&mut self, _command: &Word) -> DurableRecord {
        DurableRecord::Nothing
    }

    fn carry_out(&mut self, _machine: &Obedient, _now: Time, _command: Word, _notice: Option<u64>) {}
}

fn host(folder: &Path) -> MachineHost<Obedient> {
    MachineHost::of(open_sqlite(folder).unwrap(), |_, _| Obedient, |()| Ok(Obedient)).unwrap()
}

#[tokio::test]
async fn what_clients_want_is_rejected_while_too_much_waits() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(folder.path());
    let mailbox = host.mailbox.clone();
    let want = |bytes| mailbox.try_send(Word::Rest, bytes);
    // Nothing is taken in yet. By their bytes:
    for _ in 0..64 {
        want(1 << 20).unwrap();
    }
    assert_eq!(want(1), Err(Rejected::Busy));
    assert_eq!(want(0), Ok(()), "a refused event does not count");
    // By their number:
    for _ in 65..10_000 {
        mailbox.send(Word::Rest).unwrap();
    }
    assert_eq!(want(0), Err(Rejected::Busy));
    mailbox.send(Word::Rest).unwrap();
    let thread = host.start("test", Idle, Settings::default()).unwrap();
    mailbox.settled().await.unwrap();
    assert_eq!(want(1 << 20), Ok(()), "it was taken in");
    let (halt, _halted) = watch::channel(false);
    let (_stop, stopped) = watch::channel(true);
    supervise(std::future::pending(), vec![thread], stopped, &halt).await.unwrap();
    assert_eq!(want(0), Err(Rejected::Stopped));
}

/// Answers the questions in a mailbox; how many there were.
fn answer_all(inbox: &super::mailbox::Inbox<Obedient>) -> usize {
    let questions = inbox.receiver.try_iter().map(|input| match input {
        Input::Question(question) => question(&mut Obedient, Time(0)),
        _ => panic!("expected a question"),
    });
    questions.count()
}

#[tokio::test]
async fn one_long_question_of_a_user_is_in_the_mailbox_at_a_time() {
    let (mailbox, inbox) = mailbox::<Obedient>();
    let ask = |user: &'static str| {
        let mailbox = mailbox.clone();
        tokio::spawn(async move { mailbox.ask_alone(&user.parse().unwrap(), |_, _| ()).await })
    };
    let settle = || async {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    };
    let mut of_alice: Vec<_> = (0..10).map(|_| ask("alice")).collect();
    let of_bob = ask("bob");
    settle().await;
    // A caller that goes leaves its question in the mailbox, and the turn with it.
    of_alice.remove(0).abort();
    settle().await;
    assert_eq!(answer_all(&inbox), 2, "one of each user");
    for _ in 0..9 {
        settle().await;
        assert_eq!(answer_all(&inbox), 1, "the next one of alice");
    }
    for asked in of_alice.into_iter().chain([of_bob]) {
        assert_eq!(asked.await.unwrap(), Ok(()));
    }
}

#[tokio::test]
async fn a_daemon_ends_with_any_of_its_threads() {
    let folder = tempfile::tempdir().unwrap();
    let (sound, ill) = (host(&folder.path().join("sound")), host(&folder.path().join("ill")));
    let (mailbox, other) = (ill.mailbox.clone(), sound.mailbox.clone());
    let threads = [sound, ill].map(|host| host.start("test", Idle, Settings::default()).unwrap());
    mailbox.send(Word::Panic).unwrap();
    let (halt, halted) = watch::channel(false);
    let (_stop, stopped) = watch::channel(false);
    let ended = supervise(std::future::pending(), threads.into(), stopped, &halt).await;
    assert!(matches!(ended, Err(DaemonError::Panicked)), "{ended:?}");
    assert!(*halted.borrow(), "everything else of it ends, too");
    assert_eq!(other.try_send(Word::Rest, 0), Err(Rejected::Stopped), "its other thread as well");
}
