//! The simulator predicts the mean response of a live run from its platform and workload.

use std::time::Duration;

use pliant_control::job::JobState;
use pliant_model::Time;
use pliant_sim::recorded::Recorded;
use pliant_sim::{NoObserver, Policies, simulate};

use crate::harness::*;

/// How far the prediction may be off.
const TOLERANCE: f64 = 0.10;
/// A service that takes as long as its speedup and the cluster's speed say.
const WORK: &str = r#"
[[service]]
name = "work"
summary = "takes `seconds` on one processor of speed 1"
command = ["/bin/sh", "-c", "exec sleep $(awk -v t=\"$1\" -v n=\"$PLIANT_PROCS\" 'BEGIN {{ print t * (0.1 + 0.9 / n) / SPEED }}')", "work", "{seconds}"]
speedup = "amdahl:0.9,4"
runtime = "10s"
runtime_per = { argument = "seconds", exponent = 1.0, at = 10 }

[service.arguments.seconds]
type = "integer"
min = 1
max = 100
"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_simulator_predicts_a_live_run() {
    let clusters = [("lyon", 4, 1.0), ("paris", 2, 1.2), ("rennes", 3, 1.4)];
    let cluster = |(name, procs, speed): (&'static str, u32, f64)| Cluster {
        tables: WORK.replace("SPEED", &speed.to_string()),
        ..Cluster::new(name, procs, speed)
    };
    let federation = Federation::start(&clusters.map(cluster)).await;
    let alice = federation.client("alice");
    let mut accepted = Vec::new();
    // About one and a half times what the clusters can do, so that jobs wait; and long enough for times in whole
    // seconds to be a small part of them.
    for seconds in [12, 27, 18, 9, 24, 30, 15, 21, 27, 12, 18, 24, 9, 30, 21, 15, 27, 18, 12, 24] {
        let seconds = seconds.to_string();
        accepted.push(submit(&alice, &order(service("work", &[("seconds", &seconds)]))).await.handle);
        tokio::time::sleep(Duration::from_millis(750)).await;
    }
    let mut records = Vec::new();
    for handle in &accepted {
        let ended = alice.wait(handle, |_| {}).await.unwrap();
        assert_eq!(ended.state, JobState::Completed);
        records.push(ended);
    }
    let servers = alice.servers().await.unwrap().servers.into_iter().map(|server| server.info).collect();
    let recorded = Recorded::new(servers, records).unwrap();
    assert_eq!(recorded.jobs.len(), accepted.len());
    let run = simulate(&recorded.platform, &recorded.jobs, &Policies::default(), &mut NoObserver).unwrap();
    let responses: i64 = run.jobs.iter().map(|job| (job.end - job.submit).0).sum();
    let (predicted, live) = (responses as f64 / run.jobs.len() as f64, recorded.mean_response_s());
    for (simulated, record) in run.jobs.iter().zip(&recorded.records) {
        let seconds = |time: Option<Time>| time.map_or(-1, |time| (time - recorded.origin).0);
        let (started, ended) = (seconds(record.started), seconds(record.ended));
        let (handle, procs) = (&record.handle, record.procs);
        println!(
            "{handle}: live on {procs} from {started} to {ended}, simulated on {} of cluster {} from {} to {}",
            simulated.procs, simulated.cluster.0, simulated.start, simulated.end
        );
    }
    println!("mean response: predicted {predicted:.2} s, live {live:.2} s");
    assert!((predicted / live - 1.0).abs() <= TOLERANCE, "predicted {predicted:.2} s, live {live:.2} s");
}
