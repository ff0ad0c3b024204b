//! The order that users give to their own jobs.

use super::external_siblings::Slurm;
use super::*;
use crate::reason::Cause;

fn nice(nice: u32, submit: Submit) -> Submit {
    Submit { work: Work { nice, ..submit.work }, ..submit }
}

fn of(owner: &str, submit: Submit) -> Submit {
    Submit { owner: user(owner), ..submit }
}

const BEHIND: &str = "jobs of its owner with a lower --nice wait here";

/// Ends the running job of a cluster of one processor; returns the number of the next one.
fn next(bench: &mut Bench) -> Option<u32> {
    let running = bench.server.running().map(|(record, ..)| record.handle.number).next();
    if let Some(number) = running {
        bench.ended(number, Exit::Code(0));
    }
    let now = bench.now.0 + 1;
    bench.at(now).first().map(|run| run.job.0)
}

#[test]
fn jobs_of_a_user_start_in_the_order_that_the_user_gives() {
    for policy in &pliant_policy::batch::local_names() {
        let mut bench = Bench::new(policy, 1);
        bench.deliver(Event::WaitingLimits(WaitingLimits::of_jobs(10)));
        bench.accepted(of("bob", rigid(1, 1, 10)));
        bench.at(100);
        for (key, number) in [(2, 7), (3, 3), (4, 0), (5, 7)] {
            bench.accepted(nice(number, rigid(key, 1, 10)));
        }
        assert_eq!(bench.is_unplanned(4), None, "{policy}");
        for number in [2, 3, 5] {
            assert_eq!(bench.is_unplanned(number).as_deref(), Some(BEHIND), "{policy}: {number}");
        }
        bench.restarted();
        let order: Vec<u32> = std::iter::from_fn(|| next(&mut bench)).collect();
        assert_eq!(order[..2], [4, 3], "{policy}");
        assert_eq!(order.len(), 4, "{policy}");
        assert!(bench.server.nice.is_empty(), "{policy}");
    }
}

#[test]
fn jobs_of_others_pass_one_that_stands_back_and_none_is_delayed() {
    let mut bench = Bench::new("cbf", 2);
    bench.accepted(of("bob", rigid(1, 1, 100)));
    bench.at(100);
    bench.accepted(rigid(2, 2, 10));
    // It would fit next to the first one, but its owner has another one go first.
    let record = bench.accepted(nice(1, rigid(3, 1, 100)));
    assert_eq!(record.expected.start, Time(200));
    assert_eq!(bench.accepted(of("carol", rigid(4, 1, 100))).expected.start, Time(100));
    assert_eq!(cores(&bench.at(100)), [(4, vec![1])]);
    assert_eq!(cores(&bench.at(200)), []);
    bench.ended(1, Exit::Code(0));
    bench.ended(4, Exit::Code(0));
    assert_eq!(bench.at(200).len(), 1);
    bench.ended(2, Exit::Code(0));
    assert_eq!(bench.at(201).len(), 1);
}

#[test]
fn a_job_stands_back_behind_none_that_does_not_compete() {
    let mut bench = Bench::new("cbf", 1);
    bench.deliver(Event::WaitingLimits(WaitingLimits::of_jobs(10)));
    bench.accepted(of("bob", rigid(1, 1, 10)));
    bench.at(100);
    bench.accepted(rigid(2, 1, 10));
    bench.accepted(nice(1, rigid(3, 1, 10)));
    assert_eq!(bench.is_unplanned(3).as_deref(), Some(BEHIND));
    // One that is held does not start soon.
    bench.hold(2);
    assert_eq!(bench.is_unplanned(3), None);
    bench.release(2);
    assert_eq!(bench.is_unplanned(3).as_deref(), Some(BEHIND));
    // Nor is one of another user in its way.
    bench.cancel(2, "alice");
    bench.accepted(of("bob", rigid(4, 1, 10)));
    assert_eq!(bench.is_unplanned(3), None);
}

#[test]
fn limits_holds_and_bans_count_as_well() {
    let mut bench = Bench::new("cbf", 4);
    bench.deliver(Event::WaitingLimits(WaitingLimits::of_jobs(10)));
    bench.limit("alice", &[(LimitKey::RunningJobs, Some(1))]);
    bench.accepted(rigid(1, 1, 10));
    bench.at(100);
    bench.accepted(nice(5, rigid(2, 1, 10)));
    bench.accepted(nice(2, rigid(3, 1, 10)));
    bench.accepted(rigid(4, 1, 10));
    bench.restarted();
    let order: Vec<u32> = std::iter::from_fn(|| next(&mut bench)).collect();
    assert_eq!(order, [4, 3, 2]);

    let mut bench = Bench::new("cbf", 1);
    bench.accepted(of("bob", rigid(1, 1, 10)));
    bench.at(100);
    bench.accepted(rigid(2, 1, 10));
    bench.accepted(nice(1, rigid(3, 1, 10)));
    let by = || (Token(0), user("alice"), user("root"), String::new());
    let (reply, user, by_whom, why) = by();
    bench.deliver(Event::Ban { reply, user, by: by_whom, why });
    bench.hold(3);
    let (reply, user, by_whom, why) = by();
    bench.deliver(Event::Unban { reply, user, by: by_whom, why });
    bench.release(3);
    assert_eq!(bench.is_unplanned(3).as_deref(), Some(BEHIND));
    let order: Vec<u32> = std::iter::from_fn(|| next(&mut bench)).collect();
    assert_eq!(order, [2, 3]);
}

#[test]
fn slurm_orders_jobs_itself_and_oar_refuses_them() {
    let mut slurm = Slurm::idle();
    slurm.bench.accepted(rigid(1, 1, 100));
    slurm.bench.accepted(nice(3, rigid(2, 1, 100)));
    assert_eq!((slurm.bench.server.nice(1), slurm.bench.server.nice(2)), (0, 3));
    assert!(slurm.bench.server.batch.held_jobs().is_empty());
    let mut oar = Bench::new(batch::external::OAR, 2);
    let Answer::Refused(refused) = oar.submit(nice(3, rigid(1, 1, 100))) else { panic!("it was taken") };
    assert!(matches!(refused.cause(), Cause::Invalid | Cause::BatchSystem), "{refused}");
}
