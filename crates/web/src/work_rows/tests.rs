//! Rows and points of a sweep in a folder, as a command has written it.

use std::path::Path;

use super::*;

/// A folder with a sweep of six instances: the values of `x`, and what each wrote.
fn sweep(dir: &Path) -> WorkView {
    let header = r#"{"schema":"pliant.sweep/1","key":"00112233445566778899aabbccddeeff","user":"alice","service":"square",
        "parameters":{"fixed":{},"varied":[RANGE]},"inputs":[],
        "plan":{"instances":6,"retries":0,"strategy":"statistics","batch_most":10,"once":false},"seed":1}"#;
    let range = serde_json::to_string(&"x=10,9,<b>,2,1,0".parse::<pliant_client::ParameterRange>().unwrap());
    std::fs::write(dir.join("sweep.json"), header.replace("RANGE", &range.unwrap())).unwrap();
    let ended = |instance: u32, code: i32, ms: u32, output: &str| {
        let output = serde_json::to_string(output).unwrap();
        format!(
            r#"{{"ended":{{"batch":0,"end":{{"instance":{instance},"outcome":{{"exit_code":{code}}},"elapsed_ms":{ms},"output":{output}}}}}}}"#
        )
    };
    let lines = [
        r#"{"submitted":{"batch":0,"server":"lyon","instances":[[0,4]]}}"#.to_owned(),
        r#"{"accepted":{"batch":0,"job":"lyon.7"}}"#.to_owned(),
        ended(0, 0, 3000, "100 m\n"),
        ended(1, 0, 1500, "81\n<script>\n"),
        ended(2, 1, 20, ""),
        ended(3, 0, 4000, "no number\n"),
        // It is being written.
        r#"{"ended":{"batch":0,"#.to_owned(),
    ];
    std::fs::write(dir.join("journal.jsonl"), lines.join("\n")).unwrap();
    WorkView::open(dir).unwrap()
}

fn filter(sort: Column, ascending: bool) -> RowFilter {
    RowFilter { text: String::new(), states: Vec::new(), sort, ascending, page: 1, per_page: 100 }
}

fn order(work: &WorkView, filter: &RowFilter) -> Vec<u32> {
    rows(work, filter).unwrap().rows.iter().map(|row| row.number).collect()
}

#[test]
fn rows_are_sorted_as_numbers_then_texts_and_the_unknown_last() {
    let dir = tempfile::tempdir().unwrap();
    let work = sweep(dir.path());
    let by = |key: &str, ascending| order(&work, &filter(Column::of(key, &work).unwrap(), ascending));
    assert_eq!(by("number", false), [5, 4, 3, 2, 1, 0]);
    assert_eq!(by("arg:x", true), [5, 4, 3, 1, 0, 2]);
    assert_eq!(by("elapsed", true), [2, 1, 0, 3, 4, 5]);
    assert_eq!(by("elapsed", false), [3, 0, 1, 2, 4, 5]);
    assert_eq!(by("value", false), [0, 1, 2, 3, 4, 5]);
    for key in ["", "arg:", "arg:y", "ended", "x", "output"] {
        assert_eq!(Column::of(key, &work), None, "{key}");
    }
}

#[test]
fn rows_are_filtered_and_paged_with_the_counts_of_their_states() {
    let dir = tempfile::tempdir().unwrap();
    let work = sweep(dir.path());
    let all = rows(&work, &filter(Column::Number, true)).unwrap();
    let states: Vec<(&str, usize)> =
        all.states.iter().map(|group| (group.value.as_str(), group.jobs)).collect();
    assert_eq!(states, [("completed", 3), ("failed", 1), ("submitted", 1), ("waiting", 1)]);
    let row = &all.rows[1];
    assert_eq!((row.values.as_slice(), row.server.as_deref()), (["9".to_owned()].as_slice(), Some("lyon")));
    assert_eq!(
        (row.job_id.as_deref(), row.elapsed_s, row.output.as_str()),
        (Some("lyon.7"), Some(1.5), "81\n<script>")
    );
    let failed = RowFilter { states: vec!["failed".to_owned()], ..filter(Column::Number, true) };
    assert_eq!(order(&work, &failed), [2]);
    let named = RowFilter { text: "<B>".to_owned(), ..filter(Column::Number, true) };
    assert_eq!(order(&work, &named), [2]);
    let second = RowFilter { page: 2, per_page: 4, ..filter(Column::Number, true) };
    assert_eq!((order(&work, &second), rows(&work, &second).unwrap().matching), (vec![4, 5], 6));
}

#[test]
fn points_have_both_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let work = sweep(dir.path());
    let found = points(&work, &Column::Argument(0), &Column::Value);
    assert_eq!((found.points, found.without, found.left_out), (vec![(10.0, 100.0, 0), (9.0, 81.0, 1)], 4, 0));
}
