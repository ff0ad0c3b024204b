//! What is asked of Slurm.

use std::ffi::OsString;
use std::path::Path;

use pliant_control::listing::CoreLayout;
use pliant_model::Span;

use crate::batch_system::Submission;
use crate::batch_system::commands::Call;
use crate::slurm::call::{self, AccountsOf, ArraySubmission};
use crate::slurm::mark::Mark;
use crate::slurm::settings::Settings;
use crate::slurm::{accounts, queue, variables};

fn words(call: &Call) -> Vec<String> {
    let arguments = call.arguments.iter().map(|word| word.to_str().unwrap().to_owned());
    std::iter::once(call.command.to_owned()).chain(arguments).collect()
}

fn one_node(cores: u32) -> CoreLayout {
    CoreLayout { cores, nodes: Some(1), exclusive: false }
}

#[test]
fn a_submission_is_a_list_of_words() {
    let program = ["/usr/bin/pliant", "run-job", "/jobs/a b;$(id)'\"%j"].map(OsString::from);
    let folder = Path::new("/jobs/a b;$(id)'\"%j");
    let job = Submission::new(17, folder, &program, one_node(4), Span(61));
    let found = call::submit(&Settings::default(), "pliant:rennes:17", &job, 4);
    let expected = [
        "sbatch",
        "--parsable",
        "--job-name=pliant:rennes:17",
        "--comment=pliant:rennes:17",
        "--ntasks=4",
        "--time=2",
        "--chdir=/jobs/a b;$(id)'\"%j",
        "--output=/jobs/a b;$(id)'\"%%j/batch-output",
        "--error=/jobs/a b;$(id)'\"%%j/batch-output",
        "--open-mode=append",
        "--export=ALL",
        "--propagate=NONE",
        "--no-requeue",
        "--nodes=1",
        "/dev/stdin",
        "/usr/bin/pliant",
        "run-job",
        "/jobs/a b;$(id)'\"%j",
    ];
    assert_eq!(words(&found), expected);
    assert_eq!(found.input, b"#!/bin/sh\nexec \"$@\"\n");

    let settings = Settings {
        partition: Some("long".to_owned()),
        account: Some("a1".to_owned()),
        qos: Some("low".to_owned()),
        extra: vec!["--reservation=grid".to_owned()],
        ..Settings::default()
    };
    let shape = CoreLayout { cores: 8, nodes: None, exclusive: true };
    let job = Submission { shape, node: Some("n7"), held: true, nice: 7, ..job };
    let found = words(&call::submit(&settings, "t", &job, 4));
    let of_it: Vec<&str> = found.iter().map(String::as_str).skip(13).take(9).collect();
    let expected = [
        "--exclusive",
        "--reservation=grid",
        "--partition=long",
        "--account=a1",
        "--qos=low",
        "--nodelist=n7",
        "--hold",
        "--nice=7",
        "/dev/stdin",
    ];
    assert_eq!(of_it, expected);
}

#[test]
fn an_array_is_one_command() {
    let program = ["/usr/bin/pliant", "run-job"].map(OsString::from);
    let check = |numbers: &[u32], tag: &str, folders: &str, written: &str, last: [&str; 5]| {
        let jobs = ArraySubmission {
            numbers,
            folders: Path::new(folders),
            program: &program,
            shape: CoreLayout { cores: 2, ..CoreLayout::default() },
            resources: None,
            partition: None,
            walltime: Span(600),
        };
        let found = call::submit_array(&Settings::default(), tag, &jobs, 4);
        let words = words(&found);
        assert!(words.contains(&format!("--job-name={tag}")), "{words:?}");
        assert!(words.contains(&"--chdir=/jobs 100%".to_owned()), "{words:?}");
        assert!(words.contains(&format!("--error={written}/batch-output")), "{words:?}");
        assert_eq!(words[words.len() - 6..words.len() - 1], last);
        assert!(
            found.input.starts_with(b"#!/bin/sh\nfolder=\"$1$(($2 + SLURM_ARRAY_TASK_ID))\"\nshift 2\ncd ")
        );
    };
    let last = ["--array=3-5,9", "/dev/stdin", "/jobs 100%/", "17000", "/usr/bin/pliant"];
    check(&[17_003, 17_004, 17_005, 17_009], "t", "/jobs 100%/", "/jobs 100%%/17%3a", last);
    let last = ["--array=8,999", "/dev/stdin", "/jobs 100%/x-job-", "0", "/usr/bin/pliant"];
    check(&[8, 999], "t", "/jobs 100%/x-job-", "/jobs 100%%/x-job-%a", last);
}

#[test]
fn limits_are_whole_minutes_and_never_none() {
    let check = |seconds: i64, minutes: &str| {
        let found = words(&call::reshape("7", one_node(1), Span(seconds)));
        assert_eq!(found.last().unwrap(), &format!("TimeLimit={minutes}"), "{seconds} s");
    };
    check(0, "1");
    check(1, "1");
    check(60, "1");
    check(61, "2");
    check(86_400, "1440");
}

#[test]
fn the_rest_is_asked_so() {
    let check = |call: Call, expected: &str| assert_eq!(words(&call).join(" "), expected);
    check(call::hold("7"), "scontrol uhold 7");
    check(call::release("7"), "scontrol release 7");
    check(call::cancel_waiting("7"), "scancel --verbose --state=PENDING 7");
    check(call::cancel("7"), "scancel --verbose 7");
    let shape = CoreLayout { cores: 6, nodes: None, exclusive: false };
    check(
        call::reshape("7", shape, Span(600)),
        "scontrol update JobId=7 NumNodes=1 NumTasks=6 NumCPUs=6 TimeLimit=10",
    );
    check(call::jobs("F"), "squeue --all --noheader --states=all");
    check(call::job("7", "F"), "squeue --all --noheader --states=all --jobs=7");
    check(call::exits("7,8", "F"), "squeue --all --noheader --states=all --jobs=7,8");
    check(call::nodes("F"), "sinfo --all --noheader --Node --format=F");
    check(call::details(), "scontrol --details --oneliner --all show jobs");
    check(call::configuration(), "scontrol show config");
    check(call::level_of("pliant"), "sacctmgr --noheader --parsable2 show user pliant format=adminlevel");
    let sacct = "sacct --allusers --allocations --noheader --parsable --format=F";
    let (ids, names) = (AccountsOf::Ids("7".to_owned()), AccountsOf::Names("a,b".to_owned(), 30));
    check(call::accounts(&ids, "F"), &format!("{sacct} --jobs=7"));
    check(call::accounts(&names, "F"), &format!("{sacct} --name=a,b --starttime=now-30days"));
    let marked = call::marked_accounts(&ids, "F", &Mark::fixed("MARK"));
    check(marked, &format!("{sacct} --jobs=7 --delimiter=MARK"));
}

/// A user who reads the mark while squeue runs could write the jobs of others into the name of an own job.
#[test]
fn the_mark_of_a_listing_is_in_no_argument() {
    let mark = Mark::draw();
    let (queue, exits) = (queue::format(&mark), accounts::exits_format(&mark));
    let check = |call: Call, name: &'static str, format: &str| {
        assert!(!words(&call).join(" ").contains(mark.text()), "{call:?}");
        let variables = variables(&Settings::default(), &call);
        assert!(variables.contains(&(name, format.into())), "{variables:?}");
    };
    check(call::jobs(&queue), "SQUEUE_FORMAT", &queue);
    check(call::job("7", &queue), "SQUEUE_FORMAT", &queue);
    check(call::exits("7,8", &exits), "SQUEUE_FORMAT2", &exits);
}

#[test]
fn settings_are_checked() {
    let check = |settings: Settings, expected: Option<&str>| {
        let found = settings.check().err().map(|error| error.to_string());
        assert_eq!(found.as_deref(), expected);
    };
    let extra = |options: &[&str]| Settings {
        extra: options.iter().map(|&option| option.to_owned()).collect(),
        ..Settings::default()
    };
    check(Settings::default(), None);
    check(extra(&["--reservation=grid", "--mail-type=NONE", "--no-kill", "--mem-bind=local"]), None);
    let unplanned = |option: &str, instead: &str| {
        let expected = format!("(say {instead}");
        let found = extra(&[option]).check().err().map(|error| error.to_string()).unwrap_or_default();
        assert!(found.contains(&expected) && found.ends_with(&format!("found `{option}`")), "{found}");
    };
    for option in ["--constraint=fast", "--constr=fast", "--nodelist=a", "--exclude=n1", "--contiguous"] {
        unplanned(option, "a partition of these nodes as `partition`, or a reservation");
    }
    for option in ["--mem=2G", "--mem-per-cpu=2G", "--tmp=1G"] {
        unplanned(option, "`mem`, `mem_per_proc` or `scratch` of a service's");
    }
    for option in ["--gres=gpu:1", "--gpus=1", "--licenses=x"] {
        unplanned(option, "`gpus` or `licences` of a service's");
    }
    unplanned("--ntasks-per-node=1", "`nodes`, `procs_per_node` or `exclusive` of a service's");
    let refusal =
        |option: &str| format!("`extra`: expected options that pliant does not set itself, found `{option}`");
    for option in ["--hold", "--job-name=x", "--time=5", "--tim=5", "--wrap=x", "--array=1-3", "--"] {
        check(extra(&[option]), Some(&refusal(option)));
    }
    for option in ["constraint=fast", "-C", ""] {
        let expected = format!(
            "`extra`: expected long options of sbatch, such as `--reservation=grid`, found `{option}`"
        );
        check(extra(&[option]), Some(&expected));
    }
    let spaced = Settings { partition: Some("a b".to_owned()), ..Settings::default() };
    check(spaced, Some("`partition`: expected a name without spaces, found `a b`"));
    let hasty = Settings { deadline_s: 5, ..Settings::default() };
    check(hasty, Some("`deadline_s`: expected 11 to 600, found `5`"));
}
