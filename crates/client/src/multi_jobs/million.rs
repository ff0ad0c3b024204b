//! A million instances, planned, noted, gone on with and told in both tables in bounded memory. The servers are left out: what
//! they say is made up.

use std::collections::{BTreeSet, VecDeque};
use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader};
use std::time::Duration;

use pliant_control::multi_job::{Command, Event, MultiJob, Places, Plan, Prospects, RuntimeSource};
use pliant_control::names::{Key, Name};
use pliant_model::SpanMs;
use pliant_policy::allocation::Strategy;
use pliant_report::{InstanceRow, write_instances};
use pliant_wire::{Outcome, PackedEnd};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use tokio::time::Instant;

use super::driver::event;
use super::folder::{Header, runs};
use super::{Entry, Fate, MultiJobWanted, Rows, SweepFolder};
use crate::Sweep;

/// KiB of memory that this process has needed at most.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

pub(super) fn header(instances: u32) -> Header {
    let varied = vec![format!("x=1..{}", instances / 10).parse().unwrap(), "seed=1..10".parse().unwrap()];
    let sweep = Sweep { varied, ..Sweep::default() };
    assert_eq!(sweep.combinations(), Some(instances));
    let plan = Plan { instances, retries: 2, strategy: Strategy::Statistics, pack_most: 1_000, once: false };
    let wanted = MultiJobWanted {
        service: "nothing".to_owned(),
        sweep,
        inputs: Vec::new(),
        strategy: plan.strategy,
        once: plan.once,
        retries: plan.retries,
        patience: Duration::ZERO,
    };
    Header { key: Key([1; 16]), seed: 1, ..Header::new("alice", &wanted, plan) }
}

fn prospects() -> Vec<(Name, Prospects)> {
    let prospects = |places| Prospects {
        free: vec![Places { at: SpanMs::ZERO, places }],
        instance: SpanMs(2),
        scale: 1.0,
        told: RuntimeSource::Statistics { jobs: 9 },
        jobs: 0,
        failures: 0,
        pack_most: None,
        waiting: Vec::new(),
        refused: Vec::new(),
    };
    let server = |(name, places): (&str, u32)| (name.parse().unwrap(), prospects(places));
    [("lyon", 64), ("nancy", 32), ("rennes", 16)].map(server).into()
}

/// Carries a multi-job out; how many packs it had.
fn carry_out(folder: &mut SweepFolder, header: &Header) -> u32 {
    let mut machine = MultiJob::new(header.plan.clone());
    let mut rng = ChaCha8Rng::seed_from_u64(header.seed);
    let (mut commands, mut open) = (Vec::new(), VecDeque::new());
    machine.on(Event::Found { servers: prospects(), waiting: BTreeSet::new() }, &mut rng, &mut commands);
    loop {
        for command in commands.drain(..) {
            match command {
                Command::Look
                | Command::Keep { .. }
                | Command::Withdraw { .. }
                | Command::Cancel { .. }
                | Command::Unplaced { .. } => {}
                Command::Done => return machine.progress().packs,
                Command::Submit { pack, server, instances } => {
                    folder.note(&Entry::Submitted { pack, server, instances: runs(&instances) });
                    open.push_back((pack, instances));
                }
            }
        }
        let (pack, instances) = open.pop_front().unwrap();
        for instance in instances {
            let end = PackedEnd {
                instance,
                outcome: Outcome::ExitCode(0),
                over_walltime: false,
                elapsed_ms: 2,
                scale: 1.0,
                output: String::new(),
                output_cut: false,
                error: String::new(),
            };
            folder.note(&Entry::Ended { pack, end });
            let (completed, took, scale) = (true, SpanMs(2), 1.0);
            machine.on(Event::Ended { pack, instance, completed, took, scale }, &mut rng, &mut commands);
        }
        folder.note(&Entry::Over { pack, how: "exit code 0".to_owned(), unbegun: false });
        folder.flush(false).unwrap();
        machine.on(Event::Over { pack, unbegun: false }, &mut rng, &mut commands);
    }
}

fn check(instances: u32, most_kib: u64) {
    let (dir, before, began) = (tempfile::tempdir().unwrap(), peak_kib(), Instant::now());
    let header = header(instances);
    let mut folder = SweepFolder::open(dir.path()).unwrap();
    folder.begin(&header).unwrap();
    let packs = carry_out(&mut folder, &header);
    let carried_out = began.elapsed();
    // As a client that goes on reads it.
    let mut machine = MultiJob::new(header.plan.clone());
    let (mut rng, mut ignored) = (ChaCha8Rng::seed_from_u64(1), Vec::new());
    let tell = |_, entry| {
        let Some(event) = event(entry) else { return };
        machine.on(event, &mut rng, &mut ignored);
        ignored.clear();
    };
    folder.replay(&header, tell).unwrap();
    assert_eq!((machine.progress().done, machine.progress().packs), (instances, packs));
    let gone_on = began.elapsed() - carried_out;
    let mut rows = Rows::of(folder).unwrap();
    let names = rows.names();
    let told = write_instances::<Box<dyn Error>>(dir.path(), &names, instances, |instance| {
        let row = rows.row(instance)?;
        assert_eq!((row.fate, row.tries), (Fate::Completed, 1), "{instance}");
        assert_eq!(row.values, [(instance / 10 + 1).to_string(), (instance % 10 + 1).to_string()]);
        Ok(InstanceRow {
            instance,
            values: row.values,
            state: row.fate.word().to_owned(),
            how: row.how,
            tries: row.tries,
            server: row.server.map(|server| server.to_string()).unwrap_or_default(),
            elapsed_ms: row.elapsed_ms,
            ..InstanceRow::default()
        })
    });
    told.unwrap();
    let told = began.elapsed() - carried_out - gone_on;
    let peak = peak_kib();
    let [csv, parquet] = ["results.csv", "results.parquet"].map(|name| dir.path().join(name));
    let lines = BufReader::new(fs::File::open(&csv).unwrap()).lines().count();
    assert_eq!(lines, instances as usize + 1, "a line of names, and one of each");
    let mb = |path| fs::metadata(path).unwrap().len() / 1_000_000;
    println!(
        "{instances} instances in {packs} packs: planned and noted in {carried_out:.1?}, read again in {gone_on:.1?}, told in {told:.1?} in \
         tables of {} and {} MB; {} MiB at most for the process, {} MiB of them for this",
        mb(csv),
        mb(parquet),
        peak / 1024,
        (peak - before) / 1024
    );
    assert!(peak - before <= most_kib, "from {before} to {peak} KiB");
}

#[test]
fn twenty_thousand_instances_are_planned_noted_and_told() {
    check(20_000, 32 << 10);
}

#[test]
fn a_million_instances_fit_into_bounded_memory() {
    check(1_000_000, 64 << 10);
}
