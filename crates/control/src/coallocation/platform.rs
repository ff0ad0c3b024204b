//! The dendrogram as an agent knows it (paper 003, section 3.2): servers are LANs, what hangs on one local agent is a MAN, and
//! of the servers that hang on the agent itself those that are near each other by measured bandwidth ([`mans`]).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use pliant_tig::{Grid, GridBuilder, GridError, LinkId, NodeId};
use serde::{Deserialize, Serialize};

use super::links::{LinkQuality, Links, Pair};
use super::nearness::mans;
use super::taken::{Flow, Taken};
use crate::handoff::Peer;
use crate::names::Name;

/// What links are taken for as long as nobody has measured any, in Mb/s. One number for all of them leaves them in the order
/// of their servers.
const UNMEASURED_MBPS: f64 = 1.0;
/// What a link is taken for that nobody has measured while others were, over the slowest of these: it is used last, and carries
/// as much but for that.
const UNMEASURED_SHARE: f64 = 0.999;

/// A server as a place for tasks, as it has just described itself.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Site {
    /// The server.
    pub server: Peer,
    /// The local agent that it hangs on; none if that is the coordinator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<Name>,
    /// Its machines.
    pub machines: Vec<Machine>,
}

/// A machine of a server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// What its server calls it.
    pub name: String,
    /// What all of its processors do together, in MFlop/s.
    pub power_mflops: f64,
    /// How many processors it has.
    pub procs: u32,
    /// Share of its power that others use, 0 to 1. Processors that a subjob of a launch has count from its turn on.
    pub load: f64,
}

impl Site {
    /// It has machines, and hangs on the coordinator itself.
    fn is_own(&self) -> bool {
        self.below.is_none() && !self.machines.is_empty()
    }
}

impl Machine {
    /// The processors that so much power is worth: at least one, at most all.
    pub(super) fn procs_for(&self, mflops: f64) -> u32 {
        let one = self.power_mflops / f64::from(self.procs.max(1));
        // A demand that is a whole number of processors is not one more for the last digit of a sum.
        ((mflops / one - 1e-9).ceil() as u32).clamp(1, self.procs.max(1))
    }
}

/// A server and its LAN.
type Lan<'a> = (&'a Site, NodeId);
/// The MANs by their local agents, or by their numbers if they have none, with the LANs of each.
type Mans<'a> = BTreeMap<(Option<&'a Name>, usize), (NodeId, Vec<Lan<'a>>)>;

/// The dendrogram as `user` sees it, by default the first server, without what is taken of machines and links. Machines come in
/// the order in which sites and their machines do within a MAN.
///
/// # Errors
/// There is no machine, or no such LAN.
pub(super) fn dendrogram(
    sites: &[Site],
    links: &Links,
    user: Option<&Name>,
    taken: &Taken,
) -> Result<Grid, GridError> {
    // A name of a daemon has no slash, so these are nobody's.
    let mut builder = GridBuilder::new("/");
    let wan = builder.node(Grid::ROOT, "//")?;
    let own: Vec<&Name> = sites.iter().filter(|site| site.is_own()).map(|site| &site.server.name).collect();
    let mut near = mans(&own, links).into_iter();
    let mut mans = Mans::new();
    for (number, site) in sites.iter().enumerate().filter(|(_, site)| !site.machines.is_empty()) {
        let below = site.below.as_ref();
        let near = if site.is_own() { near.next().unwrap_or(0) } else { 0 };
        let (man, lans) = match mans.entry((below, near)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let name = below.map_or_else(|| format!("/{near}/"), |agent| format!("{agent}/"));
                new.insert((builder.node(wan, &name)?, Vec::new()))
            }
        };
        let lan = builder.node(*man, site.server.name.as_str())?;
        lans.push((site, lan));
        for (place, machine) in site.machines.iter().enumerate() {
            let taken = taken.of(&site.server.name, &machine.name) / machine.power_mflops;
            // Down to four digits, so that one of three processors is left to a task of just that size when two are taken.
            let load = ((machine.load + taken) * 1e4).floor() / 1e4;
            let load = load.clamp(0.0, 1.0);
            // What its server calls it need not be unique, nor short.
            let name = format!("{number}/{place}");
            let power_mflops = machine.power_mflops;
            builder.machine(lan, pliant_tig::Machine { name, power_mflops, load });
        }
    }
    add_links(&mut builder, wan, &mans, links);
    let first = sites.iter().find(|site| !site.machines.is_empty()).map(|site| &site.server.name);
    let mut grid = builder.build(user.or(first).map_or("", Name::as_str))?;
    for flow in &taken.flows {
        let Some((link, measure)) = over(&grid, &mans, links, &flow.between) else { continue };
        if !measure.is_some_and(|measure| flow.was_met(measure.at)) {
            grid.occupy(link, flow.mbps);
        }
    }
    Ok(grid)
}

/// Takes what is sent between servers off what links carry; false if that is more than they do.
pub(super) fn carries(grid: &mut Grid, flows: &[Flow]) -> bool {
    let mut has_room = true;
    for flow in flows {
        let lan = |server: &Name| grid.lans().find(|lan| grid.node(*lan).name == server.as_str());
        let Some((one, other)) = lan(&flow.between.0).zip(lan(&flow.between.1)) else { continue };
        let link = grid.link(one, other);
        // Sums of what exactly fits may be rounded up.
        has_room &= flow.mbps <= grid.capacity(link) + 1e-6;
        grid.occupy(link, flow.mbps);
    }
    has_room
}

/// The link between two servers, and the measure that it is taken for; none if one of them is not there.
fn over(
    grid: &Grid,
    mans: &Mans<'_>,
    links: &Links,
    between: &Pair,
) -> Option<(LinkId, Option<LinkQuality>)> {
    let place = |server: &Name| {
        let found =
            |(_, lans): &&(NodeId, Vec<Lan<'_>>)| lans.iter().any(|(site, _)| site.server.name == *server);
        let (man, lans) = mans.values().find(found)?;
        let lan = lans.iter().find(|(site, _)| site.server.name == *server)?;
        Some((*man, lans.as_slice(), *lan))
    };
    let ((man, lans, one), (other_man, others, other)) = (place(&between.0)?, place(&between.1)?);
    let measure =
        if man == other_man { fastest(links, &[one], &[other]) } else { fastest(links, lans, others) };
    Some((grid.link(one.1, other.1), measure))
}

/// The best of what was measured between servers of the one and the other.
fn fastest(links: &Links, ones: &[Lan<'_>], others: &[Lan<'_>]) -> Option<LinkQuality> {
    let pairs = ones.iter().flat_map(|(one, _)| others.iter().map(move |(other, _)| (one, other)));
    let measured = pairs.filter_map(|(one, other)| links.typical(&one.server.name, &other.server.name));
    measured.max_by(|one, other| one.mbps.total_cmp(&other.mbps))
}

/// Between two MANs the best of what was measured between servers of the one and the other: less was for the servers'
/// own links, or for what else went over them.
fn add_links(builder: &mut GridBuilder, wan: NodeId, mans: &Mans<'_>, links: &Links) {
    let unmeasured = links.slowest_mbps().map_or(UNMEASURED_MBPS, |slowest| slowest * UNMEASURED_SHARE);
    builder.bandwidth(wan, unmeasured);
    let mans: Vec<_> = mans.values().collect();
    for (place, (man, lans)) in mans.iter().enumerate() {
        builder.bandwidth(*man, unmeasured);
        for (at, one) in lans.iter().enumerate() {
            for other in &lans[at + 1..] {
                if let Some(LinkQuality { mbps, .. }) = fastest(links, &[*one], &[*other]) {
                    builder.link(one.1, other.1, mbps);
                }
            }
        }
        for (other_man, others) in &mans[place + 1..] {
            if let Some(LinkQuality { mbps, .. }) = fastest(links, lans, others) {
                builder.link(*man, *other_man, mbps);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pliant_model::Time;
    use pliant_tig::wase::closest_first;

    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn site(server: &str, below: Option<&str>, power_mflops: f64) -> Site {
        let machine = Machine { name: "host".to_owned(), power_mflops, procs: 4, load: 0.25 };
        Site {
            server: Peer { name: name(server), address: String::new() },
            below: below.map(name),
            machines: vec![machine],
        }
    }

    fn links(measured: &[(&str, &str, f64)]) -> Links {
        let mut links = Links::default();
        for (one, other, mbps) in measured {
            let measure = LinkQuality { at: Time(0), mbps: *mbps, round_trip_us: 1 };
            links.measured(&name(one), &name(other), measure);
        }
        links
    }

    #[test]
    fn of_the_agents_own_servers_those_are_a_man_that_are_near_each_other() {
        let sites = ["a", "b", "c", "d", "e"].map(|server| site(server, None, 100.0));
        let order = |measured: &[(&str, &str, f64)]| {
            let grid = dendrogram(&sites, &links(measured), Some(&name("c")), &Taken::default()).unwrap();
            let lans = closest_first(&grid);
            let hops: Vec<usize> = lans.iter().map(|lan| grid.hops(grid.user_lan(), *lan)).collect();
            let names: String = lans.iter().map(|lan| grid.node(*lan).name.as_str()).collect();
            (names, hops)
        };
        assert_eq!(order(&[]), ("cabde".to_owned(), vec![0, 1, 1, 1, 1]), "nothing is known");
        let measured =
            [("a", "b", 100.0), ("c", "d", 90.0), ("a", "c", 8.0), ("b", "d", 9.0), ("b", "c", 7.0)];
        // Of `e` nobody knows more than that it is there: it comes last.
        assert_eq!(order(&measured), ("cdabe".to_owned(), vec![0, 1, 2, 2, 2]));
    }

    #[test]
    fn servers_are_lans_and_local_agents_mans() {
        let sites = [
            site("near", Some("west"), 100.0),
            site("far", Some("east"), 100.0),
            site("own", None, 100.0),
            site("beside", Some("west"), 100.0),
            site("farther", Some("east"), 100.0),
        ];
        let measured = [("near", "own", 2.0), ("near", "farther", 5.0), ("beside", "far", 3.0)];
        let links = links(&measured);
        let machines = [((name("far"), "host".to_owned()), 50.0)].into();
        let taken = Taken { machines, flows: Vec::new() };
        let grid = dendrogram(&sites, &links, Some(&name("near")), &taken).unwrap();
        let order: Vec<&str> =
            closest_first(&grid).into_iter().map(|lan| grid.node(lan).name.as_str()).collect();
        // East is better connected than what hangs on the coordinator itself: by the best of two links.
        assert_eq!(order, ["near", "beside", "far", "farther", "own"]);
        let left: Vec<f64> = grid.machines().iter().map(pliant_tig::Machine::power_left).collect();
        assert_eq!(left.iter().filter(|left| **left == 25.0).count(), 1, "half of it is promised: {left:?}");
        assert!(dendrogram(&sites, &links, Some(&name("nowhere")), &taken).is_err());
    }

    #[test]
    fn links_carry_what_tasks_do_not_send_over_them() {
        let sites = ["a", "b", "c"].map(|server| site(server, (server == "c").then_some("west"), 100.0));
        let links = links(&[("a", "b", 40.0), ("a", "c", 20.0), ("b", "c", 30.0)]);
        let flow = |one: &str, other: &str, mbps, since: Option<i64>| Flow {
            between: (name(one), name(other)),
            mbps,
            since: since.map(Time),
        };
        let left = |flows: Vec<Flow>| {
            let taken = Taken { flows, ..Taken::default() };
            let grid = dendrogram(&sites, &links, Some(&name("a")), &taken).unwrap();
            let lan = |server: &str| grid.lans().find(|lan| grid.node(*lan).name == server).unwrap();
            [("a", "b"), ("a", "c"), ("b", "c")]
                .map(|(one, other)| grid.capacity(grid.link(lan(one), lan(other))))
        };
        // To the other MAN all goes over one link.
        assert_eq!(left(vec![]), [40.0, 30.0, 30.0]);
        assert_eq!(left(vec![flow("a", "b", 5.0, None), flow("a", "b", 7.0, Some(0))]), [28.0, 30.0, 30.0]);
        assert_eq!(left(vec![flow("a", "c", 8.0, None), flow("b", "c", 4.0, None)]), [40.0, 18.0, 18.0]);
        assert_eq!(left(vec![flow("a", "b", 90.0, None), flow("a", "gone", 1.0, None)]), [0.0, 30.0, 30.0]);
        // Of what it met, a measure tells what is left beside it.
        assert_eq!(
            left(vec![flow("a", "b", 5.0, Some(-1)), flow("a", "c", 5.0, Some(-1))]),
            [40.0, 30.0, 30.0]
        );
    }

    #[test]
    fn a_demand_is_worth_whole_processors() {
        let machine = Machine { name: "host".to_owned(), power_mflops: 400.0, procs: 4, load: 0.0 };
        for (mflops, procs) in [(1.0, 1), (100.0, 1), (100.1, 2), (300.0, 3), (400.0, 4), (900.0, 4)] {
            assert_eq!(machine.procs_for(mflops), procs, "{mflops} MFlop/s");
        }
        assert_eq!(machine.procs_for(0.1 + 0.2 + 99.7), 1);
    }
}
