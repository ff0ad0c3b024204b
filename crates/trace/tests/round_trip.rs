//! What is written reads back as the same jobs.

mod support;

use std::collections::BTreeMap;
use std::path::Path;

use pliant_model::{Job, LoggedMemory, Mebibytes, Procs, Span, Time};
use pliant_trace::{RepairReport, Workload, load, swf};
use proptest::prelude::*;
use support::invariants::schedulable;

/// Any job: submission after the one before, size, walltime, what is left of it unused, owner, partition, memory.
fn job() -> impl Strategy<Value = (i64, u32, i64, i64, [i32; 3], i32, LoggedMemory)> {
    let owner = [-1..50_i32, -1..50_i32, -1..50_i32];
    let amount = || prop::option::of((1..=u32::MAX).prop_map(Mebibytes));
    let memory = (amount(), amount()).prop_map(|(requested, used)| LoggedMemory { requested, used });
    (0..5_000_i64, 1..100_000_u32, 1..10_000_000_i64, 0..10_000_000_i64, owner, -1..4_i32, memory)
}

fn workload() -> impl Strategy<Value = Workload> {
    let facts =
        (prop::option::of(1..1_000_000_i64), prop::option::of(-5_000_000..5_000_000_000_i64), any::<bool>());
    (prop::collection::vec(job(), 0..60), facts).prop_map(|(jobs, (max_procs, unix_start, named))| {
        let (mut at, mut all, mut partitions) = (0, Vec::new(), Vec::new());
        for (index, (gap, procs, walltime, unused, [user, group, executable], partition, memory)) in
            jobs.into_iter().enumerate()
        {
            at += if index == 0 { 0 } else { gap };
            all.push(Job {
                log_id: index as u64 * 3 + 1,
                submit: Time(at),
                procs: Procs(procs),
                walltime: Span(walltime),
                runtime: Span((walltime - unused).max(1)),
                user,
                group,
                executable,
                origin: None,
                memory,
                resources: None,
            });
            partitions.push(if partition == 0 { -1 } else { partition });
        }
        let names = (1..4).map(|number| (number, format!("site{number}.org")));
        let count = all.len() as u64;
        Workload {
            name: "log".to_owned(),
            jobs: all,
            partitions,
            partition_names: if named { names.collect() } else { BTreeMap::new() },
            max_procs,
            unix_start,
            report: RepairReport { read: count, kept: count, ..RepairReport::default() },
        }
    })
}

fn through(workload: &Workload, file: &str) -> Workload {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let path = folder.path().join(file);
    workload.write(&path).expect("a writable file");
    let compressed = std::fs::read(&path).expect("just written").starts_with(&[0x1f, 0x8b]);
    assert_eq!(compressed, file.ends_with(".gz"), "{file}");
    let read = load(&path, &Default::default()).expect("what was written can be read");
    schedulable(&read);
    read
}

/// JobNumbers as GWF gives them: in order of appearance, from 1.
fn renumbered(values: impl Iterator<Item = i32>) -> Vec<i32> {
    let mut numbers = BTreeMap::new();
    values
        .map(|value| {
            let next = numbers.len() as i32 + 1;
            if value < 0 { -1 } else { *numbers.entry(value).or_insert(next) }
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn swf(workload in workload(), compressed: bool) {
        let read = through(&workload, if compressed { "log.swf.gz" } else { "log.swf" });
        prop_assert_eq!(read, workload);
    }

    #[test]
    fn gwf(workload in workload(), compressed: bool) {
        let read = through(&workload, if compressed { "log.gwf.gz" } else { "log.gwf" });
        let renumber = |workload: &Workload| {
            let jobs = workload.jobs.iter();
            let mut all = workload.jobs.clone();
            let users = renumbered(jobs.clone().map(|job| job.user));
            let groups = renumbered(jobs.clone().map(|job| job.group));
            let executables = renumbered(jobs.map(|job| job.executable));
            for (index, job) in all.iter_mut().enumerate() {
                (job.user, job.group, job.executable) = (users[index], groups[index], executables[index]);
            }
            all
        };
        prop_assert_eq!(&read.jobs, &renumber(&workload));
        prop_assert_eq!(&read.partitions, &renumbered(workload.partitions.iter().copied()));
        prop_assert_eq!((read.unix_start, read.max_procs), (workload.unix_start, workload.max_procs));
        for (site, number) in workload.partitions.iter().zip(&read.partitions).filter(|(site, _)| **site >= 0) {
            let name = workload.partition_names.get(site).cloned().unwrap_or(format!("S{site}"));
            prop_assert_eq!(&read.partition_names[number], &name);
        }
    }

    #[test]
    fn records(values in prop::collection::vec(prop::array::uniform18(-1..1_000_000_000_i64), 1..20)) {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let path = folder.path().join("log.swf");
        let text = values.iter().map(|fields| fields.map(|field| field.to_string()).join(" ")).collect::<Vec<_>>();
        let read: Vec<_> = swf::Reader::new(Path::new("log.swf"), text.join("\n").as_bytes())
            .expect("readable").map(|record| record.expect("18 numbers")).collect();
        let header = [("Computer".to_owned(), "a: b\nc".to_owned()), ("Version".to_owned(), "1".to_owned())];
        let mut writer = swf::Writer::create(&path, &header).expect("writable");
        for record in &read {
            writer.write(record).expect("writable");
        }
        writer.finish().expect("writable");
        let expected = format!("; Version: 2.2\n; Computer: a: b c\n{}\n", text.join("\n"));
        prop_assert_eq!(std::fs::read_to_string(&path).expect("just written"), expected);
    }
}

#[test]
fn other_names_are_not_written() {
    for name in ["jobs.json", "jobs.txt", "jobs"] {
        let error = pliant_trace::generate::uniform(3, 300, 1).write(Path::new(name)).unwrap_err();
        let expected = format!("{name}: expected a name that ends in .swf, .swf.gz, .gwf or .gwf.gz");
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn names_that_would_break_a_line_do_not() {
    let mut workload = pliant_trace::generate::uniform(2, 300, 1);
    workload.name = "two\nlines".to_owned();
    workload.partition_names = BTreeMap::from([(1, "a site\nwith spaces".to_owned()), (2, " ".to_owned())]);
    workload.partitions = vec![1, 2];
    let names = |read: Workload| -> Vec<String> { read.partition_names.into_values().collect() };
    assert_eq!(names(through(&workload, "log.swf")), ["a site with spaces"]);
    assert_eq!(names(through(&workload, "log.gwf")), ["a-site-with-spaces", "S2"]);
}
