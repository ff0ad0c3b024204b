//! What both journals must do.

use pliant_journal::{Batch, DROPPED_AT_ONCE, Filter, JobRow, JournalError, Loaded, LocalRow, Snapshot};

use super::{Place, entries, entry, job, notices, told};

/// What a journal must do, on a new place.
pub(crate) type Scenario = fn(&dyn Place);

/// All of them, with what each shows.
pub(crate) const ALL: &[(&str, Scenario)] = &[
    ("what is committed is there after reopening", round_trip),
    ("it stays the journal of whoever claims it first", owner),
    ("a batch that does not follow is refused, and harms nothing", order),
    ("a batch counts once", once),
    ("the last row of a job counts", upsert),
    ("news stay until they are acknowledged", outbox),
    ("old entries are dropped a bounded number at a time", compaction),
    ("nothing is dropped that is not in a snapshot, or not old", compaction_keeps),
    ("whatever is missing is noticed", gaps),
    ("jobs are listed by every filter, the last to end first", listing),
    ("estimates are compared with what happened", accuracy),
    ("runs of local users' jobs are read in order of their ends, until they are old", locals),
    ("a reader sees what was just committed", beside),
];

fn round_trip(place: &dyn Place) {
    let mut journal = place.open().unwrap();
    let id = journal.id();
    assert_eq!(journal.load().unwrap(), Loaded { next_notice: 1, ..Loaded::default() });
    let first = Batch {
        entries: entries(1, 3),
        notices: notices(1, 2),
        ended: vec![job("north", 7, 1000), JobRow { key: None, ..job("south", 7, 1001) }],
        ..Batch::default()
    };
    journal.commit(&first).unwrap();
    journal.commit(&told(4, 5)).unwrap();
    let expected = Loaded { snapshot: None, entries: entries(1, 5), notices: vec![1, 2], next_notice: 3 };
    assert_eq!(journal.load().unwrap(), expected);
    drop(journal);
    let mut journal = place.open().unwrap();
    assert_eq!(journal.id(), id);
    assert_eq!(journal.load().unwrap(), expected);
    journal.commit(&told(6, 6)).unwrap();
    assert_eq!(journal.load().unwrap().entries, entries(1, 6));
    let mut archive = journal.archive().unwrap();
    assert_eq!(archive.job("north", 7).unwrap(), Some(first.ended[0].clone()));
    assert_eq!(archive.job("south", 7).unwrap(), Some(first.ended[1].clone()));
    assert_eq!(archive.job("north", 8).unwrap(), None);
    assert_eq!(archive.job_by_key(&first.ended[0].key.unwrap()).unwrap(), Some(first.ended[0].clone()));
    assert_eq!(archive.job_by_key(&[9; 16]).unwrap(), None);
    assert_eq!(archive.ended().unwrap(), 2);
    assert_eq!(archive.entries(2, 3).unwrap(), entries(2, 4));
}

fn owner(place: &dyn Place) {
    let mut journal = place.open().unwrap();
    journal.claim("server lyon").unwrap();
    drop(journal);
    let mut journal = place.open().unwrap();
    journal.claim("server lyon").unwrap();
    let error = journal.claim("agent lyon").unwrap_err();
    assert!(
        error.to_string().ends_with("expected the journal of agent lyon, found that of server lyon"),
        "{error}"
    );
    assert!(!error.may_pass() && error.hint().is_some());
    journal.commit(&told(1, 1)).unwrap();
    journal.claim("server lyon").unwrap();
}

fn order(place: &dyn Place) {
    let mut journal = place.open().unwrap();
    journal.commit(&Batch { notices: notices(1, 1), ..told(1, 3) }).unwrap();
    let late = vec![entry(4), entry(6)];
    let refused = [
        (told(5, 6), "expected entry 4 next, found 5"),
        (told(3, 4), "expected entry 4 next, found 3"),
        (Batch { entries: late, ..Batch::default() }, "expected entry 5 next, found 6"),
        (Batch { notices: notices(3, 3), ..told(4, 4) }, "expected news 2 next, found 3"),
    ];
    for (batch, why) in refused {
        let error = journal.commit(&batch).unwrap_err();
        assert!(matches!(error, JournalError::Order { .. }), "{error:?}");
        assert!(!error.may_pass());
        assert_eq!(error.to_string(), format!("cannot be journaled: {why}"));
    }
    let ahead = Snapshot { seq: 4, at: 4, state: "{}".to_owned() };
    assert!(matches!(journal.compact(&ahead, 0), Err(JournalError::Order { .. })));
    journal.commit(&told(4, 4)).unwrap();
    let loaded = journal.load().unwrap();
    assert_eq!((loaded.entries, loaded.notices, loaded.snapshot), (entries(1, 4), vec![1], None));
}

fn once(place: &dyn Place) {
    let mut journal = place.open().unwrap();
    let batch = Batch { notices: notices(1, 2), ended: vec![job("north", 1, 10)], ..told(1, 3) };
    journal.commit(&batch).unwrap();
    journal.commit(&Batch { notices_acknowledged: Some(2), ..Batch::default() }).unwrap();
    journal.commit(&batch).unwrap();
    let loaded = journal.load().unwrap();
    assert_eq!((loaded.entries, loaded.notices, loaded.next_notice), (entries(1, 3), vec![], 3));
    let mut other = batch.clone();
    other.entries[2].event = "another".to_owned();
    assert!(matches!(journal.commit(&other), Err(JournalError::Order { .. })));
    assert_eq!(journal.load().unwrap().entries, entries(1, 3));
    assert_eq!(journal.archive().unwrap().ended().unwrap(), 1);
}

fn upsert(place: &dyn Place) {
    let mut journal = place.open().unwrap();
    let failed = JobRow { state: "failed".to_owned(), key: Some([5; 16]), ..job("north", 1, 20) };
    journal
        .commit(&Batch { ended: vec![job("north", 1, 10), job("north", 2, 10)], ..Batch::default() })
        .unwrap();
    let again = vec![job("north", 1, 15), failed.clone(), job("north", 2, 10)];
    journal.commit(&Batch { ended: again, ..Batch::default() }).unwrap();
    let mut archive = journal.archive().unwrap();
    assert_eq!(archive.ended().unwrap(), 2);
    assert_eq!(archive.job("north", 1).unwrap(), Some(failed.clone()));
    assert_eq!(archive.job_by_key(&[5; 16]).unwrap(), Some(failed));
    assert_eq!(archive.job_by_key(&job("north", 1, 10).key.unwrap()).unwrap(), None);
    // A job that was moved has a row at each server.
    let moved = JobRow { key: Some([5; 16]), ..job("south", 4, 30) };
    journal.commit(&Batch { ended: vec![moved.clone()], ..Batch::default() }).unwrap();
    assert_eq!(archive.job_by_key(&[5; 16]).unwrap(), Some(moved));
}

fn outbox(place: &dyn Place) {
    let mut journal = place.open().unwrap();
    journal.commit(&Batch { notices: notices(1, 4), ..told(1, 1) }).unwrap();
    journal.commit(&Batch { notices_acknowledged: Some(2), ..Batch::default() }).unwrap();
    assert_eq!(journal.load().unwrap().notices, [3, 4]);
    let mut archive = journal.archive().unwrap();
    assert_eq!(archive.notices(0, 9).unwrap(), notices(3, 4));
    assert_eq!(archive.notices(3, 9).unwrap(), notices(4, 4));
    assert_eq!(archive.notices(0, 1).unwrap(), notices(3, 3));
    // An acknowledgement that comes late, and one with news of its own.
    journal.commit(&Batch { notices_acknowledged: Some(1), ..Batch::default() }).unwrap();
    let both = Batch { notices: notices(5, 6), notices_acknowledged: Some(5), ..told(2, 2) };
    journal.commit(&both).unwrap();
    assert_eq!(journal.load().unwrap().notices, [6]);
    journal.commit(&Batch { notices_acknowledged: Some(6), ..Batch::default() }).unwrap();
    drop(journal);
    let loaded = place.open().unwrap().load().unwrap();
    assert_eq!((loaded.notices, loaded.next_notice), (vec![], 7));
}

fn compaction(place: &dyn Place) {
    let mut journal = place.open().unwrap();
    let last = 2 * DROPPED_AT_ONCE + 5000;
    for from in (1..=last).step_by(1000) {
        journal.commit(&told(from, from + 999)).unwrap();
    }
    let mut archive = journal.archive().unwrap();
    let mut first = || archive.entries(0, 1).unwrap()[0].seq;
    let snapshot = Snapshot { seq: last - 1000, at: 0, state: "{}".to_owned() };
    let kept = last - 3000;
    assert!(journal.compact(&snapshot, kept as i64).unwrap(), "there is more");
    assert_eq!(first(), DROPPED_AT_ONCE + 1);
    assert!(journal.trim(kept as i64).unwrap(), "there is more");
    assert_eq!(first(), 2 * DROPPED_AT_ONCE + 1);
    assert!(!journal.trim(kept as i64).unwrap());
    assert_eq!(first(), kept);
    assert!(!journal.trim(kept as i64).unwrap());
    assert_eq!(first(), kept);
    let expected = Loaded {
        snapshot: Some(snapshot),
        entries: entries(last - 999, last),
        notices: Vec::new(),
        next_notice: 1,
    };
    assert_eq!(journal.load().unwrap(), expected);
    assert_eq!(archive.entries(0, u32::MAX).unwrap(), entries(kept, last));
}

fn compaction_keeps(place: &dyn Place) {
    let mut journal = place.open().unwrap();
    assert!(!journal.trim(i64::MAX).unwrap());
    journal.commit(&told(1, 10)).unwrap();
    assert!(!journal.trim(i64::MAX).unwrap());
    let snapshot = |seq, state: &str| Snapshot { seq, at: seq as i64, state: state.to_owned() };
    assert!(!journal.compact(&snapshot(6, "six"), 4).unwrap());
    let mut archive = journal.archive().unwrap();
    assert_eq!(archive.entries(0, 100).unwrap(), entries(4, 10));
    assert!(!journal.compact(&snapshot(8, "eight"), i64::MAX).unwrap());
    assert_eq!(archive.entries(0, 100).unwrap(), entries(9, 10));
    // One that comes too late changes nothing; the same again replaces.
    assert!(!journal.compact(&snapshot(7, "seven"), i64::MAX).unwrap());
    assert!(!journal.compact(&snapshot(8, "again"), i64::MAX).unwrap());
    let loaded = journal.load().unwrap();
    assert_eq!((loaded.snapshot, loaded.entries), (Some(snapshot(8, "again")), entries(9, 10)));
    // Everything may be in the snapshot, and the numbers go on.
    assert!(!journal.compact(&snapshot(10, "ten"), i64::MAX).unwrap());
    drop(journal);
    let mut journal = place.open().unwrap();
    assert_eq!(journal.load().unwrap().entries, []);
    assert!(matches!(journal.commit(&told(1, 1)), Ok(())), "known, though it was dropped");
    journal.commit(&told(11, 12)).unwrap();
    let loaded = journal.load().unwrap();
    assert_eq!((loaded.snapshot, loaded.entries), (Some(snapshot(10, "ten")), entries(11, 12)));
}

fn gaps(place: &dyn Place) {
    let mut journal = place.open().unwrap();
    journal.commit(&Batch { notices: notices(1, 4), notices_acknowledged: Some(1), ..told(1, 9) }).unwrap();
    journal.compact(&Snapshot { seq: 3, at: 3, state: "{}".to_owned() }, i64::MAX).unwrap();
    let whole = journal.load().unwrap();
    drop(journal);
    // After that, this is what is wrong.
    let check = |text: &str, why: &str| {
        place.tamper(text);
        let error = place.open().unwrap().load().unwrap_err();
        assert!(!error.may_pass() && error.hint().is_some(), "{error:?}");
        assert!(error.to_string().ends_with(why), "{text}: {error}");
    };
    let put =
        |seq: u64| format!("INSERT INTO entries (seq, at, event, commands) VALUES ({seq}, {seq}, 'x', 0)");
    check("DELETE FROM entries WHERE seq = 6", "damaged: expected entry 6, found 7");
    let mut archive = place.open().unwrap().archive().unwrap();
    assert!(matches!(archive.entries(0, 100), Err(JournalError::Gap { expected: 6, found: Some(7), .. })));
    drop(archive);
    place.tamper(&put(6));
    check("DELETE FROM entries WHERE seq = 9", "damaged: expected entry 9, found no more");
    place.tamper(&put(9));
    check("DELETE FROM entries WHERE seq = 4", "damaged: expected entry 4, found 5");
    place.tamper(&put(4));
    check(&put(10), "expected entry 9 to be the last, found 10");
    place.tamper("DELETE FROM entries WHERE seq = 10");
    check("DELETE FROM notices WHERE seq = 3", "damaged: expected news 3, found 4");
    let other = "INSERT INTO notices (seq, body) VALUES (3, 'news 3'); DELETE FROM notices WHERE seq = 4";
    check(other, "damaged: expected news 4, found no more");
    place.tamper("INSERT INTO notices (seq, body) VALUES (4, 'news 4')");
    let mended = place.open().unwrap().load().unwrap();
    assert_eq!((mended.notices, mended.entries.len()), (whole.notices, whole.entries.len()));
    check("DELETE FROM snapshots", "damaged: expected entry 1, found 4");
}

fn listing(place: &dyn Place) {
    let mut journal = place.open().unwrap();
    let server = |number: u32| ["north", "South", "Éast"][number as usize / 7 % 3];
    let rows: Vec<JobRow> = (0..240_u32)
        .map(|number| JobRow {
            owner: ["ada", "bob", "eve"][number as usize % 3].to_owned(),
            state: ["completed", "failed", "canceled", "completed"][number as usize / 3 % 4].to_owned(),
            // Some were moved.
            last_server: if number % 5 == 0 { "south-west" } else { server(number) }.to_owned(),
            // Many end in the same second.
            ..job(server(number), number, i64::from(number / 11))
        })
        .collect();
    journal.commit(&Batch { ended: rows.clone(), ..Batch::default() }).unwrap();
    let mut archive = journal.archive().unwrap();
    let name = |name: &str| Some(name.to_owned());
    let state = |states: &[&str]| states.iter().map(|state| (*state).to_owned()).collect::<Vec<_>>();
    let states = [state(&[]), state(&["failed"]), state(&["failed", "canceled", "failed"]), state(&["lost"])];
    for owner in [None, name("ada"), name("nobody")] {
        for server in [None, name("South"), name("Éast"), name("south-west"), name("west")] {
            for states in &states {
                for ended_after in [None, Some(9)] {
                    let filter = Filter {
                        owner: owner.clone(),
                        server: server.clone(),
                        states: states.clone(),
                        ended_after,
                        limit: 13,
                        before: None,
                    };
                    let mut expected: Vec<JobRow> =
                        rows.iter().filter(|row| takes(&filter, row)).cloned().collect();
                    expected
                        .sort_by(|a, b| (b.ended, &b.server, b.number).cmp(&(a.ended, &a.server, a.number)));
                    assert_eq!(pages(&mut *archive, &filter), expected, "{filter:?}");
                }
            }
        }
    }
    assert_eq!(archive.jobs(&Filter::default()).unwrap(), [], "none at most");
}

fn takes(filter: &Filter, row: &JobRow) -> bool {
    filter.owner.as_ref().is_none_or(|owner| *owner == row.owner)
        && filter.server.as_ref().is_none_or(|server| *server == row.last_server)
        && (filter.states.is_empty() || filter.states.contains(&row.state))
        && filter.ended_after.is_none_or(|after| row.ended > after)
}

/// All that a filter takes, a page at a time.
fn pages(archive: &mut dyn pliant_journal::Archive, filter: &Filter) -> Vec<JobRow> {
    let mut filter = filter.clone();
    let mut all: Vec<JobRow> = Vec::new();
    loop {
        let page = archive.jobs(&filter).unwrap();
        assert!(page.len() <= filter.limit as usize);
        let Some(last) = page.last() else { return all };
        filter.before = Some((last.ended, last.server.clone(), last.number));
        all.extend(page);
    }
}

fn accuracy(place: &dyn Place) {
    let mut journal = place.open().unwrap();
    let late = |server: &str, number: u32, start: i64, completion: i64| {
        let row = job(server, number, i64::from(number) * 10);
        JobRow {
            expected_start: row.started.map(|started| started - start),
            expected_completion: Some(row.ended - completion),
            ..row
        }
    };
    let canceled =
        JobRow { started: None, expected_start: None, expected_completion: None, ..job("north", 9, 999) };
    let unpromised = JobRow { expected_completion: None, ..job("south", 8, 998) };
    let ended = vec![
        late("north", 1, 5, 6),
        late("north", 2, -3, 0),
        late("north", 3, 0, -7),
        // Accepted in the north, run in the south.
        JobRow { last_server: "south".to_owned(), ..late("north", 4, 1, 2) },
    ];
    journal.commit(&Batch { ended, ..Batch::default() }).unwrap();
    journal.commit(&Batch { ended: vec![canceled, unpromised], ..Batch::default() }).unwrap();
    let mut archive = journal.archive().unwrap();
    let error = |server: &str, start, completion| (server.to_owned(), start, completion);
    let two = [error("north", 0, -7), error("north", -3, 0)];
    assert_eq!(archive.accuracy(Some("north"), 2).unwrap(), two);
    assert_eq!(archive.accuracy(None, 2).unwrap(), [&two[..], &[error("south", 1, 2)]].concat());
    assert_eq!(archive.accuracy(Some("west"), 2).unwrap(), []);
}

fn locals(place: &dyn Place) {
    let mut journal = place.open().unwrap();
    let row = |ended: i64, number: u32| LocalRow { ended, record: format!("{{\"number\":{number}}}") };
    let late = Batch { locals: vec![row(30, 1), row(10, 2), row(20, 3)], ..told(1, 2) };
    journal.commit(&late).unwrap();
    journal.commit(&late).unwrap();
    journal.commit(&Batch { locals: vec![row(20, 4), row(15, 5)], ..told(3, 3) }).unwrap();
    let mut archive = journal.archive().unwrap();
    let mut read = |since: i64, page: u32| {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let found = archive.locals(since, after, page).unwrap();
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
    journal.compact(&Snapshot { seq: 3, at: 3, state: "{}".to_owned() }, 20).unwrap();
    assert_eq!(read(0, 9), all[2..], "what is old is gone");
}

fn beside(place: &dyn Place) {
    let mut journal = place.open().unwrap();
    let mut archive = journal.archive().unwrap();
    let (ask, asked) = std::sync::mpsc::channel::<u32>();
    let (tell, told_) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        for number in asked {
            tell.send((archive.job("north", number).unwrap(), archive.ended().unwrap())).unwrap();
        }
    });
    for number in 1..=50 {
        let row = job("north", number, i64::from(number));
        journal
            .commit(&Batch { ended: vec![row.clone()], ..told(u64::from(number), u64::from(number)) })
            .unwrap();
        ask.send(number).unwrap();
        assert_eq!(told_.recv().unwrap(), (Some(row), u64::from(number)));
    }
    drop(ask);
    reader.join().unwrap();
}
