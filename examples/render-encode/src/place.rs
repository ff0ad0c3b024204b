//! Which task this process is, where it listens, and where its neighbours do.

use std::collections::BTreeMap;

use crate::Failure;

/// The variables that a launched task finds in its environment: its name, `host:port` where it listens, and
/// `name=host:port` of each neighbour, separated by spaces.
pub(crate) const TASK: &str = "PLIANT_TASK";
pub(crate) const ADDRESS: &str = "PLIANT_ADDRESS";
pub(crate) const PEERS: &str = "PLIANT_PEERS";

/// The pipeline: who sends to whom.
const SENDS: &[(&str, &str)] = &[
    ("source", "render-emitter"),
    ("render-emitter", "render-worker-1"),
    ("render-emitter", "render-worker-2"),
    ("render-emitter", "render-worker-3"),
    ("render-emitter", "render-worker-4"),
    ("render-emitter", "render-worker-5"),
    ("render-worker-1", "render-collector"),
    ("render-worker-2", "render-collector"),
    ("render-worker-3", "render-collector"),
    ("render-worker-4", "render-collector"),
    ("render-worker-5", "render-collector"),
    ("render-collector", "gop"),
    ("gop", "encode-emitter"),
    ("encode-emitter", "encode-worker-1"),
    ("encode-emitter", "encode-worker-2"),
    ("encode-worker-1", "encode-collector"),
    ("encode-worker-2", "encode-collector"),
    ("encode-collector", "sink"),
];

/// The tasks, in the order of the pipeline.
pub(crate) fn tasks() -> Vec<&'static str> {
    let mut tasks = Vec::new();
    for name in SENDS.iter().flat_map(|(from, to)| [*from, *to]) {
        if !tasks.contains(&name) {
            tasks.push(name);
        }
    }
    tasks
}

/// The neighbours of a task, in both directions.
pub(crate) fn neighbours(task: &str) -> impl Iterator<Item = &'static str> {
    SENDS.iter().filter_map(move |(from, to)| match (*from == task, *to == task) {
        (true, _) => Some(*to),
        (_, true) => Some(*from),
        _ => None,
    })
}

/// One task of the pipeline.
pub(crate) struct Place {
    pub(crate) task: String,
    /// Where it listens.
    pub(crate) address: String,
    /// Where its neighbours listen.
    peers: BTreeMap<String, String>,
}

impl Place {
    /// The task that the environment names.
    pub(crate) fn from_environment() -> Result<Place, Failure> {
        let variable = |name: &str| {
            std::env::var(name).map_err(|_| {
                format!("expected {name} in the environment: `pliant launch` sets it, and so does `render-encode local`")
            })
        };
        let (task, address, peers) = (variable(TASK)?, variable(ADDRESS)?, variable(PEERS)?);
        if !tasks().contains(&task.as_str()) {
            return Err(format!("expected {TASK} to be one of {}, found {task:?}", tasks().join(", ")).into());
        }
        let peer = |word: &str| match word.split_once('=') {
            Some((name, address)) => Ok((name.to_owned(), address.to_owned())),
            None => Err(format!("expected NAME=HOST:PORT in {PEERS}, found {word:?}")),
        };
        let peers = peers.split_whitespace().map(peer).collect::<Result<_, _>>()?;
        Ok(Place { task, address, peers })
    }

    /// Where those listen that this task sends to, with their names, in the order of the pipeline.
    pub(crate) fn downstream(&self) -> Result<Vec<(&'static str, &str)>, Failure> {
        let to = SENDS.iter().filter(|(from, _)| *from == self.task).map(|(_, to)| *to);
        to.map(|name| {
            let address = self.peers.get(name).ok_or_else(|| format!("expected {name} in {PEERS}"))?;
            Ok((name, address.as_str()))
        })
        .collect()
    }

    /// How many tasks send to this one.
    pub(crate) fn upstream(&self) -> usize {
        SENDS.iter().filter(|(_, to)| *to == self.task).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pipeline_is_the_papers() {
        assert_eq!((tasks().len(), SENDS.len()), (14, 18));
        assert_eq!(neighbours("gop").collect::<Vec<_>>(), ["render-collector", "encode-emitter"]);
        assert_eq!(neighbours("render-emitter").count(), 6);
    }
}
