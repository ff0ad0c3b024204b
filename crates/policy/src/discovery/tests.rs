//! The children that a discovery asks, against asking all.

use std::collections::BTreeMap;

use pliant_model::{
    ClusterNodes, Estimate, JobId, Mebibytes, NodeGroup, Procs, Request, Span, Speed, Speedup, Time,
};
use proptest::prelude::*;

use super::*;
use crate::batch::{BatchScheduler, LocalPolicy, Submission};
use crate::completion::{Offer, merge_offers};
use crate::profile::{FreePlan, FreeStep};
use crate::tuning::{SlackSizing, Thousandths, Tuner};

/// Offers of children, each with its bound. A server has the number of its position among all.
type Children = BTreeMap<usize, (Option<Time>, Vec<Offer<u32>>)>;

/// The best offers of all children.
fn all_asked(children: &Children, best: usize) -> Vec<Offer<u32>> {
    let all: Vec<Offer<u32>> = children.values().flat_map(|(_, offers)| offers.clone()).collect();
    merge_offers(&all, best).into_iter().map(|at| all[at]).collect()
}

/// The best offers of a search by bounds, whose children answer in the order of `answers`, and the number of children asked.
fn searched(children: &Children, best: usize, late: &[usize], answers: &[usize]) -> (Vec<Offer<u32>>, usize) {
    let mut candidates = Candidates::new(best, Time::MAX);
    for (child, (bound, offers)) in children {
        let first = offers.iter().map(|offer| (offer.rank, offer.server)).min().unwrap_or((0, 0));
        match bound {
            Some(bound) => {
                let servers = if late.contains(child) { 0 } else { offers.len().max(1) };
                candidates.push(*bound, first, *child, servers);
            }
            None => candidates.push_unbounded(*child),
        }
    }
    candidates.sort();
    let mut kept: Vec<Offer<u32>> = Vec::new();
    let (mut open, mut asked, mut answers) = (Vec::new(), 0, answers.iter().cycle());
    loop {
        let best_of = |kept: &[Offer<u32>]| -> Vec<Offer<u32>> {
            merge_offers(kept, best).into_iter().map(|at| kept[at]).collect()
        };
        let ask = |candidates: &mut Candidates<u32, usize>, kept: &[Offer<u32>]| {
            let kept: Vec<Offer<&u32>> = kept.iter().map(by_reference).collect();
            candidates.ask(&kept)
        };
        let more = ask(&mut candidates, &kept);
        asked += more.len();
        open.extend(more);
        if open.is_empty() {
            return (kept, asked);
        }
        let child = open.swap_remove(answers.next().unwrap_or(&0) % open.len());
        kept.extend(children[&child].1.iter().copied());
        kept = best_of(&kept);
        let offers: Vec<Offer<&u32>> = kept.iter().map(by_reference).collect();
        candidates.answered(&child, &offers);
    }
}

fn by_reference(offer: &Offer<u32>) -> Offer<&u32> {
    Offer { rank: offer.rank, server: &offer.server, estimate: offer.estimate }
}

fn offer(rank: u32, server: u32, completion: i64) -> Offer<u32> {
    Offer {
        rank,
        server,
        estimate: Estimate { procs: Procs(1), walltime: Span(1), start: Time(completion - 1) },
    }
}

/// Children with one server each, given by bound and completion; a server without a completion refuses.
fn children(of: &[(Option<i64>, Option<i64>)]) -> Children {
    let child = |(number, (bound, completion)): (usize, &(Option<i64>, Option<i64>))| {
        let offers = completion.map(|completion| offer(0, number as u32, completion));
        (number, (bound.map(Time), offers.into_iter().collect()))
    };
    of.iter().enumerate().map(child).collect()
}

#[test]
fn as_few_children_are_asked_as_the_bounds_allow() {
    let check = |of: &[(Option<i64>, Option<i64>)], best: usize, expected: usize| {
        let children = children(of);
        let (found, asked) = searched(&children, best, &[], &[0]);
        assert_eq!(found, all_asked(&children, best), "{of:?}");
        assert_eq!(asked, expected, "{of:?}");
    };
    let idle: Vec<_> = (0..100).map(|_| (Some(60), Some(60))).collect();
    check(&idle, 3, 3);
    // One bound was too good: one more child than wanted.
    check(&[(Some(10), Some(90)), (Some(20), Some(20)), (Some(30), Some(30)), (Some(95), Some(95))], 2, 3);
    // Nothing better can come from the last one.
    check(&[(Some(10), Some(10)), (Some(20), Some(20)), (Some(30), Some(30))], 2, 2);
    // Without a bound each is asked, together with the best ones that have a bound.
    check(
        &[(None, Some(10)), (None, Some(20)), (None, None), (Some(8), Some(12)), (Some(11), Some(11))],
        1,
        4,
    );
    // The best answer is in none of the bounds: all are asked.
    let loose: Vec<_> = (0..40).map(|at| (Some(at), Some(1_000 - at))).collect();
    check(&loose, 1, 40);
    check(&[], 2, 0);
}

#[test]
fn children_that_refuse_by_their_summaries_are_asked_if_too_few_others_take_it() {
    let never = Some(Time::MAX.0);
    let refusing = |count: usize| (0..count).map(move |_| (never, None));
    let check = |offers: usize, best: usize, expected: usize| {
        let of: Vec<_> = (0..offers).map(|_| (Some(5), Some(5))).chain(refusing(20)).collect();
        assert_eq!(searched(&children(&of), best, &[], &[0]).1, expected);
    };
    check(3, 3, 3);
    check(2, 3, 2 + REFUSING_MAX);
    check(0, 3, 20);
    // The summaries were wrong.
    let wrong = children(&[(never, Some(7)), (never, None)]);
    assert_eq!(searched(&wrong, 3, &[], &[0]).0, [offer(0, 0, 7)]);
}

#[test]
fn rounds_grow_while_answers_are_worse_than_bounds() {
    let of: Vec<_> = (0..64).map(|at| (Some(at), Some(1_000))).collect();
    let children = children(&of);
    let mut candidates: Candidates<u32, usize> = Candidates::new(1, Time::MAX);
    for (child, (bound, _)) in &children {
        candidates.push(bound.unwrap(), (0, *child as u32), *child, 1);
    }
    candidates.sort();
    let (mut rounds, mut open) = (Vec::new(), candidates.ask(&[]));
    while !open.is_empty() {
        rounds.push(open.len());
        // None of them has anything.
        open = std::mem::take(&mut open).iter().fold(Vec::new(), |mut more, child| {
            candidates.answered(child, &[]);
            more.extend(candidates.ask(&[]));
            more
        });
    }
    assert_eq!(rounds, [1, 2, 4, 8, 16, 32, 1]);
}

#[test]
fn late_children_hold_nothing_up() {
    let mut candidates: Candidates<u32, char> = Candidates::new(1, Time::MAX);
    for (bound, child) in [(1, 'a'), (2, 'b'), (3, 'c'), (90, 'z')] {
        candidates.push(Time(bound), (0, bound as u32), child, usize::from(child != 'a'));
    }
    candidates.sort();
    assert_eq!(candidates.ask(&[]), ['a', 'b'], "no answer of a is expected");
    assert_eq!(candidates.ask(&[]), []);
    candidates.hurry();
    assert_eq!(candidates.ask(&[]), ['c', 'z']);
    // A limit of the requester is one at any time.
    let mut limited: Candidates<u32, char> = Candidates::new(1, Time(50));
    limited.push(Time(90), (0, 1), 'z', 1);
    limited.push(Time::MAX, (0, 1), 'y', 1);
    limited.sort();
    limited.hurry();
    assert_eq!((limited.ask(&[]), limited.rest().count()), (Vec::new(), 2));
}

/// The rank and the completion of each server of a child, and how far the bound is before them.
type DrawnChild = (Vec<(u32, i64)>, Option<i64>);

fn drawn_children() -> impl Strategy<Value = Children> {
    let server = (0..3_u32, 1..30_i64);
    let child = (prop::collection::vec(server, 0..5), prop::option::weighted(0.9, 0..10_i64));
    prop::collection::vec(child, 0..12).prop_map(|drawn| {
        let mut next = 0;
        let child = |(number, (servers, slack)): (usize, DrawnChild)| {
            let offers: Vec<Offer<u32>> = servers
                .into_iter()
                .map(|(rank, completion)| {
                    next += 1;
                    offer(rank, next, completion)
                })
                .collect();
            let least = offers.iter().map(|offer| offer.estimate.completion()).min().unwrap_or(Time::MAX);
            let bound = slack.map(|slack| if least == Time::MAX { least } else { least - Span(slack) });
            (number, (bound, offers))
        };
        drawn.into_iter().enumerate().map(child).collect()
    })
}

/// A request of one of three kinds.
fn drawn_request() -> impl Strategy<Value = Request> {
    let speedup = prop_oneof![
        Just(Speedup::Rigid),
        Just(Speedup::Folding),
        (0.3..1.0_f64, 1..40_u32)
            .prop_map(|(parallel, limit)| Speedup::Amdahl { parallel, limit: Procs(limit) }),
        (1.0..30.0_f64, 0.0..3.0_f64)
            .prop_map(|(average_parallelism, sigma)| Speedup::Downey { average_parallelism, sigma }),
        Just(Speedup::Table([(Procs(2), 1e300), (Procs(5), 8.0), (Procs(17), 3.0)].into())),
    ];
    (1..30_u32, 1..400_i64, speedup, any::<bool>()).prop_map(|(procs, walltime, speedup, fixed_time)| {
        let request = Request::new(JobId(1_000), Time(0), Procs(procs), Span(walltime), speedup);
        Request { fixed_time, ..request }
    })
}

fn drawn_tuner() -> impl Strategy<Value = Tuner> {
    let slack = (0..1_500_u32, 1..1_000_u32)
        .prop_map(|(slack, share)| Tuner::Slack { slack: Thousandths(slack), share: Thousandths(share) });
    prop_oneof![1 => Just(Tuner::Exact), 1 => Just(Tuner::EqualShare), 2 => Just(Tuner::default()), 3 => slack]
}

/// A cluster with its queue.
struct Cluster {
    procs: Procs,
    speed: Speed,
    scheduler: Box<dyn BatchScheduler>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} processors at {}: {:?}", self.procs, self.speed.get(), self.scheduler.dump())
    }
}

impl Cluster {
    fn bounds(&mut self, now: Time, tuner: Tuner) -> ClusterBounds {
        let plan = self.scheduler.plan_bounds(now);
        ClusterBounds::planned(self.speed, self.procs, false, plan, tuner)
    }

    /// Never after the last time: a bound there means that nothing fits.
    fn completion(&mut self, now: Time, request: &Request, tuner: Tuner) -> Option<Time> {
        let walltimes = request.on(self.procs, self.speed)?;
        self.scheduler.estimate(now, &walltimes, tuner).map(|estimate| estimate.completion().min(Time::MAX))
    }

    /// The completion of a size.
    fn completion_of(&mut self, now: Time, request: &Request, size: Procs) -> Option<Time> {
        let walltimes = request.on(self.procs, self.speed)?.between(size, size);
        self.scheduler.estimate(now, &walltimes, Tuner::Exact).map(|estimate| estimate.completion())
    }
}

/// An idle cluster under conservative backfilling.
fn cbf(procs: Procs) -> Box<dyn BatchScheduler> {
    "cbf".parse::<LocalPolicy>().unwrap().scheduler(procs, Time(0))
}

fn drawn_clusters() -> impl Strategy<Value = Vec<Cluster>> {
    let batch = prop::sample::select(crate::batch::local_names());
    let job = (1..24_u32, 1..200_i64, 0..20_i64);
    let speed = prop_oneof![2 => Just(1.0), 1 => 0.5..2.0];
    let cluster = (1..24_u32, speed, batch, prop::collection::vec(job, 0..20), 1..5_u32);
    prop::collection::vec(cluster, 1..20).prop_map(|drawn| {
        type Drawn = (u32, f64, String, Vec<(u32, i64, i64)>, u32);
        let cluster = |(procs, speed, batch, jobs, nodes): Drawn| {
            let policy: LocalPolicy = batch.parse().unwrap();
            let group = NodeGroup::of(nodes, Procs(procs.div_ceil(nodes)));
            let (licences, default_memory) = (BTreeMap::new(), Mebibytes::default());
            let on = ClusterNodes { groups: vec![group], licences, default_memory };
            // Some policies distinguish nodes.
            let on_nodes = policy.scheduler_on(&on, Time(0)).ok().filter(|_| nodes > 1);
            let procs = if on_nodes.is_some() { on.procs().0 } else { procs };
            let mut scheduler = on_nodes.unwrap_or_else(|| policy.scheduler(Procs(procs), Time(0)));
            let mut now = Time(0);
            for (number, (size, walltime, gap)) in jobs.into_iter().enumerate() {
                now += Span(gap);
                let size = Procs(size.min(procs));
                scheduler.submit(now, Submission::new(JobId(number as u32), size, Span(walltime)));
                let mut started = Vec::new();
                scheduler.start_due(now, &mut started);
                if let Some(first) = started.first().filter(|_| number % 3 == 0) {
                    scheduler.finish(now, first.job);
                }
            }
            Cluster { procs: Procs(procs), speed: Speed::new(speed).unwrap(), scheduler }
        };
        drawn.into_iter().map(cluster).collect()
    })
}

/// The last submission of any cluster.
const LAST: Time = Time(400);

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn the_best_offers_are_those_of_asking_all(
        children in drawn_children(),
        best in 1..5_usize,
        late in prop::collection::vec(0..12_usize, 0..3),
        answers in prop::collection::vec(0..12_usize, 1..20),
    ) {
        let (found, asked) = searched(&children, best, &late, &answers);
        prop_assert_eq!(found, all_asked(&children, best));
        prop_assert!(asked <= children.len());
    }

    /// No estimate of any cluster is earlier than its bound, nor than that of all clusters together.
    #[test]
    fn no_estimate_is_earlier_than_the_bound_of_its_summary(
        mut clusters in drawn_clusters(),
        request in drawn_request(),
        tuner in drawn_tuner(),
        wait in 0..300_i64,
        parts in prop_oneof![1..4_usize, Just(20_usize)],
        groups in prop_oneof![3 => 1..4_usize, 1 => Just(GROUPS_MAX)],
    ) {
        let summaries: Vec<Summary> =
            clusters.iter_mut().map(|cluster| Summary::of(cluster.bounds(LAST, tuner))).collect();
        // Some time passes, until a job ends at most.
        let ends = clusters.iter().flat_map(|cluster| cluster.scheduler.dump().running);
        let first_end = ends.map(|one| one.end).min().unwrap_or(Time::MAX);
        let now = LAST + Span(wait.min((first_end - LAST).0.max(0)));
        let bounded = BoundedRequest::new(&request, now, now);
        for ((chunk, clusters), of) in
            summaries.chunks(parts).zip(clusters.chunks_mut(parts)).zip(0..)
        {
            let joined = Summary::joined_to(groups, chunk);
            let joined = Summary::joined([&joined, &Summary::default()]);
            // Those of which less is known are apart.
            prop_assert!(joined.groups.len() <= groups.max(3));
            let below = joined.completion_bound(&bounded);
            for (summary, cluster) in chunk.iter().zip(clusters) {
                let bound = summary.completion_bound(&bounded);
                prop_assert!(below <= bound, "child {of}: {below} for all, {bound} for one");
                if let Some(completion) = cluster.completion(now, &request, tuner) {
                    prop_assert!(bound <= completion, "child {of}: bound {bound}, estimate {completion}");
                }
            }
        }
    }

    /// On an idle cluster the bound is the estimate.
    #[test]
    fn the_bound_of_an_idle_cluster_is_exact(
        procs in 1..300_u32, speed in 0.3..3.0_f64, request in drawn_request(), tuner in drawn_tuner(),
    ) {
        let (procs, speed) = (Procs(procs), Speed::new(speed).unwrap());
        let scheduler = cbf(procs);
        let mut cluster = Cluster { procs, speed, scheduler };
        let summary = Summary::of(cluster.bounds(Time(0), tuner));
        let bounded = BoundedRequest::new(&request, Time(0), Time(0));
        let expected = cluster.completion(Time(0), &request, tuner).unwrap_or(Time::MAX);
        let bound = summary.completion_bound(&bounded);
        prop_assert_eq!(bound, expected);
    }

    /// The bound of one cluster is its estimate, unless a size below the floor completes almost first.
    #[test]
    fn the_bound_of_a_short_plan_is_exact(
        mut clusters in drawn_clusters(), request in drawn_request(), tuner in drawn_tuner(),
    ) {
        for cluster in &mut clusters {
            let bounds = cluster.bounds(LAST, tuner);
            let Some(plan) = bounds.plan.clone().filter(FreePlan::is_exact) else { continue };
            let is_by_nodes = cluster.scheduler.plan_bounds(LAST).unwrap().jobs.is_none();
            let bound = Summary::of(bounds.clone()).completion_bound(&BoundedRequest::new(&request, LAST, LAST));
            let completion = cluster.completion(LAST, &request, tuner).unwrap_or(Time::MAX);
            let below = 1..bounds.sizing.map_or(1, |sizing| sizing.floor_least.0);
            let mut is_between = |size: u32| {
                let sizes = request.on(cluster.procs, cluster.speed).map(|sizes| sizes.least()..=sizes.most());
                let of_size = sizes.filter(|sizes| sizes.contains(&Procs(size)));
                of_size.and_then(|_| cluster.completion_of(LAST, &request, Procs(size))).is_some_and(|one| one <= completion)
            };
            let may_be_early = is_by_nodes || tuner == Tuner::EqualShare || below.clone().any(&mut is_between);
            prop_assert!(bound == completion || may_be_early, "{bound}, {completion} by {plan:?}");
        }
    }
}

/// Whatever a child says, its bound is made without a failure.
#[test]
fn absurd_summaries_have_bounds() {
    let endless = Speedup::Table([(Procs(1), 1e300), (Procs(9), 1.0)].into());
    for (speedup, procs) in [(Speedup::Rigid, 1), (Speedup::Rigid, 60), (endless, 9)] {
        let request = Request::new(JobId(1), Time(0), Procs(procs), Span(100), speedup);
        for (of, speed) in [(0, 0.001), (1, 1_000.0), (8, 1.0), (u32::MAX, 0.001)] {
            for (at, after) in [(-(1 << 40), 0), (1 << 40, u32::MAX - 1), (0, u32::MAX)] {
                let step = |after_s, procs| FreeStep { after_s, procs };
                let steps = if after == 0 { vec![step(0, of)] } else { vec![step(0, 0), step(after, of)] };
                let least = Some(vec![step(0, 7), step(9, u32::MAX)]).filter(|_| of == 8);
                let plan = FreePlan::from_lines(Time(at), steps, least);
                let (speed, procs) = (Speed::new(speed).unwrap(), Procs(of));
                let floors = (Procs(of / 2), Procs(9));
                let (floor_least, floor_most) = floors;
                let sizing = Some(SlackSizing { slack_thousandths: u32::MAX, floor_least, floor_most });
                let unknown = ClusterBounds::unknown(speed);
                let cluster = ClusterBounds { procs, plan, sizing, ..unknown.clone() };
                let bounded = BoundedRequest::new(&request, Time(50), Time(50));
                let bound = |of: &[&ClusterBounds]| {
                    let summaries: Vec<Summary> = of.iter().map(|one| Summary::of((*one).clone())).collect();
                    Summary::joined_to(1, &summaries).completion_bound(&bounded)
                };
                let (known, unknown) = (bound(&[&cluster, &cluster]), bound(&[&cluster, &unknown]));
                assert!(unknown >= Time(50) && known >= Time(50), "{unknown} {known}");
                assert!(request.speedup != Speedup::Rigid || request.procs <= procs || known == Time::MAX);
            }
        }
    }
}

#[test]
fn a_summary_is_reported_when_it_has_changed_enough_and_at_most_so_often() {
    let rule = ReportRule { every: Span(5), least_change: Span(10) };
    let mut scheduler = cbf(Procs(8));
    let mut reports = SummaryReports::default();
    assert_eq!(reports.due(Time(0), rule), None);
    let summary = |scheduler: &mut Box<dyn BatchScheduler>, now| {
        let plan = scheduler.plan_bounds(now);
        Summary::of(ClusterBounds::planned(Speed::REFERENCE, Procs(8), false, plan, Tuner::Exact))
    };
    reports.restart();
    assert_eq!(reports.due(Time(0), rule), Some(Time(0)));
    let first = summary(&mut scheduler, Time(0));
    assert_eq!(reports.report(Time(0), first.clone(), rule), Some(first.clone()));
    assert_eq!((reports.due(Time(9), rule), reports.report(Time(9), first.clone(), rule)), (None, None));
    let mut submit = |scheduler: &mut Box<dyn BatchScheduler>, now, job, walltime| {
        scheduler.submit(now, Submission::new(JobId(job), Procs(8), Span(walltime)));
        reports.note_change();
        let summary = summary(scheduler, now);
        (reports.due(now, rule), reports.report(now, summary, rule).is_some())
    };
    // A wait of 10 s is no change of more than 10 s, a wait of 90 s is. A comparison counts like a report.
    assert_eq!(submit(&mut scheduler, Time(10), 1, 10), (Some(Time(14)), false));
    assert_eq!(submit(&mut scheduler, Time(10), 2, 80), (Some(Time(15)), true));
    // An eighth of the wait more.
    assert_eq!(submit(&mut scheduler, Time(10), 3, 20), (Some(Time(15)), false));
    assert_eq!(submit(&mut scheduler, Time(10), 4, 30), (Some(Time(15)), true));
    // A start that is earlier by more than the least change.
    assert_eq!(scheduler.cancel(Time(10), &[JobId(4)]), 1);
    let earlier = summary(&mut scheduler, Time(10));
    assert!(reports.report(Time(20), earlier, rule).is_some());
    // A clock that was set back.
    reports.note_change();
    assert_eq!((reports.due(Time(12), rule), reports.due(Time(21), rule)), (Some(Time(12)), Some(Time(25))));
}
