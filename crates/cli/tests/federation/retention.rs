//! Jobs that ended longer ago than their records are kept.

use pliant_control::audit::{Actor, AuditAct, AuditRecord};
use pliant_control::job::JobRecord;
use pliant_control::names::Handle;
use pliant_journal::{Archive, AuditRow, Batch, Entry, JobRow, open_sqlite};
use pliant_model::{Span, Time};

use crate::harness::*;

/// Numbers of jobs that ended long ago.
const NUMBERS: [u32; 2] = [300_001, 300_002];

fn handle(number: u32) -> Handle {
    Handle { server: "lyon".parse().unwrap(), number }
}

/// Commits what is made of its archive to the journal of a daemon, which is stopped.
fn add(federation: &mut Federation, daemon: &str, batch: impl FnOnce(&mut dyn Archive) -> Batch) {
    federation.stop(daemon);
    let mut journal = open_sqlite(&federation.folder(daemon).join("state")).unwrap();
    let last = journal.load().unwrap().last_entry;
    let entry = Entry { seq: last + 1, at: now().0, event: "\"due\"".to_owned(), commands: 0 };
    let batch = batch(&mut *journal.archive().unwrap());
    journal.commit(&Batch { entries: vec![entry], ..batch }).unwrap();
}

/// Jobs like the first one of `lyon`, as if they had ended then.
fn aged_jobs(archive: &mut dyn Archive, ended: Time) -> Batch {
    let row = archive.job("lyon", 1).unwrap().unwrap();
    let aged = |number: u32| {
        let mut record: JobRecord = serde_json::from_str(&row.record).unwrap();
        record.handle.number = number;
        let (key, record) = (Some(u128::from(number).to_be_bytes()), serde_json::to_string(&record).unwrap());
        JobRow { number, key, ended: ended.0, record, ..row.clone() }
    };
    Batch { ended: NUMBERS.map(aged).to_vec(), ..Batch::default() }
}

/// The acceptance of a job at that time.
fn accepted(at: Time) -> Batch {
    let record = AuditRecord {
        at,
        by: Actor::User("alice".parse().unwrap()),
        act: AuditAct::Accept,
        job: Some(handle(NUMBERS[0])),
        user: None,
        why: String::new(),
    };
    let row = AuditRow { at: at.0, record: serde_json::to_string(&record).unwrap() };
    Batch { audit: vec![row], ..Batch::default() }
}

/// The audit trail in the journal of a stopped server.
fn audit_trail(federation: &Federation) -> Vec<i64> {
    let journal = open_sqlite(&federation.folder("lyon").join("state")).unwrap();
    let rows = journal.archive().unwrap().audit(0, 1_000).unwrap();
    rows.into_iter().map(|(_, row)| row.at).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_unknown_after_its_lifetime_and_its_number_is_not_given_again() {
    let mut federation = Federation::start(&[Cluster::new("lyon", 2, 1.0)]).await;
    let (alice, user) = (federation.client("alice"), CommandUser::new(&federation, "alice"));
    let ended = now() - Span(400 * 86_400);
    add(&mut federation, "lyon", |_| accepted(ended));
    assert_eq!(audit_trail(&federation), [ended.0]);
    federation.revive("lyon");
    federation.attached(1).await;
    let first = run(&alice, &order(rigid("true", 1, 60))).await.handle;
    until("the agent to know the end", async || {
        alice.find(&first).await.ok().filter(|found| found.record.state.is_final())
    })
    .await;
    for daemon in ["lyon", MASTER] {
        add(&mut federation, daemon, |archive| aged_jobs(archive, ended));
    }
    federation.revive(MASTER);
    federation.revive("lyon");
    federation.attached(1).await;

    let [old, last] = NUMBERS.map(handle);
    let status = format!("status {old}");
    let stderr = until("the record to be deleted", async || {
        let (code, _, stderr) = user.run(&status);
        (code != 0).then_some(stderr)
    })
    .await;
    assert!(stderr.contains(&format!("no job {old} of yours")), "{stderr}");
    // That of the last number stays, as do younger ones.
    for kept in [&last, &first] {
        assert_eq!(alice.job(kept).await.unwrap().handle, *kept);
    }
    assert_eq!(run(&alice, &order(rigid("true", 1, 60))).await.handle.to_string(), "lyon.2");

    // Each daemon has deleted it, and the server the record of its acceptance.
    for daemon in ["lyon", MASTER] {
        federation.stop(daemon);
        let journal = open_sqlite(&federation.folder(daemon).join("state")).unwrap();
        let mut archive = journal.archive().unwrap();
        assert_eq!(archive.job("lyon", old.number).unwrap(), None, "{daemon}");
        assert_eq!(archive.last_number("lyon").unwrap(), Some(last.number), "{daemon}");
    }
    let audit = audit_trail(&federation);
    assert!(!audit.is_empty() && !audit.contains(&ended.0), "{audit:?}");
}
