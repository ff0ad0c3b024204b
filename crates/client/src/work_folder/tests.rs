//! Folders of work, by work that only counts.

use super::*;

/// Counts to a number, a step a line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Count {
    pub(crate) to: u32,
}

impl Work for Count {
    type Entry = u32;
    type State = Vec<u32>;
    type Command = u32;
    const KIND: &'static str = "a count";
    const SCHEMA: &'static str = "pliant.count/2";
    const HEADER: &'static str = "count.json";
    const FOREIGN: &'static [&'static str] = &["results.csv"];

    fn problem(&self) -> Option<String> {
        (self.to == 0).then(|| "expected a number above 0".to_owned())
    }

    fn problem_of(&self, entry: &u32) -> Option<String> {
        (*entry > self.to).then(|| format!("expected {} at most, found {entry}", self.to))
    }

    fn start(&self) -> Vec<u32> {
        Vec::new()
    }

    fn apply(state: &mut Vec<u32>, entry: u32, commands: &mut Vec<u32>) {
        assert!(commands.is_empty(), "an earlier client carried out earlier commands");
        state.push(entry);
        commands.push(entry);
    }
}

fn open(dir: &Path) -> WorkFolder<Count> {
    WorkFolder::open(dir).unwrap()
}

fn lines(folder: &mut WorkFolder<Count>) -> Vec<(u64, u32)> {
    let mut found = Vec::new();
    folder.replay(&Count { to: 9 }, |offset, entry| found.push((offset, entry))).unwrap();
    found
}

#[test]
fn an_incomplete_last_line_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let mut folder = open(dir.path());
    assert!(matches!(WorkFolder::<Count>::open(dir.path()), Err(FolderError::InUse { .. })));
    folder.append(&1);
    folder.append(&2);
    folder.flush(true).unwrap();
    folder.journal.set_len(3).unwrap();
    assert_eq!(lines(&mut folder), [(0, 1)]);
    folder.append(&3);
    folder.flush(false).unwrap();
    assert_eq!(lines(&mut folder), [(0, 1), (2, 3)]);
}

#[test]
fn folders_of_other_work_are_refused() {
    let refused = |result: Result<(), FolderError>| result.unwrap_err().to_string();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "a table of mine").unwrap();
    let error = refused(WorkFolder::<Count>::open(&file).map(drop));
    assert!(error.ends_with("expected a folder, found a file"), "{error}");
    assert!(matches!(WorkFolder::<Count>::existing(dir.path()), Err(FolderError::Empty { .. })));
    for other in ["journal.jsonl", "results.csv"] {
        let dir = tempfile::tempdir().unwrap();
        let folder = open(dir.path());
        fs::write(dir.path().join(other), "mine").unwrap();
        let error = refused(folder.begin(&Count { to: 1 }));
        let expected = format!("expected an empty one or one of a count, found {other}");
        assert!(error.ends_with(&expected), "{error}");
        assert_eq!(fs::read(dir.path().join(other)).unwrap(), b"mine");
    }
}

#[test]
fn headers_and_lines_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let mut folder = open(dir.path());
    assert_eq!(folder.header().unwrap(), None);
    folder.begin(&Count { to: 4 }).unwrap();
    assert_eq!(folder.header().unwrap(), Some(Count { to: 4 }));
    let check = |header: &str, expected: &str| {
        fs::write(dir.path().join("count.json"), header).unwrap();
        let error = folder.header().unwrap_err().to_string();
        assert!(error.contains(expected), "{header}: {error}");
    };
    check(r#"{"schema":"pliant.count/3","upto":9}"#, "schema: expected pliant.count/2, found pliant.count/3");
    check(r#"{"schema":"pliant.count/2","to":0}"#, "count.json: is not valid: expected a number above 0");
    check(r#"{"schema":"pliant.count/2"}"#, "missing field `to`");
    folder.append(&4);
    folder.append(&5);
    folder.flush(true).unwrap();
    let error = folder.replay(&Count { to: 4 }, |_, _| {}).unwrap_err().to_string();
    assert!(error.contains("journal.jsonl:2") && error.contains("expected 4 at most, found 5"), "{error}");
}

#[test]
fn removed_work_can_begin_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut folder = open(dir.path());
    folder.begin(&Count { to: 4 }).unwrap();
    folder.append(&1);
    folder.flush(false).unwrap();
    folder.forget().unwrap();
    assert_eq!(folder.header().unwrap(), None);
    folder.begin(&Count { to: 5 }).unwrap();
    assert_eq!(lines(&mut folder), []);
}
