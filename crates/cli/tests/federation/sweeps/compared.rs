//! What statistics are worth: the same sweep, allocated by them and at random, on embedded servers and real Slurm clusters of
//! which some are busy. Both are allocated once, so that it is the allocation that is compared: what is allocated anew leaves
//! the busy servers also if it went there at random.

use std::collections::BTreeMap;
use std::fs;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use pliant_wire::ProspectsQuery;

use super::{CommandUser, INSTANCES, runs, shell};
use crate::harness::{Cluster, SERVICES, order_to, rigid, run, service, submit, until, waiting_for};
use crate::slurm::Behind;

/// Beside `lyon` and `paris`, which are Slurm's.
const EMBEDDED: [&str; 3] = ["metz", "nancy", "rennes"];
/// All of their processors are taken.
const BUSY: [&str; 2] = ["nancy", "paris"];
const PROCS: u32 = 4;
/// For how long they are, from the beginning of each sweep: many times what the others need for all of it.
const BUSY_FOR: Duration = Duration::from_secs(120);
/// For how many minutes they may be, which is what servers know of it.
const BUSY_MIN: u32 = 5;

#[tokio::test(flavor = "multi_thread")]
async fn statistics_beat_random_allocation_on_embedded_and_slurm_clusters() {
    let Some(mut behind) = Behind::without_servers(1, PROCS) else { return };
    let lines = behind.federation.path().join("lines");
    let step = shell("step", &format!("sleep 0.03; echo $PLIANT_INSTANCE >> {}", lines.display()));
    let tables = SERVICES.to_owned() + &step;
    for name in ["lyon", "paris"] {
        let (slurm, batch_keys) = (Some(behind.slurm(name).conf.clone()), "period_s = 1\n");
        let cluster = Cluster { slurm, batch_keys, tables: tables.clone(), ..Cluster::new(name, 0, 1.0) };
        behind.federation.add_server(&cluster);
    }
    for name in EMBEDDED {
        behind.federation.add_server(&Cluster { tables: tables.clone(), ..Cluster::new(name, PROCS, 1.0) });
    }
    behind.federation.sized(5).await;
    let alice = CommandUser::new(&behind.federation, "alice");

    // The source of the statistics: one server has run the service, and the agent notifies the others.
    let client = behind.federation.client("alice");
    for _ in 0..3 {
        run(&client, &order_to("metz", service("step", &[("x", "1")]))).await;
    }
    until("the agent to know of them", async || {
        let expected = client.expectation("step").await.ok()??;
        (expected.jobs == 3).then_some(())
    })
    .await;
    fs::remove_file(&lines).unwrap();

    let mut sweep = Comparison { behind, alice, lines };
    let (statistics, of_busy) = sweep.run("statistics").await;
    assert_eq!(of_busy, 0, "the others have done it all long before");
    let (random, of_busy) = sweep.run("random").await;
    // Two servers of five: the standard deviation is 22.
    assert!((600..=1_000).contains(&of_busy), "{of_busy}");
    println!("statistics {statistics:.1?}, random {random:.1?}");
    assert!(statistics < BUSY_FOR && BUSY_FOR < random, "{statistics:?} and {random:?}");
    let log = sweep.behind.federation.log("lyon");
    let is_task = |line: &&str| line.contains("queued") && line.contains('_');
    assert!(log.lines().any(|line| is_task(&line)), "batches that come together are the tasks of an array");
}

struct Comparison {
    behind: Behind,
    alice: CommandUser,
    /// Where instances note that they ran.
    lines: std::path::PathBuf,
}

impl Comparison {
    /// How long a sweep takes that is allocated so, and how many instances the busy servers run. It is noted in a folder of
    /// the strategy's name.
    async fn run(&mut self, strategy: &str) -> (Duration, u32) {
        self.keep_busy().await;
        let (gates, begun) = (BUSY.map(|name| self.behind.gate(name)), Instant::now());
        let options = format!("--allocate {strategy} --allocate-once --out {strategy}");
        let client = self.alice.begin(&format!("sweep step --vary x=1..{INSTANCES} {options}"));
        let (over, is_over) = mpsc::channel::<()>();
        let opener = thread::spawn({
            let gates = gates.clone();
            move || {
                // After that time, or when the sweep is over.
                let _ = is_over.recv_timeout(BUSY_FOR.saturating_sub(begun.elapsed()));
                gates.iter().for_each(|gate| fs::write(gate, "").unwrap());
            }
        });
        let ran = || fs::read(&self.lines).unwrap_or_default().iter().filter(|byte| **byte == b'\n').count();
        until("half of them to run", async || (ran() >= INSTANCES as usize / 2).then_some(())).await;
        // In front of Slurm, and with an embedded batch system.
        for victim in ["lyon", "rennes"] {
            self.behind.federation.kill(victim);
            self.behind.federation.revive(victim);
        }
        let output = client.wait_with_output().unwrap();
        let makespan = begun.elapsed();
        assert!(output.status.success(), "{strategy}: {}", String::from_utf8_lossy(&output.stderr));
        drop(over);
        opener.join().unwrap();
        let of_busy = self.check(strategy);
        self.behind.federation.attached(5).await;
        self.all_have(|jobs, _| jobs == 0).await;
        gates.iter().for_each(|gate| fs::remove_file(gate).unwrap());
        (makespan, of_busy)
    }

    /// Each instance ran once and is reported; returns how many ran on busy servers.
    fn check(&self, out: &str) -> u32 {
        let ran = runs(&self.lines);
        assert_eq!(ran.len(), INSTANCES as usize, "{out}");
        assert!(ran.values().all(|times| *times == 1), "{out}: {ran:?}");
        fs::remove_file(&self.lines).unwrap();
        let mut shares: BTreeMap<String, u32> = BTreeMap::new();
        for row in self.alice.rows(out) {
            assert_eq!((row["state"].as_str(), row["tries"].as_str()), ("completed", "1"), "{row:?}");
            *shares.entry(row["server"].clone()).or_default() += 1;
        }
        assert_eq!(shares.values().sum::<u32>(), INSTANCES);
        println!("{out}: {shares:?}");
        BUSY.iter().filter_map(|name| shares.get(*name)).sum()
    }

    /// Takes the busy servers' processors until their gates are open: as another user, and as a local one.
    async fn keep_busy(&self) {
        let bob = self.behind.federation.client("bob");
        for _ in 0..PROCS {
            let line = waiting_for(&self.behind.gate("nancy"));
            submit(&bob, &order_to("nancy", rigid(&line, 1, i64::from(BUSY_MIN) * 60))).await;
        }
        self.behind.take("paris", PROCS, BUSY_MIN);
        self.all_have(|jobs, is_busy| if is_busy { jobs > 0 } else { jobs == 0 }).await;
    }

    /// Waits until each server has as many jobs as it should, being one of the busy ones or not.
    async fn all_have(&self, is_so: impl Fn(u32, bool) -> bool) {
        let client = self.behind.federation.client("alice");
        let query = ProspectsQuery {
            varied: Vec::new(),
            others: Vec::new(),
            executable: "step".into(),
            arguments: [("x".to_owned(), "1".to_owned())].into(),
            without: Vec::new(),
            elsewhere: None,
        };
        until("all servers to be as busy as they should", async || {
            for server in client.servers().await.ok()?.servers {
                let info = server.info;
                let prospects = client.prospects(&info.name, &info.address, &query).await.ok()?.ok()?;
                if !is_so(prospects.jobs, BUSY.contains(&info.name.as_str())) {
                    return None;
                }
            }
            Some(())
        })
        .await;
    }
}
