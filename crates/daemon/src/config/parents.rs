//! The parents of a daemon: one, or several masters side by side.

use pliant_control::masters::{MasterShare, Masters};
use pliant_control::names::Name;
use pliant_transport::{AgentAddress, MasterAddress};

use super::WrongKey;

/// The parents of a daemon.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Parents {
    /// The masters that users are assigned to, if there are several.
    masters: Masters,
    /// Each parent with the name by which users are assigned to it, and the agents that may be it: the first one that answers is taken.
    each: Vec<(Name, Vec<AgentAddress>)>,
}

impl Parents {
    /// The parents that a file names.
    pub(crate) fn of(parent: &[AgentAddress], master: &[MasterAddress]) -> Parents {
        let masters = Masters::new(master.iter().map(|master| master.name.clone()));
        let one = parent.first().map(|first| (first.name.clone(), parent.to_vec()));
        let several = master.iter().map(|master| (master.name.clone(), master.agents().collect()));
        Parents { masters, each: one.into_iter().chain(several).collect() }
    }

    /// Which key is wrong and why, if one is.
    pub(super) fn check(parent: &[AgentAddress], master: &[MasterAddress]) -> Result<(), WrongKey> {
        if !parent.is_empty() && !master.is_empty() {
            return Err(("parent", "expected either [[parent]] or [[master]], found both".to_owned()));
        }
        MasterAddress::check(master).map_err(|why| ("master", why))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.each.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.each.len()
    }

    /// The agents that may be each parent.
    pub(crate) fn each(&self) -> impl Iterator<Item = &[AgentAddress]> {
        self.each.iter().map(|(_, agents)| &agents[..])
    }

    /// Each parent: its name, the jobs that it has, and the agents that may be it.
    pub(crate) fn into_each(self) -> impl Iterator<Item = (Name, MasterShare, Vec<AgentAddress>)> {
        let Parents { masters, each } = self;
        each.into_iter().map(move |(name, agents)| {
            let share = masters.share(&name);
            (name, share, agents)
        })
    }

    /// The number of a journal for these parents.
    pub(crate) fn journal(&self, journal: u64) -> u64 {
        self.masters.journal(journal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str) -> AgentAddress {
        AgentAddress { name: name.parse().unwrap(), address: format!("{name}:7700") }
    }

    fn master(name: &str, standby: &[&str]) -> MasterAddress {
        let AgentAddress { name, address } = agent(name);
        MasterAddress { name, address, standby: standby.iter().map(|name| agent(name)).collect() }
    }

    #[test]
    fn several_parents_are_one_and_several_masters_are_several() {
        let agents = |parents: &Parents| {
            let names = |agents: &[AgentAddress]| {
                agents.iter().map(|agent| agent.name.to_string()).collect::<Vec<_>>().join(" ")
            };
            parents.each().map(names).collect::<Vec<_>>()
        };
        let one = Parents::of(&[agent("master"), agent("standby")], &[]);
        assert_eq!(agents(&one), ["master standby"]);
        let shares = |parents: &Parents| {
            parents.clone().into_each().map(|(_, share, _)| share.is_part()).collect::<Vec<_>>()
        };
        assert_eq!((shares(&one), one.journal(7)), (vec![false], 7));
        let two = Parents::of(&[], &[master("north", &["north-2"]), master("south", &[])]);
        assert_eq!(agents(&two), ["north north-2", "south"]);
        assert_eq!(shares(&two), [true, true]);
        assert_ne!(two.journal(7), 7);
        let alone = Parents::of(&[], &[master("north", &[])]);
        assert_eq!((shares(&alone), alone.journal(7)), (vec![false], 7), "as with [[parent]]");
    }

    #[test]
    fn a_file_names_each_agent_once() {
        let check = |parent: &[AgentAddress], master: &[MasterAddress]| {
            Parents::check(parent, master).map_err(|(key, why)| format!("{key}: {why}"))
        };
        assert_eq!(check(&[], &[master("north", &[]), master("south", &["south-2"])]), Ok(()));
        let both = check(&[agent("a")], &[master("b", &[])]).unwrap_err();
        assert_eq!(both, "parent: expected either [[parent]] or [[master]], found both");
        let twice = check(&[], &[master("a", &[]), master("b", &["a"])]).unwrap_err();
        assert_eq!(twice, "master: expected each agent once, found a twice");
    }
}
