//! Tables of times by processors and GPUs.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use pliant_model::{
    GpuCount, GpuPoint, Gpus, JobId, Mebibytes, Memory, Procs, Request, Resources, Span, Speed, Speedup,
    SpeedupError, Time,
};

fn table(points: &[(u32, u32, f64)]) -> Speedup {
    let point =
        |(procs, gpus, time): &(u32, u32, f64)| GpuPoint { procs: Procs(*procs), gpus: *gpus, time: *time };
    Speedup::GpuTable(points.iter().map(point).collect())
}

/// 100 s on 4 processors, 30 s with a GPU; 80 s on 8, 16 s with two GPUs.
fn request() -> Request {
    let speedup = table(&[(4, 0, 100.0), (4, 1, 30.0), (8, 0, 80.0), (8, 2, 16.0)]);
    Request::new(JobId(0), Time::ZERO, Procs(4), Span(100), speedup)
}

#[test]
fn tables_outside_their_domain_are_refused() {
    assert_eq!(table(&[(1, 0, 9.0), (1, 2, 3.0), (2, 1, 3.0)]).validate(), Ok(()));
    for bad in [
        &[][..],
        // Without GPUs it is another model.
        &[(1, 0, 9.0)],
        &[(0, 1, 9.0)],
        &[(1, 1, 0.0)],
        &[(1, 1, f64::NAN)],
        &[(1, 1, 9.0), (1, 1, 8.0)],
        &[(1, 1, 9.0), (1, 0, 8.0)],
        &[(2, 1, 9.0), (1, 2, 8.0)],
    ] {
        assert_eq!(table(bad).validate(), Err(SpeedupError::GpuTable), "{bad:?}");
    }
}

#[test]
fn a_walltime_is_of_the_entry_with_the_fewest_gpus() {
    let at_reference = |procs, walltime| {
        let request = Request { procs: Procs(procs), walltime: Span(walltime), ..request() };
        let walltimes = request.on(Procs(8), Speed::REFERENCE).unwrap();
        walltimes.gpu_sizes().unwrap().map(|(procs, gpus, time)| (procs.0, gpus, time.0)).collect::<Vec<_>>()
    };
    assert_eq!(at_reference(4, 100), [(4, 0, 100), (4, 1, 30), (8, 0, 80), (8, 2, 16)]);
    assert_eq!(
        at_reference(6, 100),
        at_reference(4, 100),
        "that with the most processors of those that are not more"
    );
    assert_eq!(at_reference(8, 80), at_reference(4, 100));
    assert_eq!(at_reference(1, 100), at_reference(4, 100), "the smallest, if all are larger");
}

#[test]
fn sizes_are_limited_by_the_cluster_its_gpus_and_the_longest_walltime() {
    let request = request();
    let sizes = |procs, counts, longest| {
        let walltimes =
            request.where_counted(Procs(procs), Speed::REFERENCE, counts)?.within(Span(longest))?;
        Some(walltimes.gpu_sizes()?.map(|(procs, gpus, _)| (procs.0, gpus)).collect::<Vec<_>>())
    };
    assert_eq!(sizes(8, true, 1000), Some(vec![(4, 0), (4, 1), (8, 0), (8, 2)]));
    assert_eq!(sizes(7, true, 1000), Some(vec![(4, 0), (4, 1)]));
    assert_eq!(sizes(8, false, 1000), Some(vec![(4, 0), (8, 0)]));
    assert_eq!(sizes(8, true, 80), Some(vec![(4, 1), (8, 0), (8, 2)]));
    assert_eq!(sizes(8, true, 15), None);
    assert_eq!(sizes(8, false, 79), None);
    let gpus_alone = Request { speedup: table(&[(4, 1, 30.0)]), ..request.clone() };
    assert!(gpus_alone.on(Procs(8), Speed::REFERENCE).is_some());
    assert!(gpus_alone.where_counted(Procs(8), Speed::REFERENCE, false).is_none());
    let plain = request.where_counted(Procs(8), Speed::REFERENCE, false).unwrap();
    assert_eq!([4, 8].map(|procs| plain.at(Procs(procs)).0), [100, 80]);
}

#[test]
fn the_gpus_follow_from_the_shape() {
    let request = request();
    for (speed, procs, walltime, expected) in [
        (1.0, 4, 100, 0),
        (1.0, 4, 30, 1),
        (1.0, 8, 80, 0),
        (1.0, 8, 16, 2),
        (2.0, 4, 15, 1),
        (2.0, 8, 8, 2),
        (1.0, 4, 60, 1),
    ] {
        let speed = Speed::new(speed).unwrap();
        assert_eq!(
            request.gpus_at(speed, Procs(procs), Span(walltime)),
            expected,
            "{procs} for {walltime} s"
        );
    }
    let at = |request: &Request, walltime| request.resources_at(Speed::REFERENCE, Procs(4), Span(walltime));
    assert_eq!(at(&request, 100), None, "processors alone");
    let needing = request.needing(Resources {
        memory: Some(Memory::Total(Mebibytes(64))),
        gpus: Some(Gpus { count: GpuCount::Total(9), kind: Some("a100".to_owned()) }),
        ..Resources::default()
    });
    let gpus = |walltime| at(&needing, walltime).unwrap().gpus.clone();
    assert_eq!(gpus(100), None);
    let one = Gpus { count: GpuCount::Total(1), kind: Some("a100".to_owned()) };
    assert_eq!(gpus(30), Some(one));
    assert_eq!(at(&needing, 100).unwrap().memory, Some(Memory::Total(Mebibytes(64))));
}
