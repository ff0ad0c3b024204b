//! The profile against one array entry per second.

use pliant_model::{Procs, Span, Time};
use proptest::prelude::*;

use super::{CLASSES, Fit, Freed, Hints, Profile, StartBounds, Touched, class_of};

const CAPACITY: u32 = 16;
const HORIZON: usize = 900;

/// The reference implementation: free processors per second.
#[derive(Clone)]
struct Seconds(Vec<i64>);

impl Seconds {
    fn fits(&self, from: usize, procs: i64, walltime: usize) -> bool {
        (from..from + walltime).all(|second| self.0.get(second).is_none_or(|free| *free >= procs))
    }

    fn earliest_fit(&self, from: usize, procs: i64, walltime: usize) -> usize {
        (from..).find(|start| self.fits(*start, procs, walltime)).expect("everything is free in the end")
    }
}

#[derive(Clone, Debug)]
enum Step {
    Reserve { from: usize, procs: u32, walltime: usize },
    Release { which: usize, keep: usize },
    Advance { by: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..600_usize, 1..=CAPACITY, 1..60_usize)
            .prop_map(|(from, procs, walltime)| Step::Reserve { from, procs, walltime }),
        // Narrow ones over many blocks, so that whole blocks owe a change while their steps change.
        3 => (0..400_usize, 1..3_u32, 150..700_usize)
            .prop_map(|(from, procs, walltime)| Step::Reserve { from, procs, walltime }),
        3 => (0..1000_usize, 0..40_usize).prop_map(|(which, keep)| Step::Release { which, keep }),
        1 => (0..4_usize).prop_map(|by| Step::Advance { by }),
    ]
}

/// Carries steps out on both; calls `look` after each.
fn play(steps: &[Step], mut look: impl FnMut(&mut Profile, &Seconds, usize, Option<Freed>)) {
    let mut profile = Profile::new(Procs(CAPACITY), Time::ZERO);
    let mut seconds = Seconds(vec![i64::from(CAPACITY); HORIZON * 4]);
    let mut now = 0;
    let mut held: Vec<(usize, usize, u32)> = Vec::new();
    for step in steps {
        let mut freed = None;
        match *step {
            Step::Reserve { from, procs, walltime } => {
                let from = seconds.earliest_fit(from.max(now), procs.into(), walltime);
                if from + walltime >= HORIZON * 4 {
                    continue;
                }
                profile.reserve(Time(from as i64), Time((from + walltime) as i64), Procs(procs));
                seconds.0[from..from + walltime].iter_mut().for_each(|free| *free -= i64::from(procs));
                held.push((from, from + walltime, procs));
            }
            Step::Release { which, keep } => {
                if held.is_empty() {
                    continue;
                }
                let index = which % held.len();
                let (from, until, procs) = held[index];
                let cut = (from + keep).max(now).min(until);
                let least = seconds.0[cut..until].iter().min().map_or(1, |free| free + 1);
                freed = Some(profile.release(Time(cut as i64), Time(until as i64), Procs(procs)));
                assert_eq!(freed.map(|freed| i64::from(freed.least.0)), Some(least));
                seconds.0[cut..until].iter_mut().for_each(|free| *free += i64::from(procs));
                held[index].1 = cut;
            }
            Step::Advance { by } => {
                now += by;
                profile.advance(Time(now as i64));
                let second = profile.iter().nth(1);
                assert!(second.is_none_or(|(time, _)| time.0 > now as i64), "the past costs nothing");
            }
        }
        assert_eq!(profile.check(), Ok(()));
        look(&mut profile, &seconds, now, freed);
    }
}

#[test]
fn the_past_is_dropped_however_many_blocks_it_fills() {
    let mut profile = Profile::new(Procs(CAPACITY), Time::ZERO);
    (0..1_000).for_each(|at| profile.reserve(Time(2 * at), Time(2 * at + 1), Procs(1)));
    assert!(profile.blocks.len() > 30);
    let before: Vec<(Time, Procs)> = profile.iter().collect();
    for now in [3, 500, 501, 1_501, 1_999, 5_000] {
        profile.advance(Time(now));
        assert_eq!(profile.check(), Ok(()));
        let later = before.iter().filter(|(time, _)| time.0 > now);
        assert!(profile.iter().skip(1).eq(later.copied()), "{now}");
        assert_eq!(profile.steps(), profile.iter().count());
    }
}

/// A reservation in a free interval slides to where the run of free processors before it begins, and the profile is as
/// if it had been made there.
fn check_slide(profile: &Profile, seconds: &Seconds, now: usize, request: (usize, u32, usize)) {
    let (start, procs, walltime) = request;
    if start == now {
        return;
    }
    let free = |second: &usize| seconds.0[*second] >= i64::from(procs);
    let back = (now..start).rev().take_while(free).count();
    let at = |second: usize| Time(second as i64);
    let mut slid = profile.clone();
    slid.reserve(at(start), at(start + walltime), Procs(procs));
    let hints = (0..40).map(|hint| Hints::guess(hint / 7, hint % 7 * 6));
    for mut hints in hints.clone() {
        assert_eq!(slid.is_free_before(at(start), Procs(procs), &mut hints), back > 0);
    }
    if back == 0 {
        return;
    }
    let earlier = start - back;
    let mut expected = profile.clone();
    expected.reserve(at(earlier), at(earlier + walltime), Procs(procs));
    let within = (start.max(earlier + walltime)..start + walltime).map(|second| seconds.0[second]);
    let least = within.min().expect("it is not empty") - i64::from(procs) + 1;
    let span = Span(walltime as i64);
    let (from, until) = (at(start.max(earlier + walltime)), at(start + walltime));
    let freed = Freed { from, until, least: Procs(least as u32) };
    let agrees = |profile: &Profile| {
        assert_eq!(profile.check(), Ok(()));
        assert!(profile.iter().eq(expected.iter()));
    };
    for mut hints in hints {
        let mut slid = slid.clone();
        assert_eq!(slid.slide(&mut hints, at(start), span, Procs(procs), at(now)), (at(earlier), freed));
        agrees(&slid);
    }
    assert_eq!(slid.shift(at(start), at(earlier), span, Procs(procs)), freed);
    agrees(&slid);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn searches_agree_with_one_entry_per_second(
        steps in prop::collection::vec(step(), 1..260),
        asks in prop::collection::vec((0..700_usize, 1..=CAPACITY, 1..80_usize), 1..6),
    ) {
        play(&steps, |profile, seconds, now, _| {
            for (from, procs, walltime) in &asks {
                let from = (*from).max(now);
                let found = profile.earliest_fit(Time(from as i64), Procs(*procs), Span(*walltime as i64));
                let expected = seconds.earliest_fit(from, (*procs).into(), *walltime);
                assert_eq!(found, Some(Time(expected as i64)));
                let deadline = Time((expected + walltime) as i64);
                let ask = |deadline| {
                    profile.earliest_fit_ending_by(Time(from as i64), Procs(*procs), Span(*walltime as i64), deadline)
                };
                assert_eq!(ask(deadline), found);
                assert_eq!(ask(deadline - Span(1)), None);
                assert_eq!(i64::from(profile.free_at(Time(from as i64)).0), seconds.0[from]);
                let until = from + walltime;
                let within = seconds.0[from..until].iter().copied();
                let (from_at, until_at) = (Time(from as i64), Time(until as i64));
                assert_eq!(Some(profile.min_free(from_at, until_at)), within.clone().min());
                let (begin, end, most) = profile.across(from_at, until_at);
                assert_eq!(Some(most), within.max());
                assert_eq!((begin, end), (profile.locate(from as i64), profile.locate(until as i64)));
                check_slide(profile, seconds, now, (expected, *procs, *walltime));
            }
        });
    }

    /// What was freed may only be ruled out for shapes that it cannot help.
    #[test]
    fn freed_runs_and_bounds_never_rule_out_a_place(
        steps in prop::collection::vec(step(), 1..200),
        shapes in prop::collection::vec((1..=CAPACITY, 1..80_usize), 1..8),
    ) {
        let mut bounds = StartBounds::new(Procs(CAPACITY));
        let mut before: Option<Seconds> = None;
        play(&steps, |profile, seconds, now, freed| {
            let at = Time(now as i64);
            if let Some(freed) = freed {
                bounds.freed(profile, at, freed);
                let mut touched = Touched::default();
                touched.clear(profile, [1; CLASSES], Time::MAX);
                touched.add(profile, at, freed);
                // What a search notes for those that follow must leave their answers as they are.
                for (procs, walltime) in shapes.iter().chain(&shapes) {
                    let new = seconds.earliest_fit(now, (*procs).into(), *walltime);
                    let old = before.as_ref().map(|before| before.earliest_fit(now, (*procs).into(), *walltime));
                    for later in [-1, 0, 7, 300] {
                        let deadline = Time((new + walltime) as i64 + later);
                        let span = Span(*walltime as i64);
                        let found = touched.earliest_fit(profile, at, Procs(*procs), span, deadline);
                        let is_place = |start: Time| {
                            start + span <= deadline
                                && seconds.fits(start.0 as usize, (*procs).into(), *walltime)
                        };
                        assert!(found.is_none_or(is_place), "{procs} x {walltime}: {found:?}");
                        if later >= 0 && old.is_some_and(|old| new < old) {
                            assert_eq!(found, Some(Time(new as i64)), "{procs} x {walltime}");
                            // So it is if only what helps this job is kept.
                            let (class, seconds) = (class_of((*procs).into()), *walltime as u32);
                            let mut shortest_s = [u32::MAX; CLASSES];
                            shortest_s[class] = seconds;
                            let mut touched = Touched::default();
                            touched.clear(profile, shortest_s, deadline);
                            touched.add(profile, at, freed);
                            assert!(touched.may_fit(class, seconds, span, deadline));
                            let again = touched.earliest_fit(profile, at, Procs(*procs), span, deadline);
                            assert_eq!(again, found, "{procs} x {walltime}");
                        }
                    }
                }
            }
            for (procs, walltime) in &shapes {
                let (procs, walltime) = (Procs(*procs), Span(*walltime as i64));
                let truth = seconds.earliest_fit(now, procs.0.into(), walltime.0 as usize);
                assert!(bounds.at_least(procs, walltime, at) <= Time(truth as i64));
                // Asking raises bounds; they must stay true.
                let mut best = Fit::none_by(Time::MAX);
                let span = |size: Procs| Span((walltime.0 * i64::from(procs.0) / i64::from(size.0)).max(1));
                bounds.best_shape(profile, at, Procs::ONE, procs, &span, &mut best);
                let mut plain = Fit::none_by(Time::MAX);
                profile.best_shape(at, Procs::ONE, procs, &span, &mut plain);
                let end = |fit: Fit| fit.start + fit.walltime;
                assert_eq!(end(best), end(plain));
                // A bound on the completion loses nothing at it, and finds nothing beyond.
                for (latest, expected) in [(end(plain), Some(end(plain))), (end(plain) - Span(1), None)] {
                    let mut best = Fit::none_by(latest);
                    bounds.best_shape(profile, at, Procs::ONE, procs, &span, &mut best);
                    assert_eq!(best.found().map(end), expected);
                }
            }
            before = Some(seconds.clone());
        });
    }
}

#[test]
fn runs_around_a_freed_interval_are_measured_per_class() {
    let mut profile = Profile::new(Procs(8), Time::ZERO);
    profile.reserve(Time(0), Time(100), Procs(8));
    profile.reserve(Time(200), Time(300), Procs(6));
    profile.release(Time(40), Time(100), Procs(4));
    let mut touched = Touched::default();
    let mut fit = |procs: u32, walltime: i64, deadline: i64, least: u32| {
        touched.clear(&profile, [1; CLASSES], Time::MAX);
        touched.add(&profile, Time::ZERO, Freed { from: Time(40), until: Time(100), least: Procs(least) });
        assert_eq!(touched.longest_s()[class_of(4)], 160);
        assert_eq!(touched.longest_s()[class_of(6)], 0);
        assert!(touched.is_around(Time(41)) && touched.is_around(Time(100)));
        assert!(!touched.is_around(Time(40)) && !touched.is_around(Time(101)));
        touched.earliest_fit(&profile, Time::ZERO, Procs(procs), Span(walltime), Time(deadline))
    };
    // Four processors from 40 to 200, then two of them without end.
    assert_eq!(fit(4, 160, 1000, 1), Some(Time(40)));
    assert_eq!(fit(4, 161, 1000, 1), None);
    assert_eq!(fit(2, 900, 1000, 1), Some(Time(40)));
    assert_eq!(fit(2, 900, 939, 1), None);
    // A request of two processors had them before.
    assert_eq!(fit(4, 160, 1000, 3), Some(Time(40)));
    assert_eq!(fit(1, 10, 1000, 3), None);
}

/// A change over many blocks is owed by those that it covers whole; one that is full splits before it pays.
#[test]
fn a_full_block_that_owes_a_change_splits() {
    for first in 0..60 {
        for dense in 6..12 {
            let mut profile = Profile::new(Procs(8), Time::ZERO);
            let mut seconds = vec![8_i64; 1000];
            let mut reserve = |from: usize, until: usize| {
                profile.reserve(Time(from as i64), Time(until as i64), Procs(1));
                seconds[from..until].iter_mut().for_each(|free| *free -= 1);
            };
            (0..80).for_each(|tooth| reserve(10 * tooth, 10 * tooth + 5));
            (first..first + dense).for_each(|tooth| reserve(10 * tooth + 1, 10 * tooth + 2));
            reserve(3, 900);
            reserve(10 * first + 7, 850);
            assert_eq!(profile.check(), Ok(()));
            for (at, free) in seconds.iter().enumerate() {
                assert_eq!(i64::from(profile.free_at(Time(at as i64)).0), *free, "{first} {dense} {at}");
            }
        }
    }
}
