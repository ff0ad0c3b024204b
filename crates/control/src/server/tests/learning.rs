//! Walltimes that are learned from finished runs.

use pliant_model::GpuPoint;

use super::*;
use crate::runtime_sample::RuntimeSample;

#[test]
fn the_runtime_of_a_run_is_learned_for_its_service() {
    let mut bench = Bench::new("cbf", 4);
    let half_parallel = Speedup::Amdahl { parallel: 0.5, limit: Procs(4) };
    let work = Work::new(Procs(1), Span(80), half_parallel);
    let sample = Some(RuntimeSample {
        category: "fit".to_owned(),
        scale: 2.0,
        promises: true,
        instances: 1,
        is_batch: false,
    });
    for number in 1..=3 {
        bench.accepted(Submit { work: work.clone(), sample: sample.clone(), ..rigid(number as u8, 1, 80) });
        assert_eq!(bench.at(100 * i64::from(number))[0].cores.len(), 4);
        assert_eq!(bench.server.learned("fit", &user("alice")), None, "before run {number}");
        let job = JobId(number);
        let ended = batch::Event::Ended { job, exit: Exit::Code(0), elapsed_ms: Some(12_500) };
        bench.deliver(Event::Batch(ended));
    }
    // 12.5 s on four processors are 20 s on one; half of that for a request of scale 1.
    assert_eq!(bench.server.learned("fit", &user("alice")), Some(Span(10)));
    assert_eq!(
        bench.server.learned("fit", &user("bob")),
        None,
        "the runs of one user do not count for another"
    );
}

#[test]
fn walltimes_are_learned_from_the_longest_instance_of_a_batch() {
    let mut bench = Bench::new("cbf", 4);
    let sample = RuntimeSample {
        category: "fit".to_owned(),
        scale: 30.0,
        promises: true,
        instances: 3,
        is_batch: true,
    };
    for (number, longest, learned) in
        [(1, Some(7_200), None), (2, Some(40), None), (3, None, None), (4, Some(3_100), Some(8))]
    {
        bench.accepted(Submit { sample: Some(sample.clone()), ..rigid(number as u8, 1, 80) });
        bench.at(100 * i64::from(number));
        assert!(bench.server.needs_longest_instance(number));
        if let Some(ms) = longest {
            bench.deliver(Event::LongestInstance { number, ms });
        }
        let job = JobId(number);
        // The total runtime of the batch does not count.
        let ended = batch::Event::Ended { job, exit: Exit::Code(0), elapsed_ms: Some(60_000) };
        bench.deliver(Event::Batch(ended));
        assert_eq!(bench.server.learned("fit", &user("alice")), learned.map(Span), "after job {number}");
    }
    bench.accepted(Submit { sample: Some(RuntimeSample { promises: false, ..sample }), ..rigid(5, 1, 80) });
    assert!(!bench.server.needs_longest_instance(5), "its service has a fixed runtime");
}

/// Runs a job of the service `fit` with arguments of that scale and returns when it has ended.
fn runs(bench: &mut Bench, owner: &str, scale: f64, ms: u64) {
    let sample =
        RuntimeSample { category: "fit".to_owned(), scale, promises: true, instances: 1, is_batch: false };
    let mut asked = Submit { owner: user(owner), sample: Some(sample), ..rigid(0, 1, 80) };
    asked.key.0[..8].copy_from_slice(&bench.now.0.to_le_bytes());
    let number = bench.accepted(asked).handle.number;
    bench.at(bench.now.0 + 12);
    let ended = batch::Event::Ended { job: JobId(number), exit: Exit::Code(0), elapsed_ms: Some(ms) };
    bench.deliver(Event::Batch(ended));
}

#[test]
fn one_user_neither_lengthens_nor_shortens_the_walltimes_of_others() {
    let mut bench = Bench::new("cbf", 4);
    for (owner, ms) in [("alice", 10_000), ("bob", 10_000), ("carol", 12_000)] {
        (0..3).for_each(|_| runs(&mut bench, owner, 1.0, ms));
    }
    // Dave has no run of his own.
    let learned = |bench: &Bench| {
        ["alice", "bob", "carol", "dave"].map(|owner| bench.server.learned("fit", &user(owner)).unwrap().0)
    };
    assert_eq!(learned(&bench), [10, 10, 12, 10]);
    // Arguments that promise a sixtieth of the time that the runs take.
    (0..14).for_each(|_| runs(&mut bench, "mallory", 1.0 / 60.0, 10_000));
    assert_eq!(bench.server.learned("fit", &user("mallory")), Some(Span(600)), "for the own next run");
    assert_eq!(learned(&bench), [10, 10, 12, 10]);
    (0..5).for_each(|_| runs(&mut bench, "mallory", f64::MIN_POSITIVE, 10_000));
    assert_eq!(learned(&bench), [10, 10, 12, 10], "and nothing overflows");
    (0..210).for_each(|_| runs(&mut bench, "mallory", 1.0, 5));
    assert_eq!(bench.server.learned("fit", &user("mallory")), Some(Span(1)), "for the own next run");
    assert_eq!(learned(&bench), [10, 10, 12, 10]);
}

/// A run with times of its own cluster used the GPUs of the size for which it was submitted, however fast the cluster is.
#[test]
fn the_gpus_of_a_run_with_own_times_are_those_of_its_size() {
    let point = |procs, gpus, time| GpuPoint { procs: Procs(procs), gpus, time };
    // At twice the speed 40 s suffice with one GPU: the table has 60 s for that.
    let speedup = Speedup::GpuTable([point(1, 0, 100.0), point(1, 1, 60.0), point(1, 2, 40.0)].into());
    let sample = RuntimeSample {
        category: "fit".to_owned(),
        scale: 1.0,
        promises: true,
        instances: 1,
        is_batch: false,
    };
    let mut bench = super::resources::bench();
    let config = ServerConfig { speed: Speed::new(2.0).unwrap(), ..bench.server.config().clone() };
    bench.server = Server::new(config, Time(100)).unwrap();
    for number in 1..=3 {
        let work = Work { speedup: speedup.clone(), walltime: Span(100), ..rigid(1, 1, 100).work };
        let submit =
            Submit { own_time: true, work, sample: Some(sample.clone()), ..rigid(number as u8, 1, 100) };
        assert_eq!(bench.accepted(submit).gpus, Some(2));
        bench.at(100 * i64::from(number));
        let job = JobId(number);
        bench.deliver(Event::Batch(batch::Event::Ended {
            job,
            exit: Exit::Code(0),
            elapsed_ms: Some(10_000),
        }));
    }
    // 10 s at speed 2 with two GPUs are 20 s at speed 1, and 50 s with none, of which the table has 100 s.
    assert_eq!(bench.server.learned("fit", &user("alice")), Some(Span(50)));
}
