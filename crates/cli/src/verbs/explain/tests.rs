//! Reasons and texts of explanations.

use pliant_control::job::{JobState, Work};
use pliant_control::names::Key;
use pliant_model::{Mebibytes, Memory, Procs, Resources, Speedup};

use super::*;

fn estimate(start: i64, walltime: i64) -> Estimate {
    Estimate { procs: Procs(4), walltime: Span(walltime), start: Time(start) }
}

/// A job on lyon, compared with what these servers would have given: start and walltime.
fn job(compared: &[(&str, i64, i64)]) -> JobRecord {
    let one = |(server, start, walltime): &(&str, i64, i64)| ComparedEstimate {
        server: server.parse().unwrap(),
        estimate: estimate(*start, *walltime),
    };
    JobRecord {
        handle: "lyon.7".parse().unwrap(),
        key: Key([0; 16]),
        owner: "alice".parse().unwrap(),
        name: "pi".to_owned(),
        work: Work::new(Procs(1), Span(400), Speedup::Folding),
        state: JobState::Queued,
        submitted: Time(1_000),
        expected: estimate(1_100, 100),
        procs: Procs(4),
        walltime: Span(100),
        started: None,
        ended: None,
        exit: None,
        requeues: 0,
        compared: compared.iter().map(one).collect(),
        discovery: DiscoverySummary::default(),
        pinned: false,
        hops: Vec::new(),
        unit_runtime: None,
        runtime: None,
        size_choice: None,
        gpus: None,
        estimates: Vec::new(),
        claim: None,
    }
}

#[test]
fn the_reason_follows_from_the_estimates() {
    let check = |compared: &[(&str, i64, i64)], word: &str, expected: &str| {
        let job = job(compared);
        assert_eq!(placement_reason(&job).word(), word);
        assert!(why(&job).contains(expected), "{}", why(&job));
    };
    check(&[], "unknown", "not known");
    check(&[("lyon", 1_100, 100)], "only-one", "no other server was asked");
    check(
        &[("lyon", 1_100, 100), ("nancy", 1_000, 230), ("nice", 1_000, 260)],
        "earliest-completion",
        "30s before nancy",
    );
    check(&[("lyon", 1_100, 100), ("nancy", 1_000, 200)], "tie", "nancy completes it at the same time");
    check(
        &[("nancy", 1_000, 140), ("lyon", 1_100, 100)],
        "passed-over",
        "nancy would have completed it 1m earlier",
    );
}

#[test]
fn an_explanation_names_what_a_job_needs() {
    let explained = |job: &JobRecord| {
        text(&Explanation { record: job.clone(), at: Time(1_030), waits: None, unplanned: None })
    };
    let mut job = job(&[]);
    assert!(!explained(&job).contains("needs"));
    let resources = Resources { memory: Some(Memory::Total(Mebibytes(2_048))), ..Resources::default() };
    (job.work.resources, job.gpus) = (Some(resources.into()), Some(1));
    let needs = "It needs 2G of memory.\nOn 4 processors it has 1 GPU.\n\n";
    assert!(explained(&job).contains(needs), "{}", explained(&job));
}

#[test]
fn servers_outside_the_table_are_listed_with_the_reason() {
    let mut job = job(&[("lyon", 1_100, 100), ("nancy", 1_000, 230)]);
    assert_eq!((others(&job), discovery_value(&job.discovery)), (String::new(), None));
    let passed = [
        ("nice", Cause::TooLarge),
        ("lille", Cause::NotConnected),
        ("brest", Cause::TooLarge),
        ("nice", Cause::TooLarge),
    ];
    let passed: Vec<(Name, Cause)> =
        passed.iter().map(|(server, cause)| (server.parse().unwrap(), *cause)).collect();
    job.discovery = DiscoverySummary { servers: 5, answered: 4, not_asked: 0, passed };
    assert_eq!(others(&job), "Not nice, brest: too small.\nNot lille: not connected.\n");
    assert_eq!(discovery_value(&job.discovery).unwrap()["passed"][1]["cause"], "not-connected");
    // Agents below have cut what they passed on.
    job.discovery = DiscoverySummary { servers: 138, answered: 130, ..job.discovery };
    let cut = "130 of 138 servers answered; the best estimates were compared.\n";
    assert!(others(&job).ends_with(cut), "{}", others(&job));
    job.discovery = DiscoverySummary { answered: 5, not_asked: 133, ..job.discovery };
    let spared = "5 of 138 servers answered; the best estimates were compared.\n\
                  Not asked: 133 servers. By what was reported to the agents, none of them could complete it earlier.\n";
    assert!(others(&job).ends_with(spared), "{}", others(&job));
    assert_eq!(discovery_value(&job.discovery).unwrap()["not_asked"], 133);
}

#[test]
fn what_a_job_gave_up_is_explained() {
    let mut job = job(&[("lyon", 1_100, 100)]);
    let earliest = Estimate { procs: Procs(8), walltime: Span(60), start: Time(1_100) };
    let choice = SizeChoice { earliest, other_jobs: 3 };
    let expected = "With 8 processors it would complete 40s earlier and take 80 more processor-seconds from 3 other jobs there.\n";
    assert_eq!(size(&choice, &job.expected), expected);
    // A tuner may also choose more processors than what completes first has.
    let wider = SizeChoice { earliest: Estimate { procs: Procs(1), ..earliest }, ..choice };
    assert_eq!(size(&wider, &job.expected), "With 1 processor it would complete 40s earlier.\n");
    let value = size_value(&choice, &job.expected);
    assert_eq!((&value["later_s"], &value["saved_processor_s"]), (&json!(40), &json!(80)));
    job.size_choice = Some(choice);
    let shown = text(&Explanation { record: job, at: Time(1_030), waits: None, unplanned: None });
    assert!(shown.ends_with(expected), "{shown}");
}

#[test]
fn an_explanation_lists_the_jobs_that_a_job_waits_for() {
    let release = |handle: Option<&str>, end| Release {
        handle: handle.map(|handle| handle.parse().unwrap()),
        end: Time(end),
        procs: Procs(2),
    };
    let until = vec![release(Some("lyon.5"), 1_060), release(None, 1_090)];
    let factor = |value, weight| Factor { value, weight };
    let priority = PriorityParts {
        age: factor(0.25, 1_000),
        size: factor(0.5, 1),
        fair_share: factor(0.8, 2_000),
        class: 500,
    };
    let wait = Wait {
        ahead: 2,
        plan: estimate(1_090, 100),
        free: Procs(1),
        until,
        siblings: Vec::new(),
        priority: Some(priority),
        operator_priority: -7,
        shortages: [("processors", 4, 1), ("memory", 4_096, 512), ("licences:matlab", 1, 0)]
            .map(|(resource, needed, free)| Shortage::of(resource, needed, free).unwrap())
            .to_vec(),
    };
    assert_eq!(wait_value(&wait)["operator_priority"], json!(-7));
    assert_eq!(wait_value(&Wait { operator_priority: 0, ..wait.clone() })["operator_priority"], Value::Null);
    let value = priority_value(&priority);
    assert_eq!((&value["total"], &value["fair_share"]["weight"]), (&json!(2350.5), &json!(2_000)));
    let record = job(&[("lyon", 1_100, 100), ("nancy", 1_000, 230)]);
    let unplanned = text(&Explanation {
        record: record.clone(),
        at: Time(1_030),
        waits: None,
        unplanned: Some("a limit is reached (MaxJobs)".to_owned()),
    });
    assert!(unplanned.starts_with("lyon.7 QUEUED (pi of alice)\n"), "{unplanned}");
    assert!(unplanned.ends_with("\n\nIt waits, and has no planned start: a limit is reached (MaxJobs).\n"));
    let shown = text(&Explanation { record, at: Time(1_030), waits: Some(wait), unplanned: None });
    let expected = "\
lyon.7 QUEUED, expected to start in 1m (pi of alice)
Submitted 1970-01-01 00:16:40Z (30s ago).

Estimates when it was submitted:
   server  start                 completion            procs  walltime
*  lyon    1970-01-01 00:18:20Z  1970-01-01 00:20:00Z      4     1m40s
   nancy   1970-01-01 00:16:40Z  1970-01-01 00:20:30Z      4     3m50s

It is on lyon, which completes it first: 30s before nancy.
lyon promised 4 processors for 1m40s, start 1970-01-01 00:18:20Z (in 1m10s), completion 1970-01-01 00:20:00Z (in 2m50s).

It waits: 2 jobs are ahead of it; it needs 4 processors, 1 free now.
Running jobs leave too little of: memory (4G needed, 512M free), licences of matlab (1 needed, 0 free).
Planned start 1970-01-01 00:18:10Z (in 1m), when these running jobs have ended:
  job             end at the latest              procs
  lyon.5          1970-01-01 00:17:40Z (in 30s)      2
  another user's  1970-01-01 00:18:10Z (in 1m)       2
Priority -7 by an operator, before all else.
Priority 2350.500: age 0.250 x 1000 + size 0.500 x 1 + fair share 0.800 x 2000 + class 500.
";
    assert_eq!(shown, expected);
}
