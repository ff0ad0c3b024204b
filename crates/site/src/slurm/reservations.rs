//! What scontrol says of reservations.

use std::collections::{BTreeMap, BTreeSet};

use pliant_control::listing::{Node, NodeAllocation, Reservation};

use super::hostlist;
use super::queue::nothing;
use super::states::instant;
use crate::batch_system::error::Unreadable;

/// Reads what `scontrol --oneliner show reservations` printed, of a cluster with these nodes. Of `own` the jobs of this server have
/// their nodes. One that is not understood is left out, and comes second, for a warning.
pub(super) fn read(
    printed: &str,
    nodes: &[Node],
    own: &BTreeSet<String>,
) -> (Vec<Reservation>, Vec<Unreadable>) {
    let cpus: BTreeMap<&str, u32> = nodes.iter().map(|node| (node.name.as_str(), node.cores)).collect();
    let (mut found, mut not_understood) = (Vec::new(), Vec::new());
    for line in printed.lines() {
        let Some(name) = line.strip_prefix("ReservationName=").and_then(|rest| rest.split(' ').next()) else {
            continue;
        };
        match reservation(name, line, &cpus) {
            Ok(one) => found.push(Reservation { ours: own.contains(name), ..one }),
            Err(unreadable) => not_understood.push(unreadable),
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    (found, not_understood)
}

/// The reservations that more options of `sbatch` name: `--reservation=maintenance,course`.
pub(super) fn named(options: &[String]) -> BTreeSet<String> {
    let values = options.iter().filter_map(|option| option.strip_prefix("--reservation="));
    values.flat_map(|names| names.split(',')).map(str::to_owned).collect()
}

fn reservation(name: &str, line: &str, cpus: &BTreeMap<&str, u32>) -> Result<Reservation, Unreadable> {
    let settings = || line.split(' ').filter_map(|word| word.split_once('='));
    let setting = |key: &str| settings().find(|(name, _)| *name == key).map_or("", |(_, value)| value);
    let wrong = |key: &str, expected| {
        Unreadable::new("scontrol show reservations", &format!("{name}, {key}"), expected, setting(key))
    };
    let time = |key: &str| instant(setting(key)).flatten().ok_or_else(|| wrong(key, "seconds"));
    let count = |text: &str| text.parse::<u32>().ok();
    let listed = match setting("Nodes") {
        text if nothing(text) => Vec::new(),
        text => hostlist::expand(text).ok_or_else(|| wrong("Nodes", "a list of nodes"))?,
    };
    // A core has one or more processors (CPUs) in Slurm's sense, which is what jobs are given.
    let cores = count(setting("CoreCnt")).unwrap_or(0);
    let tres = setting("TRES").split(',').find_map(|one| count(one.strip_prefix("cpu=")?)).unwrap_or(cores);
    let each = tres.checked_div(cores).unwrap_or(1).max(1);
    let mut parts = BTreeMap::new();
    let mut part_of = Vec::new();
    for (key, value) in settings() {
        match key {
            "NodeName" => part_of = hostlist::expand(value).unwrap_or_default(),
            "CoreIDs" => {
                let cores = hostlist::count(value).ok_or_else(|| wrong(key, "a list of cores"))?;
                parts.extend(part_of.drain(..).map(|node| (node, cores.saturating_mul(each))));
            }
            _ => {}
        }
    }
    let all: u64 =
        listed.iter().filter_map(|node| cpus.get(node.as_str())).map(|cpus| u64::from(*cpus)).sum();
    // Which cores it has is known from the first job on. Before, they are taken to be as many of each node.
    let spread = (u64::from(tres) < all).then(|| tres.div_ceil(listed.len().max(1) as u32));
    let allocation = |node: String| {
        let cores = parts.get(&node).copied().or(spread);
        let is_whole = |cores: &u32| cpus.get(node.as_str()).is_some_and(|cpus| cores >= cpus);
        let cores = cores.filter(|cores| !is_whole(cores));
        NodeAllocation::new(node, cores)
    };
    let licences = match setting("Licenses") {
        text if nothing(text) => BTreeMap::new(),
        text => licences(text).ok_or_else(|| wrong("Licenses", "licences"))?,
    };
    Ok(Reservation {
        name: name.to_owned(),
        from: time("StartTime")?,
        until: time("EndTime")?,
        nodes: listed.into_iter().map(allocation).collect(),
        ours: false,
        licences,
    })
}

/// Licences: `matlab:2,ansys` or, if any of them will do, `matlab:2|ansys`, of which all are then taken to be reserved.
fn licences(text: &str) -> Option<BTreeMap<String, u32>> {
    let one = |text: &str| match text.split_once([':', '*']) {
        Some((name, count)) => Some((name.to_owned(), count.parse().ok()?)),
        None => Some((text.to_owned(), 1)),
    };
    text.split([',', '|']).map(one).collect()
}

#[cfg(test)]
mod tests {
    use pliant_model::Time;

    use super::*;

    /// Captured from Slurm 22.05: maintenance of a whole node, two cores of a node before and after its first job, a licence.
    const PRINTED: &str = "\
ReservationName=soon StartTime=1795875136 EndTime=1795875436 Duration=00:05:00 Nodes=alpha1 NodeCnt=1 CoreCnt=4 Features=(null) \
PartitionName=(null) Flags=MAINT,IGNORE_JOBS,SPEC_NODES TRES=cpu=4 Users=root Groups=(null) Accounts=(null) Licenses=(null) \
State=INACTIVE BurstBuffer=(null) Watts=n/a MaxStartDelay=(null)
ReservationName=part StartTime=1795874936 EndTime=1795875056 Duration=00:02:00 Nodes=alpha1 NodeCnt=1 CoreCnt=2 Features=(null) \
PartitionName=main Flags=   NodeName=alpha1 CoreIDs=0-1 TRES=cpu=2 Users=root Groups=(null) Accounts=(null) Licenses=(null) \
State=ACTIVE BurstBuffer=(null) Watts=n/a MaxStartDelay=(null)
ReservationName=early StartTime=1795874936 EndTime=1795875056 Duration=00:02:00 Nodes=alpha[1-2] NodeCnt=2 CoreCnt=3 Features=(null) \
PartitionName=main Flags= TRES=cpu=3 Users=root Groups=(null) Accounts=(null) Licenses=(null) \
State=ACTIVE BurstBuffer=(null) Watts=n/a MaxStartDelay=(null)
ReservationName=lic StartTime=1795874936 EndTime=1795875116 Duration=00:03:00 Nodes=(null) NodeCnt=0 CoreCnt=0 Features=(null) \
PartitionName=(null) Flags=ANY_NODES TRES=(null) Users=root Groups=(null) Accounts=(null) Licenses=matlab:1 State=ACTIVE \
BurstBuffer=(null) Watts=n/a MaxStartDelay=(null)
";

    fn nodes() -> Vec<Node> {
        ["alpha1", "alpha2"].map(|name| Node { name: name.to_owned(), cores: 4, ..Node::default() }).to_vec()
    }

    #[test]
    fn reservations_are_read_with_their_nodes_and_licences() {
        let found = read(PRINTED, &nodes(), &BTreeSet::new()).0;
        let names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["early", "lic", "part", "soon"]);
        let allocated = |node: &str, cores| NodeAllocation::new(node, cores);
        assert_eq!(found[0].nodes, [allocated("alpha1", Some(2)), allocated("alpha2", Some(2))]);
        assert_eq!(found[1].licences, BTreeMap::from([("matlab".to_owned(), 1)]));
        assert!(found[1].nodes.is_empty());
        assert_eq!(found[2].nodes, [allocated("alpha1", Some(2))]);
        assert_eq!(found[3].nodes, [allocated("alpha1", None)]);
        assert_eq!((found[3].from, found[3].until), (Time(1_795_875_136), Time(1_795_875_436)));
        assert_eq!(read("No reservations in the system\n", &nodes(), &BTreeSet::new()).0, []);
    }

    #[test]
    fn reservations_of_the_server_are_marked() {
        let own = named(&["--exclude=n1".to_owned(), "--reservation=soon,part".to_owned()]);
        let found = read(PRINTED, &nodes(), &own).0;
        let ours: Vec<&str> = found.iter().filter(|one| one.ours).map(|one| one.name.as_str()).collect();
        assert_eq!(ours, ["part", "soon"]);
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let printed = PRINTED.replace("EndTime=1795875436", "EndTime=tomorrow");
        let (found, wrong) = read(&printed, &nodes(), &BTreeSet::new());
        assert_eq!((found.len(), wrong.len()), (3, 1));
        let wrong = wrong[0].to_string();
        assert!(wrong.contains("soon, EndTime") && wrong.contains("tomorrow"), "{wrong}");
    }

    #[test]
    fn licences_of_which_any_will_do_are_all_reserved() {
        let units = |pairs: &[(&str, u32)]| {
            Some(pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect::<BTreeMap<_, _>>())
        };
        assert_eq!(licences("matlab:2|ansys"), units(&[("matlab", 2), ("ansys", 1)]));
        assert_eq!(licences("matlab:x"), None);
    }
}
