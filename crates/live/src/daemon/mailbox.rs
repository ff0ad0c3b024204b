//! What a machine is told and asked, by everybody, for the one thread that owns it.

use std::sync::mpsc::{self, Receiver, Sender};

use pliant_control::replay::Machine;
use pliant_model::Time;

/// What a machine is asked, and where its answer goes.
pub(super) type Question<M> = Box<dyn FnOnce(&mut M, Time) + Send>;

/// What comes in.
pub(super) enum Input<M: Machine> {
    Event(M::Event),
    Question(Question<M>),
    Acknowledged(u64),
    Stop,
}

/// Where to leave what the machine is to be told or asked.
pub struct Mailbox<M: Machine> {
    sender: Sender<Input<M>>,
}

impl<M: Machine> Clone for Mailbox<M> {
    fn clone(&self) -> Self {
        Mailbox { sender: self.sender.clone() }
    }
}

/// The daemon has stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stopped;

impl<M: Machine> Mailbox<M> {
    /// Tells the machine what happened.
    pub fn tell(&self, event: M::Event) -> Result<(), Stopped> {
        self.sender.send(Input::Event(event)).map_err(|_| Stopped)
    }

    /// Asks the machine something that changes nothing.
    pub async fn ask<A: Send + 'static>(
        &self,
        question: impl FnOnce(&mut M, Time) -> A + Send + 'static,
    ) -> Result<A, Stopped> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let question: Question<M> = Box::new(move |machine, now| {
            // Whoever asked may have gone.
            let _ = sender.send(question(machine, now));
        });
        self.sender.send(Input::Question(question)).map_err(|_| Stopped)?;
        receiver.await.map_err(|_| Stopped)
    }

    /// The parent has kept the news up to there.
    pub fn acknowledged(&self, sequence: u64) {
        // A daemon that has stopped asks again when it starts.
        let _ = self.sender.send(Input::Acknowledged(sequence));
    }

    /// Ends the loop once what was told before is done.
    pub fn stop(&self) {
        let _ = self.sender.send(Input::Stop);
    }
}

/// A mailbox and its other end.
pub(crate) fn mailbox<M: Machine>() -> (Mailbox<M>, Inbox<M>) {
    let (sender, receiver) = mpsc::channel();
    (Mailbox { sender }, Inbox { receiver })
}

/// The other end of a mailbox.
pub(crate) struct Inbox<M: Machine> {
    pub(super) receiver: Receiver<Input<M>>,
}
