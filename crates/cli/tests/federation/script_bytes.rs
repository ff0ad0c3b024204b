//! Scripts that are not UTF-8 reach their job byte for byte.

use std::fs;

use pliant_control::job::{Exit, JobRecord, Work};
use pliant_control::names::Handle;
use pliant_model::{Procs, Span, Speedup};
use pliant_wire::{MovingChange, Script, SubmittedWork};

use super::moves::{busy, free, open};
use super::slurm::Behind;
use crate::harness::*;

/// A script that writes what follows its last line into the file `unpacked`.
const EXTRACTOR: &[u8] = b"#!/bin/sh\ntail -n +4 \"$0\" > unpacked\nexit 0\n";

/// What a self-extracting script has at its end: each byte many times, in no order that is UTF-8.
fn archive() -> Vec<u8> {
    (0..100_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn self_extracting() -> Vec<u8> {
    [EXTRACTOR, &archive()].concat()
}

/// Whether the job has unpacked the archive.
async fn check_unpacked(federation: &Federation, ended: &JobRecord) {
    assert_eq!(ended.exit, Some(Exit::Code(0)), "{ended:?}");
    let found = fetched(&federation.client("alice"), &ended.handle).await;
    assert!(found["work/unpacked"] == archive(), "{} bytes in place of 100000", found["work/unpacked"].len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_self_extracting_script_is_submitted_explained_handed_over_and_run() {
    let federation = busy().await;
    let (user, operator) = (CommandUser::new(&federation, "alice"), federation.operator());
    fs::write(user.dir().join("setup.run"), self_extracting()).unwrap();
    let (code, said, stderr) = user.run("submit --script setup.run --time 1m");
    assert_eq!(code, 0, "{stderr}");
    let id = said["job_id"].as_str().unwrap();
    let handle: Handle = id.parse().unwrap();
    assert_eq!(handle.server.as_str(), "paris", "paris is expected to be free first");
    for verb in ["status", "explain"] {
        let (code, said, stderr) = user.run(&format!("{verb} {id}"));
        assert!(code == 0 && said.to_string().contains("setup.run"), "{verb}: {said} {stderr}");
    }
    operator.change_moving(&MovingChange::Set(on_demand())).await.unwrap();
    open(&federation, "lyon");
    free(&operator, "lyon").await;
    let report = operator.reallocate(false).await.unwrap();
    assert_eq!(moved(&report), [&handle], "{report:?}");
    let ended = federation.client("alice").wait(&handle, |_| {}).await.unwrap();
    assert_eq!(ended.server().as_str(), "lyon");
    check_unpacked(&federation, &ended).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_that_is_not_utf8_stays_as_it_is() {
    let tables = r#"
[[service]]
name = "odd"
summary = "says something that is not UTF-8"
command = ["printf", 'x\377\n%s', "{x}"]
speedup = "rigid:1"
runtime = "1s"

[service.arguments.x]
type = "integer"
min = 1
max = 9
"#;
    let federation =
        Federation::start(&[Cluster { tables: tables.to_owned(), ..Cluster::new("lyon", 1, 1.0) }]).await;
    let user = CommandUser::new(&federation, "alice");
    let alice = federation.client("alice");
    let ended = run(&alice, &order(rigid("printf 'caf\\351'; printf 'caf\\303\\251' >&2", 1, 60))).await;
    let text = |options: &str| user.run(&format!("logs {}{options}", ended.handle)).1["text"].clone();
    assert_eq!(
        [text(""), text(" --stderr")],
        [serde_json::json!({ "base64": "Y2Fm6Q==" }), "caf\u{e9}".into()]
    );

    let (code, _, stderr) = user.run("sweep odd --vary x=1 --out swept");
    assert_eq!(code, 0, "{stderr}");
    let table = fs::read(user.dir().join("swept/results.csv")).unwrap();
    assert!(table.windows(3).any(|bytes| bytes == b"x\xff\n"), "{}", table.escape_ascii());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_self_extracting_script_runs_in_slurm() {
    let Some(behind) = Behind::start(1, 2).await else { return };
    let work = Work::new(Procs(1), Span(60), Speedup::Rigid);
    let script = SubmittedWork::Script(Script::new("setup.run".to_owned(), self_extracting().into(), work));
    let ended = run(&behind.federation.client("alice"), &order(script)).await;
    check_unpacked(&behind.federation, &ended).await;
}
