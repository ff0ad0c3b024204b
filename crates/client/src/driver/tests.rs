use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use super::*;

/// Counts to a number, a call for each step.
#[derive(Serialize, Deserialize)]
struct Count {
    to: u32,
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
enum Step {
    Asked(u32),
    Counted(u32),
}

#[derive(Default)]
struct Counted {
    to: u32,
    asked: u32,
    counted: u32,
}

impl Work for Count {
    type Entry = Step;
    type State = Counted;
    type Command = u32;
    const KIND: &'static str = "a count";
    const SCHEMA: &'static str = "pliant.count/1";
    const HEADER: &'static str = "count.json";
    const FOREIGN: &'static [&'static str] = &[];

    fn problem(&self) -> Option<String> {
        None
    }

    fn problem_of(&self, _: &Step) -> Option<String> {
        None
    }

    fn start(&self) -> Counted {
        Counted { to: self.to, ..Counted::default() }
    }

    fn apply(state: &mut Counted, entry: Step, commands: &mut Vec<u32>) {
        match entry {
            Step::Asked(number) => state.asked = number,
            Step::Counted(number) => {
                state.counted = number;
                commands.extend((number < state.to).then_some(number + 1));
            }
        }
    }

    fn durability(_: &Step) -> Durability {
        Durability::SyncAfter
    }
}

struct Counter {
    state: Counted,
    sender: UnboundedSender<u32>,
    replies: UnboundedReceiver<u32>,
    journal: std::path::PathBuf,
    /// What was in the journal when each call was made.
    calls: Vec<(u32, String)>,
    is_interrupted: bool,
    woken: Arc<Notify>,
}

impl Executor for Counter {
    type Work = Count;
    type Event = ();
    type Reply = u32;

    fn state(&mut self) -> &mut Counted {
        &mut self.state
    }

    fn begin(&mut self) -> Input<Counter> {
        Input::Event(())
    }

    fn is_new(&self, entry: &Step) -> bool {
        *entry != Step::Counted(self.state.counted)
    }

    fn on(&mut self, (): (), commands: &mut Vec<u32>) {
        commands.push(self.state.counted + 1);
    }

    fn entry_of(&self, number: &u32) -> Option<Step> {
        Some(Step::Asked(*number))
    }

    fn carry_out(&mut self, number: u32) -> Option<Input<Counter>> {
        self.calls.push((number, std::fs::read_to_string(&self.journal).unwrap()));
        // Every answer comes twice, 3 never.
        for _ in 0..2 {
            if number != 3 {
                self.sender.send(number).unwrap();
            }
        }
        None
    }

    fn check(&self) -> Result<(), WorkError> {
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.is_interrupted || self.state.counted == self.state.to
    }

    async fn reply(&mut self) -> u32 {
        self.replies.recv().await.unwrap()
    }

    fn receive(&mut self, reply: u32, _: Option<&Folder<Counter>>) -> Result<Vec<Input<Counter>>, WorkError> {
        Ok(vec![Input::Entry(Step::Counted(reply))])
    }

    fn wake_at(&self) -> Instant {
        Instant::now() + Duration::from_secs(3_600)
    }

    fn wake(&mut self) -> Option<Input<Counter>> {
        self.woken.notify_one();
        None
    }

    fn interrupt(&mut self) -> Option<Input<Counter>> {
        self.is_interrupted = true;
        None
    }
}

fn driver(dir: &Path, to: u32) -> Driver<Counter> {
    let mut folder = WorkFolder::open(dir).unwrap();
    let state = match folder.resume().unwrap() {
        Some((_, state)) => state,
        None => {
            folder.begin(&Count { to }).unwrap();
            Count { to }.start()
        }
    };
    let ((sender, replies), journal) = (unbounded_channel(), dir.join("journal.jsonl"));
    let (calls, woken) = (Vec::new(), Arc::default());
    let executor = Counter { state, sender, replies, journal, calls, is_interrupted: false, woken };
    Driver::new(executor, Some(folder))
}

#[tokio::test]
async fn what_a_command_records_is_on_the_disk_before_it_is_carried_out() {
    let dir = tempfile::tempdir().unwrap();
    let mut driver = driver(dir.path(), 2);
    let mut reports = 0;
    driver.run(std::future::pending(), |_| reports += 1).await.unwrap();
    let [first, second] = ["{\"Asked\":1}\n", "{\"Asked\":1}\n{\"Counted\":1}\n{\"Asked\":2}\n"];
    assert_eq!(driver.executor.calls, [(1, first.to_owned()), (2, second.to_owned())]);
    // The answer that came twice is journaled once.
    let journal = std::fs::read_to_string(dir.path().join("journal.jsonl")).unwrap();
    assert_eq!(journal, format!("{second}{{\"Counted\":2}}\n"));
    // At the start and after each of three answers, the last of which is not waited for.
    assert_eq!(reports, 4);
}

#[tokio::test]
async fn interrupted_work_is_resumed_from_its_journal() {
    let dir = tempfile::tempdir().unwrap();
    let mut interrupted = driver(dir.path(), 4);
    // A timer fires although nothing is due: the call without an answer holds nothing up.
    let woken = interrupted.executor.woken.clone();
    interrupted.run(woken.notified(), |_| {}).await.unwrap();
    assert_eq!(interrupted.executor.state.counted, 2);
    assert!(matches!(WorkFolder::<Count>::open(dir.path()), Err(FolderError::InUse { .. })));
    drop(interrupted.into_folder());
    let mut resumed = driver(dir.path(), 4);
    assert_eq!((resumed.executor.state.counted, resumed.executor.state.asked), (2, 3));
    resumed.executor.sender.send(3).unwrap();
    resumed.run(std::future::pending(), |_| {}).await.unwrap();
    let calls: Vec<u32> = resumed.executor.calls.iter().map(|(number, _)| *number).collect();
    assert_eq!(calls, [3, 4], "the call without an answer is made again");
    drop(resumed);
    let mut folder = WorkFolder::<Count>::open(dir.path()).unwrap();
    assert_eq!(folder.resume().unwrap().unwrap().1.counted, 4);
}
