//! Searches for starts: the earliest for a fixed shape, the best size of a moldable request.

use pliant_model::{Estimate, Procs, Span, Time, Walltimes};

use super::amounts::{Amounts, Part};
use super::announced;
use super::catalogue::{Catalogue, is_sum_of_nodes};
use super::choice::choose;
use super::layout::Layout;
use super::rules::{Reserve, Rules};
use super::snapshot::{Pending, Shape};
use super::timeline::{Stretch, Timeline};
use crate::tuning::{self, SizePlan};

/// A start with what the job gets: of nodes, and licences.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct NodeFit {
    pub(super) start: Time,
    pub(super) on: Vec<Part>,
}

/// A walltime rounded as by the batch system.
pub(super) fn rounded(walltime: Span, rules: &Rules) -> Span {
    let unit = rules.walltime_unit.0;
    Span(((walltime.0 + unit - 1) / unit * unit).min(Span::MAX.0))
}

/// How long a job with that walltime occupies its cores, including the pause after it.
pub(super) fn occupied(walltime: Span, rules: &Rules) -> Span {
    Span(rounded(walltime, rules).0.saturating_add(rules.pause.0).min(Span::MAX.0))
}

/// The planned duration of a job: the expected runtime, else the walltime.
pub(super) fn duration(job: &Pending, rules: &Rules) -> Span {
    let walltime = occupied(job.walltime, rules);
    job.expected.map_or(walltime, |expected| (expected + rules.pause).min(walltime))
}

/// The earliest allocation not before `from`; none if the shape never fits. Totals of free cores exclude most instants: with
/// `s` intervals, of which a job covers `t`, and `n` nodes this costs O(s + t) and O(t n) for each remaining instant.
pub(super) fn earliest(
    timeline: &Timeline,
    rules: &Rules,
    shape: &Shape,
    walltime: Span,
    from: Time,
) -> Option<NodeFit> {
    if rules.reserve == Reserve::Nodes {
        return announced::earliest(timeline, rules, shape, walltime, from);
    }
    let need = u64::from(shape.cores.0);
    let mut stretch = Stretch::new(timeline, rules);
    let mut index = timeline.at(from.0);
    loop {
        let start = timeline.intervals().get(index)?.begin.max(from.0);
        let until = start + walltime.0;
        if let Some(short) = timeline.short(index, until, rules.strict_holes, need) {
            index = short + 1;
            continue;
        }
        stretch.begin(index);
        stretch.extend(until);
        if let Some(on) = choose(&stretch.free, timeline.rows(), shape) {
            let on = first_free(timeline, &stretch.free, shape, start).unwrap_or(on);
            return Some(NodeFit { start: Time(start), on });
        }
        index += 1;
    }
}

/// Of the nodes free from `start` on, those that running jobs release first: Slurm removes the running jobs one by one until
/// the job fits, and keeps these nodes even if the job starts later. None if that makes no difference. At most one choice per
/// running job.
fn first_free(timeline: &Timeline, free: &[Amounts], shape: &Shape, start: i64) -> Option<Vec<Part>> {
    let ended = timeline.ended_by(start);
    if ended.is_empty() {
        return None;
    }
    let mut still_held = vec![Amounts::default(); free.len()];
    for part in ended.iter().flat_map(|(_, on)| on) {
        still_held[part.node as usize] = still_held[part.node as usize].with(part.taken);
    }
    let mut left = free.to_vec();
    for (_, on) in ended {
        for ((left, free), held) in left.iter_mut().zip(free).zip(&still_held) {
            *left = free.without(*held);
        }
        let enough = timeline.rows().cores_of(&left) >= u64::from(shape.cores.0);
        if let Some(chosen) = enough.then(|| choose(&left, timeline.rows(), shape)).flatten() {
            return Some(chosen);
        }
        for part in on {
            still_held[part.node as usize] = still_held[part.node as usize].without(part.taken);
        }
    }
    None
}

/// An allocation at exactly `start`, on the named nodes only if there are any.
pub(super) fn at(
    timeline: &Timeline,
    rules: &Rules,
    shape: &Shape,
    walltime: Span,
    start: Time,
    nodes: &[u32],
) -> Option<NodeFit> {
    // An announced start has passed the rule of strict holes.
    let rules = Rules { strict_holes: false, ..rules.clone() };
    let mut stretch = Stretch::new(timeline, &rules);
    stretch.begin(timeline.at(start.0));
    stretch.extend(start.0 + walltime.0);
    if rules.reserve == Reserve::Nodes {
        for part in timeline.still_held(start.0).flat_map(|(_, on)| on) {
            let free = &mut stretch.free[part.node as usize];
            *free = free.without(part.taken);
        }
    }
    if !nodes.is_empty() {
        for (node, free) in (0_u32..).zip(&mut stretch.free) {
            if timeline.rows().is_node(node) && !nodes.contains(&node) {
                *free = Amounts::default();
            }
        }
    }
    Some(NodeFit { start, on: choose(&stretch.free, timeline.rows(), shape)? })
}

/// How many sizes are tried of a request whose sizes are tried one by one. Only a request with a total of memory or GPUs, or with a number of
/// nodes, could be larger: each step costs a search.
const SIZES_MAX: u32 = 10_000;

/// The sizes of a request at the end of the queue, with the walltime rounded as in listings.
pub(super) struct NodesPlan<'a, 'b> {
    catalogue: &'a Catalogue,
    layout: &'a Layout,
    timeline: &'a Timeline,
    now: Time,
    walltimes: &'a Walltimes<'b>,
    /// The smallest and the largest size that fit on the empty cluster; the smallest is larger if none does.
    fitting: (Procs, Procs),
}

impl<'a, 'b> NodesPlan<'a, 'b> {
    pub(super) fn new(
        catalogue: &'a Catalogue,
        (layout, timeline): (&'a Layout, &'a Timeline),
        now: Time,
        walltimes: &'a Walltimes<'b>,
    ) -> Self {
        let nodes = walltimes.resources().and_then(|resources| resources.nodes);
        let least = walltimes.least().max(Procs(nodes.unwrap_or(0)));
        let mut most = walltimes.most().min(layout.rows.capacity());
        if walltimes.gpu_sizes().is_none() && !is_sum_of_nodes(walltimes.resources()) {
            most = most.min(Procs(least.0.saturating_add(SIZES_MAX)));
        }
        let mut plan = NodesPlan { catalogue, layout, timeline, now, walltimes, fitting: (least, most) };
        if least < most || walltimes.gpu_sizes().is_some() {
            plan.fitting = plan.fitting(least, most);
        }
        plan
    }

    fn shape(&self, procs: Procs) -> Shape {
        self.layout.shape(&self.catalogue.shape(procs, self.walltimes.resources()))
    }

    /// The shape of a size of a table with GPUs.
    fn shape_with(&self, procs: Procs, gpus: u32) -> Shape {
        let resources = self.walltimes.resources_with(gpus);
        self.layout.shape(&self.catalogue.shape(procs, Some(&resources)))
    }

    /// The sizes from `least` to `most`: numbers of processors, each once.
    fn sizes(&self, least: Procs, most: Procs) -> Box<dyn DoubleEndedIterator<Item = Procs>> {
        let Some(sizes) = self.walltimes.gpu_sizes() else {
            return Box::new((least.0..=most.0).map(Procs));
        };
        let mut sizes: Vec<Procs> = sizes.map(|(procs, ..)| procs).collect();
        sizes.retain(|procs| (least..=most).contains(procs));
        sizes.dedup();
        Box::new(sizes.into_iter())
    }

    /// The sizes of a table with GPUs on so many processors, by their GPUs.
    fn with_gpus(&self, procs: Procs) -> impl Iterator<Item = (u32, Span)> + '_ {
        let sizes = self.walltimes.gpu_sizes().into_iter().flatten();
        let sizes = sizes.filter(move |(size, ..)| *size == procs);
        // Walltimes rounded to the same need the fewest GPUs of these.
        sizes.map(|(procs, _, walltime)| (self.walltimes.gpus_at(procs, walltime), walltime))
    }

    /// The earliest start in a shape.
    fn estimate_in(&self, shape: &Shape, procs: Procs, walltime: Span) -> Option<Estimate> {
        let rules = &self.layout.rules;
        let walltime = rounded(walltime, rules);
        let fit = earliest(self.timeline, rules, shape, occupied(walltime, rules), self.now)?;
        Some(Estimate { procs, walltime, start: fit.start })
    }

    /// Neither more processors nor fewer need fit where some do: a job on one node can be too large for it, and one with a
    /// total of GPUs too small to have a processor on each of its nodes.
    fn fitting(&self, least: Procs, most: Procs) -> (Procs, Procs) {
        let rows = &self.layout.rows;
        if let Some(shape) = self.of_any_size(most) {
            let usable: u64 = rows.usable(&rows.all, &shape).into_iter().map(u64::from).sum();
            return (least, Procs(usable.min(u64::from(most.0)) as u32));
        }
        let fits_in = |shape: &Shape| choose(&rows.all, rows, shape).is_some();
        let has_table = self.walltimes.gpu_sizes().is_some();
        let fits = |procs: &Procs| match has_table {
            true => self.with_gpus(*procs).any(|(gpus, _)| fits_in(&self.shape_with(*procs, gpus))),
            false => fits_in(&self.shape(*procs)),
        };
        let sizes = || self.sizes(least, most);
        let ends = sizes().find(fits).zip(sizes().rev().find(fits));
        ends.unwrap_or((Procs(most.0.saturating_add(1)), most))
    }

    /// The shape of all sizes but for the number of cores, if there is one and the largest size that can start is the sum of
    /// what it can have of each node.
    fn of_any_size(&self, most: Procs) -> Option<Shape> {
        let resources = self.walltimes.resources();
        let asked = self.catalogue.shape(most, resources);
        let is_sum = self.walltimes.gpu_sizes().is_none()
            && is_sum_of_nodes(resources)
            && self.layout.is_sum_of_nodes(&asked);
        is_sum.then(|| self.layout.shape(&asked))
    }

    /// From the largest size down, until a size would be too late even if it started now.
    fn each_size(&mut self, least: Procs, most: Procs) -> Option<Estimate> {
        let mut best: Option<Estimate> = None;
        for procs in self.sizes(least, most).rev() {
            let latest = best.map_or(Time::MAX, |best| best.completion());
            if self.now + self.walltime(procs) > latest {
                break;
            }
            best = self.estimate_at(procs).filter(|one| one.completion() <= latest).or(best);
        }
        best
    }
}

impl SizePlan for NodesPlan<'_, '_> {
    /// The processors of all usable nodes.
    fn capacity(&self) -> Procs {
        self.layout.rows.capacity()
    }

    fn least(&self) -> Procs {
        self.fitting.0
    }

    fn most(&self) -> Procs {
        self.fitting.1
    }

    fn walltime(&self, procs: Procs) -> Span {
        rounded(self.walltimes.at(procs), &self.layout.rules)
    }

    fn estimate_at(&mut self, procs: Procs) -> Option<Estimate> {
        if self.walltimes.gpu_sizes().is_none() {
            return self.estimate_in(&self.shape(procs), procs, self.walltimes.at(procs));
        }
        let sizes = self.with_gpus(procs);
        let estimates = sizes.filter_map(|(gpus, walltime)| {
            let estimate = self.estimate_in(&self.shape_with(procs, gpus), procs, walltime)?;
            Some((estimate.completion(), gpus, estimate))
        });
        estimates.min_by_key(|(completion, gpus, _)| (*completion, *gpus)).map(|(.., estimate)| estimate)
    }

    /// Where the largest size that can start is a sum over nodes, this scans every interval that can still lead to an earlier
    /// completion. The size starts at the largest for the instant and shrinks until its walltime fits: the largest size that
    /// can start there, which is the best since walltimes never grow with the size. Costs about as much as one [`earliest`]
    /// for the smallest size. Elsewhere it costs one for each size.
    fn earliest(&mut self, most: Procs) -> Option<Estimate> {
        let (least, most) = (self.least(), most.max(self.least()));
        match self.of_any_size(most) {
            Some(shape) if self.layout.rules.reserve != Reserve::Nodes => exact(self, &shape, least, most),
            _ => self.each_size(least, most),
        }
    }

    /// One search for each size from the smallest that is short enough if started now. Of a table with GPUs the sizes on as many
    /// processors are tried by their GPUs.
    fn fewest(&mut self, least: Procs, known: Estimate, latest: Time) -> Estimate {
        let is_in_time = |one: &Estimate| one.completion() <= latest;
        if self.walltimes.gpu_sizes().is_some() {
            let sizes = self.sizes(least, known.procs);
            let sizes = sizes.flat_map(|procs| self.with_gpus(procs).map(move |size| (procs, size)));
            let mut estimates = sizes.filter_map(|(procs, (gpus, walltime))| {
                self.estimate_in(&self.shape_with(procs, gpus), procs, walltime)
            });
            return estimates.find(is_in_time).unwrap_or(known);
        }
        let least = tuning::fewest_with(latest - self.now, least, known.procs, self.walltimes);
        let mut sizes = (least.0..known.procs.0).map(Procs);
        let in_time = |procs| self.estimate_at(procs).filter(is_in_time);
        sizes.find_map(in_time).unwrap_or(known)
    }
}

/// The size that completes first; `shape` is that of any size, apart from its cores.
fn exact(plan: &NodesPlan<'_, '_>, shape: &Shape, least: Procs, most: Procs) -> Option<Estimate> {
    let NodesPlan { timeline, walltimes, layout: Layout { rules, .. }, now, .. } = plan;
    let intervals = timeline.intervals();
    let mut stretch = Stretch::new(timeline, rules);
    let quickest = rounded(walltimes.at(most), rules);
    let mut best: Option<Estimate> = None;
    let key = |one: &Estimate| (one.completion(), one.procs);
    for (index, interval) in intervals.iter().enumerate().skip(timeline.at(now.0)) {
        let start = Time(interval.begin.max(now.0));
        if best.is_some_and(|best| start + quickest > best.completion()) {
            break;
        }
        let mut size = Procs(interval.total.min(u64::from(most.0)) as u32);
        if size < least {
            continue;
        }
        stretch.begin(index);
        loop {
            let found = Estimate { procs: size, walltime: rounded(walltimes.at(size), rules), start };
            if best.is_some_and(|best| key(&best) <= key(&found)) {
                break;
            }
            let until = start.0 + occupied(found.walltime, rules).0;
            // Counts first: they are cheaper.
            let free = match timeline.short(index, until, rules.strict_holes, size.0.into()) {
                Some(short) => intervals[short].total,
                None => {
                    stretch.extend(until);
                    timeline.rows().usable(&stretch.free, shape).into_iter().map(u64::from).sum()
                }
            };
            if free >= u64::from(size.0) {
                best = Some(found);
                break;
            }
            size = Procs(free as u32);
            if size < least {
                break;
            }
        }
    }
    best.map(|best| {
        let procs = tuning::fewest_with(best.walltime, least, best.procs, walltimes);
        Estimate { procs, ..best }
    })
}
