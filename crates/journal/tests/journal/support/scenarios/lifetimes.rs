//! What is listed until its lifetime is over.

use pliant_journal::{
    AuditRow, Batch, Entry, JOBS_LIMIT, JobRow, Journal, KeepFrom, LocalJobRow, TRIM_LIMIT,
};

use super::super::{Storage, Taken, compact, entries_from, entry_batch, job};

pub(super) fn local_jobs(storage: &dyn Storage) {
    let mut journal = storage.open().unwrap();
    let row = |ended: i64, number: u32| LocalJobRow { ended, record: format!("{{\"number\":{number}}}") };
    let late = Batch { local_jobs: vec![row(30, 1), row(10, 2), row(20, 3)], ..entry_batch(1, 2) };
    journal.commit(&late).unwrap();
    journal.commit(&late).unwrap();
    journal.commit(&Batch { local_jobs: vec![row(20, 4), row(15, 5)], ..entry_batch(3, 3) }).unwrap();
    let mut archive = journal.archive().unwrap();
    let mut read = |since: i64, page: u32| {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let found = archive.local_jobs(since, after, page).unwrap();
            let Some((last, _)) = found.last() else { return all };
            after = Some(*last);
            all.extend(found.into_iter().map(|(_, row)| row));
        }
    };
    let all = [row(10, 2), row(15, 5), row(20, 3), row(20, 4), row(30, 1)];
    for page in 1..7 {
        assert_eq!(read(0, page), all, "{page} at a time");
        assert_eq!(read(20, page), all[2..], "{page} at a time");
    }
    assert!(!journal.trim(&entries_from(20), None).unwrap());
    assert_eq!(read(0, 9), all[2..], "old rows are deleted, without a snapshot too");
    let many = vec![row(10, 6); TRIM_LIMIT as usize + 1];
    journal.commit(&Batch { local_jobs: many, ..entry_batch(4, 4) }).unwrap();
    assert!(journal.trim(&entries_from(20), None).unwrap(), "one is left");
    assert!(!journal.trim(&entries_from(20), None).unwrap());
}

pub(super) fn audit(storage: &dyn Storage) {
    let mut journal = storage.open().unwrap();
    let row = |at: i64, number: u32| AuditRow { at, record: format!("{{\"number\":{number}}}") };
    let first = Batch { audit: vec![row(2, 1), row(1, 2)], ..entry_batch(1, 2) };
    journal.commit(&first).unwrap();
    journal.commit(&first).unwrap();
    journal.commit(&Batch { audit: vec![row(3, 3)], ..entry_batch(3, 3) }).unwrap();
    let all = [row(2, 1), row(1, 2), row(3, 3)];
    let read = |journal: &dyn Journal, page: u32| {
        let (mut archive, mut all, mut after) = (journal.archive().unwrap(), Vec::new(), 0);
        loop {
            let found = archive.audit(after, page).unwrap();
            let Some((last, _)) = found.last() else { return all };
            after = *last;
            all.extend(found.into_iter().map(|(_, row)| row));
        }
    };
    for page in 1..5 {
        assert_eq!(read(&*journal, page), all, "{page} at a time");
    }
    compact(&mut *journal, &Taken { seq: 3, at: 3, state: "{}".to_owned() }, 20).unwrap();
    drop(journal);
    assert_eq!(read(&*storage.open().unwrap(), 9), all, "a snapshot deletes nothing");
}

pub(super) fn retention(storage: &dyn Storage) {
    let jobs_limit = JOBS_LIMIT as u32;
    let mut journal = storage.open().unwrap();
    let keep_from = KeepFrom { entries: i64::MIN, first_entry: 0, jobs: 100, audit: 100 };
    assert!(!journal.trim(&keep_from, None).unwrap(), "there is nothing");
    // One launch, jobs of two servers, and the last one of a server that has been gone for long.
    let launch = JobRow { number: 0, ..job("launch", 0, 1) };
    let north = (1..=jobs_limit + 5).map(|number| job("north", number, 50));
    let recent = [job("north", jobs_limit + 6, 100), job("south", 1, 99), job("south", 2, 100)];
    let gone = job("west", 7, 3);
    let ended: Vec<JobRow> = north.chain(recent.clone()).chain([launch.clone(), gone.clone()]).collect();
    let audit = |at: i64| AuditRow { at, record: "{}".to_owned() };
    let batch = Batch { ended, audit: vec![audit(98), audit(99), audit(100)], ..entry_batch(1, 1) };
    journal.commit(&batch).unwrap();
    assert!(journal.trim(&keep_from, None).unwrap(), "a bounded number at once");
    let mut archive = journal.archive().unwrap();
    assert_eq!(archive.ended().unwrap(), 10);
    assert_eq!(archive.job("launch", 0).unwrap(), None, "the first to end goes first");
    assert!(!journal.trim(&keep_from, None).unwrap());
    let [north, _, south] = recent;
    for kept in [&north, &south, &gone] {
        assert_eq!(archive.job(&kept.server, kept.number).unwrap().as_ref(), Some(kept));
        assert_eq!(archive.last_number(&kept.server).unwrap(), Some(kept.number));
    }
    assert_eq!(archive.jobs_later_than("south", 0, 9).unwrap(), std::slice::from_ref(&south));
    assert_eq!(archive.jobs_later_than("south", 2, 9).unwrap(), []);
    assert_eq!(archive.ended().unwrap(), 3);
    assert_eq!(archive.job_by_key(&job("south", 1, 99).key.unwrap()).unwrap(), None);
    assert_eq!(archive.audit(0, 9).unwrap(), [(3, audit(100))]);
    // However old they are: the last numbers are given to nothing else.
    let all = KeepFrom { entries: i64::MAX, first_entry: 0, jobs: i64::MAX, audit: i64::MAX };
    assert!(!journal.trim(&all, None).unwrap());
    assert_eq!((archive.ended().unwrap(), archive.entries(0, 9).unwrap().len()), (3, 1));
    journal.commit(&Batch { audit: vec![audit(200)], ..entry_batch(2, 2) }).unwrap();
    assert_eq!(
        archive.audit(3, 9).unwrap(),
        [(4, audit(200))],
        "a reader that has seen three misses nothing"
    );
}

pub(super) fn history(storage: &dyn Storage) {
    let mut journal = storage.open().unwrap();
    assert_eq!(journal.load().unwrap().history, []);
    // Neighbours have the same length, so samples give the exact sum.
    let length = |seq: u64| if seq <= 1_000 { 100 } else { 900 };
    let entries = (1..=2_000).map(|seq| Entry { seq, at: 50, event: "x".repeat(length(seq)), commands: 0 });
    journal.commit(&Batch { entries: entries.collect(), ..Batch::default() }).unwrap();
    let history = journal.load().unwrap().history;
    let bytes: u64 = history.iter().map(|part| part.bytes).sum();
    assert!((990_000..=1_010_000).contains(&bytes), "{bytes}");
    assert!(history.is_sorted_by_key(|part| part.first) && history[0].first == 1 && history.len() <= 64);
    // All are young. The last snapshot has those up to 1,500.
    let keep_from = |first_entry| KeepFrom { first_entry, ..entries_from(0) };
    assert!(!journal.trim(&keep_from(500), None).unwrap());
    assert_eq!(journal.archive().unwrap().entries(0, 1).unwrap()[0].seq, 1, "nothing is in a snapshot");
    compact(&mut *journal, &Taken { seq: 1_500, at: 50, state: "{}".to_owned() }, 0).unwrap();
    for (first_kept, first_left) in [(0, 1), (500, 500), (400, 500), (1_501, 1_501), (1_900, 1_501)] {
        assert!(!journal.trim(&keep_from(first_kept), None).unwrap());
        let first = journal.archive().unwrap().entries(0, 1).unwrap()[0].seq;
        assert_eq!(first, first_left, "after {first_kept}");
    }
    assert_eq!(journal.load().unwrap().history[0].first, 1_501);
}
