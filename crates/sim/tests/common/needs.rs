//! Strategies for clusters with nodes, and for what jobs need of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use pliant_model::{
    Cluster, ClusterNodes, Constraint, GpuCount, GpuPoint, Gpus, Mebibytes, Memory, NodeGroup, Platform,
    Procs, Resources, Speed, Speedup,
};
use proptest::prelude::*;
use proptest::sample::select;

const GPU_KINDS: [&str; 2] = ["a100", "v100"];
const FEATURES: [&str; 2] = ["fast", "local"];
const LICENCES: [&str; 2] = ["matlab", "solver"];

fn node_groups() -> impl Strategy<Value = NodeGroup> {
    let features = prop::collection::btree_set(select(&FEATURES[..]), 0..=2);
    let gpus = prop_oneof![2 => Just(0_u32), 3 => 1..=4_u32];
    let memory = prop_oneof![1 => Just(4096_u32), 2 => 1024..8192_u32];
    (1..=4_u32, 1..=6_u32, memory, gpus, select(&GPU_KINDS[..]), 0..3_u32, features).prop_map(
        |(count, procs, memory, gpus, kind, scratch, features)| NodeGroup {
            count,
            procs: Procs(procs),
            memory: Mebibytes(memory),
            gpus,
            gpu_kind: (gpus > 0).then(|| kind.to_owned()),
            scratch: Mebibytes(scratch * 1024),
            features: features.into_iter().map(str::to_owned).collect(),
        },
    )
}

fn declared() -> impl Strategy<Value = ClusterNodes> {
    let groups = prop::collection::vec(node_groups(), 1..=3);
    let units = prop::collection::btree_map(select(&LICENCES[..]), 1..=3_u32, 0..=2);
    (groups, units, select(vec![0_u32, 150])).prop_map(|(groups, units, default)| ClusterNodes {
        groups,
        licences: units.into_iter().map(|(name, units)| (name.to_owned(), units)).collect(),
        default_memory: Mebibytes(default),
    })
}

/// Up to `most` clusters, most of them with nodes.
pub(crate) fn platforms(most: usize) -> impl Strategy<Value = Platform> {
    let speed = prop_oneof![2 => Just(1.0), 1 => 0.5..2.0];
    let batch = select(vec!["cbf", "cbf-replan"]);
    let one = (prop::option::weighted(0.85, declared()), batch, speed, 4..20_u32);
    prop::collection::vec(one, 1..=most).prop_map(|drawn| {
        let cluster =
            |(index, (nodes, batch, speed, procs)): (usize, (Option<ClusterNodes>, &str, f64, u32))| {
                Cluster {
                    name: format!("cluster {index}"),
                    procs: nodes.as_ref().map_or(Procs(procs), ClusterNodes::procs),
                    speed: Speed::new(speed).unwrap(),
                    batch: batch.to_owned(),
                    nodes: nodes.map(Arc::new),
                }
            };
        Platform::new(drawn.into_iter().enumerate().map(cluster).collect()).unwrap()
    })
}

/// Times of processors and GPUs.
pub(crate) fn gpu_tables() -> impl Strategy<Value = Speedup> {
    let points = prop::collection::btree_map((1..14_u32, 0..5_u32), 1..100_u32, 1..8);
    points.prop_filter_map("one has GPUs", |points| {
        let point = |((procs, gpus), time): ((u32, u32), u32)| GpuPoint {
            procs: Procs(procs),
            gpus,
            time: f64::from(time),
        };
        let table = Speedup::GpuTable(points.into_iter().map(point).collect());
        table.validate().is_ok().then_some(table)
    })
}

/// What a job needs besides processors: none in a part of the cases, and some things that no cluster has.
pub(crate) fn needs() -> impl Strategy<Value = Option<Arc<Resources>>> {
    let memory = prop_oneof![
        (1..2500_u32).prop_map(|each| Memory::PerProc(Mebibytes(each))),
        (1..9000_u32).prop_map(|all| Memory::Total(Mebibytes(all))),
    ];
    let count = prop_oneof![(1..=2_u32).prop_map(GpuCount::PerProc), (1..=6_u32).prop_map(GpuCount::Total),];
    let kind = prop::option::weighted(0.4, select(&GPU_KINDS[..]).prop_map(str::to_owned));
    let gpus = (count, kind).prop_map(|(count, kind)| Gpus { count, kind });
    let features = prop::collection::vec(select(&FEATURES[..]).prop_map(str::to_owned), 1..=2);
    let constraint = (features, any::<bool>())
        .prop_map(|(features, all)| if all { Constraint::All(features) } else { Constraint::Any(features) });
    let licences =
        prop::collection::btree_map(select(&LICENCES[..]).prop_map(str::to_owned), 1..=2_u32, 1..=2);
    let drawn = (
        prop::option::weighted(0.6, memory),
        prop::option::weighted(0.35, gpus),
        prop_oneof![4 => Just(0_u32), 1 => 1..2048_u32],
        prop::option::weighted(0.2, 1..=3_u32),
        prop::option::weighted(0.2, 1..=4_u32),
        prop::bool::weighted(0.15),
        prop::option::weighted(0.2, constraint),
        prop::option::weighted(0.2, licences),
    );
    drawn.prop_map(|(memory, gpus, scratch, nodes, procs_per_node, exclusive, constraint, licences)| {
        let needs = Resources {
            memory,
            gpus,
            scratch: Mebibytes(scratch),
            nodes,
            procs_per_node: procs_per_node.map(Procs),
            exclusive,
            constraint,
            licences: licences.unwrap_or_else(BTreeMap::new),
            ..Resources::default()
        };
        (needs != Resources::default()).then(|| Arc::new(needs))
    })
}
