//! What jobs request besides cores, as a real cluster printed it, and what its nodes, partitions and licences have.

use std::collections::BTreeMap;

use pliant_control::listing::{DefaultMemory, ListedJob, RequestedResources, State};
use pliant_model::{Constraint, Mebibytes};

use crate::slurm::mark::Mark;
use crate::slurm::{nodes, requests};

/// The jobs were submitted with the options below; 26 is an array of which two tasks run.
const REQUESTS: &str = include_str!("captured/squeue-requests.txt");

#[test]
fn requests_are_read_as_they_were_submitted() {
    let (read, unread) = requests::read(REQUESTS, &Mark::fixed("\u{1e}mark"));
    assert_eq!((read.len(), unread), (13, Vec::new()));
    let none = RequestedResources::default;
    let per_core = |mib| RequestedResources { memory_per_core: Mebibytes(mib), ..none() };
    let per_node = |mib| RequestedResources { memory_per_node: Mebibytes(mib), ..none() };
    let licences = |all: &[(&str, u32)]| -> BTreeMap<String, u32> {
        all.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    };
    let a100 = Some("a100".to_owned());
    let expected = [
        ("18", "-n2 --mem-per-cpu=300", per_core(300)),
        ("19", "-N2 -n4 --mem=500", per_node(500)),
        (
            "20",
            "-N2 -n2 --gpus-per-node=a100:1",
            RequestedResources { gpus_per_node: 1, gpu_kind: a100, ..per_core(100) },
        ),
        ("21", "-n2 --gpus=2", RequestedResources { gpus: 2, ..per_core(100) }),
        (
            "22",
            "-n2 -c2 --gpus-per-task=1",
            RequestedResources { cores_per_task: Some(2), gpus: 2, ..per_core(100) },
        ),
        ("23", "-n1 --mem=0", RequestedResources { all_memory: true, ..per_node(1024) }),
        (
            "24",
            "-n1 --gres=gpu:2 --licenses=matlab:2",
            RequestedResources { gpus_per_node: 2, licences: licences(&[("matlab", 2)]), ..per_core(100) },
        ),
        (
            "25",
            "-n1 --licenses=matlab,ansys:2",
            RequestedResources { licences: licences(&[("matlab", 1), ("ansys", 2)]), ..per_core(100) },
        ),
        ("26_[]", "--array=1-6%2 -n1 --mem=1500M", per_core(1500)),
        ("28", "-n1 -p gpu, with the memory of that partition", per_core(200)),
    ];
    for (id, options, requested) in expected {
        assert_eq!(read.get(id), Some(&requested), "{options}");
    }
}

#[test]
fn a_request_that_is_not_understood_is_named_and_leaves_the_others() {
    let changed = REQUESTS.replacen("300M", "some", 1);
    let (read, unread) = requests::read(&changed, &Mark::fixed("\u{1e}mark"));
    assert_eq!(read.len(), 12);
    assert_eq!(unread, ["squeue: job 18, its memory: expected an amount of memory, found `some`"]);
}

#[test]
fn waiting_tasks_request_what_their_array_does() {
    let (read, _) = requests::read(REQUESTS, &Mark::fixed("\u{1e}mark"));
    let job = |id: &str, state| ListedJob { id: id.to_owned(), state, ..ListedJob::default() };
    let mut jobs = vec![
        ListedJob {
            requested: RequestedResources {
                constraint: Some(Constraint::All(vec!["slow".to_owned()])),
                ..RequestedResources::default()
            },
            ..job("26_5", State::Pending)
        },
        job("18", State::Completed),
        job("99", State::Pending),
    ];
    let mut without_memory = vec![job("23", State::Pending)];
    requests::fill(&mut without_memory, &read, false);
    assert_eq!(without_memory[0].requested, RequestedResources::default(), "memory is not handed out");
    requests::fill(&mut jobs, &read, true);
    assert_eq!(jobs[0].requested.memory_per_core, Mebibytes(1500));
    assert!(jobs[0].requested.constraint.is_some(), "it stands in another listing");
    assert_eq!(jobs[1].requested, RequestedResources::default(), "it is over");
    assert_eq!(jobs[2].requested, RequestedResources::default());
}

#[test]
fn features_are_understood_with_and_or() {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<String>>();
    for (text, expected) in [
        ("fast", Some(Constraint::All(words("fast")))),
        ("ssd&fast", Some(Constraint::All(words("ssd fast")))),
        ("(ssd)&(fast)", Some(Constraint::All(words("ssd fast")))),
        ("slow|ssd", Some(Constraint::Any(words("slow ssd")))),
        ("(null)", None),
        ("[rack1|rack2]", None),
        ("rack1*2&rack2*4", None),
        ("(fast)&(slow|ssd)", None),
    ] {
        assert_eq!(requests::constraint(text), expected, "{text}");
    }
}

#[test]
fn nodes_are_read_with_memory_gpus_and_features() {
    let line = "\u{1e}n1\u{1f}4\u{1f}idle\u{1f}1024\u{1f}2000\u{1f}gpu:a100:2(S:0-1),shard:8\u{1f}ssd,fast\u{1f}main*\u{1f}up\u{1f}\
                infinite\u{1f}1-infinite\u{1f}NO\u{1f}1\u{1f}none\n";
    let node = nodes::read(line).unwrap().nodes.remove(0);
    assert_eq!((node.memory, node.gpus, node.gpu_kind.as_deref()), (Mebibytes(1024), 2, Some("a100")));
    assert_eq!(
        (node.scratch, &*node.features),
        (Mebibytes(2000), &["fast".to_owned(), "ssd".to_owned()][..])
    );
    for amount in ["1024", "2000"] {
        assert!(nodes::read(&line.replace(amount, "much")).is_err());
    }
    assert_eq!(nodes::read(&line.replace("a100:2", "a100:x")).unwrap().nodes[0].gpus, 0);
}

#[test]
fn partitions_say_how_much_memory_jobs_have_that_do_not_mention_it() {
    let printed = "PartitionName=main AllowQos=ALL DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED\n\
                   PartitionName=gpu Nodes=n[1-2] DefMemPerCPU=200 MaxMemPerNode=UNLIMITED\n\
                   PartitionName=big DefMemPerNode=4096\n";
    let expected = BTreeMap::from([
        ("gpu".to_owned(), DefaultMemory::PerCore(Mebibytes(200))),
        ("big".to_owned(), DefaultMemory::PerNode(Mebibytes(4096))),
    ]);
    assert_eq!(nodes::default_memory(printed).unwrap(), expected);
    assert!(nodes::default_memory("PartitionName=a DefMemPerCPU=x\n").is_err());
}

#[test]
fn licences_are_counted_with_the_reserved_ones() {
    let printed = "LicenseName=ansys Total=5 Used=1 Free=4 Reserved=2 Remote=no\nLicenseName=matlab Total=2 Used=0 Free=2\n";
    let expected = BTreeMap::from([("ansys".to_owned(), 5), ("matlab".to_owned(), 2)]);
    assert_eq!(nodes::licences(printed).unwrap(), expected);
    assert!(nodes::licences("LicenseName=a Total=x\n").is_err());
}
