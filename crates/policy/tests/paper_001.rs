//! Golden tests G001-1 to G001-5 (paper 001), on sixteen jobs of the NASA log. `pliant-sim` has them on
//! all of it.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod driver;

use driver::{Ran, TestJob, Ties, replay};
use insta::assert_snapshot;
use pliant_model::{JobId, Procs, Request, Span, Speed, Speedup, Time};
use pliant_testing::claims::{figure, holds};

const PROCS: u32 = 128;

/// (submit, processors, runtime) of jobs 6951 and 6959 to 6973, times less 3,000,000.
const FIXTURE: [(i64, u32, i64); 16] = [
    (9011, 32, 3274),
    (9984, 32, 471),
    (10043, 4, 412),
    (10162, 32, 24724),
    (10217, 4, 58929),
    (10264, 32, 24626),
    (10320, 4, 58813),
    (10376, 32, 25761),
    (10441, 4, 25698),
    (11133, 32, 333),
    (11191, 4, 274),
    (11494, 32, 333),
    (11553, 4, 273),
    (11837, 32, 324),
    (11892, 4, 269),
    (34897, 64, 9357),
];

fn fixture(policy: &str) -> Vec<Ran> {
    let job = |(submit, procs, runtime)| TestJob { submit, procs, walltime: runtime, runtime, cancel: None };
    replay(policy, PROCS, &FIXTURE.map(job), Ties::FinishFirst).into_iter().map(Option::unwrap).collect()
}

/// What several policies make of the fixture, which is the same; `gain` is by how much a job finishes before its
/// FIFO time, if it does.
fn schedule(policies: &[&str]) -> String {
    let ran = fixture(policies[0]);
    for policy in policies {
        assert_eq!(fixture(policy), ran, "{policy} differs from {}", policies[0]);
    }
    let mut text = String::from("submit asked start   end procs  gain\n");
    let (mut count, mut sum) = (0, 0);
    for ((submit, asked, _), (fifo, ran)) in FIXTURE.iter().zip(fixture("fcfs").iter().zip(&ran)) {
        let Ran { start, end, procs } = ran;
        text += &format!("{submit:6} {asked:5} {start:5} {end:5} {procs:5}");
        let gain = fifo.end - end;
        if gain > 0 {
            text += &format!(" {gain:5}");
            (count, sum) = (count + 1, sum + gain);
        }
        text.push('\n');
    }
    text + &format!("{count} jobs gain {sum} s")
}

#[test]
fn g001_1_fold_table() {
    let (procs, walltime) = (Procs(6), Span(10));
    let speedup = Speedup::Folding;
    let request = Request::new(JobId(0), Time(0), procs, walltime, speedup);
    let walltimes = request.on(Procs(PROCS), Speed::REFERENCE).unwrap();
    let runtimes = (1..=6).map(|n| walltimes.at(Procs(n)).0);
    assert!(runtimes.clone().eq([60, 30, 20, 20, 20, 10]));
    let surfaces: Vec<i64> = (1..).zip(runtimes).map(|(n, runtime)| n * runtime).collect();
    assert_eq!(surfaces, [60, 60, 60, 80, 100, 60]);
    holds("C001-1", "60 / 30 / 20 / 20 / 20 / 10");
    // Five is no divisor of six.
    let taken = surfaces[4] as f64 / surfaces[5] as f64;
    figure("C001-16", "processor time on 5 processors over that on 6", taken, 1.66..=1.67);
}

#[test]
fn g001_2_fifo() {
    assert_snapshot!(schedule(&["fcfs"]), @r"
    submit asked start   end procs  gain
      9011    32  9011 12285    32
      9984    32  9984 10455    32
     10043     4 10043 10455     4
     10162    32 10162 34886    32
     10217     4 10217 69146     4
     10264    32 10455 35081    32
     10320     4 10455 69268     4
     10376    32 12285 38046    32
     10441     4 12285 37983     4
     11133    32 34886 35219    32
     11191     4 34886 35160     4
     11494    32 35081 35414    32
     11553     4 35081 35354     4
     11837    32 35219 35543    32
     11892     4 35219 35488     4
     34897    64 35543 44900    64
    0 jobs gain 0 s
    ");
}

#[test]
fn g001_3_h1_and_h2() {
    assert_snapshot!(schedule(&["h1", "h1-completion", "h2"]), @r"
    submit asked start   end procs  gain
      9011    32  9011 12285    32
      9984    32  9984 10455    32
     10043     4 10043 10455     4
     10162    32 10162 34886    32
     10217     4 10217 69146     4
     10264    32 10455 35081    32
     10320     4 10455 69268     4
     10376    32 12285 38046    32
     10441     4 12285 37983     4
     11133    32 12285 12951    16 22268
     11191     4 12285 12559     4 22601
     11494    32 12951 13617    16 21797
     11553     4 12951 13224     4 22130
     11837    32 13617 14265    16 21278
     11892     4 13617 13886     4 21602
     34897    64 35081 44438    64   462
    7 jobs gain 132138 s
    ");
    holds("C001-4", "sixteen jobs, h1: 7 jobs");
    holds("C001-5", "sixteen jobs, h1: 132,138 s");
    holds("C001-6", "sixteen jobs, h2: 7 jobs gain 132,138 s");
}

#[test]
fn g001_4_backfill() {
    assert_snapshot!(schedule(&["backfill"]), @r"
    submit asked start   end procs  gain
      9011    32  9011 12285    32
      9984    32  9984 10455    32
     10043     4 10043 10455     4
     10162    32 10162 34886    32
     10217     4 10217 69146     4
     10264    32 10455 35081    32
     10320     4 10455 69268     4
     10376    32 12285 38046    32
     10441     4 10455 36153     4  1830
     11133    32 34886 35219    32
     11191     4 12285 12559     4 22601
     11494    32 35081 35414    32
     11553     4 12285 12558     4 22796
     11837    32 35219 35543    32
     11892     4 12285 12554     4 22934
     34897    64 35543 44900    64
    4 jobs gain 70161 s
    ");
    holds("C001-7", "sixteen jobs, backfill: 4 jobs gain 70,161 s");
}

#[test]
fn g001_4_backfill_on_arrivals_too() {
    assert_snapshot!(schedule(&["easy"]), @r"
    submit asked start   end procs  gain
      9011    32  9011 12285    32
      9984    32  9984 10455    32
     10043     4 10043 10455     4
     10162    32 10162 34886    32
     10217     4 10217 69146     4
     10264    32 10455 35081    32
     10320     4 10320 69133     4   135
     10376    32 12285 38046    32
     10441     4 10441 36139     4  1844
     11133    32 34886 35219    32
     11191     4 11191 11465     4 23695
     11494    32 35081 35414    32
     11553     4 11553 11826     4 23528
     11837    32 35219 35543    32
     11892     4 11892 12161     4 23327
     34897    64 35543 44900    64
    5 jobs gain 72529 s
    ");
}

#[test]
fn g001_5_h1_backfill() {
    assert_snapshot!(schedule(&["h3", "h3-head"]), @r"
    submit asked start   end procs  gain
      9011    32  9011 12285    32
      9984    32  9984 10455    32
     10043     4 10043 10455     4
     10162    32 10162 34886    32
     10217     4 10217 69146     4
     10264    32 10455 35081    32
     10320     4 10455 69268     4
     10376    32 12285 38046    32
     10441     4 10455 36153     4  1830
     11133    32 12285 12951    16 22268
     11191     4 12285 12559     4 22601
     11494    32 12951 13617    16 21797
     11553     4 12559 12832     4 22522
     11837    32 13617 14265    16 21278
     11892     4 12832 13101     4 22387
     34897    64 35081 44438    64   462
    8 jobs gain 135145 s
    ");
    holds("C001-8", "sixteen jobs, h3: 8 jobs gain 135,145 s");
    let makespans: Vec<i64> = ["fcfs", "h1", "h2", "backfill", "h3"]
        .iter()
        .map(|policy| fixture(policy).iter().map(|ran| ran.end).max().unwrap())
        .collect();
    assert_eq!(makespans, [69_268; 5]);
    holds("C001-2", "sixteen jobs: 69,268 s under fcfs, h1, h2, backfill and h3");
}
