//! Usage against a reference that sums it up in floating point.

use proptest::prelude::*;

use super::*;

#[test]
fn what_was_used_halves_every_week() {
    let check = |hours: i64, expected: u128| {
        let found = decayed(1 << 50, hours);
        assert!(found.abs_diff(expected) <= 64, "{found} after {hours} hours, expected {expected}");
    };
    check(0, 1 << 50);
    check(168, 1 << 49);
    check(10 * 168, 1 << 40);
    check(50 * 168, 1);
    check(i64::MAX, 0);
    check(-5, 1 << 50);
}

#[test]
fn running_jobs_count_with_what_they_have_used_so_far() {
    let (alice, job) = (Owner(1), JobId(4));
    let half_life = PrioritySettings::default().half_life;
    let mut usages = Usages::default();
    usages.start(Charge { job, owner: alice, procs: Procs(3), start: Time(100) });
    let used = |usages: &Usages, at: i64| {
        usages
            .accounts
            .get(&alice)
            .map_or(0, |account| account.used_at(Time(at), step(Time(at), half_life)) / FRACTION)
    };
    assert_eq!((used(&usages, 100), used(&usages, 110)), (0, 30));
    usages.finish(Time(120), job);
    assert_eq!((used(&usages, 120), used(&usages, 130)), (60, 60), "within the hour");
    let decayed = used(&usages, 7 * 86_400);
    assert!((29..=30).contains(&decayed), "{decayed}");
    let again = Usages::restored(&usages.dump(Time::ZERO));
    assert_eq!(used(&again, 7 * 86_400), decayed);
}

const DAY: i64 = 86_400;

/// A job of a user: processors, start and end.
type Ran = (u64, u32, i64, i64);

/// The usage of a user at a time by its definition: every ended job's processor seconds, decayed since its end, and what
/// running jobs have used so far.
fn reference(jobs: &[Ran], half_life: Option<i64>, user: u64, now: i64) -> f64 {
    let steps_of = |at: i64, half_life: i64| (at as f64 * 168.0 / half_life as f64).floor();
    let of = |&(owner, procs, start, end): &Ran| match owner == user && start <= now {
        false => 0.0,
        true if end > now => f64::from(procs) * (now - start) as f64,
        true => {
            let halves = half_life.map_or(0.0, |life| (steps_of(now, life) - steps_of(end, life)) / 168.0);
            f64::from(procs) * (end - start) as f64 * (-halves).exp2()
        }
    };
    jobs.iter().map(of).sum()
}

fn near(found: f64, expected: f64) -> bool {
    // Every end rounds by at most a part of a processor second.
    (found - expected).abs() <= 1e-9 * expected.abs() + 0.1
}

/// Starts and ends the jobs up to a time.
fn replayed(jobs: &[Ran], priority: PrioritySettings, until: i64) -> Usages {
    let mut usages = Usages::under(priority);
    let ends = jobs.iter().enumerate().map(|(number, job)| (job.3, 0, number));
    let starts = jobs.iter().enumerate().map(|(number, job)| (job.2, 1, number));
    let mut events: Vec<(i64, u8, usize)> = ends.chain(starts).filter(|(at, ..)| *at <= until).collect();
    events.sort_unstable();
    for (at, kind, number) in events {
        let (owner, procs, ..) = jobs[number];
        let (job, owner) = (JobId(number as u32), Owner(owner));
        match kind {
            0 => usages.finish(Time(at), job),
            _ => usages.start(Charge { job, owner, procs: Procs(procs), start: Time(at) }),
        }
    }
    usages.settle(Time(until));
    usages
}

fn jobs() -> impl Strategy<Value = Vec<Ran>> {
    let job = (0..4_u64, 1..500_u32, 0..60 * DAY, 1..3 * DAY);
    let job = job.prop_map(|(owner, procs, start, runtime)| (owner, procs, start, start + runtime));
    prop::collection::vec(job, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn usage_decays_like_a_reference_in_floating_point(
        jobs in jobs(),
        half_life in prop::option::weighted(0.9, 600..30 * DAY),
        now in 0..90 * DAY,
    ) {
        let priority = PrioritySettings { half_life: half_life.map(Span), ..PrioritySettings::default() };
        let usages = replayed(&jobs, priority, now);
        // A restored cluster ranks like the one that was dumped.
        let mut again = Usages::restored(&usages.dump(Time::ZERO));
        again.settle(Time(now));
        let mut all = 0.0;
        for user in 0..4 {
            let expected = reference(&jobs, half_life, user, now);
            let found = usages.of(Owner(user), Time(now));
            prop_assert!(near(found.used, expected), "user {}: {} instead of {}", user, found.used, expected);
            prop_assert_eq!(again.of(Owner(user), Time(now)), found);
            all += expected;
        }
        prop_assert!(near(usages.of(Owner(9), Time(now)).used_by_all, all));
    }

    /// What was used before a change of the half-life decays by the old one until then, and by the new one afterwards.
    #[test]
    fn usage_is_kept_when_the_half_life_changes(
        jobs in jobs(),
        lives in (600..30 * DAY, 600..30 * DAY),
        changed in 63 * DAY..70 * DAY,
        later in 0..30 * DAY,
    ) {
        let under = |life: i64| PrioritySettings { half_life: Some(Span(life)), ..PrioritySettings::default() };
        let before = replayed(&jobs, under(lives.0), changed);
        let shares = before.dump(Time::ZERO).under(Time(changed), &under(lives.1));
        let after = Usages::restored(&shares);
        prop_assert_eq!(after.priority(), &under(lives.1));
        for user in 0..4 {
            let kept = before.of(Owner(user), Time(changed)).used;
            prop_assert!(near(after.of(Owner(user), Time(changed)).used, kept));
            let step_of = |at: i64| (at as f64 * 168.0 / lives.1 as f64).floor();
            let expected = kept * ((step_of(changed) - step_of(changed + later)) / 168.0).exp2();
            prop_assert!(near(after.of(Owner(user), Time(changed + later)).used, expected));
        }
    }
}

#[test]
fn users_of_a_group_share_its_usage_and_its_shares() {
    let user = |owner: u64, shares, group| UserPriority { owner: Owner(owner), shares, group, bonus: 0 };
    let priority = PrioritySettings {
        half_life: None,
        users: vec![user(1, 3, Some(0)), user(2, 1, Some(0)), user(3, 2, None), user(5, 4, Some(0))],
        groups: vec![6],
        ..PrioritySettings::default()
    };
    let jobs = [(1, 1, 0, 100), (2, 1, 0, 60), (3, 1, 0, 40)];
    let mut usages = replayed(&jobs, priority, 100);
    let of = |usages: &Usages, owner: u64| {
        let Entitlement { used, used_by_all, shares, shares_of_all, .. } = usages.of(Owner(owner), Time(100));
        assert_eq!(used_by_all, 200.0);
        (used, shares, shares_of_all)
    };
    // Of the group's six shares and 160 s, 3 in 4 are of the first.
    assert_eq!(of(&usages, 1), (f64::midpoint(100.0, 120.0), 4.5, 8.0));
    assert_eq!(of(&usages, 2), (f64::midpoint(60.0, 40.0), 1.5, 8.0));
    assert_eq!(of(&usages, 3), (40.0, 2.0, 8.0));
    // The fifth has used nothing, and would have half of the six shares.
    assert_eq!(of(&usages, 5), (f64::midpoint(0.0, 80.0), 3.0, 8.0));
    // Users of whom nothing is said have one share.
    assert_eq!(of(&usages, 4), (0.0, 1.0, 8.0));
    usages.start(Charge { job: JobId(9), owner: Owner(4), procs: Procs(1), start: Time(100) });
    usages.settle(Time(150));
    assert_eq!(usages.of(Owner(4), Time(150)).shares_of_all, 9.0);
}
