//! Pauses: requests that only take their time. A thread of their own notices when they are over, so that a server whose other
//! threads are busy with connections is no later for that: a pause stands for a program that runs by itself.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use pliant_control::optional::server::Exit;
use pliant_model::TimeMs;
use pliant_policy::optional::RequestId;
use pliant_transport::Clock;

/// What the thread is told.
enum Order {
    /// A pause that is over at that time of the clock.
    Begin(RequestId, Duration),
    /// It is to end now.
    End(RequestId),
}

/// The pauses of a server.
#[derive(Clone)]
pub(super) struct Pauses(Sender<Order>);

impl Pauses {
    /// Starts the thread, which calls `ended` for each pause, in the order of their ends. The last argument is the time at which a
    /// pause was over that was not ended early. The thread goes when the last handle does.
    pub(super) fn start(
        clock: Clock,
        ended: impl FnMut(RequestId, Exit, Option<TimeMs>) + Send + 'static,
    ) -> io::Result<Pauses> {
        let (sender, orders) = mpsc::channel();
        thread::Builder::new().name("pauses".to_owned()).spawn(move || run(&orders, &clock, ended))?;
        Ok(Pauses(sender))
    }

    /// Begins a pause that is over at that time of the clock.
    pub(super) fn begin(&self, request: RequestId, until: Duration) {
        // The thread is there for as long as a handle is.
        let _ = self.0.send(Order::Begin(request, until));
    }

    /// Ends a pause, if it is one and not over.
    pub(super) fn end(&self, request: RequestId) {
        let _ = self.0.send(Order::End(request));
    }
}

fn run(orders: &Receiver<Order>, clock: &Clock, mut ended: impl FnMut(RequestId, Exit, Option<TimeMs>)) {
    // What was ended early stays in the heap until its time and is in the map no longer.
    let (mut next, mut going) = (BinaryHeap::new(), BTreeMap::new());
    loop {
        let order = match next.peek() {
            None => orders.recv().map_err(RecvTimeoutError::from),
            Some(Reverse((until, _))) => orders.recv_timeout(Duration::saturating_sub(*until, clock.exact())),
        };
        match order {
            Ok(Order::Begin(request, until)) => {
                going.insert(request, until);
                next.push(Reverse((until, request)));
            }
            Ok(Order::End(request)) => {
                if going.remove(&request).is_some() {
                    ended(request, Exit::Killed, None);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        while let Some(Reverse((until, request))) = next.peek().copied()
            && until <= clock.exact()
        {
            next.pop();
            if going.get(&request) == Some(&until) {
                going.remove(&request);
                ended(request, Exit::Completed, Some(TimeMs(until.as_millis() as i64)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pliant_model::Time;

    use super::*;

    #[test]
    fn pauses_end_in_their_order_and_at_once_when_told_to() {
        let clock = Clock::start(Time(0));
        let (tell, told) = mpsc::channel();
        let pauses =
            Pauses::start(clock, move |request, exit, _| tell.send((request, exit)).unwrap()).unwrap();
        let now = clock.exact();
        let at = |ms| now + Duration::from_millis(ms);
        pauses.begin(RequestId(1), at(3_600_000));
        pauses.begin(RequestId(2), at(40));
        pauses.begin(RequestId(3), at(20));
        assert_eq!(told.recv().unwrap(), (RequestId(3), Exit::Completed));
        assert!(clock.exact() >= at(20));
        assert_eq!(told.recv().unwrap(), (RequestId(2), Exit::Completed));
        pauses.end(RequestId(2));
        pauses.end(RequestId(1));
        assert_eq!(told.recv().unwrap(), (RequestId(1), Exit::Killed));
        // One that comes back has its own time.
        pauses.begin(RequestId(1), at(60));
        assert_eq!(told.recv().unwrap(), (RequestId(1), Exit::Completed));
        drop(pauses);
        assert!(told.recv().is_err(), "the thread has gone");
    }
}
