//! Connections to several masters.

use pliant_control::masters::Masters;

use super::*;

/// The shares of the master that has the jobs of `alice`, and of another one.
fn shares() -> (MasterShare, MasterShare) {
    let names = ["north", "south"].map(|name| name.parse::<Name>().unwrap());
    let shares = names.each_ref().map(|name| Masters::new(names.clone()).share(name));
    let [one, other] = shares;
    if one.has(Owner::named("alice")) { (one, other) } else { (other, one) }
}

#[tokio::test]
async fn status_updates_go_to_the_master_of_their_user_and_others_are_passed_over() {
    const LAST: u64 = 2 * PASSED_OVER_MAX + 300;
    let (own, other) = shares();
    let mut bench = Bench::of_share(1, LAST, 0, None, own);
    for expected in 1..=LAST {
        assert_eq!(bench.next_update().await, expected);
    }
    let mut bench = Bench::of_share(1, LAST, 0, None, other);
    let mut reported = 0;
    // What the master need not know is said now and then, so that the journal need not keep it for ever.
    while reported < LAST - PASSED_OVER_MAX {
        match bench.next().await {
            FromChild::AllReported { sequence } => {
                assert!(sequence >= reported + PASSED_OVER_MAX && sequence <= LAST, "{sequence}");
                reported = sequence;
            }
            other => panic!("expected that status updates are passed over, found {other:?}"),
        }
    }
    bench.upward.announce();
    assert_eq!(bench.next().await, FromChild::Servers(Vec::new()), "and nothing else");
}

#[tokio::test]
async fn jobs_are_reported_again_to_the_master_of_their_user() {
    let (own, other) = shares();
    for (share, expected) in [(own, 1300), (other, 0)] {
        let again = ReportingAgain::to(&updates(501, 500), 3, 500).await.unwrap();
        let mut bench = Bench::of_share(501, 500, 0, again, share);
        let mut again = 0;
        loop {
            match bench.next().await {
                FromChild::ReportedAgain(_) => again += 1,
                FromChild::AllReported { sequence } => break assert_eq!(sequence, 500),
                other => panic!("expected a report, found {other:?}"),
            }
        }
        assert_eq!(again, expected);
    }
}
