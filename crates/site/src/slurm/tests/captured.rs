//! Captured output of real clusters. The squeue listing has jobs in every state that could be produced, an array, a job of
//! several parts, names with separators and line ends, and another user's job with this server's tag.

use std::collections::{BTreeMap, BTreeSet};

use pliant_control::job::Exit;
use pliant_control::listing::{
    CoreLayout, ListedJob, NodeAllocation, Partition, Phase, PlannedStart, State, Status, WaitReason,
};
use pliant_model::{Span, Time};

use crate::batch_system::PrintedJobs;
use crate::batch_system::error::Unreadable;
use crate::batch_system::submitter::{Submitter, Submitters};
use crate::slurm::accounts;
use crate::slurm::configuration::ClusterConfiguration;
use crate::slurm::mark::Mark;
use crate::slurm::nodes::{self, Share, fill};
use crate::slurm::queue::{self, leave_out_over};

const SQUEUE: &str = include_str!("captured/squeue.txt");
const EXITS: &str = include_str!("captured/squeue-exits.txt");
const SINFO: &str = include_str!("captured/sinfo.txt");
const DETAILS: &str = include_str!("captured/scontrol-jobs.txt");
const CONFIG: &str = include_str!("captured/scontrol-config.txt");
const SACCT: &str = include_str!("captured/sacct.txt");
const SACCT_NAMES: &str = include_str!("captured/sacct-names.txt");

fn who() -> Submitter<u32> {
    Submitter { prefix: "pliant:rennes:".to_owned(), user: 0, accounts: Submitters::default() }
}

fn mark() -> Mark {
    Mark::fixed("\u{1e}mark")
}

fn queue() -> PrintedJobs {
    let queue = queue::read(SQUEUE, &mark(), &who()).unwrap();
    assert_eq!(queue.unread, [""; 0]);
    queue
}

fn allocation(node: &str, cores: Option<u32>) -> NodeAllocation {
    NodeAllocation::new(node, cores)
}

#[test]
fn every_job_of_the_queue_is_read() {
    let mut jobs = queue().jobs;
    leave_out_over(&mut jobs, &mut None);
    let seen: Vec<(&str, Option<u32>, State)> =
        jobs.iter().map(|job| (job.id.as_str(), job.job_number, job.state.clone())).collect();
    let expected = [
        // Ours by name, by comment, by both; others' that were over before anybody listed them are not there.
        ("1046", Some(8), State::Cancelled),
        ("1037", Some(2), State::Completed),
        ("1036", Some(1), State::Failed),
        ("1038", Some(3), State::Failed),
        // Its name has a leading zero: nothing we write.
        ("1047", None, State::Pending),
        ("1048", None, State::Pending),
        ("1049", None, State::Pending),
        ("1050_[]", None, State::Pending),
        ("1051_[]", None, State::Pending),
        ("1052+0", None, State::Pending),
        ("1052+1", None, State::Pending),
        ("1054", None, State::Pending),
        ("1055", None, State::Pending),
        ("1056", Some(9), State::Pending),
        ("1057", None, State::Pending),
        ("1042", None, State::Held),
        ("1045", Some(7), State::Held),
        // Another user's, with this server's tag.
        ("1039", None, State::Running),
        ("1040", Some(5), State::Running),
        ("1041", None, State::Suspended),
        ("1043", None, State::Held),
        ("1044", Some(6), State::Stopped),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn the_end_of_other_jobs_is_reported_once() {
    let is_over = |job: &&ListedJob| job.job_number.is_none() && job.phase() == Phase::Ended;
    let listed = |known: &mut Option<BTreeSet<String>>| -> Vec<String> {
        let mut jobs = queue().jobs;
        leave_out_over(&mut jobs, known);
        jobs.iter().filter(is_over).map(|job| job.id.clone()).collect()
    };
    let mut known = None;
    assert!(listed(&mut known).is_empty(), "it is not known whether they were over before");
    let all = known.clone().unwrap();
    assert!(!all.is_empty());
    let last = known.as_mut().and_then(BTreeSet::pop_last).unwrap();
    assert_eq!(listed(&mut known), [last]);
    assert_eq!((listed(&mut known), known), (vec![], Some(all)));
}

#[test]
fn a_job_is_read_with_all_that_is_said_of_it() {
    let queue = queue();
    let check = |expected: ListedJob| {
        let found = queue.jobs.iter().find(|job| job.id == expected.id);
        let (partition, owner) = ("main".to_owned(), "0".to_owned());
        let expected = ListedJob { partition, owner, ..expected };
        assert_eq!(found, Some(&expected));
    };
    let shape = |cores, nodes| CoreLayout { cores, nodes: Some(nodes), exclusive: false };
    let submitted = Time(1_795_279_871);
    check(ListedJob {
        id: "1040".to_owned(),
        job_number: Some(5),
        state: State::Running,
        shape: shape(5, 2),
        allocations: vec![allocation("alpha1", None), allocation("alpha2", None)],
        walltime: Some(Span(600)),
        submitted: Time(1_795_279_869),
        started: Some(Time(1_795_279_869)),
        priority: 4_294_900_723,
        ..ListedJob::default()
    });
    check(ListedJob {
        id: "1044".to_owned(),
        job_number: Some(6),
        state: State::Stopped,
        shape: CoreLayout { exclusive: true, ..shape(4, 1) },
        allocations: vec![allocation("alpha3", Some(4))],
        // It was asked for with 3 s more: Slurm rounds up to minutes.
        walltime: Some(Span(86_400 + 2 * 3600 + 4 * 60)),
        submitted: Time(1_795_279_869),
        started: Some(submitted),
        priority: 4_294_900_719,
        ..ListedJob::default()
    });
    check(ListedJob {
        id: "1056".to_owned(),
        job_number: Some(9),
        shape: shape(2, 1),
        walltime: Some(Span(600)),
        submitted,
        planned: Some(PlannedStart { start: Time(1_795_289_769), nodes: vec!["alpha2".to_owned()] }),
        priority: 4_294_900_709,
        ..ListedJob::default()
    });
    check(ListedJob {
        id: "1050_[]".to_owned(),
        shape: shape(3, 1),
        more_tasks: 4,
        max_running_tasks: Some(2),
        walltime: Some(Span(1800)),
        submitted,
        planned: Some(PlannedStart {
            start: Time(1_795_287_369),
            nodes: vec!["alpha1".to_owned(), "alpha2".to_owned()],
        }),
        priority: 4_294_900_715,
        ..ListedJob::default()
    });
    // Nodes without a time are no plan, and no limit is none.
    check(ListedJob {
        id: "1051_[]".to_owned(),
        shape: shape(12, 3),
        more_tasks: 13,
        walltime: None,
        submitted,
        priority: 4_294_900_714,
        ..ListedJob::default()
    });
    check(ListedJob {
        id: "1049".to_owned(),
        shape: shape(1, 1),
        walltime: Some(Span(600)),
        submitted,
        wait_reason: Some(WaitReason::Time(Time(1_795_287_071))),
        priority: 4_294_900_716,
        ..ListedJob::default()
    });
    check(ListedJob {
        id: "1054".to_owned(),
        shape: shape(4, 1),
        walltime: Some(Span(900)),
        submitted,
        planned: Some(PlannedStart { start: Time(1_795_289_769), nodes: vec!["alpha1".to_owned()] }),
        requirements: vec!["nodes alpha1".to_owned()],
        priority: 4_294_900_711,
        ..ListedJob::default()
    });
    // Cancelled before it started: it has an end, and never had an allocation.
    check(ListedJob {
        id: "1046".to_owned(),
        job_number: Some(8),
        state: State::Cancelled,
        shape: shape(2, 1),
        walltime: Some(Span(1200)),
        submitted,
        ended: Some(submitted),
        ..ListedJob::default()
    });
}

#[test]
fn wait_reasons_are_reported() {
    let queue = queue();
    let check = |id: &str, expected: WaitReason| {
        let found = queue.jobs.iter().find(|job| job.id == id).and_then(|job| job.wait_reason.clone());
        assert_eq!(found, Some(expected), "{id}");
    };
    check("1047", WaitReason::Jobs("afterok:1041(unfulfilled)".to_owned()));
    check("1048", WaitReason::Never("DependencyNeverSatisfied".to_owned()));
    check("1055", WaitReason::Never("PartitionConfig".to_owned()));
}

#[test]
fn another_user_sees_none_of_it_as_his() {
    let who = Submitter { user: 65_534, ..who() };
    let queue = queue::read(SQUEUE, &mark(), &who).unwrap();
    let numbers: Vec<u32> = queue.jobs.iter().filter_map(|job| job.job_number).collect();
    assert_eq!(numbers, [4]);
}

#[test]
fn an_unreadable_record_is_reported_and_skipped_unless_it_has_the_servers_tag() {
    let others = SQUEUE.replace("1049\u{1f}PENDING\u{1f}1\u{1f}", "1049\u{1f}PENDING\u{1f}one\u{1f}");
    let queue = queue::read(&others, &mark(), &who()).unwrap();
    let reported = queue.unread;
    assert_eq!(reported, ["squeue: job 1049, cores: expected a number, found `one`"]);
    assert_eq!(queue.jobs.len(), self::queue().jobs.len() - 1);

    let check = |from: &str, to: &str, expected: &str| {
        let changed = SQUEUE.replacen(from, to, 1);
        assert_ne!(changed, SQUEUE);
        let error = queue::read(&changed, &mark(), &who()).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    };
    let separator = '\u{1f}';
    check(
        &format!("1056{separator}PENDING{separator}2"),
        &format!("1056{separator}PENDING{separator}-"),
        "squeue: job 1056, cores",
    );
    check(
        &format!("1056{separator}PENDING"),
        &format!("1056{separator}TELEPORTED"),
        "squeue: job 1056, state: expected a state of a job, found `TELEPORTED`",
    );
    check(&format!("1045{separator}"), "1045", "squeue: a job: expected 19 fields");
    check("\u{1e}mark>wrap", "", "squeue: a job: expected its fields, a comment and a name");
    check("\u{1e}mark<1029", "slurm_load_jobs: \u{1e}mark<1029", "squeue: its beginning");
}

#[test]
fn no_jobs_are_an_empty_listing() {
    assert_eq!(queue::read("", &mark(), &who()).unwrap(), PrintedJobs::default());
    assert_eq!(nodes::read("").unwrap(), nodes::Nodes::default());
    assert_eq!(accounts::read_exits("", &mark(), &who()).unwrap(), []);
    assert_eq!(accounts::read_names("", &mark()).unwrap(), BTreeMap::new());
    assert_eq!(accounts::read_accounts("", &BTreeMap::new(), &who()).unwrap(), []);
}

#[test]
fn ends_of_jobs_are_read_from_the_controller() {
    let jobs = accounts::read_exits(EXITS, &mark(), &who()).unwrap();
    let found: Vec<(&str, Option<u32>, Option<Exit>)> =
        jobs.iter().map(|job| (job.id.as_str(), job.job_number, job.exit())).collect();
    // Another user's job with a similar name is left out.
    let expected = [
        ("1046", Some(8), Some(Exit::Cancelled)),
        ("1037", Some(2), Some(Exit::Code(0))),
        ("1036", Some(1), Some(Exit::Code(3))),
        ("1038", None, Some(Exit::Signal(9))),
        ("1054", None, None),
        ("1040", Some(5), None),
        ("1035", None, Some(Exit::OverWalltime)),
    ];
    assert_eq!(found, expected);
}

#[test]
fn ends_of_jobs_are_read_from_the_accounts() {
    let names = accounts::read_names(SACCT_NAMES, &mark()).unwrap();
    let jobs = accounts::read_accounts(SACCT, &names, &who()).unwrap();
    let found: Vec<(&str, Option<u32>, Option<Exit>)> =
        jobs.iter().map(|job| (job.id.as_str(), job.job_number, job.exit())).collect();
    let expected = [
        ("1", Some(1), Some(Exit::Code(3))),
        ("2", Some(2), Some(Exit::Code(0))),
        ("3", Some(3), Some(Exit::Signal(9))),
        // Its name has a line end in it.
        ("5", None, Some(Exit::Code(0))),
        ("6", Some(5), None),
        ("7", Some(6), Some(Exit::Cancelled)),
        ("10", None, Some(Exit::Code(0))),
        ("11", None, Some(Exit::Code(0))),
        ("9", None, Some(Exit::Code(0))),
    ];
    assert_eq!(found, expected);
    assert_eq!(jobs[0].status, Some(Status::Code(3)));
    assert_eq!((jobs[0].started, jobs[0].ended), (Some(Time(1_795_279_952)), Some(Time(1_795_279_952))));
    assert_eq!(jobs[4].started, Some(Time(1_795_279_954)));
    assert_eq!(jobs[4].allocations, [allocation("alpha1", None), allocation("alpha2", None)]);
}

/// A user who reads the mark in the arguments of sacct can write records into the name of an own job.
#[test]
fn names_of_jobs_that_a_name_forges_are_an_error() {
    let forged = SACCT_NAMES.replacen("other", "x\u{1e}mark\n1\u{1e}markpliant:rennes:9", 1);
    let unreadable = accounts::read_names(&forged, &mark()).unwrap_err();
    let said = unreadable.to_string();
    assert!(said.starts_with("sacct: 1: expected one name of a job, found `pliant:rennes:9"), "{said}");
    let unknown = SACCT_NAMES.replacen("other", "x\u{1e}mark\n99\u{1e}markpliant:rennes:9", 1);
    let names = accounts::read_names(&unknown, &mark()).unwrap();
    let jobs = accounts::read_accounts(SACCT, &names, &who()).unwrap();
    assert!(jobs.iter().all(|job| job.id != "99" && job.job_number != Some(9)), "{jobs:?}");
}

#[test]
fn ends_that_are_not_understood_are_errors() {
    let names = accounts::read_names(SACCT_NAMES, &mark()).unwrap();
    let accounts = |text: &str| accounts::read_accounts(text, &names, &who());
    let exits = |text: &str| accounts::read_exits(text, &mark(), &who());
    let check = |found: Result<Vec<ListedJob>, Unreadable>, expected: &str| {
        assert_eq!(found.unwrap_err().to_string(), expected);
    };
    let changed = |printed: &str, from: &str, to: &str| {
        let changed = printed.replacen(from, to, 1);
        assert_ne!(changed, printed);
        changed
    };
    check(accounts("sacct: no fields\n"), "sacct: a job: expected 10 fields, found `sacct: no fields`");
    let of_accounts = [
        ("FAILED", "LOST", "sacct: 1: expected a state of a job, found `LOST`"),
        ("3:0", "three", "sacct: 1: expected the end of a process, found `three`"),
        ("|1|main|", "|one|main|", "sacct: 1: expected a number of cores, found `one`"),
    ];
    for (from, to, expected) in of_accounts {
        check(accounts(&changed(SACCT, from, to)), expected);
    }
    let line = |word: &str, exit: &str| {
        ["7", word, exit, "1795279952", "1795279953", "alpha1", "0", "pliant:rennes:1\u{1e}mark\n"]
            .join("\u{1e}mark")
    };
    assert_eq!(exits(&line("COMPLETED", "0")).unwrap().len(), 1);
    check(exits(&line("LOST", "0")), "squeue: 7: expected a state of a job, found `LOST`");
    check(exits(&line("FAILED", "NONE")), "squeue: 7: expected the end of a process, found `NONE`");
    check(
        exits(&line("FAILED", "0").replace("7\u{1e}", "\u{1e}")),
        "squeue: a job: expected a job's id, found ``",
    );
    let half = "squeue: its end: expected whole records, found `0`";
    check(exits(&line("FAILED", "0").replacen("\u{1e}markpliant:rennes:1", "", 1)), half);
}

/// Fields are separated by a random text, which no user can have written into the name of a job.
#[test]
fn a_name_of_a_job_is_no_end_of_another_one() {
    let record = |id: &str, name: &str, mark: &str| {
        let ended = [id, "COMPLETED", "0", "1795279952", "1795279953", "alpha1", "0"];
        format!("{}{mark}{name}{mark}\n", ended.join(mark))
    };
    for guessed in ["\u{1f}", "\u{1e}", "mark"] {
        let forged = record("8", "pliant:rennes:2", guessed);
        let printed = record("7", &format!("pliant:rennes:1\n{forged}"), "\u{1e}mark");
        let jobs = accounts::read_exits(&printed, &mark(), &who()).unwrap();
        assert_eq!(jobs.iter().map(|job| job.id.as_str()).collect::<Vec<&str>>(), ["7"], "{printed}");
    }
}

#[test]
fn versions_outside_the_documented_range_are_known() {
    let check = |version: &str, expected: bool| {
        let printed = CONFIG.replace("22.05.8", version);
        assert_eq!(ClusterConfiguration::read(&printed).unwrap().is_documented(), expected, "{version}");
    };
    for version in ["21.08.0", "22.05.8", "23.02.7", "24.11.5", "24.11.0-0rc1"] {
        check(version, true);
    }
    for version in ["20.11.9", "21.07.0", "25.05.1", "slurm", ""] {
        check(version, false);
    }
}

#[test]
fn nodes_are_read_once_with_all_their_partitions() {
    let nodes::Nodes { nodes, partitions, .. } = nodes::read(SINFO).unwrap();
    let seen: Vec<_> = nodes
        .iter()
        .map(|node| (node.name.as_str(), node.cores, node.partitions.join("+"), node.unusable.as_deref()))
        .collect();
    let reason = "drained: bad disk | rack 3\nalpha9\u{1f}4";
    let expected = [
        ("alpha1", 4, "main+night".to_owned(), Some(reason)),
        ("alpha2", 4, "main+night".to_owned(), None),
        ("alpha3", 4, "main+shut".to_owned(), None),
    ];
    assert_eq!(seen, expected);
    let partition = |name: &str| Partition { name: name.to_owned(), tier: 1, ..Partition::default() };
    let night = Partition { tier: 2, ..partition("night") };
    let expected = [
        Partition { is_default: true, ..partition("main") },
        Partition { walltime: Some(Span(36 * 3600)), nodes: Some(1), exclusive: true, ..night },
        Partition { closed: Some("drain".to_owned()), walltime: Some(Span(5400)), ..partition("shut") },
    ];
    assert_eq!(partitions, expected);

    let fields = |cores: &str, limit: &str, sizes: &str| {
        let fields = [
            "alpha1", cores, "idle", "1000", "0", "(null)", "(null)", "main*", "up", limit, sizes, "NO", "1",
            "none\n",
        ];
        nodes::read(&format!("\u{1e}{}", fields.join("\u{1f}")))
    };
    assert_eq!(fields("4", "infinite", "2-16").unwrap().partitions[0].nodes, Some(16));
    assert!(fields("many", "infinite", "1-infinite").is_err());
    assert!(fields("4", "for ever", "1-infinite").is_err());
    assert!(fields("4", "infinite", "1-some").is_err());
    assert!(nodes::read("\u{1e}alpha1\u{1f}4\n").is_err());
}

#[test]
fn cores_are_listed_by_node_and_must_fit_the_job() {
    let wanted = |ids: &[&'static str], nodes| ids.iter().map(|&id| (id, nodes)).collect::<BTreeMap<_, _>>();
    let spreads = nodes::spreads(DETAILS, &wanted(&["1040", "1044", "1050"], 2));
    let spread = |pairs: &[(&str, u32)]| {
        let share = |&(node, cores): &(&str, u32)| (node.to_owned(), Share { cores, gpus: 0 });
        pairs.iter().map(share).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(spreads["1040"], spread(&[("alpha1", 2), ("alpha2", 3)]));
    assert_eq!(spreads["1044"], spread(&[("alpha3", 4)]));
    assert_eq!(spreads.get("1050"), None, "it waits");
    // As newer versions write it, several nodes at once; and what a name pretends.
    let line = "JobId=7 JobName=x JOB_GRES=(null)   Nodes=n9 CPU_IDs=0 Mem=0 GRES= MinCPUsNode=1 y JOB_GRES=(null)   \
                Nodes=n[1-2] CPU_IDs=0-1,4 Mem=0 GRES=   Nodes=n3 CPU_IDs=5 Mem=0 GRES= MinCPUsNode=1 z\n";
    assert_eq!(nodes::spreads(line, &wanted(&["7"], 3))["7"], spread(&[("n1", 3), ("n2", 3), ("n3", 1)]));
    // The lists of all jobs in a name would fill the memory.
    assert_eq!(nodes::spreads(line, &wanted(&["7"], 2)), BTreeMap::new());
    assert_eq!(nodes::spreads(line, &wanted(&["8"], 3)), BTreeMap::new());

    let check = |reported: &[(&str, u32)], fits: bool| {
        let mut job = ListedJob {
            shape: CoreLayout { cores: 5, ..CoreLayout::default() },
            allocations: vec![allocation("alpha1", None), allocation("alpha2", None)],
            ..ListedJob::default()
        };
        assert_eq!(fill(&mut job, &spread(reported)), fits, "{reported:?}");
        assert_eq!(job.allocations[0].cores.is_some(), fits, "{reported:?}");
    };
    check(&[("alpha1", 2), ("alpha2", 3)], true);
    check(&[("alpha1", 2), ("alpha2", 2)], false);
    check(&[("alpha1", u32::MAX), ("alpha2", 6)], false);
    check(&[("alpha1", 2), ("alpha3", 3)], false);
    check(&[("alpha1", 5)], false);
}
