//! What replays are made from.

use pliant_control::local::LocalJob;
use pliant_policy::nodes;

use super::super::super::{HistoryPage, HistoryPlace, HistoryQuery, LocalPlace, LocalsPage, LocalsQuery};
use super::*;

fn history_place() -> impl Strategy<Value = HistoryPlace> {
    (time(), name(), any::<u32>()).prop_map(|(ended, server, number)| HistoryPlace { ended, server, number })
}

pub(in super::super) fn history_query() -> impl Strategy<Value = HistoryQuery> {
    (time(), option::of(history_place()), 1..=bounds::JOBS_MAX as u32)
        .prop_map(|(since, after, limit)| HistoryQuery { since, after, limit })
}

pub(in super::super) fn history_page() -> impl Strategy<Value = HistoryPage> {
    (vec(job(), 0..4), option::of(history_place())).prop_map(|(jobs, next)| HistoryPage { jobs, next })
}

fn local_place() -> impl Strategy<Value = LocalPlace> {
    (time(), any::<u64>()).prop_map(|(ended, number)| LocalPlace { ended, number })
}

pub(in super::super) fn locals_query() -> impl Strategy<Value = LocalsQuery> {
    (time(), option::of(local_place()), 1..=bounds::LOCALS_MAX as u32)
        .prop_map(|(since, after, limit)| LocalsQuery { since, after, limit })
}

fn local_job() -> impl Strategy<Value = LocalJob> {
    let shape = (procs(), option::of(1..9_u32), procs(), any::<bool>())
        .prop_map(|(cores, nodes, per_node, exclusive)| nodes::Shape { cores, nodes, per_node, exclusive });
    let times = (time(), option::of(time()), option::of(time()));
    (shape, option::of(scaled_walltime()), word(), times).prop_map(
        |(shape, walltime, partition, (submitted, started, ended))| LocalJob {
            shape,
            walltime,
            partition,
            submitted,
            started,
            ended,
        },
    )
}

pub(in super::super) fn locals_page() -> impl Strategy<Value = LocalsPage> {
    let tuner = select(pliant_policy::tuning::Tuner::ALL);
    let parts = (tuner, option::of(nodes_picture()), vec(local_job(), 0..4), option::of(local_place()));
    parts.prop_map(|(tuner, nodes, jobs, next)| LocalsPage { tuner, nodes, jobs, next })
}
