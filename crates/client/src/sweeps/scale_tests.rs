//! A million instances are planned, journaled, resumed and written to both tables in bounded memory. There are no servers: their
//! answers are made up.

use std::collections::{BTreeSet, VecDeque};
use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader};
use std::time::Duration;

use pliant_control::exact_text::ExactText;
use pliant_control::multi_job::{
    Command, Event, FreeSlots, InstanceProspects, MultiJob, Plan, RuntimeSource,
};
use pliant_control::names::{Key, Name};
use pliant_model::SpanMs;
use pliant_policy::allocation::Strategy;
use pliant_report::{InstanceRow, write_instances};
use pliant_wire::{InstanceEnd, Outcome};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use tokio::time::Instant;

use super::folder::{Header, runs};
use super::{Entry, InstanceState, SweepFolder, SweepResults, SweepSpec};
use crate::ParameterSpace;

/// The peak memory of this process, in KiB.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

pub(super) fn header(instances: u32) -> Header {
    let varied = vec![format!("x=1..{}", instances / 10).parse().unwrap(), "seed=1..10".parse().unwrap()];
    let parameters = ParameterSpace { varied, ..ParameterSpace::default() };
    assert_eq!(parameters.combinations(), Some(instances));
    let (retries, strategy, batch_most) = (2, Strategy::Statistics, 1_000);
    let plan =
        Plan { instances, retries, strategy, batch_most, once: false, at_once: None, lost_only: false };
    let spec = SweepSpec {
        executable: "nothing".into(),
        parameters,
        inputs: Vec::new(),
        strategy: plan.strategy,
        once: plan.once,
        at_once: None,
        only: None,
        retries: plan.retries,
        timeout: Duration::ZERO,
    };
    Header { key: Key([1; 16]), seed: 1, ..Header::new("alice", &spec, plan) }
}

fn prospects() -> Vec<(Name, InstanceProspects)> {
    let prospects = |slots| InstanceProspects {
        free: vec![FreeSlots { at: SpanMs::ZERO, slots }],
        instance: SpanMs(2),
        scale: 1.0,
        source: RuntimeSource::Statistics { jobs: 9 },
        jobs: 0,
        failures: 0,
        batch_most: None,
        waiting: Vec::new(),
        refused: Vec::new(),
    };
    let server = |(name, slots): (&str, u32)| (name.parse().unwrap(), prospects(slots));
    [("lyon", 64), ("nancy", 32), ("rennes", 16)].map(server).into()
}

/// Runs a sweep; returns its number of batches.
fn carry_out(folder: &mut SweepFolder, header: &Header) -> u32 {
    let mut machine = MultiJob::new(header.plan.clone());
    let mut rng = ChaCha8Rng::seed_from_u64(header.seed);
    let (mut commands, mut open) = (Vec::new(), VecDeque::new());
    machine.on(
        Event::Found { servers: prospects(), waiting: BTreeSet::new(), late: BTreeSet::new() },
        &mut rng,
        &mut commands,
    );
    loop {
        for command in commands.drain(..) {
            match command {
                Command::QueryServers
                | Command::RecordShares { .. }
                | Command::Withdraw { .. }
                | Command::Cancel { .. }
                | Command::Unplaced { .. }
                | Command::TooLate => {}
                Command::Done => return machine.progress().batches,
                Command::Submit { batch, server, instances } => {
                    folder.append(&Entry::Submitted { batch, server, instances: runs(&instances) });
                    open.push_back((batch, instances));
                }
            }
        }
        let (batch, instances) = open.pop_front().unwrap();
        for instance in instances {
            let end = InstanceEnd {
                instance,
                outcome: Outcome::ExitCode(0),
                over_walltime: false,
                elapsed_ms: 2,
                scale: 1.0,
                output: ExactText::default(),
                output_cut: false,
                error: ExactText::default(),
            };
            folder.append(&Entry::Ended { batch, end });
            let (completed, took, scale) = (true, SpanMs(2), 1.0);
            machine.on(
                Event::InstanceEnded { batch, instance, completed, took, scale },
                &mut rng,
                &mut commands,
            );
        }
        folder.append(&Entry::Over {
            batch,
            how: "exit code 0".to_owned(),
            unbegun: false,
            lost: false,
            too_late: false,
        });
        folder.flush(false).unwrap();
        machine.on(Event::BatchEnded { batch, unbegun: false, lost: false }, &mut rng, &mut commands);
    }
}

fn check(instances: u32, most_kib: u64) {
    let (dir, before, began) = (tempfile::tempdir().unwrap(), peak_kib(), Instant::now());
    let header = header(instances);
    let mut folder = SweepFolder::open(dir.path()).unwrap();
    folder.begin(&header).unwrap();
    let batches = carry_out(&mut folder, &header);
    let carried_out = began.elapsed();
    // As a client that resumes reads it.
    let (_, state) = folder.resume().unwrap().unwrap();
    let progress = state.machine.progress();
    assert_eq!((progress.done, progress.batches), (instances, batches));
    drop(state);
    let resumed = began.elapsed() - carried_out;
    let rows = SweepResults::of(folder).unwrap();
    let names = rows.names();
    let written = write_instances::<Box<dyn Error>>(dir.path(), &names, instances, |instance| {
        let row = rows.row(instance)?;
        assert_eq!((row.state, row.tries), (InstanceState::Completed, 1), "{instance}");
        assert_eq!(row.values, [(instance / 10 + 1).to_string(), (instance % 10 + 1).to_string()]);
        Ok(InstanceRow {
            instance,
            values: row.values,
            state: row.state.word().to_owned(),
            how: row.how,
            tries: row.tries,
            server: row.server.map(|server| server.to_string()).unwrap_or_default(),
            elapsed_ms: row.elapsed_ms,
            ..InstanceRow::default()
        })
    });
    written.unwrap();
    let written = began.elapsed() - carried_out - resumed;
    let peak = peak_kib();
    let [csv, parquet] = ["results.csv", "results.parquet"].map(|name| dir.path().join(name));
    let lines = BufReader::new(fs::File::open(&csv).unwrap()).lines().count();
    assert_eq!(lines, instances as usize + 1, "a line of names, and one of each");
    let mb = |path| fs::metadata(path).unwrap().len() / 1_000_000;
    println!(
        "{instances} instances in {batches} batches: planned and journaled in {carried_out:.1?}, resumed in {resumed:.1?}, written in {written:.1?} in \
         tables of {} and {} MB; {} MiB at most for the process, {} MiB of them for this",
        mb(csv),
        mb(parquet),
        peak / 1024,
        (peak - before) / 1024
    );
    assert!(peak - before <= most_kib, "from {before} to {peak} KiB");
}

#[test]
fn twenty_thousand_instances_are_planned_journaled_and_written() {
    check(20_000, 32 << 10);
}

#[test]
fn a_million_instances_fit_into_bounded_memory() {
    check(1_000_000, 64 << 10);
}
