//! A federation without faults, from the view of its users.

use std::fs;
use std::path::Path;

use pliant_client::Client;
use pliant_control::job::{Exit, JobState};
use pliant_control::names::Handle;
use pliant_control::reason::{Cause, DiscoverySummary};
use pliant_model::{Procs, Span, Speedup};
use pliant_wire::{Download, JobsQuery};
use rustix::process::{Pid, test_kill_process};

use crate::harness::*;
use crate::schemas::document;

const MULTI: Speedup = Speedup::Amdahl { parallel: 1.0, limit: Procs(4) };

fn mine() -> JobsQuery {
    JobsQuery { owner: None, all: false, server: None, states: Vec::new(), limit: 100, before: None }
}

async fn handles(client: &Client, query: &JobsQuery) -> Vec<String> {
    let page = client.jobs(query).await.unwrap();
    let mut handles: Vec<String> = page.jobs.iter().map(|job| job.handle.to_string()).collect();
    handles.sort();
    handles
}

/// The number that a job wrote into a file of its folder.
async fn pid_in(path: &Path) -> Pid {
    let read = async || fs::read_to_string(path).ok()?.strip_suffix('\n')?.parse().ok();
    Pid::from_raw(until(&format!("a process number in {}", path.display()), read).await).unwrap()
}

async fn gone(pid: Pid) {
    until("the end of a process", async || test_kill_process(pid).is_err().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_go_up_and_results_come_back() {
    let federation = Federation::start(&[Cluster::new("lyon", 2, 1.0)]).await;
    let alice = federation.client("alice");
    // Several pieces, and no end of a line at the end.
    let data: Vec<u8> = (0..1_500_000_u32).map(|at| (at % 251) as u8).collect();
    let path = federation.path().join("data");
    fs::write(&path, &data).unwrap();
    let mut asked = order(service("count", &[("data", "in/data.bin")]));
    asked.inputs.push(input("in/data.bin", &path));
    let ended = run(&alice, &asked).await;
    assert_eq!((ended.state, ended.exit.clone()), (JobState::Completed, Some(Exit::Code(0))), "{ended:?}");
    assert_eq!(ended.procs, Procs(2), "the more, the sooner");
    let found = fetched(&alice, &ended.handle).await;
    let text = |name: &str| String::from_utf8(found[name].clone()).unwrap();
    assert_eq!(text("stdout"), "counting\n");
    assert_eq!(text("stderr"), "for alice\n");
    assert_eq!(text("work/count.txt").trim(), "1500000");
    assert!(found["work/copy.bin"] == data);
    assert!(!found.contains_key("work/in/data.bin"), "inputs are no results");

    let missing = order(service("count", &[("data", "elsewhere.bin")]));
    refused(alice.submit(&missing, |_| Ok(())).await, &["lyon", "elsewhere.bin"]);
    let mut wrong = order(service("count", &[("data", "in/data.bin")]));
    wrong.inputs.push(input("in/data.bin", &path));
    wrong.inputs[0].0.sha256.0[0] ^= 1;
    refused(alice.submit(&wrong, |_| Ok(())).await, &["in/data.bin", "checksum"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_run_in_the_shape_they_were_given() {
    let federation = Federation::start(&[Cluster::new("lyon", 4, 2.0)]).await;
    let alice = federation.client("alice");
    let text = "echo $PLIANT_JOB $PLIANT_PROCS $PLIANT_CORES $PLIANT_WALLTIME_S";
    for (what, procs, walltime_s) in [
        (rigid(text, 3, 60), 3, 30),
        (script(text, 1, 80, MULTI), 4, 10),
        (script(text, 1, 60, Speedup::Amdahl { parallel: 0.0, limit: Procs(4) }), 1, 30),
    ] {
        let ended = run(&alice, &order(what)).await;
        assert_eq!(
            (ended.state, ended.procs, ended.walltime),
            (JobState::Completed, Procs(procs), Span(walltime_s))
        );
        let said = String::from_utf8(fetched(&alice, &ended.handle).await["stdout"].clone()).unwrap();
        assert_eq!(said, format!("{} {procs} {procs} {walltime_s}\n", ended.handle));
    }
    let failing = run(&alice, &order(rigid("exit 3", 1, 60))).await;
    assert_eq!((failing.state, failing.exit), (JobState::Failed, Some(Exit::Code(3))));
    refused(alice.submit(&order(rigid("true", 5, 60)), |_| Ok(())).await, &["lyon", "5", "4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn output_is_followed_while_a_job_runs() {
    let federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let alice = federation.client("alice");
    let gate = federation.path().join("gate");
    let text = format!("echo first; while [ ! -e '{}' ]; do sleep 0.05; done; echo last", gate.display());
    let accepted = submit(&alice, &order(rigid(&text, 1, 60))).await;
    let mut said = Vec::new();
    let wanted = Download { follow: true, ..stdout_of(&accepted.handle) };
    let reached = alice.output(&wanted, |piece| {
        said.extend_from_slice(piece);
        // It goes on only once its first line has come here.
        if said == b"first\n" {
            fs::write(&gate, "")?;
        }
        Ok(())
    });
    assert_eq!(reached.await.unwrap(), 11);
    assert_eq!(String::from_utf8(said).unwrap(), "first\nlast\n");
    let rest = Download { offset: 6, ..stdout_of(&accepted.handle) };
    let mut said = Vec::new();
    alice
        .output(&rest, |piece| {
            said.extend_from_slice(piece);
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(said, b"last\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_and_running_jobs_are_cancelled() {
    let federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let alice = federation.client("alice");
    // Ignores TERM, and so does its child: only KILL to the whole group ends them.
    let text = "trap '' TERM; sleep 1000 & echo $! > child; echo $$ > own; wait; wait; sleep 1000";
    let running = submit(&alice, &order(rigid(text, 1, 1000))).await.handle;
    let waiting = submit(&alice, &order(service("sleep", &[("seconds", "10")]))).await;
    assert_eq!(waiting.state, JobState::Queued);
    let cancelled = alice.cancel(&waiting.handle).await.unwrap();
    assert_eq!((cancelled.state, cancelled.started), (JobState::Canceled, None));
    let work = federation.job_folder(&running).join("work");
    let pids = [pid_in(&work.join("child")).await, pid_in(&work.join("own")).await];
    alice.cancel(&running).await.unwrap();
    let ended = alice.wait(&running, |_| {}).await.unwrap();
    assert_eq!((ended.state, ended.exit), (JobState::Canceled, Some(Exit::Cancelled)));
    for pid in pids {
        gone(pid).await;
    }
    assert!(fetched(&alice, &waiting.handle).await.is_empty());
    // A second time changes nothing.
    assert_eq!(alice.cancel(&running).await.unwrap().state, JobState::Canceled);
    let next = run(&alice, &order(rigid("true", 1, 60))).await;
    assert_eq!(next.state, JobState::Completed, "the processor is free again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_over_its_walltime_is_ended_and_says_so() {
    let federation = Federation::start(&[Cluster::new("lyon", 1, 2.0)]).await;
    let alice = federation.client("alice");
    let accepted = submit(&alice, &order(rigid("echo begun; echo $$ > own; sleep 1000", 1, 4))).await;
    let pid = pid_in(&federation.job_folder(&accepted.handle).join("work/own")).await;
    let ended = alice.wait(&accepted.handle, |_| {}).await.unwrap();
    assert_eq!((ended.state, ended.exit.clone()), (JobState::Failed, Some(Exit::OverWalltime)));
    assert_eq!(ended.exit.unwrap().to_string(), "over its walltime");
    let lasted = ended.ended.unwrap() - ended.started.unwrap();
    assert!(lasted >= Span(2), "it had its two seconds at speed 2, found {lasted}");
    gone(pid).await;
    assert_eq!(fetched(&alice, &accepted.handle).await["stdout"], b"begun\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_explanation_lists_estimates_and_running_jobs() {
    let clusters =
        [Cluster::new("lyon", 2, 1.0), Cluster::new("paris", 2, 4.0), Cluster::new("lille", 1, 1.0)];
    let federation = Federation::start(&clusters).await;
    let (alice, bob) = (federation.client("alice"), federation.client("bob"));
    let running = submit(&alice, &order(rigid("sleep 1000", 2, 1000))).await;
    let explained = alice.explain(&running.handle).await.unwrap();
    let compared: Vec<(String, i64)> = explained
        .record
        .compared
        .iter()
        .map(|one| (one.server.to_string(), one.estimate.walltime.0))
        .collect();
    assert_eq!(compared, [("paris".to_owned(), 250), ("lyon".to_owned(), 1000)]);
    assert_eq!(running.handle.server.as_str(), "paris");
    let passed = vec![("lille".parse().unwrap(), Cause::TooLarge)];
    assert_eq!(
        explained.record.discovery,
        DiscoverySummary { servers: 3, answered: 3, not_asked: 0, passed }
    );
    federation.reaches(&alice, &running.handle, JobState::Active).await;
    assert_eq!(alice.explain(&running.handle).await.unwrap().waits, None);

    // Shorter there, after the first, than here at once.
    let first = submit(&alice, &order(rigid("true", 2, 400))).await;
    let second = submit(&bob, &order_to("paris", rigid("true", 1, 400))).await;
    assert_eq!((first.handle.server.as_str(), first.state), ("paris", JobState::Queued));
    let waits = alice.explain(&first.handle).await.unwrap().waits.unwrap();
    let begun = alice.job(&running.handle).await.unwrap().started.unwrap();
    assert_eq!((waits.ahead, waits.free, waits.plan.start), (0, Procs(0), begun + Span(250)));
    let until: Vec<_> = waits.until.iter().map(|one| (one.handle.clone(), one.end, one.procs)).collect();
    assert_eq!(until, [(Some(running.handle.clone()), begun + Span(250), Procs(2))]);
    let waits = bob.explain(&second.handle).await.unwrap().waits.unwrap();
    assert_eq!((waits.ahead, waits.plan.start), (1, begun + Span(350)));
    assert!(waits.until.iter().all(|one| one.handle.is_none()), "whose it is, is not bob's business");
}

#[tokio::test(flavor = "multi_thread")]
async fn users_see_their_own_jobs_and_operators_all() {
    let federation = Federation::start(&[Cluster::new("lyon", 2, 1.0), Cluster::new("paris", 2, 1.0)]).await;
    let (alice, bob, root) = (federation.client("alice"), federation.client("bob"), federation.operator());
    let job = |server| order_to(server, service("sleep", &[("seconds", "1000")]));
    let first = submit(&alice, &job("lyon")).await.handle;
    let second = submit(&bob, &job("paris")).await.handle;
    let third = run(&alice, &order_to("paris", rigid("true", 1, 10))).await.handle;
    let all = JobsQuery { all: true, ..mine() };
    let know = async || {
        let jobs = root.jobs(&all).await.unwrap().jobs;
        let settled = jobs.iter().filter(|job| !matches!(job.state, JobState::New | JobState::Queued));
        (settled.count() == 3 && jobs.iter().any(|job| job.state.is_final())).then_some(())
    };
    until("the agent to know the jobs", know).await;
    let [one, two, three] = [&first, &second, &third].map(Handle::to_string);
    assert_eq!(handles(&alice, &mine()).await, [one.clone(), three.clone()]);
    assert_eq!(handles(&bob, &mine()).await, std::slice::from_ref(&two));
    let query = JobsQuery { owner: Some("bob".parse().unwrap()), ..mine() };
    assert_eq!(handles(&root, &query).await, std::slice::from_ref(&two));
    let query = JobsQuery { states: vec![JobState::Active], ..all.clone() };
    assert_eq!(handles(&root, &query).await, [one.clone(), two.clone()]);
    let query = JobsQuery { states: vec![JobState::Completed], ..all.clone() };
    assert_eq!(handles(&root, &query).await, std::slice::from_ref(&three));
    let query = JobsQuery { server: Some("paris".parse().unwrap()), ..all.clone() };
    assert_eq!(handles(&root, &query).await, [two, three]);
    for limit in 1..=4 {
        let page = root.jobs(&JobsQuery { limit, ..all.clone() }).await.unwrap();
        assert_eq!((page.jobs.len(), page.next.is_some()), (limit.min(3) as usize, limit < 3), "{limit}");
        let rest = JobsQuery { before: page.next, ..all.clone() };
        if limit < 3 {
            assert_eq!(root.jobs(&rest).await.unwrap().jobs.len(), 3 - limit as usize, "after {limit}");
        }
    }
    refused(alice.jobs(&all).await, &["operator"]);
    refused(alice.jobs(&JobsQuery { owner: Some("bob".parse().unwrap()), ..mine() }).await, &["operator"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_another_user_looks_like_none() {
    let federation = Federation::start(&[Cluster::new("lyon", 2, 1.0)]).await;
    let (alice, bob) = (federation.client("alice"), federation.client("bob"));
    let theirs = submit(&alice, &order(rigid("echo secret; sleep 1000", 1, 1000))).await.handle;
    let ended = run(&alice, &order(rigid("echo secret", 1, 1000))).await.handle;
    federation.reaches(&alice, &theirs, JobState::Active).await;
    let none: Handle = "lyon.999".parse().unwrap();
    // First as the agent says it, then as the server does.
    for through_agent in [true, false] {
        if !through_agent {
            bob.offer(&"lyon".parse().unwrap(), &federation.address("lyon")).await.unwrap();
        }
        for handle in [&theirs, &ended, &none] {
            let said = format!("no job {handle} of yours");
            let nothing = |error: pliant_client::ClientError| {
                assert!(error.is_missing(), "{error}");
                assert_eq!(error.to_string(), said);
            };
            nothing(bob.find(handle).await.unwrap_err());
            nothing(bob.job(handle).await.unwrap_err());
            nothing(bob.cancel(handle).await.unwrap_err());
            nothing(bob.explain(handle).await.unwrap_err());
            nothing(bob.results(handle).await.unwrap_err());
            nothing(bob.output(&stdout_of(handle), |_| Ok(())).await.unwrap_err());
            let follow = Download { follow: true, ..stdout_of(handle) };
            nothing(bob.output(&follow, |_| Ok(())).await.unwrap_err());
            nothing(bob.wait(handle, |_| {}).await.unwrap_err());
        }
    }
    assert_eq!(alice.job(&theirs).await.unwrap().state, JobState::Active, "it was not cancelled");
    let root = federation.operator();
    assert_eq!(fetched(&root, &ended).await["stdout"], b"secret\n");
    root.cancel(&theirs).await.unwrap();
    assert_eq!(root.wait(&theirs, |_| {}).await.unwrap().state, JobState::Canceled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moldable_job_gets_the_size_that_completes_first_where_that_is_wanted() {
    let greedy = Cluster { cluster_keys: "tuner = \"exact\"\n", ..Cluster::new("lyon", 4, 1.0) };
    let federation = Federation::start(&[greedy]).await;
    let alice = federation.client("alice");
    // Processors taken by others for how long, walltime on one processor; what it gets.
    for (busy, busy_s, walltime_s, procs, waits) in
        [(0, 0, 100, 4, false), (3, 1000, 100, 1, false), (1, 1000, 90, 3, false), (3, 20, 400, 4, true)]
    {
        let mut before = None;
        if busy > 0 {
            before = Some(submit(&alice, &order(rigid("sleep 1000", busy, busy_s))).await.handle);
        }
        let accepted = submit(&alice, &order(script("true", 1, walltime_s, MULTI))).await;
        let expected = accepted.expected;
        assert_eq!((expected.procs, expected.walltime), (Procs(procs), Span(walltime_s / i64::from(procs))));
        assert_eq!(
            accepted.state == JobState::Queued && expected.start > accepted.submitted,
            waits,
            "{accepted:?}"
        );
        alice.cancel(&accepted.handle).await.unwrap();
        if let Some(before) = before {
            alice.cancel(&before).await.unwrap();
            alice.wait(&before, |_| {}).await.unwrap();
        }
        alice.wait(&accepted.handle, |_| {}).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moldable_job_leaves_processors_to_others_and_explains_it() {
    let federation = Federation::start(&[Cluster::new("lyon", 16, 1.0)]).await;
    let alice = federation.client("alice");
    for _ in 0..2 {
        submit(&alice, &order(rigid("sleep 1000", 4, 1000))).await;
    }
    // 400 s on four processors, 300 s on the eight that are left.
    let speedup = Speedup::Amdahl { parallel: 0.8, limit: Procs(16) };
    let accepted = submit(&alice, &order(script("true", 4, 400, speedup))).await;
    assert_eq!((accepted.expected.procs, accepted.expected.walltime), (Procs(4), Span(400)), "{accepted:?}");
    let explanation = alice.explain(&accepted.handle).await.unwrap();
    let choice = explanation.record.size_choice.expect("eight would have completed it first");
    assert_eq!((choice.earliest.procs, choice.earliest.walltime), (Procs(8), Span(300)));
    assert_eq!(choice.other_jobs, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_goes_where_it_completes_first() {
    let federation = Federation::start(&[Cluster::new("lyon", 1, 1.0), Cluster::new("paris", 1, 2.0)]).await;
    let alice = federation.client("alice");
    let mut went = Vec::new();
    // Paris is free at 50, then at 100; from then on lyon's 80 comes before paris's 140.
    for _ in 0..3 {
        let accepted = submit(&alice, &order(rigid("sleep 1000", 1, 100))).await;
        went.push(accepted.handle.server.to_string());
    }
    // Two go to paris and one to lyon: whose completion is a tie goes to the lower name.
    let found = alice.discover(&order(rigid("true", 1, 80)).question(), 3, None).await.unwrap();
    let ends: Vec<_> = found.vectors.iter().map(|vector| vector.estimate.completion()).collect();
    assert!(ends.is_sorted(), "best first: {found:?}");
    assert_eq!(went[0], "paris");
    assert_eq!(went.iter().filter(|server| *server == "lyon").count(), 1, "{went:?}");
    let chosen = submit(&alice, &order_to("lyon", rigid("true", 1, 100))).await;
    assert_eq!(chosen.handle.server.as_str(), "lyon", "if the user says so");
    let absent = alice.submit(&order_to("nowhere", rigid("true", 1, 100)), |_| Ok(())).await;
    refused(absent, &["nowhere"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_below_a_local_agent_are_found() {
    let mut federation = Federation::agent_only("");
    federation.add_agent("local", Some(MASTER), "");
    let below = ["s1", "s2", "s3", "s4"];
    for (index, name) in below.into_iter().enumerate() {
        let speed = 1.0 + index as f64;
        federation.add_server(&Cluster { parent: "local", ..Cluster::new(name, 1, speed) });
    }
    federation.attached(below.len()).await;
    let alice = federation.client("alice");
    let everybody = alice.servers().await.unwrap();
    assert!(everybody.servers.iter().all(|server| server.via.as_str() == "local"));
    assert_eq!(everybody.agents.len(), 1);
    let ask = order(rigid("true", 1, 120)).question();
    let found = alice.discover(&ask, 2, None).await.unwrap();
    let names: Vec<&str> = found.vectors.iter().map(|vector| vector.server.as_str()).collect();
    assert_eq!(names, ["s4", "s3"], "the best, and no more than asked for");
    let ended = run(&alice, &order(rigid("echo here", 1, 120))).await;
    assert_eq!((ended.handle.server.as_str(), ended.state), ("s4", JobState::Completed));
    assert_eq!(fetched(&alice, &ended.handle).await["stdout"], b"here\n");
    // Status updates arrive through the local agent, also after it was down.
    let gate = federation.path().join("gate");
    let text = format!("while [ ! -e '{}' ]; do sleep 0.05; done", gate.display());
    let while_down = submit(&alice, &order(rigid(&text, 1, 120))).await;
    federation.kill("local");
    fs::write(&gate, "").unwrap();
    federation.reaches(&alice, &while_down.handle, JobState::Completed).await;
    federation.revive("local");
    federation.attached(below.len()).await;
    let root = federation.operator();
    let agent_knows = async || {
        let found = root.find(&while_down.handle).await.ok()?;
        found.record.state.is_final().then_some(())
    };
    until("the master to hear of the job", agent_knows).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_is_the_same_job_for_ever() {
    let mut federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let (alice, bob) = (federation.client("alice"), federation.client("bob"));
    let path = federation.path().join("data");
    fs::write(&path, "abc").unwrap();
    let mut asked = order(service("count", &[("data", "data")]));
    asked.inputs.push(input("data", &path));
    let first = submit(&alice, &asked).await.handle;
    assert_eq!(submit(&alice, &asked).await.handle, first);
    alice.wait(&first, |_| {}).await.unwrap();
    assert_eq!(submit(&alice, &asked).await.handle, first, "after its end");
    federation.kill("lyon");
    federation.revive("lyon");
    federation.attached(1).await;
    let alice = federation.client("alice");
    assert_eq!(submit(&alice, &asked).await.handle, first, "after a crash");
    federation.stop("lyon");
    federation.revive("lyon");
    federation.attached(1).await;
    let again = submit(&alice, &asked).await;
    assert_eq!((again.handle, again.state), (first.clone(), JobState::Completed), "after a stop");
    refused(bob.submit(&asked, |_| Ok(())).await, &["key", "another job"]);
    assert_eq!(fetched(&alice, &first).await["work/copy.bin"], b"abc");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_for_one_submission() {
    let federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let alice = CommandUser::new(&federation, "alice");
    for (name, text) in [("one.sh", "true"), ("other.sh", "false")] {
        fs::write(alice.dir().join(name), format!("#!/bin/sh\n{text}\n")).unwrap();
    }
    let submit = |line: &str, state: &str| {
        let line = format!("submit --key {} {line}", "07".repeat(16));
        let mut command = alice.command(&line);
        let (code, text, stderr) =
            said(command.env("XDG_STATE_HOME", alice.dir().join(state)).output().unwrap());
        let job = (code == 0).then(|| document(&text)["job_id"].clone());
        (code, job, stderr)
    };
    let (code, job, stderr) = submit("./one.sh --time 10s", "here");
    assert!(code == 0, "{stderr}");
    assert_eq!(submit("./one.sh --time 10s", "here").1, job, "the same command");
    for changed in ["./other.sh --time 10s", "./one.sh --time 20s"] {
        let (code, _, stderr) = submit(changed, "here");
        assert!(
            code == 2 && stderr.contains("found another one\n  hint: use another key"),
            "{code}: {stderr}"
        );
    }
    // From another machine, where no note of the key is.
    let (code, _, stderr) = submit("./other.sh --time 10s", "elsewhere");
    assert!(code == 2 && stderr.contains("which runs `one.sh`\n  hint: use another key"), "{code}: {stderr}");
}
