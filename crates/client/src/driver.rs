//! The event loop of work that a client can resume.
//!
//! A turn takes what comes first (an interruption, a reply, a timer), journals what must survive the client, applies it to the
//! state machine of `control`, and carries out the machine's commands. Replaying the journal makes the same state again.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::WorkError;
use crate::work_folder::{Durability, FolderError, Work, WorkFolder};

/// The longest time between two reports of progress.
const REPORT_EVERY: Duration = Duration::from_millis(500);
/// How often the folder shows that a client works on it.
const BEAT_EVERY: Duration = Duration::from_secs(2);

pub(crate) type State<X> = <<X as Executor>::Work as Work>::State;
pub(crate) type Entry<X> = <<X as Executor>::Work as Work>::Entry;
pub(crate) type Command<X> = <<X as Executor>::Work as Work>::Command;
pub(crate) type Folder<X> = WorkFolder<<X as Executor>::Work>;

/// An input of a state machine.
pub(crate) enum Input<X: Executor> {
    /// Journaled before it is applied.
    Entry(Entry<X>),
    /// Not journaled: a client that resumes asks again.
    Event(X::Event),
}

/// The state machine of some work with the calls that carry out its commands.
pub(crate) trait Executor: Sized {
    type Work: Work;
    /// What the machine takes in and is not journaled.
    type Event;
    /// What calls report.
    type Reply;

    fn state(&mut self) -> &mut State<Self>;

    /// What begins the work, or resumes it.
    fn begin(&mut self) -> Input<Self>;

    /// False if the state has the entry already.
    fn is_new(&self, _: &Entry<Self>) -> bool {
        true
    }

    /// Takes in what is not journaled, and appends what is to be done.
    fn on(&mut self, event: Self::Event, commands: &mut Vec<Command<Self>>);

    /// What is journaled before a command is carried out.
    fn entry_of(&self, _: &Command<Self>) -> Option<Entry<Self>> {
        None
    }

    /// Carries out a command; returns what follows from it at once.
    fn carry_out(&mut self, command: Command<Self>) -> Option<Input<Self>>;

    /// Checks after each input whether the work can go on.
    fn check(&self) -> Result<(), WorkError>;

    fn is_over(&self) -> bool;

    /// Waits for the next reply of a call. The future may be dropped while it waits.
    async fn reply(&mut self) -> Self::Reply;

    fn receive(
        &mut self,
        reply: Self::Reply,
        folder: Option<&Folder<Self>>,
    ) -> Result<Vec<Input<Self>>, WorkError>;

    /// When [`wake`](Executor::wake) is due.
    fn wake_at(&self) -> Instant;

    /// Called when a timer has fired, due or not.
    fn wake(&mut self) -> Option<Input<Self>>;

    /// The user interrupts the work.
    fn interrupt(&mut self) -> Option<Input<Self>>;

    /// Ends what is left, also after an error.
    async fn finish(
        &mut self,
        result: Result<(), WorkError>,
        _: Option<&mut Folder<Self>>,
    ) -> Result<(), WorkError> {
        result
    }
}

/// Work in progress, with its folder if it has one.
pub(crate) struct Driver<X: Executor> {
    pub(crate) executor: X,
    folder: Option<Folder<X>>,
}

impl<X: Executor> Driver<X> {
    pub(crate) fn new(executor: X, folder: Option<Folder<X>>) -> Driver<X> {
        Driver { executor, folder }
    }

    pub(crate) fn into_folder(self) -> Option<Folder<X>> {
        self.folder
    }

    /// Works until the work is over or cannot go on. `report` is called after each turn.
    pub(crate) async fn run(
        &mut self,
        interrupted: impl Future<Output = ()>,
        report: impl FnMut(&mut X),
    ) -> Result<(), WorkError> {
        let result = self.turns(interrupted, report).await;
        let flushed = self.flush(true).map_err(WorkError::from);
        self.executor.finish(result.and(flushed), self.folder.as_mut()).await
    }

    async fn turns(
        &mut self,
        interrupted: impl Future<Output = ()>,
        mut report: impl FnMut(&mut X),
    ) -> Result<(), WorkError> {
        let mut interrupted = std::pin::pin!(interrupted);
        let mut is_interrupted = false;
        let mut inputs = vec![self.executor.begin()];
        let mut beaten: Option<Instant> = None;
        loop {
            self.process(inputs)?;
            if let Some(folder) = &self.folder
                && beaten.is_none_or(|beaten| beaten.elapsed() >= BEAT_EVERY)
            {
                folder.beat();
                beaten = Some(Instant::now());
            }
            report(&mut self.executor);
            if self.executor.is_over() {
                return Ok(());
            }
            let now = Instant::now();
            let wake_at = self.executor.wake_at().clamp(now, now + REPORT_EVERY);
            inputs = tokio::select! {
                biased;
                () = interrupted.as_mut(), if !is_interrupted => {
                    is_interrupted = true;
                    self.executor.interrupt().into_iter().collect()
                }
                reply = self.executor.reply() => self.executor.receive(reply, self.folder.as_ref())?,
                () = sleep_until(wake_at) => self.executor.wake().into_iter().collect(),
            };
        }
    }

    /// Journals an entry and applies it. The commands that follow are those of [`Executor::begin`].
    pub(crate) fn record(&mut self, entry: Entry<X>) -> Result<(), FolderError> {
        self.journal(&entry)?;
        self.flush(true)?;
        X::Work::apply(self.executor.state(), entry, &mut Vec::new());
        Ok(())
    }

    /// Takes in inputs, and carries out what follows from them.
    fn process(&mut self, inputs: Vec<Input<X>>) -> Result<(), WorkError> {
        let (mut inputs, mut commands) = (VecDeque::from(inputs), Vec::new());
        while let Some(input) = inputs.pop_front() {
            let mut sync = false;
            match input {
                Input::Entry(entry) if !self.executor.is_new(&entry) => continue,
                Input::Entry(entry) => {
                    sync = self.journal(&entry)?;
                    X::Work::apply(self.executor.state(), entry, &mut commands);
                }
                Input::Event(event) => self.executor.on(event, &mut commands),
            }
            for command in &commands {
                if let Some(entry) = self.executor.entry_of(command) {
                    sync |= self.journal(&entry)?;
                }
            }
            if !commands.is_empty() {
                self.flush(sync)?;
            }
            for command in commands.drain(..) {
                inputs.extend(self.executor.carry_out(command));
            }
            self.executor.check()?;
        }
        Ok(self.flush(false)?)
    }

    /// Appends an entry; true if it has to be on the disk before a command is carried out.
    fn journal(&mut self, entry: &Entry<X>) -> Result<bool, FolderError> {
        let Some(folder) = &mut self.folder else { return Ok(false) };
        let durability = X::Work::durability(entry);
        if durability == Durability::SyncBefore {
            folder.flush(true)?;
        }
        folder.append(entry);
        Ok(durability == Durability::SyncAfter)
    }

    fn flush(&mut self, sync: bool) -> Result<(), FolderError> {
        self.folder.as_mut().map_or(Ok(()), |folder| folder.flush(sync))
    }
}

#[cfg(test)]
mod tests;
