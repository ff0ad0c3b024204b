//! Replay of a journal (invariant 10): the same events give the same commands.

use pliant_model::Time;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A machine whose events are journaled.
pub trait Machine {
    /// The events that the machine handles.
    type Event: Clone + Serialize + DeserializeOwned;
    /// The commands that the machine returns.
    type Command: PartialEq + std::fmt::Debug + Serialize + DeserializeOwned;
    /// The machine's persistent state, as data.
    type State: Serialize + DeserializeOwned + Send + 'static;

    /// Handles an event and appends the commands that follow.
    fn on(&mut self, now: Time, event: Self::Event, commands: &mut Vec<Self::Command>);

    /// When the machine needs the next [`Machine::due`] event.
    fn next_due(&self) -> Option<Time>;

    /// The event that a point in time has come.
    fn due() -> Self::Event;

    /// The machine's state. A machine restored from it behaves the same as this one, except for open questions.
    fn dump(&mut self, now: Time) -> Self::State;

    /// True if an event belongs to a question, which changes no persistent state. It is not journaled, and the requester
    /// repeats a lost question.
    fn is_question(_event: &Self::Event) -> bool {
        false
    }

    /// True if a command belongs to a question: it promises nothing and waits for no journal. Questions are not journaled,
    /// so a replay does not give this command.
    fn is_of_question(_command: &Self::Command) -> bool {
        false
    }

    /// True if these commands are all that followed from an event, and it has changed no persistent state. The event is
    /// then not journaled, and a replay without it gives the same state.
    fn is_without_effect(_commands: &[Self::Command]) -> bool {
        false
    }
}

/// One event of a journal.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JournalEvent<E> {
    /// When it happened.
    pub at: Time,
    /// The event.
    pub event: E,
}

/// Replays events into a machine and returns the commands of each event, without those of questions.
pub fn replay<M: Machine>(
    machine: &mut M,
    events: impl IntoIterator<Item = JournalEvent<M::Event>>,
) -> Vec<Vec<M::Command>> {
    let handle = |JournalEvent { at, event }| {
        let mut commands = Vec::new();
        machine.on(at, event, &mut commands);
        commands.retain(|command| !M::is_of_question(command));
        commands
    };
    events.into_iter().map(handle).collect()
}
