//! Pauses: requests that keep a core for a while without a process. They end on a thread of their own, at the time when they are
//! over, so that a server whose other threads are busy with connections is no later for that: a pause stands for a program that
//! runs by itself.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use pliant_transport::Clock;

use super::{End, ExecutionId};

/// An order to the thread.
enum Order {
    /// A pause that is over at that time of the clock.
    Begin(ExecutionId, Duration),
    /// It is to end now.
    End(ExecutionId),
}

/// The pauses of a server.
#[derive(Clone)]
pub(in crate::server) struct Timers(Sender<Order>);

impl Timers {
    /// Starts the thread, which calls `ended` for each pause, in the order of their ends. The thread goes when the last handle
    /// does.
    pub(in crate::server) fn start(
        clock: Clock,
        ended: impl FnMut(ExecutionId, End) + Send + 'static,
    ) -> io::Result<Timers> {
        let (sender, orders) = mpsc::channel();
        thread::Builder::new().name("pauses".to_owned()).spawn(move || run(&orders, &clock, ended))?;
        Ok(Timers(sender))
    }

    /// Begins a pause that is over at that time of the clock.
    pub(in crate::server) fn begin(&self, id: ExecutionId, until: Duration) {
        // The thread is there for as long as a handle is.
        let _ = self.0.send(Order::Begin(id, until));
    }

    /// Ends a pause, if it is one and not over.
    pub(in crate::server) fn end(&self, id: ExecutionId) {
        let _ = self.0.send(Order::End(id));
    }
}

fn run(orders: &Receiver<Order>, clock: &Clock, mut ended: impl FnMut(ExecutionId, End)) {
    // What was ended early stays in the heap until its time and is in the map no longer.
    let (mut next, mut going) = (BinaryHeap::new(), BTreeMap::new());
    loop {
        let order = match next.peek() {
            None => orders.recv().map_err(RecvTimeoutError::from),
            Some(Reverse((until, _))) => orders.recv_timeout(Duration::saturating_sub(*until, clock.exact())),
        };
        match order {
            Ok(Order::Begin(id, until)) => {
                going.insert(id, until);
                next.push(Reverse((until, id)));
            }
            Ok(Order::End(id)) => {
                if going.remove(&id).is_some() {
                    ended(id, End::Cancelled);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        while let Some(Reverse((until, id))) = next.peek().copied()
            && until <= clock.exact()
        {
            next.pop();
            if going.get(&id) == Some(&until) {
                going.remove(&id);
                ended(id, End::Elapsed(until));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pliant_model::Time;
    use pliant_policy::optional::RequestId;

    use super::*;

    #[test]
    fn pauses_end_in_their_order_and_at_once_on_request() {
        let clock = Clock::start(Time(0));
        let (sender, ends) = mpsc::channel();
        let timers = Timers::start(clock, move |id, end| sender.send((id, end)).unwrap()).unwrap();
        let now = clock.exact();
        let at = |ms| now + Duration::from_millis(ms);
        let id = |number| ExecutionId::Request(RequestId(number));
        timers.begin(id(1), at(3_600_000));
        timers.begin(id(2), at(40));
        timers.begin(id(3), at(20));
        assert_eq!(ends.recv().unwrap(), (id(3), End::Elapsed(at(20))));
        assert!(clock.exact() >= at(20));
        assert_eq!(ends.recv().unwrap(), (id(2), End::Elapsed(at(40))));
        timers.end(id(2));
        timers.end(id(1));
        assert_eq!(ends.recv().unwrap(), (id(1), End::Cancelled));
        // One that comes back has its own time.
        timers.begin(id(1), at(60));
        assert_eq!(ends.recv().unwrap(), (id(1), End::Elapsed(at(60))));
        drop(timers);
        assert!(ends.recv().is_err(), "the thread has gone");
    }
}
