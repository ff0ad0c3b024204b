//! Hierarchical platforms in the manner of Tiers (Doar 1996): six sizes and five redundancies.
//!
//! Every WAN and every MAN is a network of routers at random points, joined by a minimum spanning tree and by
//! further edges to the nearest routers until each has as many as the redundancy says. A MAN is attached to some
//! routers of its WAN and a LAN on some of its MAN. The dendrogram then holds, between two siblings, the width of the
//! widest path between them, as a tool that measures would report it. Tiers knows one WAN; several are joined
//! pairwise here.

use std::ops::RangeInclusive;

use rand::Rng;

use crate::{Grid, GridBuilder, GridError, Machine, NodeId};

/// The parameters of Tiers, by its own names in brackets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tiers {
    /// WANs (NW).
    pub wans: usize,
    /// MANs per WAN (NM).
    pub mans_per_wan: usize,
    /// LANs per MAN (NL).
    pub lans_per_man: usize,
    /// Routers per WAN (SW).
    pub wan_routers: usize,
    /// Routers per MAN (SM).
    pub man_routers: usize,
    /// Hosts per LAN (SL).
    pub lan_hosts: usize,
    /// Edges per router of a WAN, if there are nearest ones (RW).
    pub wan_redundancy: usize,
    /// Edges per router of a MAN (RM).
    pub man_redundancy: usize,
    /// Parallel links inside a LAN, whose bandwidths add up (RL).
    pub lan_redundancy: usize,
    /// Links between a MAN and its WAN (RMW).
    pub man_wan_redundancy: usize,
    /// Links between a LAN and its MAN (RLM).
    pub lan_man_redundancy: usize,
}

/// Between which bandwidths links are drawn, in Mb/s.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BandwidthRanges {
    /// Inside a LAN.
    pub lan: [f64; 2],
    /// Between routers of a MAN, and from LANs to them.
    pub man: [f64; 2],
    /// Between routers of a WAN, and from MANs to them.
    pub wan: [f64; 2],
    /// Between WANs.
    pub root: [f64; 2],
}

/// What machines are drawn: uniformly, powers in MFlop/s.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Machines {
    /// Number of machines; LANs are filled in order, and empty ones are dropped.
    pub count: usize,
    /// Powers (the paper: 600 to 1300).
    pub power_mflops: [f64; 2],
    /// Loads (the paper: of traces that are not published).
    pub load: [f64; 2],
}

/// A parameter that a generator cannot work with.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{what}`: expected {expected}, found {found}")]
pub struct ParameterError {
    /// Which.
    pub what: &'static str,
    /// What it may be.
    pub expected: &'static str,
    /// What it is.
    pub found: String,
}

/// What a size may be.
const SIZES: RangeInclusive<usize> = 1..=10_000;

impl Tiers {
    fn check(&self) -> Result<(), ParameterError> {
        let all = [
            ("wans", self.wans),
            ("mans_per_wan", self.mans_per_wan),
            ("lans_per_man", self.lans_per_man),
            ("wan_routers", self.wan_routers),
            ("man_routers", self.man_routers),
            ("lan_hosts", self.lan_hosts),
            ("wan_redundancy", self.wan_redundancy),
            ("man_redundancy", self.man_redundancy),
            ("lan_redundancy", self.lan_redundancy),
            ("man_wan_redundancy", self.man_wan_redundancy),
            ("lan_man_redundancy", self.lan_man_redundancy),
        ];
        match all.into_iter().find(|(_, found)| !SIZES.contains(found)) {
            None => Ok(()),
            Some((what, found)) => {
                Err(ParameterError { what, expected: "1 to 10000", found: found.to_string() })
            }
        }
    }
}

/// Draws a platform; its user is on the first LAN.
pub fn tiers(
    shape: &Tiers,
    bandwidths: &BandwidthRanges,
    machines: &Machines,
    rng: &mut impl Rng,
) -> Result<Grid, ParameterError> {
    shape.check()?;
    check_ranges(bandwidths, machines)?;
    let builder = GridBuilder::new("grid");
    let mut drawing = Drawing { shape, bandwidths, machines, rng, builder, left: machines.count };
    let grid = drawing.wans().and_then(|()| drawing.builder.build("lan0.0.0"));
    if drawing.left > 0 {
        let found = format!("{} machines", machines.count);
        return Err(ParameterError { what: "machines", expected: "as many as the LANs hold at most", found });
    }
    grid.map_err(|error| ParameterError {
        what: "grid",
        expected: "a platform that can be mapped onto",
        found: error.to_string(),
    })
}

/// A platform in the making.
struct Drawing<'a, R> {
    shape: &'a Tiers,
    bandwidths: &'a BandwidthRanges,
    machines: &'a Machines,
    rng: &'a mut R,
    builder: GridBuilder,
    /// Machines that have no LAN yet.
    left: usize,
}

impl<R: Rng> Drawing<'_, R> {
    fn wans(&mut self) -> Result<(), GridError> {
        let mut wans: Vec<NodeId> = Vec::new();
        while self.left > 0 && wans.len() < self.shape.wans {
            let name = wans.len().to_string();
            let wan = self.builder.node(Grid::ROOT, &format!("wan{name}"))?;
            self.mans(wan, &name)?;
            wans.push(wan);
        }
        for (at, one) in wans.iter().enumerate() {
            for other in &wans[at + 1..] {
                self.builder.link(*one, *other, draw(self.bandwidths.root, self.rng));
            }
        }
        Ok(())
    }

    fn mans(&mut self, wan: NodeId, name: &str) -> Result<(), GridError> {
        let Tiers { wan_routers, wan_redundancy, man_wan_redundancy, .. } = *self.shape;
        let backbone = Network::draw(wan_routers, wan_redundancy, self.bandwidths.wan, self.rng);
        let mut mans = Vec::new();
        while self.left > 0 && mans.len() < self.shape.mans_per_wan {
            let name = format!("{name}.{}", mans.len());
            let man = self.builder.node(wan, &format!("man{name}"))?;
            self.lans(man, &name)?;
            mans.push((man, backbone.attach(man_wan_redundancy, self.bandwidths.wan, self.rng)));
        }
        join(&mut self.builder, &backbone, &mans);
        Ok(())
    }

    fn lans(&mut self, man: NodeId, name: &str) -> Result<(), GridError> {
        let Tiers { man_routers, man_redundancy, lan_redundancy, lan_man_redundancy, .. } = *self.shape;
        let network = Network::draw(man_routers, man_redundancy, self.bandwidths.man, self.rng);
        let mut lans = Vec::new();
        while self.left > 0 && lans.len() < self.shape.lans_per_man {
            let lan = self.builder.node(man, &format!("lan{name}.{}", lans.len()))?;
            let inside: f64 = (0..lan_redundancy).map(|_| draw(self.bandwidths.lan, self.rng)).sum();
            self.builder.bandwidth(lan, inside);
            for _ in 0..self.shape.lan_hosts.min(self.left) {
                self.host(lan);
            }
            lans.push((lan, network.attach(lan_man_redundancy, self.bandwidths.man, self.rng)));
        }
        join(&mut self.builder, &network, &lans);
        Ok(())
    }

    fn host(&mut self, lan: NodeId) {
        let name = format!("m{}", self.machines.count - self.left);
        let power_mflops = draw(self.machines.power_mflops, self.rng);
        let load = draw(self.machines.load, self.rng);
        self.builder.machine(lan, Machine { name, power_mflops, load });
        self.left -= 1;
    }
}

fn check_ranges(bandwidths: &BandwidthRanges, machines: &Machines) -> Result<(), ParameterError> {
    if machines.count == 0 {
        return Err(ParameterError { what: "machines", expected: "1 or more", found: "0".to_owned() });
    }
    let positive = [
        ("lan_mbps", bandwidths.lan),
        ("man_mbps", bandwidths.man),
        ("wan_mbps", bandwidths.wan),
        ("root_mbps", bandwidths.root),
        ("power_mflops", machines.power_mflops),
    ];
    for (what, [least, most]) in positive {
        if !(least > 0.0 && least <= most && most.is_finite()) {
            let found = format!("{least} to {most}");
            return Err(ParameterError { what, expected: "a range of numbers above 0", found });
        }
    }
    let [least, most] = machines.load;
    if !(0.0 <= least && least <= most && most <= 1.0) {
        let found = format!("{least} to {most}");
        return Err(ParameterError { what: "load", expected: "a range within 0 and 1", found });
    }
    Ok(())
}

fn draw([least, most]: [f64; 2], rng: &mut impl Rng) -> f64 {
    rng.random_range(least..=most)
}

/// Routers, and how wide the widest path between any two of them is.
struct Network {
    width: Vec<Vec<f64>>,
}

/// A link from a network below to a router.
struct Attachment {
    router: usize,
    mbps: f64,
}

impl Network {
    /// Routers in the unit square: a minimum spanning tree, then edges to the nearest until every router has
    /// `redundancy`. O(n^3) for the widest paths.
    fn draw(routers: usize, redundancy: usize, mbps: [f64; 2], rng: &mut impl Rng) -> Network {
        let points: Vec<[f64; 2]> = (0..routers).map(|_| [0; 2].map(|_| rng.random::<f64>())).collect();
        let distance = |one: usize, other: usize| {
            (points[one][0] - points[other][0]).hypot(points[one][1] - points[other][1])
        };
        let mut edges = spanning_tree(routers, distance);
        let mut degree = vec![0; routers];
        edges.iter().flatten().for_each(|end| degree[*end] += 1);
        for one in 0..routers {
            let mut others: Vec<usize> = (0..routers).filter(|other| *other != one).collect();
            others.sort_by(|a, b| distance(one, *a).total_cmp(&distance(one, *b)));
            for other in others {
                let edge = [one.min(other), one.max(other)];
                if degree[one] < redundancy && !edges.contains(&edge) {
                    edges.push(edge);
                    degree[one] += 1;
                    degree[other] += 1;
                }
            }
        }
        let mut width = vec![vec![0.0; routers]; routers];
        for [one, other] in edges {
            let drawn = draw(mbps, rng);
            width[one][other] = drawn;
            width[other][one] = drawn;
        }
        widen(&mut width);
        Network { width }
    }

    fn attach(&self, links: usize, mbps: [f64; 2], rng: &mut impl Rng) -> Vec<Attachment> {
        let routers = self.width.len();
        (0..links)
            .map(|_| Attachment { router: rng.random_range(0..routers), mbps: draw(mbps, rng) })
            .collect()
    }

    /// The widest path between two networks below.
    fn between(&self, one: &[Attachment], other: &[Attachment]) -> f64 {
        let pairs = one.iter().flat_map(|a| other.iter().map(move |b| (a, b)));
        pairs.map(|(a, b)| a.mbps.min(b.mbps).min(self.width[a.router][b.router])).fold(0.0, f64::max)
    }
}

/// Links between all networks below one.
fn join(builder: &mut GridBuilder, network: &Network, below: &[(NodeId, Vec<Attachment>)]) {
    for (at, (one, attached)) in below.iter().enumerate() {
        for (other, others) in &below[at + 1..] {
            builder.link(*one, *other, network.between(attached, others));
        }
    }
}

/// Prim's algorithm, O(n^2).
fn spanning_tree(routers: usize, distance: impl Fn(usize, usize) -> f64) -> Vec<[usize; 2]> {
    let mut nearest: Vec<(f64, usize)> = (0..routers).map(|router| (distance(0, router), 0)).collect();
    let mut outside: Vec<usize> = (1..routers).collect();
    let mut edges = Vec::new();
    while let Some((at, router)) =
        outside.iter().copied().enumerate().min_by(|a, b| nearest[a.1].0.total_cmp(&nearest[b.1].0))
    {
        outside.swap_remove(at);
        let from = nearest[router].1;
        edges.push([from.min(router), from.max(router)]);
        for other in &outside {
            let through = distance(router, *other);
            if through < nearest[*other].0 {
                nearest[*other] = (through, router);
            }
        }
    }
    edges
}

/// Widest paths between all pairs, in the manner of Floyd and Warshall; within a router there is no limit.
fn widen(width: &mut [Vec<f64>]) {
    let routers = width.len();
    for (router, row) in width.iter_mut().enumerate() {
        row[router] = f64::INFINITY;
    }
    for through in 0..routers {
        for one in 0..routers {
            for other in 0..routers {
                let path = width[one][through].min(width[through][other]);
                if path > width[one][other] {
                    width[one][other] = path;
                }
            }
        }
    }
}
