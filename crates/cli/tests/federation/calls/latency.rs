//! How long a call of a resident process takes, and how many there are in a second. To be run by hand, with a release build:
//! `cargo test --release -p pliant --test federation -- --ignored --nocapture calls_in_a_second`.

use std::time::{Duration, Instant};

use pliant_calls::{Array, Value};
use pliant_client::calls::CallOrder;

use super::{compiled, completed, int};
use crate::harness::*;

const SERIAL: usize = 500;
const CALLS: usize = 3_000;
const AT_A_TIME: usize = 32;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn calls_in_a_second() {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(
        &super::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/resident-service/product.c"),
        folder.path(),
    );
    let cluster = Cluster::new("lyon", 64, 1.0);
    let tables = format!(
        "[limits]\nrequests_per_second = 100000.0\nburst = 1000000\n[[service]]\nname = \"product\"\nresident = true\nspeedup = \"rigid:1\"\nruntime = \"1s\"\n\
         signature = [\"in int n\", \"in double a[n][n]\", \"in double b[n][n]\", \"out double c[n][n]\"]\ncommand = [\"{}\"]\n{}",
        program.display(),
        cluster.tables
    );
    let federation = Federation::start(&[Cluster { tables, ..cluster }]).await;
    let client = federation.client("alice");
    let service = client.typed_service("product", None).await.unwrap();
    let matrix =
        Some(Value::Matrix { rows: 2, columns: 2, elements: Array::Double(vec![1.0, 2.0, 3.0, 4.0]) });
    let order = CallOrder::new(service, vec![int(2), matrix.clone(), matrix, None]);
    completed(&client, &order).await;
    for server in [None, Some("lyon".parse().unwrap())] {
        let order = CallOrder { server, ..order.clone() };
        let mut took: Vec<Duration> = Vec::new();
        for _ in 0..SERIAL {
            let begun = Instant::now();
            completed(&client, &order).await;
            took.push(begun.elapsed());
        }
        took.sort();
        println!(
            "at {:?}: p50 {:?}, p95 {:?}, p99 {:?}",
            order.server,
            took[SERIAL / 2],
            took[SERIAL * 95 / 100],
            took[SERIAL * 99 / 100]
        );
    }
    let begun = Instant::now();
    let mut under_way = tokio::task::JoinSet::new();
    for call in 0..CALLS {
        while under_way.len() >= AT_A_TIME {
            under_way.join_next().await.unwrap().unwrap();
        }
        let (client, order) = (client.clone(), order.clone());
        let _ = call;
        under_way.spawn(async move { drop(completed(&client, &order).await) });
    }
    while let Some(done) = under_way.join_next().await {
        done.unwrap();
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!("{CALLS} calls, {AT_A_TIME} at a time: {:.0} a second", CALLS as f64 / seconds);
    drop(federation);
}
