//! A journal told again (invariant 10): the same events give the same commands.

use pliant_model::Time;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A machine whose events are journaled.
pub trait Machine {
    /// What it is told.
    type Event: Clone + Serialize + DeserializeOwned;
    /// What it wants done.
    type Command: PartialEq + std::fmt::Debug + Serialize + DeserializeOwned;
    /// All of its state that lasts, as data.
    type State: Serialize + DeserializeOwned;

    /// Takes in an event and appends what is to be done.
    fn on(&mut self, now: Time, event: Self::Event, commands: &mut Vec<Self::Command>);

    /// When it wants to be told that time has passed.
    fn next_due(&self) -> Option<Time>;

    /// The event that says so.
    fn due() -> Self::Event;

    /// Its state. The machine behaves the same whether it goes on or is made again from this, but for questions that
    /// were open.
    fn dump(&mut self, now: Time) -> Self::State;

    /// True if an event is part of a question, which changes nothing that lasts: it is not journaled, and whoever
    /// asked asks again if it is lost.
    fn is_question(_event: &Self::Event) -> bool {
        false
    }

    /// True if a command is part of a question: it promises nothing and waits for no journal. Since questions are not
    /// journaled, it is not among the commands that a journal gives again.
    fn is_of_question(_command: &Self::Command) -> bool {
        false
    }

    /// True if these are all that followed from an event and it has changed nothing that lasts: it is not journaled.
    /// Told again without it, the machine does the same.
    fn is_without_effect(_commands: &[Self::Command]) -> bool {
        false
    }
}

/// One event of a journal.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JournalEvent<E> {
    /// When.
    pub at: Time,
    /// What.
    pub event: E,
}

/// Tells a machine what happened and returns the commands, event by event, without those of questions.
pub fn replay<M: Machine>(
    machine: &mut M,
    events: impl IntoIterator<Item = JournalEvent<M::Event>>,
) -> Vec<Vec<M::Command>> {
    let tell = |JournalEvent { at, event }| {
        let mut commands = Vec::new();
        machine.on(at, event, &mut commands);
        commands.retain(|command| !M::is_of_question(command));
        commands
    };
    events.into_iter().map(tell).collect()
}
