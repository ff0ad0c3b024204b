//! What a converted workload does not hold of its log.

use pliant_trace::{OmittedField, omitted_fields};

fn check(name: &str, text: &str, expected: &[(&str, Option<u64>)]) {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("writable");
    let found: Vec<_> = omitted_fields(&path)
        .expect("readable")
        .into_iter()
        .map(|OmittedField { what, jobs }| (what, jobs))
        .collect();
    assert_eq!(found, expected, "{name}");
}

#[test]
fn columns_of_a_log_are_counted() {
    check("plain.swf", "1 0 -1 10 4 -1 -1 4 20 -1 1 3 4 5 -1 2 -1 -1\n", &[]);
    let full = "1 0 7 10 4 8 9 5 20 6 0 3 4 5 0 2 1 3\n2 0 7 10 4 -1 -1 4 20 -1 5 3 4 5 -1 2 -1 -1\n";
    check(
        "full.swf",
        full,
        &[
            ("wait", Some(2)),
            ("CPU time", Some(1)),
            ("processors requested where others were allocated", Some(1)),
            ("status (all are written as completed)", Some(2)),
            ("queue", Some(1)),
            ("preceding job", Some(1)),
            ("think time", Some(1)),
        ],
    );
}

#[test]
fn fields_of_other_formats_are_named() {
    let fields = "1 0 5 10 2 -1 -1 2 20 -1 1 alice staff app -1 -1 lyon lyon";
    let grid = format!("{fields} UNITARY{}\n", " -1".repeat(10));
    check(
        "a.gwf",
        &grid,
        &[
            ("wait", Some(1)),
            ("names of users, groups and applications (numbers instead)", None),
            ("columns 19 to 30, about structure and I/O", None),
        ],
    );
    check("a.json", "{}", &[("profiles", None)]);
    let folder = tempfile::tempdir().expect("a folder for the test");
    assert_eq!(omitted_fields(&folder.path().join("joined.toml")).expect("not read").len(), 7);
}
