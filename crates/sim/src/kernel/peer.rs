//! The participants of a protocol simulation.

/// A participant of the simulation. At equal times servers come first, so that jobs start before all other events.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Peer {
    /// The server of the cluster of that number.
    Server(usize),
    /// The agent of that number.
    Agent(usize),
    /// The client of the job of that number.
    Client(u32),
}
