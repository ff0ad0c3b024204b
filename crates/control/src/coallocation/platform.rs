//! The dendrogram of an agent (paper 003, section 3.2): each server is a LAN, and the servers local_agent one local agent are a
//! MAN. Servers attached to the agent itself are grouped into MANs by measured bandwidth ([`man_numbers`]).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use pliant_tig::{Grid, GridBuilder, GridError, LinkId, NodeId};
use serde::{Deserialize, Serialize};

use super::commitments::{Commitments, Flow};
use super::links::{LinkQuality, Links, ServerPair};
use super::man_grouping::man_numbers;
use crate::handoff::Peer;
use crate::names::Name;

/// The bandwidth of all links before any was measured, in Mb/s. Equal bandwidths leave the links in the order of their
/// servers.
const UNMEASURED_MBPS: f64 = 1.0;
/// The bandwidth of an unmeasured link relative to the slowest measured one: it is used last, and carries almost as much.
const UNMEASURED_SHARE: f64 = 0.999;

/// A server with the machines that it has just reported.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Site {
    /// The server.
    pub server: Peer,
    /// The local agent that the server is attached to; none if that is the coordinator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_agent: Option<Name>,
    /// Its machines.
    pub machines: Vec<Machine>,
}

/// A machine of a server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// The server's name for it.
    pub name: String,
    /// The power of all of its processors together, in MFlop/s.
    pub power_mflops: f64,
    /// The number of its processors.
    pub procs: u32,
    /// The share of its power in use, 0 to 1. Processors of a subjob count from the subjob's start.
    pub load: f64,
}

impl Site {
    /// True if it has machines and is attached to the coordinator itself.
    fn is_own(&self) -> bool {
        self.local_agent.is_none() && !self.machines.is_empty()
    }
}

impl Machine {
    /// The processors that provide this power: at least one, at most all.
    pub(super) fn procs_for(&self, mflops: f64) -> u32 {
        let one = self.power_mflops / f64::from(self.procs.max(1));
        // Rounding errors in a sum must not add a processor.
        ((mflops / one - 1e-9).ceil() as u32).clamp(1, self.procs.max(1))
    }
}

/// A server and its LAN.
type Lan<'a> = (&'a Site, NodeId);
/// The MANs by their local agents, or by their numbers if they have none, with the LANs of each.
type ManTable<'a> = BTreeMap<(Option<&'a Name>, usize), (NodeId, Vec<Lan<'a>>)>;

/// Builds the dendrogram as `user` sees it, by default the first server, without committed capacity. Within a MAN, machines
/// are in the order of the sites.
///
/// # Errors
/// There is no machine, or no such LAN.
pub(super) fn dendrogram(
    sites: &[Site],
    links: &Links,
    user: Option<&Name>,
    commitments: &Commitments,
) -> Result<Grid, GridError> {
    // Daemon names have no slash, so these names are unused.
    let mut builder = GridBuilder::new("/");
    let wan = builder.node(Grid::ROOT, "//")?;
    let own: Vec<&Name> = sites.iter().filter(|site| site.is_own()).map(|site| &site.server.name).collect();
    let mut near = man_numbers(&own, links).into_iter();
    let mut mans = ManTable::new();
    for (number, site) in sites.iter().enumerate().filter(|(_, site)| !site.machines.is_empty()) {
        let local_agent = site.local_agent.as_ref();
        let near = if site.is_own() { near.next().unwrap_or(0) } else { 0 };
        let (man, lans) = match mans.entry((local_agent, near)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let name = local_agent.map_or_else(|| format!("/{near}/"), |agent| format!("{agent}/"));
                new.insert((builder.node(wan, &name)?, Vec::new()))
            }
        };
        let lan = builder.node(*man, site.server.name.as_str())?;
        lans.push((site, lan));
        for (index, machine) in site.machines.iter().enumerate() {
            let committed =
                commitments.committed_mflops(&site.server.name, &machine.name) / machine.power_mflops;
            // Rounded down to four digits, so that with two of three processors in use a task of exactly one processor
            // still fits.
            let load = ((machine.load + committed) * 1e4).floor() / 1e4;
            let load = load.clamp(0.0, 1.0);
            // The server's own names may be long and need not be unique.
            let name = format!("{number}/{index}");
            let power_mflops = machine.power_mflops;
            builder.machine(lan, pliant_tig::Machine { name, power_mflops, load });
        }
    }
    add_links(&mut builder, wan, &mans, links);
    let first = sites.iter().find(|site| !site.machines.is_empty()).map(|site| &site.server.name);
    let mut grid = builder.build(user.or(first).map_or("", Name::as_str))?;
    for flow in &commitments.flows {
        let Some((link, measure)) = link_between(&grid, &mans, links, &flow.between) else { continue };
        if !measure.is_some_and(|measure| flow.is_in_measurement(measure.at)) {
            grid.occupy(link, flow.mbps);
        }
    }
    Ok(grid)
}

/// Takes traffic between servers off the capacity of their links; false if that exceeds it.
pub(super) fn occupy_links(grid: &mut Grid, flows: &[Flow]) -> bool {
    let mut fits = true;
    for flow in flows {
        let lan = |server: &Name| grid.lans().find(|lan| grid.node(*lan).name == server.as_str());
        let Some((one, other)) = lan(&flow.between.0).zip(lan(&flow.between.1)) else { continue };
        let link = grid.link(one, other);
        // The sum of exactly fitting traffic may be rounded up.
        fits &= flow.mbps <= grid.capacity(link) + 1e-6;
        grid.occupy(link, flow.mbps);
    }
    fits
}

/// The link between two servers and its measurement; none if one of them is not in the dendrogram.
fn link_between(
    grid: &Grid,
    mans: &ManTable<'_>,
    links: &Links,
    between: &ServerPair,
) -> Option<(LinkId, Option<LinkQuality>)> {
    let location = |server: &Name| {
        let found =
            |(_, lans): &&(NodeId, Vec<Lan<'_>>)| lans.iter().any(|(site, _)| site.server.name == *server);
        let (man, lans) = mans.values().find(found)?;
        let lan = lans.iter().find(|(site, _)| site.server.name == *server)?;
        Some((*man, lans.as_slice(), *lan))
    };
    let ((man, lans, one), (other_man, others, other)) = (location(&between.0)?, location(&between.1)?);
    let measure =
        if man == other_man { fastest(links, &[one], &[other]) } else { fastest(links, lans, others) };
    Some((grid.link(one.1, other.1), measure))
}

/// The measurement with the highest bandwidth between servers of two groups.
fn fastest(links: &Links, ones: &[Lan<'_>], others: &[Lan<'_>]) -> Option<LinkQuality> {
    let pairs = ones.iter().flat_map(|(one, _)| others.iter().map(move |(other, _)| (one, other)));
    let measured =
        pairs.filter_map(|(one, other)| links.median_measurement(&one.server.name, &other.server.name));
    measured.max_by(|one, other| one.mbps.total_cmp(&other.mbps))
}

/// Adds the links. Two MANs are linked by the best measurement between their servers: slower ones were limited by the
/// servers' own links or by other traffic.
fn add_links(builder: &mut GridBuilder, wan: NodeId, mans: &ManTable<'_>, links: &Links) {
    let unmeasured = links.slowest_mbps().map_or(UNMEASURED_MBPS, |slowest| slowest * UNMEASURED_SHARE);
    builder.bandwidth(wan, unmeasured);
    let mans: Vec<_> = mans.values().collect();
    for (index, (man, lans)) in mans.iter().enumerate() {
        builder.bandwidth(*man, unmeasured);
        for (at, one) in lans.iter().enumerate() {
            for other in &lans[at + 1..] {
                if let Some(LinkQuality { mbps, .. }) = fastest(links, &[*one], &[*other]) {
                    builder.link(one.1, other.1, mbps);
                }
            }
        }
        for (other_man, others) in &mans[index + 1..] {
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

    fn site(server: &str, local_agent: Option<&str>, power_mflops: f64) -> Site {
        let machine = Machine { name: "host".to_owned(), power_mflops, procs: 4, load: 0.25 };
        Site {
            server: Peer { name: name(server), address: String::new() },
            local_agent: local_agent.map(name),
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
    fn an_agents_own_servers_are_grouped_by_bandwidth() {
        let sites = ["a", "b", "c", "d", "e"].map(|server| site(server, None, 100.0));
        let order = |measured: &[(&str, &str, f64)]| {
            let grid =
                dendrogram(&sites, &links(measured), Some(&name("c")), &Commitments::default()).unwrap();
            let lans = closest_first(&grid);
            let hops: Vec<usize> = lans.iter().map(|lan| grid.hops(grid.user_lan(), *lan)).collect();
            let names: String = lans.iter().map(|lan| grid.node(*lan).name.as_str()).collect();
            (names, hops)
        };
        assert_eq!(order(&[]), ("cabde".to_owned(), vec![0, 1, 1, 1, 1]), "no link is measured");
        let measured =
            [("a", "b", 100.0), ("c", "d", 90.0), ("a", "c", 8.0), ("b", "d", 9.0), ("b", "c", 7.0)];
        // Server `e` has no measured link: it comes last.
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
        let commitments = Commitments { machines, flows: Vec::new() };
        let grid = dendrogram(&sites, &links, Some(&name("near")), &commitments).unwrap();
        let order: Vec<&str> =
            closest_first(&grid).into_iter().map(|lan| grid.node(lan).name.as_str()).collect();
        // East is better connected than the coordinator's own servers: by the best of two links.
        assert_eq!(order, ["near", "beside", "far", "farther", "own"]);
        let left: Vec<f64> = grid.machines().iter().map(pliant_tig::Machine::power_left).collect();
        assert_eq!(left.iter().filter(|left| **left == 25.0).count(), 1, "half of it is promised: {left:?}");
        assert!(dendrogram(&sites, &links, Some(&name("nowhere")), &commitments).is_err());
    }

    #[test]
    fn committed_traffic_reduces_the_capacity_of_links() {
        let sites = ["a", "b", "c"].map(|server| site(server, (server == "c").then_some("west"), 100.0));
        let links = links(&[("a", "b", 40.0), ("a", "c", 20.0), ("b", "c", 30.0)]);
        let flow = |one: &str, other: &str, mbps, since: Option<i64>| Flow {
            between: (name(one), name(other)),
            mbps,
            since: since.map(Time),
        };
        let left = |flows: Vec<Flow>| {
            let commitments = Commitments { flows, ..Commitments::default() };
            let grid = dendrogram(&sites, &links, Some(&name("a")), &commitments).unwrap();
            let lan = |server: &str| grid.lans().find(|lan| grid.node(*lan).name == server).unwrap();
            [("a", "b"), ("a", "c"), ("b", "c")]
                .map(|(one, other)| grid.capacity(grid.link(lan(one), lan(other))))
        };
        // All traffic to the other MAN uses one link.
        assert_eq!(left(vec![]), [40.0, 30.0, 30.0]);
        assert_eq!(left(vec![flow("a", "b", 5.0, None), flow("a", "b", 7.0, Some(0))]), [28.0, 30.0, 30.0]);
        assert_eq!(left(vec![flow("a", "c", 8.0, None), flow("b", "c", 4.0, None)]), [40.0, 18.0, 18.0]);
        assert_eq!(left(vec![flow("a", "b", 90.0, None), flow("a", "gone", 1.0, None)]), [0.0, 30.0, 30.0]);
        // A measurement during a flow shows the remaining bandwidth.
        assert_eq!(
            left(vec![flow("a", "b", 5.0, Some(-1)), flow("a", "c", 5.0, Some(-1))]),
            [40.0, 30.0, 30.0]
        );
    }

    #[test]
    fn a_demand_needs_whole_processors() {
        let machine = Machine { name: "host".to_owned(), power_mflops: 400.0, procs: 4, load: 0.0 };
        for (mflops, procs) in [(1.0, 1), (100.0, 1), (100.1, 2), (300.0, 3), (400.0, 4), (900.0, 4)] {
            assert_eq!(machine.procs_for(mflops), procs, "{mflops} MFlop/s");
        }
        assert_eq!(machine.procs_for(0.1 + 0.2 + 99.7), 1);
    }
}
