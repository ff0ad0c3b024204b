//! Batches of shell commands: how each ended, and how long the longest took.

use pliant_staging::{SHARED, TASKS};
use pliant_wire::Outcome;

use super::*;

/// A batch without instances.
fn spec() -> BatchSpec {
    BatchSpec {
        grace_s: 1,
        ends_in_s: None,
        inputs: Vec::new(),
        runs: Vec::new(),
        wider: 1.0,
        folder: None,
        streams: Streams::default(),
    }
}

/// The ends of these programs, run in a folder.
fn ends(dir: &Path, programs: &[&[&str]]) -> Vec<InstanceEnd> {
    let run = |(number, program): (u32, &&[&str])| {
        let program = program.iter().map(|word| word.to_string()).collect();
        let env = BTreeMap::from([("PLIANT_INSTANCE".to_owned(), number.to_string())]);
        InstanceRun { number, program, env, walltime_s: 1, scale: 1.0 }
    };
    let runs = (3..).zip(programs).map(run).collect();
    programs_end(dir, &BatchSpec { runs, ..spec() })
}

fn programs_end(dir: &Path, spec: &BatchSpec) -> Vec<InstanceEnd> {
    let mut ends = Vec::new();
    let report = |end| {
        ends.push(end);
        Ok(())
    };
    let end = spec.run(dir, &dir.join(SHARED), &mut Signals::listen().unwrap(), report).unwrap();
    assert_eq!(end, TasksEnd::Succeeded);
    ends
}

#[test]
fn each_instance_reports_how_it_ended_and_what_it_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let shell = |text: &'static str| ["/bin/sh", "-c", text];
    let found = ends(
        dir.path(),
        &[
            &["printf", "<%s>", "a b"],
            &shell("echo $PLIANT_INSTANCE; pwd; echo why >&2; exit 3"),
            &shell("kill -KILL $$"),
            &["/no/such/program"],
            &shell("head -c 20000 /dev/zero"),
            // A process that is left behind holds the output, and is killed.
            &shell("sleep 1000 & echo left"),
            &shell("printf 'caf\\351'"),
        ],
    );
    assert_eq!((found[0].output.to_string().as_str(), found[0].is_success()), ("<a b>", true));
    assert_eq!(found[1].outcome, Outcome::ExitCode(3));
    assert_eq!(found[1].output.to_string(), format!("4\n{}\n", dir.path().join("4").display()));
    assert_eq!(found[1].error.to_string(), "why\n");
    assert_eq!(found[2].outcome, Outcome::Signal(9));
    assert!(matches!(&found[3].outcome, Outcome::NotStarted(why) if why.contains("/no/such/program")));
    assert_eq!((found[4].output.as_bytes().len(), found[4].output_cut), (OUTPUT_BYTES, true));
    assert_eq!(
        (found[5].output.to_string().as_str(), found[5].outcome.clone()),
        ("left\n", Outcome::ExitCode(0))
    );
    assert_eq!(found[6].output.as_bytes(), b"caf\xe9", "byte for byte");
}

#[test]
fn the_longest_unit_of_the_successful_instances_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(longest_of_batch(dir.path()), None);
    let run = |number, line: &str, scale| InstanceRun {
        number,
        program: ["/bin/sh", "-c", line].map(str::to_owned).into(),
        env: BTreeMap::new(),
        walltime_s: 60,
        scale,
    };
    let longest = |runs: Vec<InstanceRun>, wider| {
        let spec = BatchSpec { runs, wider, ..spec() };
        let mut longest = Longest::default();
        let mut signals = Signals::listen().unwrap();
        let report = |end: InstanceEnd| {
            longest.add(&end, spec.wider);
            Ok(())
        };
        spec.run(dir.path(), &dir.path().join(SHARED), &mut signals, report).unwrap();
        longest.write(&dir.path().join(TASKS)).unwrap();
        longest_of_batch(dir.path())
    };
    let runs = |failing| vec![run(1, "sleep 0.4", 4.0), run(2, "sleep 0.3", 0.5), run(3, failing, 1.0)];
    // 0.1 s and 0.6 s for a unit, on processors on which it takes twice as long as on those that are asked for.
    let found = longest(runs("sleep 1; exit 1"), 2.0).unwrap();
    assert!((300..2_000).contains(&found), "{found} ms");
    assert_eq!(longest(vec![run(4, "exit 1", 1.0)], 1.0), Some(found), "nothing new is reported");
}

#[test]
fn an_instance_over_its_walltime_is_ended() {
    let dir = tempfile::tempdir().unwrap();
    let found = ends(dir.path(), &[&["/bin/sh", "-c", "echo begun; sleep 1000"], &["true"]]);
    assert!(found[0].over_walltime && !found[0].is_success(), "{found:?}");
    assert_eq!(found[0].output.to_string(), "begun\n");
    assert!(found[1].is_success());
}

#[test]
fn an_instance_that_may_not_end_in_time_is_not_started() {
    let dir = tempfile::tempdir().unwrap();
    let run = |number, walltime_s| InstanceRun {
        number,
        program: vec!["true".to_owned()],
        env: BTreeMap::new(),
        walltime_s,
        scale: 1.0,
    };
    let runs = vec![run(1, 1_000), run(2, 80), run(3, 90), run(4, 1)];
    let spec = BatchSpec { grace_s: 15, ends_in_s: Some(100), runs, ..spec() };
    let found = programs_end(dir.path(), &spec);
    assert_eq!(found.iter().map(|end| end.instance).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn instances_read_their_standard_input_and_merge_their_outputs() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join(SHARED)).unwrap();
    fs::write(dir.path().join(SHARED).join("data"), "42\n").unwrap();
    let run = |number| InstanceRun {
        number,
        program: ["/bin/sh", "-c", "cat; echo why >&2; echo then; exit 3"].map(str::to_owned).into(),
        env: BTreeMap::new(),
        walltime_s: 60,
        scale: 1.0,
    };
    let streams = |merge_output| Streams { stdin: Some("data".parse().unwrap()), merge_output };
    let of = |merge_output| {
        let inputs = vec!["data".parse().unwrap()];
        let spec = BatchSpec { inputs, runs: vec![run(1), run(2)], streams: streams(merge_output), ..spec() };
        let ends = programs_end(dir.path(), &spec);
        ends.iter().map(|end| [end.output.to_string(), end.error.to_string()]).collect::<Vec<_>>()
    };
    assert_eq!(of(true), vec![["42\nwhy\nthen\n".to_owned(), String::new()]; 2]);
    assert_eq!(of(false), vec![["42\nthen\n".to_owned(), "why\n".to_owned()]; 2]);
    // A file that is not there.
    let lacking = BatchSpec { runs: vec![run(3)], streams: streams(false), ..spec() };
    let ends = programs_end(dir.path(), &lacking);
    assert!(
        matches!(&ends[0].outcome, Outcome::NotStarted(why) if why.contains("its standard input `data`"))
    );
}

#[test]
fn instances_in_a_folder_of_the_user_leave_it_there() {
    let dir = tempfile::tempdir().unwrap();
    let (here, folder) = (dir.path().join("job/work"), dir.path().join("project"));
    fs::create_dir_all(&here).unwrap();
    fs::create_dir(&folder).unwrap();
    let script = dir.path().join("job/script");
    fs::write(&script, "#!/bin/sh\npwd\necho $1 >> all\n").unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let run = |number: u32, program: &[&str]| InstanceRun {
        number,
        program: program.iter().map(|&word| word.to_owned()).collect(),
        env: BTreeMap::new(),
        walltime_s: 60,
        scale: 1.0,
    };
    let batch = |runs| BatchSpec { runs, folder: Some(folder.clone()), ..spec() };
    // One that leaves nothing leaves the folder.
    assert!(programs_end(&here, &batch(vec![run(1, &["true"])]))[0].is_success());
    let ends = programs_end(&here, &batch(vec![run(2, &["../script", "a"]), run(3, &["../script", "b"])]));
    for end in &ends {
        assert_eq!(end.output.to_string(), format!("{}\n", folder.display()), "{end:?}");
    }
    assert_eq!(fs::read_to_string(folder.join("all")).unwrap(), "a\nb\n");
    assert_eq!(fs::read_dir(&here).unwrap().count(), 0, "no folders of the instances");
    fs::remove_dir_all(&folder).unwrap();
    let ends = programs_end(&here, &batch(vec![run(4, &["true"])]));
    assert!(matches!(ends[0].outcome, Outcome::NotStarted(_)) && !folder.exists(), "{ends:?}");
}
