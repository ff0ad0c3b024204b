//! A farm of workers: an emitter gives each the next piece when it wants one, a collector puts the results in order again.
//!
//! Each neighbour is listened to by a thread of its own, which ends with its neighbour or with the program.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use crate::Failure;
use crate::link::{Incoming, Message, Outgoing};

/// Passes the frames to the workers that are free.
pub(crate) fn emit(mut from: Incoming, mut workers: Vec<Outgoing>) -> Result<(), Failure> {
    let (notify, ready) = sync_channel(0);
    for (index, worker) in workers.iter().enumerate() {
        let (mut wants, notify) = (worker.wants()?, notify.clone());
        thread::spawn(move || {
            while let Some(next) = wants.next().transpose() {
                let is_last = next.is_err();
                if notify.send(next.map(|()| index)).is_err() || is_last {
                    return;
                }
            }
        });
    }
    drop(notify);
    while let Some(message) = from.receive()? {
        let free = ready.recv().map_err(|_| "expected a worker, found that all are gone")??;
        workers[free].send(&message)?;
    }
    workers.iter_mut().try_for_each(Outgoing::end)?;
    // Until all workers have received it: a task that ends earlier cuts off their last messages.
    ready.into_iter().try_for_each(|last| last.map(drop))
}

/// Takes one piece after the other, and sends on what `work` makes of it.
pub(crate) fn work(
    mut from: Incoming,
    mut to: Outgoing,
    mut work: impl FnMut(&Message) -> Result<Vec<u8>, Failure>,
) -> Result<(), Failure> {
    loop {
        from.ready()?;
        let Some(message) = from.receive()? else { return Ok(()) };
        let body = work(&message)?;
        to.send(&Message { number: message.number, body })?;
    }
}

/// Hands on what comes from all, by its numbers from 0 on.
pub(crate) fn collect(
    from: Vec<Incoming>,
    mut to: impl FnMut(Message) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut early = BTreeMap::new();
    let mut next = 0;
    for message in together(from) {
        let Message { number, body } = message?;
        early.insert(number, body);
        while let Some(body) = early.remove(&next) {
            to(Message { number: next, body })?;
            next += 1;
        }
    }
    match early.keys().next() {
        None => Ok(()),
        Some(there) => Err(format!("number {next} never came, though {there} did").into()),
    }
}

/// What comes from any of them, until all have said all.
fn together(from: Vec<Incoming>) -> Receiver<Result<Message, Failure>> {
    let (give, take) = sync_channel(0);
    for mut from in from {
        let give = give.clone();
        thread::spawn(move || {
            while let Some(message) = from.receive().transpose() {
                let is_last = message.is_err();
                if give.send(message).is_err() || is_last {
                    return;
                }
            }
        });
    }
    take
}
