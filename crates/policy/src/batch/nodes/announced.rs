//! The starts that Slurm announces: the search of one backfill pass ([`super::Reserve::Nodes`]), as observed
//! on Slurm 22.05.
//!
//! A job may use the nodes that are not reserved at any time from a first instant (now, then each end of a
//! reservation) until it would end if it started then, that moment included: holes must be strictly longer.
//! On those nodes the running jobs are removed in groups, in order of their ends, until it fits; it
//! starts when the last of the group ends. Groups span 30 s, then twice that and so on, which is why announced
//! starts are often late. The pass after next may say something else; what really happens is better told
//! by [`super::Reserve::Start`].
//!
//! Costs O(r (r n + h n)) at worst for `r` reservations, `h` running jobs and `n` nodes.

use pliant_model::{Span, Time};

use super::amounts::{Amounts, Part};
use super::choice::choose;
use super::rules::Rules;
use super::search::NodeFit;
use super::snapshot::Shape;
use super::timeline::{Stretch, Timeline};

/// How long the first group is.
const GROUP_S: i64 = 30;

/// The announced allocation not before `from`; none if it never fits.
pub(super) fn earliest(
    timeline: &Timeline,
    rules: &Rules,
    shape: &Shape,
    walltime: Span,
    from: Time,
) -> Option<NodeFit> {
    let loose = Rules { strict_holes: false, ..rules.clone() };
    let mut stretch = Stretch::new(timeline, rules);
    let mut overlap = Stretch::new(timeline, &loose);
    let mut first = from.0;
    loop {
        let index = timeline.at(first);
        let next = timeline.intervals().get(index + 1).map(|next| next.begin);
        let until = first + walltime.0;
        if let Some(short) = timeline.short(index, until, rules.strict_holes, shape.cores.0.into()) {
            first = timeline.intervals().get(short + 1)?.begin;
            continue;
        }
        stretch.begin(index);
        stretch.extend(until);
        if let Some((end, on)) = released(timeline, &stretch.free, shape) {
            let start = first.max(end);
            if next.is_none_or(|next| start <= next) {
                overlap.begin(timeline.at(start));
                overlap.extend(start + walltime.0);
                if is_unreserved(timeline, &overlap.free, &on, start) {
                    return Some(NodeFit { start: Time(start), on });
                }
                first = start;
                continue;
            }
        }
        first = next?;
    }
}

/// Whether a job that starts at `start` gets nothing that is reserved: `unreserved` is what no planned job has while it runs.
/// A reserved node is reserved as a whole, of a licence some units.
fn is_unreserved(timeline: &Timeline, unreserved: &[Amounts], on: &[Part], start: i64) -> bool {
    on.iter().all(|part| {
        let free = unreserved[part.node as usize];
        if timeline.rows().is_node(part.node) {
            return free.cores > 0;
        }
        let held = timeline.still_held(start).flat_map(|(_, on)| on).filter(|held| held.node == part.node);
        let free = held.fold(free, |free, held| free.without(held.taken));
        free.covers(part.taken)
    })
}

/// When enough running jobs will have ended on nodes that are not reserved, and the nodes and cores then.
fn released(timeline: &Timeline, unreserved: &[Amounts], shape: &Shape) -> Option<(i64, Vec<Part>)> {
    let held = timeline.ended_by(i64::MAX);
    let mut taken = vec![Amounts::default(); unreserved.len()];
    for part in held.iter().flat_map(|(_, on)| on) {
        taken[part.node as usize] = taken[part.node as usize].with(part.taken);
    }
    let fit = |taken: &[Amounts]| {
        let free: Vec<Amounts> = unreserved.iter().zip(taken).map(|(all, held)| all.without(*held)).collect();
        let enough = timeline.rows().cores_of(&free) >= u64::from(shape.cores.0);
        enough.then(|| choose(&free, timeline.rows(), shape)).flatten()
    };
    if let Some(on) = fit(&taken) {
        return Some((i64::MIN, on));
    }
    let matters = |on: &[Part]| on.iter().any(|part| unreserved[part.node as usize].cores > 0);
    let mut group_s = GROUP_S;
    let mut anchor: Option<i64> = None;
    let mut last = None;
    for (index, (end, on)) in held.iter().enumerate() {
        if !matters(on) {
            continue;
        }
        on.iter().for_each(|part| taken[part.node as usize] = taken[part.node as usize].without(part.taken));
        last = Some(*end);
        let anchor = *anchor.get_or_insert(end + GROUP_S - end.rem_euclid(GROUP_S));
        let next = held.get(index + 1).map(|(end, _)| *end);
        if next.is_some_and(|next| next <= anchor + group_s) {
            continue;
        }
        if let Some(on) = fit(&taken) {
            return Some((*end, on));
        }
        while next.is_some_and(|next| next > anchor + group_s) {
            group_s = group_s.saturating_mul(2);
        }
    }
    last.and_then(|end| Some((end, fit(&taken)?)))
}
