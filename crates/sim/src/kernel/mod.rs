//! The kernel of every simulation that exchanges events: one [`EventQueue`], one loop over it ([`run`]), and one [`Node`],
//! a state machine on a host that may crash.
//!
//! | simulation | time | uses |
//! |---|---|---|
//! | direct (`crate::engine`) | seconds | the queue |
//! | protocol (`crate::protocol`) | seconds | queue, loop, nodes without journals |
//! | fault schedules (`crate::faults`) | milliseconds | queue, loop, nodes with journals and snapshots |
//! | optional computations (`crate::optional`) | milliseconds | queue, loop; over a network also nodes with journals |
//! | multi-jobs (`crate::multi_job`) | seconds | queue, loop |
//!
//! Each simulation has a fault model of its own. A common one would draw in another order and change the schedules of the
//! seeds of known failures.

mod daemons;
mod event_queue;
mod node;
mod peer;

pub(crate) use daemons::{DaemonMachine, ServerStart, daemon_name, server_config, server_info};
pub(crate) use event_queue::EventQueue;
pub(crate) use node::{Node, NodeMachine, NumberedCommand};
pub(crate) use peer::Peer;

/// A simulation that [`run`] drives.
pub(crate) trait Simulation {
    /// Simulated time.
    type Time: Copy + Ord;
    /// Orders the events of one instant.
    type Class: Copy + Ord;
    /// An event.
    type Event;
    /// The reason why a run ends early.
    type Error;

    /// The queue of future events.
    fn queue(&mut self) -> &mut EventQueue<Self::Time, Self::Class, Self::Event>;

    /// Handles one event at [`EventQueue::now`].
    fn handle(&mut self, class: Self::Class, event: Self::Event) -> Result<(), Self::Error>;

    /// Handles the end of an instant, after all of its events. It may schedule further ones in the same instant.
    fn end_instant(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// True if the remaining events do not matter.
    fn is_over(&mut self) -> bool {
        false
    }
}

/// Handles events in order until none is left, the simulation is over or an event fails.
pub(crate) fn run<S: Simulation>(simulation: &mut S) -> Result<(), S::Error> {
    while !simulation.is_over()
        && let Some((class, event)) = simulation.queue().pop()
    {
        simulation.handle(class, event)?;
        let queue = simulation.queue();
        if queue.next_time() != Some(queue.now()) {
            simulation.end_instant()?;
        }
    }
    Ok(())
}
