//! Tests of changes between any two listings, and of states.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

fn id() -> impl Strategy<Value = String> {
    // Few IDs, so that two listings share some.
    (0..12u32).prop_map(|number| number.to_string())
}

fn name() -> impl Strategy<Value = String> {
    (0..6u32).prop_map(|number| format!("n{number}"))
}

fn node() -> impl Strategy<Value = Node> {
    let whole = (name(), 1..4u32, vec(name(), 0..2), option::of("down|drained"), 0..2u32);
    whole.prop_map(|(name, cores, partitions, unusable, gpus)| Node {
        name,
        cores,
        partitions,
        unusable,
        gpus,
        ..Node::default()
    })
}

fn state() -> impl Strategy<Value = State> {
    prop_oneof![Just(State::Pending), Just(State::Held), Just(State::Running), Just(State::Cancelled),]
}

fn planned() -> impl Strategy<Value = Option<PlannedStart>> {
    option::of(
        (0..3i64, vec(name(), 0..2)).prop_map(|(start, nodes)| PlannedStart { start: Time(start), nodes }),
    )
}

fn listed() -> impl Strategy<Value = ListedJob> {
    let allocation = (name(), option::of(1..3u32)).prop_map(|(node, cores)| NodeAllocation::new(node, cores));
    let wait_reason = prop_oneof![
        Just(WaitReason::Time(Time(7))),
        Just(WaitReason::Jobs("afterok:1".to_owned())),
        Just(WaitReason::Never("x".to_owned())),
    ];
    let who = (id(), option::of(0..3u32), state());
    let what = (1..3u32, option::of(1..3u32), any::<bool>(), vec(allocation, 0..2));
    let times = (option::of(0..2i64), 0..2i64, option::of(0..2i64));
    let plan = (0..2u64, planned(), option::of(wait_reason), 0..3u32);
    (who, what, times, plan).prop_map(|(who, what, times, plan)| ListedJob {
        id: who.0,
        job_number: who.1,
        state: who.2,
        shape: CoreLayout { cores: what.0, nodes: what.1, exclusive: what.2 },
        allocations: what.3,
        walltime: times.0.map(Span),
        submitted: Time(times.1),
        started: times.2.map(Time),
        priority: plan.0,
        planned: plan.1,
        wait_reason: plan.2,
        more_tasks: plan.3,
        ..ListedJob::default()
    })
}

fn listing() -> impl Strategy<Value = Listing> {
    let partition = (name(), any::<bool>()).prop_map(|(name, is_default)| Partition {
        name,
        is_default,
        ..Partition::default()
    });
    (0..100i64, vec(node(), 0..8), vec(listed(), 0..16), vec(partition, 0..3)).prop_map(
        |(at, nodes, jobs, partitions)| Listing { partitions, ..Listing::new(Time(at), nodes, jobs) },
    )
}

/// The same listing with other priorities and planned starts of some jobs.
fn replanned(before: &Listing) -> impl Strategy<Value = Listing> + use<> {
    let before = before.clone();
    vec((any::<bool>(), 0..3u64, planned()), before.jobs.len()).prop_map(move |plans| {
        let mut after = before.clone();
        for (job, (changes, priority, planned)) in after.jobs.iter_mut().zip(plans) {
            if changes {
                (job.priority, job.planned) = (priority, planned);
            }
        }
        after
    })
}

proptest! {
    #[test]
    fn changes_give_the_new_listing_back(before in listing(), after in listing()) {
        let changes = after.changes(&before);
        let text = serde_json::to_string(&changes).unwrap();
        let mut applied = before.clone();
        applied.apply(&serde_json::from_str(&text).unwrap());
        prop_assert_eq!(&applied, &after);
        prop_assert!(after.changes(&applied).is_empty());
    }

    #[test]
    fn a_change_of_priority_or_plan_is_journaled_without_the_job(
        (before, after) in listing().prop_flat_map(|before| (Just(before.clone()), replanned(&before)))
    ) {
        let changes = after.changes(&before);
        prop_assert!(changes.jobs.is_empty() && changes.gone.is_empty());
        let mut applied = before.clone();
        applied.apply(&changes);
        prop_assert_eq!(applied, after);
    }

    #[test]
    fn any_changes_leave_a_listing_in_order(mut listing in listing(), other in listing(), third in listing()) {
        listing.apply(&other.changes(&third));
        let again = Listing::new(listing.at, listing.nodes.clone(), listing.jobs.clone());
        prop_assert_eq!(Listing { partitions: listing.partitions.clone(), ..again }, listing);
    }
}

#[test]
fn of_duplicates_the_last_one_counts() {
    let job = |id: &str, priority| ListedJob { id: id.to_owned(), priority, ..ListedJob::default() };
    let node = |name: &str, cores| Node { name: name.to_owned(), cores, ..Node::default() };
    let listing = Listing::new(
        Time(1),
        vec![node("b", 1), node("a", 1), node("b", 2)],
        vec![job("2", 1), job("10", 1), job("2", 2)],
    );
    assert_eq!(listing.nodes, [node("a", 1), node("b", 2)]);
    assert_eq!(listing.jobs, [job("10", 1), job("2", 2)]);
    assert_eq!(listing.job("2").unwrap().priority, 2);
    assert_eq!(listing.node("b").unwrap().cores, 2);
    assert!(listing.job("3").is_none() && listing.node("c").is_none());
}

#[test]
fn exits_are_derived_from_states_and_statuses() {
    let check = |state: State, status: Option<Status>, expected: Option<Exit>| {
        let job = ListedJob { state: state.clone(), status, ..ListedJob::default() };
        assert_eq!(job.exit(), expected, "{state:?} {status:?}");
    };
    let lost = |why: &str| Some(Exit::Lost(format!("the batch system says: {why}")));
    check(State::Running, None, None);
    check(State::Requeued, Some(Status::Code(1)), None);
    check(State::Completing, Some(Status::Code(0)), None);
    check(State::Completed, None, Some(Exit::Code(0)));
    check(State::Failed, Some(Status::Code(3)), Some(Exit::Code(3)));
    check(State::Failed, Some(Status::Signal(11)), Some(Exit::Signal(11)));
    check(State::Failed, None, lost("failed"));
    check(State::Cancelled, Some(Status::Signal(15)), Some(Exit::Cancelled));
    check(State::TimedOut, Some(Status::Code(0)), Some(Exit::OverWalltime));
    check(State::NodeFailed, Some(Status::Code(0)), lost("a node failed"));
    check(State::OutOfMemory, None, Some(Exit::OverLimit("memory, the batch system says".to_owned())));
}

#[test]
fn a_job_with_nodes_has_started_in_any_state() {
    let check = |state: State, count: usize, started: bool| {
        let allocation = NodeAllocation::new("n1", None);
        let job =
            ListedJob { state: state.clone(), allocations: vec![allocation; count], ..ListedJob::default() };
        assert_eq!(job.ever_started(), started, "{state:?} on {count} nodes");
    };
    check(State::Pending, 0, false);
    check(State::Cancelled, 0, false);
    check(State::Cancelled, 1, true);
    check(State::Running, 0, true);
}
