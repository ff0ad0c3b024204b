//! Packs of instances, and what they may expect of a server.

use pliant_control::multi_job::{Expectation, Places, Prospects, Told};
use pliant_control::names::Key;
use pliant_policy::runtimes::Level;

use super::super::super::{Pack, PackedCall, ProspectsQuery};
use super::*;

pub(in super::super) fn pack() -> impl Strategy<Value = Pack> {
    let varied = vec(word(), 0..3);
    let calls = varied.prop_flat_map(|varied| {
        let call = (any::<u32>(), vec(text(), varied.len()));
        let call = call.prop_map(|(number, values)| PackedCall { number, values });
        (Just(varied), vec(call, 1..4))
    });
    let key = proptest::option::of(any::<[u8; 16]>().prop_map(Key));
    (word(), btree_map(word(), text(), 0..3), calls, key).prop_map(
        |(service, arguments, (varied, instances), inputs_key)| Pack {
            service,
            arguments,
            varied,
            instances,
            inputs_key,
        },
    )
}

pub(in super::super) fn prospects_query() -> impl Strategy<Value = ProspectsQuery> {
    let expected = (span_ms(), select(Level::ALL), any::<u64>());
    let expected = expected.prop_map(|(runtime, level, jobs)| Expectation { runtime, level, jobs });
    let whole =
        (word(), btree_map(word(), text(), 0..3), vec(any::<u32>(), 0..4), proptest::option::of(expected));
    let others = (0_usize..3).prop_flat_map(|names| {
        let call =
            (any::<u32>(), vec(text(), names)).prop_map(|(number, values)| PackedCall { number, values });
        (vec(word(), names), vec(call, 0..3))
    });
    (whole, others).prop_map(|((service, arguments, without, elsewhere), (varied, others))| ProspectsQuery {
        service,
        arguments,
        varied,
        others,
        without,
        elsewhere,
    })
}

pub(in super::super) fn prospects() -> impl Strategy<Value = Prospects> {
    let places = (span_ms(), bounds::PROCS).prop_map(|(at, places)| Places { at, places });
    let told = prop_oneof![
        Just(Told::Walltime),
        (1..u64::MAX).prop_map(|jobs| Told::Statistics { jobs }),
        (select(Level::ALL), 1..u64::MAX).prop_map(|(level, jobs)| Told::Federation { level, jobs }),
    ];
    let pack_most = proptest::option::of(1..u32::MAX);
    let whole =
        (vec(places, 0..4), span_ms(), told, any::<u32>(), any::<u64>(), pack_most, vec(any::<u32>(), 0..4));
    let refused = vec((any::<u32>(), text()), 0..3);
    (whole, bounds::SCALE, refused).prop_map(
        |((free, instance, told, jobs, failures, pack_most, waiting), scale, refused)| Prospects {
            free,
            instance,
            scale,
            told,
            jobs,
            failures,
            pack_most,
            waiting,
            refused,
        },
    )
}
