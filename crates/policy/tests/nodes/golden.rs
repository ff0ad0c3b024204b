//! Real Slurm clusters at eight moments: what they had announced, and when the jobs really started. How
//! the captures were made, and what all of them say together, is in docs/research/validation.md.

use pliant_model::Span;
use pliant_policy::nodes::{ClusterSnapshot, Nodes, Pending, PlannedStart, Rules};

use super::situation::{self, Situation};

fn planned(situation: &Situation, rules: Rules) -> Vec<PlannedStart> {
    let snapshot = ClusterSnapshot { rules, ..situation.snapshot.clone() };
    let mut planned = Vec::new();
    Nodes::from_snapshot(situation.now, &snapshot).unwrap().planned(situation.now, &mut planned);
    planned
}

/// Announced starts that are found to the second, of all; real starts within the next ten minutes that are
/// found to 30 s, of all; and how many of those the announced ones find.
fn check(name: &str, text: &str, announced: &str, real: &str, recorded: &str) {
    let situation = situation::parse(text);
    let Situation { snapshot, now, interval_s, began } = &situation;
    let start = |plan: &[PlannedStart], job| plan.iter().find(|one| one.job == job).map(|one| one.start.0);
    let published =
        |one: &Pending| one.published.as_ref().map(|plan| plan.start.0).filter(|start| *start >= now.0);

    let rules = Rules { published: false, ..snapshot.rules.clone() };
    let plan = planned(&situation, rules);
    let exact = |one: &&Pending| published(one) == start(&plan, one.job);
    let all: Vec<_> = snapshot.pending.iter().filter(|one| published(one).is_some()).collect();
    let found = all.iter().copied().filter(exact).count();
    assert_eq!(format!("{found} of {}", all.len()), announced, "{name}: announced");

    let rules = Rules { resolution: snapshot.rules.resolution, ..Rules::slurm(Span(*interval_s)) };
    let plan = planned(&situation, rules);
    let soon: Vec<_> = began.iter().filter(|(_, start)| **start <= now.0 + 600).collect();
    let near = |found: Option<i64>, start: i64| found.is_some_and(|found| (found - start).abs() <= 30);
    let found = soon.iter().filter(|(job, at)| near(start(&plan, **job), **at)).count();
    assert_eq!(format!("{found} of {}", soon.len()), real, "{name}: real starts");
    let start_of = |job| snapshot.pending.iter().find(|one| one.job == job).and_then(published);
    let found = soon.iter().filter(|(job, at)| near(start_of(**job), **at)).count();
    assert_eq!(format!("{found}"), recorded, "{name}: real starts as announced");
}

macro_rules! check {
    ($name:literal, $announced:literal, $real:literal, $recorded:literal) => {
        check($name, include_str!(concat!("data/", $name, ".txt")), $announced, $real, $recorded)
    };
}

#[test]
fn starts_on_real_clusters() {
    check!("four-cores-every-second", "28 of 28", "12 of 13", "2");
    check!("four-cores-later", "27 of 29", "8 of 11", "6");
    check!("one-core-every-second", "23 of 23", "15 of 15", "10");
    check!("one-core-without-plans", "9 of 19", "11 of 11", "9");
    check!("four-cores-every-30-s", "26 of 26", "6 of 6", "6");
    check!("four-cores-stale-plan", "16 of 24", "6 of 6", "6");
    check!("default-settings", "18 of 20", "8 of 17", "3");
    check!("one-core-every-30-s", "15 of 15", "7 of 8", "7");
}
