//! The plan of one cluster or of several as a table that travels: the processors that are free at most, and at least, over time.
//!
//! What starts on none of the clusters by the most that is free starts nowhere, and what starts by the least that is free starts on each.
//! Of one cluster with a short plan the two are the same, and every start found on them is exact. A long plan, and those of several
//! clusters together, are drawn with fewer steps: the upper line never lower, the lower line never higher.
//! Reservations leave the upper line true; processors that become free earlier than planned do not.

use pliant_model::{Procs, Span, Time};

use super::Profile;

/// So many processors are free from then on, until the next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FreeStep {
    /// Seconds after the time of the plan.
    pub after_s: u32,
    /// Free processors.
    pub procs: u32,
}

/// Free processors over time.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FreePlan {
    at: Time,
    most: Vec<FreeStep>,
    /// None if it is the same.
    least: Option<Vec<FreeStep>>,
}

/// Which of two lines a step function is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    /// Never lower than what it is drawn from.
    Most,
    /// Never higher.
    Least,
}

/// A step at an instant.
type At = (i64, u32);

/// How many steps of a plan are read. A queue of a million jobs has as many; a summary is made after each change.
const READ_MAX: usize = 8192;

impl FreePlan {
    /// The most steps of a line.
    pub const STEPS_MAX: usize = 48;

    /// The plan of a cluster on which so many processors are free from each time on until the next, and none before `from`, which is not
    /// before `now`. O([`READ_MAX`]).
    pub(crate) fn of_steps(
        capacity: Procs,
        (now, from): (Time, Time),
        steps: impl Iterator<Item = (Time, Procs)>,
    ) -> FreePlan {
        let mut read: Vec<At> = Vec::new();
        let mut is_cut = false;
        if from > now {
            read.push((now.0, 0));
        }
        for (count, (time, free)) in steps.enumerate() {
            if count == READ_MAX {
                read.push((time.0.max(from.0), 0));
                is_cut = true;
                break;
            }
            let step = (time.0.max(from.0), free.0);
            match read.last_mut() {
                Some(last) if last.0 >= step.0 => *last = step,
                Some(last) if last.1 == step.1 => {}
                _ => read.push(step),
            }
        }
        if let Some(first) = read.first_mut() {
            first.0 = now.0;
        }
        let least = FreePlan::line(&read, now.0, Side::Least);
        if is_cut && let Some(last) = read.last_mut() {
            // Nothing is known of what follows: all could be free.
            last.1 = capacity.0;
        }
        let most = FreePlan::line(&read, now.0, Side::Most);
        FreePlan { at: now, least: (least != most).then_some(least), most }
    }

    /// A plan on which everything is free.
    pub fn idle(at: Time, procs: Procs) -> FreePlan {
        FreePlan { at, most: vec![FreeStep { after_s: 0, procs: procs.0 }], least: None }
    }

    /// A plan as it is sent: `least` is none if it is the same as `most`. None if a line has no steps or too many, does not begin at once, or
    /// if its steps are not in order.
    pub fn from_lines(at: Time, most: Vec<FreeStep>, least: Option<Vec<FreeStep>>) -> Option<FreePlan> {
        let is_line = |line: &Vec<FreeStep>| {
            (1..=FreePlan::STEPS_MAX).contains(&line.len())
                && line[0].after_s == 0
                && line.is_sorted_by(|one, next| one.after_s < next.after_s)
        };
        (is_line(&most) && least.as_ref().is_none_or(is_line)).then_some(FreePlan { at, most, least })
    }

    /// When the lines begin.
    pub fn at(&self) -> Time {
        self.at
    }

    /// The processors that are free at most.
    pub fn most(&self) -> &[FreeStep] {
        &self.most
    }

    /// The processors that are free at least, if these are others.
    pub fn least(&self) -> Option<&[FreeStep]> {
        self.least.as_deref()
    }

    /// True if both lines are the same.
    pub(crate) fn is_exact(&self) -> bool {
        self.least.is_none()
    }

    /// The profile of what is free at most, from `now` on or earlier.
    pub(crate) fn profile_of_most(&self, now: Time) -> Profile {
        self.profile(&self.most, now)
    }

    /// The profile of what is free at least.
    pub(crate) fn profile_of_least(&self, now: Time) -> Profile {
        self.profile(self.least.as_ref().unwrap_or(&self.most), now)
    }

    fn profile(&self, line: &[FreeStep], now: Time) -> Profile {
        let first = self.at.min(now);
        let steps = line.iter().enumerate().map(|(index, step)| {
            let time = if index == 0 { first } else { self.time(step) };
            (time, Procs(step.procs))
        });
        Profile::of_steps(steps)
    }

    /// The plans of several clusters together.
    pub(crate) fn joined<'a>(plans: impl IntoIterator<Item = &'a FreePlan>) -> Option<FreePlan> {
        let plans: Vec<&FreePlan> = plans.into_iter().collect();
        let at = plans.iter().map(|plan| plan.at).min()?;
        if let [only] = plans[..] {
            return Some(only.clone());
        }
        let most = envelope(plans.iter().map(|plan| plan.steps(&plan.most)), Side::Most);
        let least = plans.iter().map(|plan| plan.steps(plan.least.as_ref().unwrap_or(&plan.most)));
        let least = envelope(least, Side::Least);
        let (most, least) =
            (FreePlan::line(&most, at.0, Side::Most), FreePlan::line(&least, at.0, Side::Least));
        Some(FreePlan { at, least: (least != most).then_some(least), most })
    }

    /// True if processors are free earlier than by `reported` by more than `least`, or later by more than that and an eighth of the wait.
    /// With no `least` every difference from `now` on counts.
    pub(crate) fn differs_from(&self, reported: &FreePlan, now: Time, least: Span) -> bool {
        if self == reported {
            return false;
        }
        let differs = |new: &[FreeStep], old: &[FreeStep]| {
            line_differs(&self.from(new, now), &reported.from(old, now), now.0, least.0)
        };
        let (new, old) = (self.least.as_ref(), reported.least.as_ref());
        let are_both_exact = new.is_none() && old.is_none();
        differs(&self.most, &reported.most)
            || !are_both_exact && differs(new.unwrap_or(&self.most), old.unwrap_or(&reported.most))
    }

    /// The processors that are free at most at `at`, and at least until then.
    pub(crate) fn free_by(&self, at: Time) -> (u32, u32) {
        let most = self.steps(&self.most).take_while(|step| step.0 <= at.0).last();
        let least = self.steps(self.least.as_ref().unwrap_or(&self.most));
        let least = least.take_while(|step| step.0 <= at.0).map(|step| step.1).min();
        (most.map_or(0, |step| step.1), least.unwrap_or(0))
    }

    fn time(&self, step: &FreeStep) -> Time {
        Time(self.at.0.saturating_add(step.after_s.into()))
    }

    /// The steps of a line, each at its instant.
    fn steps<'a>(&'a self, line: &'a [FreeStep]) -> impl Iterator<Item = At> + 'a {
        line.iter().map(|step| (self.time(step).0, step.procs))
    }

    /// The steps that count from `now` on.
    fn from(&self, line: &[FreeStep], now: Time) -> Vec<At> {
        let mut from: Vec<At> = Vec::with_capacity(line.len());
        for (time, free) in self.steps(line) {
            match from.last_mut() {
                Some(last) if time <= now.0 => *last = (now.0, free),
                _ => from.push((time.max(now.0), free)),
            }
        }
        from
    }

    /// Steps as a line that counts from `at` on, with fewer of them if there are too many.
    fn line(steps: &[At], at: i64, side: Side) -> Vec<FreeStep> {
        let mut steps = steps.to_vec();
        if let Some(first) = steps.first_mut() {
            first.0 = first.0.max(at);
        }
        let mut most_loss = 1.0 / 128.0;
        while steps.len() > FreePlan::STEPS_MAX {
            steps = with_fewer(&steps, at, side, most_loss);
            most_loss *= 1.7;
        }
        let mut line: Vec<FreeStep> = Vec::with_capacity(steps.len());
        for (time, procs) in steps {
            let after_s = time.saturating_sub(at).max(0);
            let within = u32::try_from(after_s).unwrap_or(u32::MAX);
            match line.last_mut() {
                // Steps that are too far away count as one.
                Some(last) if after_s >= u32::MAX.into() => {
                    let procs = side.of(last.procs, procs);
                    if last.after_s == u32::MAX {
                        last.procs = procs;
                    } else {
                        line.push(FreeStep { after_s: u32::MAX, procs });
                    }
                }
                _ => line.push(FreeStep { after_s: within, procs }),
            }
        }
        line
    }
}

impl Side {
    fn of(self, one: u32, other: u32) -> u32 {
        match self {
            Side::Most => one.max(other),
            Side::Least => one.min(other),
        }
    }
}

/// Steps with those joined that are lost at the least cost: a step to which processors are brought forward, or put off, by a small part of the
/// time until then.
fn with_fewer(steps: &[At], at: i64, side: Side, most_loss: f64) -> Vec<At> {
    let mut fewer: Vec<At> = Vec::with_capacity(steps.len());
    for (index, (time, free)) in steps.iter().copied().enumerate() {
        let end = steps.get(index + 1).map_or(i64::MAX, |next| next.0);
        match fewer.last_mut() {
            Some(last) if last.1 == free => {}
            Some(last) if loss(*last, (time, free), end, at, side) <= most_loss => {
                last.1 = side.of(last.1, free)
            }
            _ => fewer.push((time, free)),
        }
    }
    fewer
}

/// What is lost if a step is joined with the one before it: the part of the processors, by the part of the time by which they are free earlier
/// or later than they are.
fn loss(before: At, step: At, end: i64, at: i64, side: Side) -> f64 {
    /// Below a minute, times are alike.
    const ALIKE_S: f64 = 60.0;
    let rises = step.1 > before.1;
    let (from, until) = if rises == (side == Side::Most) { (before.0, step.0) } else { (step.0, end) };
    let part = (until.saturating_sub(from)) as f64 / (until.saturating_sub(at) as f64 + ALIKE_S);
    let (low, high) = (f64::from(step.1.min(before.1)), f64::from(step.1.max(before.1)));
    part * (high - low) / high.max(1.0)
}

/// The highest or the lowest of several step functions. O(n log n) for n steps, and O(functions) for each of them that changes the result.
fn envelope<Steps: Iterator<Item = At>>(lines: impl Iterator<Item = Steps>, side: Side) -> Vec<At> {
    let (mut values, mut changes): (Vec<u32>, Vec<(i64, usize, u32)>) = (Vec::new(), Vec::new());
    for (number, mut line) in lines.enumerate() {
        // Before a line begins, its first step counts.
        values.push(line.next().map_or(0, |(_, free)| free));
        changes.extend(line.map(|(time, free)| (time, number, free)));
    }
    changes.sort_unstable();
    let extreme =
        |values: &[u32]| values.iter().copied().reduce(|one, other| side.of(one, other)).unwrap_or(0);
    let mut current = extreme(&values);
    let mut steps: Vec<At> = vec![(i64::MIN, current)];
    for (time, number, free) in changes {
        let before = std::mem::replace(&mut values[number], free);
        // Only the loss of the extreme needs a search.
        current = if side.of(current, free) == free {
            free
        } else if before == current {
            extreme(&values)
        } else {
            current
        };
        match steps.last_mut() {
            Some(last) if last.0 == time => last.1 = current,
            Some(last) if last.1 == current => {}
            _ => steps.push((time, current)),
        }
    }
    steps
}

/// True if a step function that begins at `now` frees processors earlier than another by more than `least`, or later by more than that and an
/// eighth of the wait.
fn line_differs(new: &[At], old: &[At], now: i64, least: i64) -> bool {
    // The extreme of a step function from one time to another, both included.
    let extreme = |of: &[At], from: i64, until: i64, side: Side| {
        let first = of.partition_point(|step| step.0 <= from).saturating_sub(1);
        let last = of.partition_point(|step| step.0 <= until).max(first + 1);
        of[first..last].iter().map(|step| step.1).reduce(|one, other| side.of(one, other)).unwrap_or(0)
    };
    let at = |of: &[At], time: i64| extreme(of, time, time, Side::Most);
    let put_off = |time: i64| if least == 0 { 0 } else { least.saturating_add((time - now).max(0) / 8) };
    let is_wrong = |time: i64| {
        let (free, from) = (at(new, time), time.saturating_sub(put_off(time)));
        let earlier = free > extreme(old, time, time.saturating_add(least), Side::Most);
        earlier || from >= now && free < extreme(old, from, time, Side::Least)
    };
    let later = |step: &At| step.0.saturating_add(put_off(step.0)).saturating_add(put_off(step.0) / 7 + 1);
    new.iter().any(|step| is_wrong(step.0))
        || old.iter().any(|step| is_wrong(step.0) || is_wrong(later(step)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn drawn_steps(most: usize) -> impl Strategy<Value = Vec<(Time, Procs)>> {
        prop::collection::vec((1..400_i64, 0..40_u32), 1..most).prop_map(|drawn| {
            let mut time = 0;
            let step = |(gap, free)| {
                time += gap;
                (Time(time), Procs(free))
            };
            drawn.into_iter().map(step).collect()
        })
    }

    fn plan(steps: &[(Time, Procs)]) -> FreePlan {
        FreePlan::of_steps(Procs(40), (Time(0), Time(0)), steps.iter().copied())
    }

    fn free(of: &[At], time: i64) -> u32 {
        of[of.partition_point(|step| step.0 <= time).saturating_sub(1)].1
    }

    proptest! {
        /// The lines of several plans lie above and below each of them.
        #[test]
        fn lines_bound_every_plan(drawn in prop::collection::vec(drawn_steps(90), 1..6)) {
            let plans: Vec<FreePlan> = drawn.iter().map(|steps| plan(steps)).collect();
            let joined = FreePlan::joined(&plans).unwrap();
            prop_assert!(FreePlan::from_lines(joined.at, joined.most.clone(), joined.least.clone()).is_some());
            let most = joined.from(&joined.most, Time(0));
            let least = joined.from(joined.least.as_ref().unwrap_or(&joined.most), Time(0));
            for steps in &drawn {
                let steps: Vec<At> = steps.iter().map(|(time, free)| (time.0, free.0)).collect();
                for time in (0..40_000).step_by(7) {
                    let truth = free(&steps, time);
                    prop_assert!(free(&least, time) <= truth && truth <= free(&most, time), "at {time}");
                }
            }
        }

        /// Without a least change every difference counts, and no more.
        #[test]
        fn plans_differ_where_they_are_not_equal(
            one in drawn_steps(8), other in drawn_steps(8), is_same: bool, now in 0..2_000_i64,
        ) {
            let other = if is_same { &one } else { &other };
            let (one, other) = (plan(&one), plan(other));
            let lines = [&one, &other].map(|plan| plan.from(&plan.most, Time(now)));
            let differs = (now..5_000).any(|time| free(&lines[0], time) != free(&lines[1], time));
            prop_assert_eq!(one.differs_from(&other, Time(now), Span(0)), differs);
        }
    }

    #[test]
    fn a_plan_with_many_steps_is_bounded_by_its_first_ones() {
        let busy = |last: i64| (0..last).map(move |at| (Time(at), Procs(if at % 2 == 0 { 4 } else { 0 })));
        let plan = FreePlan::of_steps(Procs(4), (Time(0), Time(0)), busy(20_000));
        let last = |line: &[FreeStep]| line.last().map(|step| step.procs);
        assert_eq!((last(&plan.most), plan.least.as_deref().and_then(last)), (Some(4), Some(0)));
        assert!(plan.most.len() <= FreePlan::STEPS_MAX);
    }

    #[test]
    fn nothing_is_free_before_the_first_start() {
        let steps = [(Time(5), Procs(4))];
        let plan = FreePlan::of_steps(Procs(4), (Time(5), Time(30)), steps.into_iter());
        let steps = [(0, 0), (25, 4)].map(|(after_s, procs)| FreeStep { after_s, procs });
        assert_eq!((plan.most(), plan.is_exact()), (&steps[..], true));
        assert_eq!(plan.profile_of_most(Time(9)).earliest_fit(Time(9), Procs(2), Span(1)), Some(Time(30)));
    }

    /// Plans that were made at very different times are joined without a failure, and to what is true of each.
    #[test]
    fn absurd_times_lead_to_wide_lines() {
        let plans = [0, -(1 << 40), 1 << 40].map(|at| {
            let line = vec![FreeStep { after_s: 0, procs: 1 }, FreeStep { after_s: u32::MAX, procs: 9 }];
            FreePlan::from_lines(Time(at), line, None).unwrap()
        });
        let joined = FreePlan::joined(&plans).unwrap();
        assert_eq!((joined.at, joined.most.last().unwrap().procs), (Time(-(1 << 40)), 9));
        assert_eq!(joined.least.as_ref().unwrap().last().unwrap().procs, 1);
    }
}
