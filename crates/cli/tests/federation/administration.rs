//! The acts of operators.

use pliant_control::job::JobState;
use pliant_control::names::Handle;

use crate::harness::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_server_gets_no_new_jobs_until_an_operator_resumes_it() {
    let clusters =
        ["lyon", "paris"].map(|name| Cluster::new(name, 1, if name == "lyon" { 2.0 } else { 1.0 }));
    let mut federation = Federation::start(&clusters).await;
    let (operator, user) = (CommandUser::operator(&federation), CommandUser::new(&federation, "alice"));
    let alice = federation.client("alice");
    let gate = federation.path().join("gate");
    let running = submit(&alice, &order(rigid(&waiting_for(&gate), 1, 600))).await;
    assert_eq!(running.server().as_str(), "lyon", "the faster one");
    federation.reaches(&alice, &running.handle, JobState::Active).await;

    // Only operators may do it, and only with a reason.
    let (code, _, stderr) = user.run("admin drain lyon --why mischief");
    assert_eq!((code, stderr.contains("only an operator may drain a server")), (2, true), "{stderr}");
    federation.logged("lyon", &["refused for lack of rights", "alice", "drain a server"]).await;
    assert_eq!(operator.run("admin drain lyon").0, 2);
    let (code, drained, stderr) = operator.run("admin drain lyon --why disks");
    assert_eq!((code, &drained["drained"]["why"]), (0, &"disks".into()), "{stderr}");
    shows_drained(&federation, &["lyon"]).await;

    // The drain outlives its server's end, and what runs is not ended.
    federation.kill("lyon");
    federation.revive("lyon");
    federation.attached(2).await;
    shows_drained(&federation, &["lyon"]).await;
    let (_, servers, _) = user.run("servers");
    assert_eq!([0, 1].map(|at| servers["servers"][at]["drained"] == true), [true, false], "{servers}");
    let (code, _, stderr) = user.run("submit say text=hi --server lyon");
    assert_ne!(code, 0, "{stderr}");
    assert!(stderr.contains("root has drained the server since") && stderr.contains("disks"), "{stderr}");
    let elsewhere = run(&alice, &order(rigid("true", 1, 60))).await;
    assert_eq!(elsewhere.server().as_str(), "paris");
    assert_eq!(operator.run("admin drain lyon --why disks").1, drained, "the time of the first act stays");
    std::fs::write(&gate, "").unwrap();
    federation.reaches(&alice, &running.handle, JobState::Completed).await;

    let (code, resumed, stderr) = operator.run("admin resume lyon --why done");
    assert_eq!((code, resumed["drained"].is_null()), (0, true), "{stderr}");
    shows_drained(&federation, &[]).await;
    let again = run(&alice, &order(rigid("true", 1, 60))).await;
    assert_eq!(again.server().as_str(), "lyon");

    // Who did what, in order, over the crash.
    let (_, log, stderr) = operator.run("admin log lyon");
    let acts = |log: &serde_json::Value| {
        let records = log["records"].as_array().unwrap().iter();
        let words = records.map(|one| ["act", "by", "why"].map(|key| one[key].as_str().unwrap().to_owned()));
        words.map(|words| words.join(" ").trim_end().to_owned()).collect::<Vec<_>>()
    };
    let expected = [
        "accept user/alice",
        "deny user/alice drain a server",
        "drain operator/root disks",
        "drain operator/root disks",
        "resume operator/root done",
        "accept user/alice",
    ];
    assert_eq!(acts(&log), expected, "{stderr}");
    let mut lines = operator.command("admin log lyon --lines");
    let lines = String::from_utf8(lines.output().unwrap().stdout).unwrap();
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, *log["records"].as_array().unwrap());
    assert_eq!(user.run("admin log lyon").0, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_job_waits_until_an_operator_releases_it() {
    let mut federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let (operator, user) = (CommandUser::operator(&federation), CommandUser::new(&federation, "alice"));
    let alice = federation.client("alice");
    let gate = federation.path().join("gate");
    let first = submit(&alice, &order(rigid(&waiting_for(&gate), 1, 600))).await;
    federation.reaches(&alice, &first.handle, JobState::Active).await;
    let [held, free] = [
        submit(&alice, &order(rigid("true", 1, 60))).await.handle,
        submit(&alice, &order(rigid("true", 1, 60))).await.handle,
    ];
    assert_eq!(user.run(&format!("admin hold {held} --why mischief")).0, 2, "users hold no jobs");
    let (code, _, stderr) = operator.run(&format!("admin hold {held} --why disks"));
    assert_eq!(code, 0, "{stderr}");

    federation.kill("lyon");
    federation.revive("lyon");
    federation.attached(1).await;
    std::fs::write(&gate, "").unwrap();
    federation.reaches(&alice, &free, JobState::Completed).await;
    let explained = user.run(&format!("explain {held}")).1.to_string();
    assert!(explained.contains("root has held the job since") && explained.contains("disks"), "{explained}");
    let (code, _, stderr) = operator.run(&format!("admin release {held} --why done"));
    assert_eq!(code, 0, "{stderr}");
    federation.reaches(&alice, &held, JobState::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_banned_user_gets_nothing_until_an_operator_ends_the_ban() {
    let mut federation = Federation::start(&["lyon", "paris"].map(|name| Cluster::new(name, 1, 1.0))).await;
    let (operator, user) = (CommandUser::operator(&federation), CommandUser::new(&federation, "alice"));
    let (alice, bob) = (federation.client("alice"), federation.client("bob"));
    let gate = federation.path().join("gate");
    let mut running = Vec::new();
    for _ in 0..2 {
        let job = submit(&alice, &order(rigid(&waiting_for(&gate), 1, 600))).await;
        federation.reaches(&alice, &job.handle, JobState::Active).await;
        running.push(job.handle);
    }
    let [waiting, cancelled] = [
        submit(&alice, &order(rigid("true", 1, 60))).await.handle,
        submit(&alice, &order(rigid("true", 1, 60))).await.handle,
    ];

    assert_eq!(user.run("admin ban bob --why mischief").0, 2, "users ban no one");
    let (code, banned, stderr) = operator.run("admin ban alice --why stolen");
    assert_eq!((code, banned["servers"].as_array().unwrap().len()), (0, 2), "{stderr}");
    for name in ["lyon", "paris"] {
        federation.kill(name);
        federation.revive(name);
    }
    federation.attached(2).await;

    // It is known at discovery already, and when the user names the server.
    for submission in ["submit say text=hi", "submit say text=hi --server lyon"] {
        let (code, _, stderr) = user.run(submission);
        assert!(code != 0 && stderr.contains("root has banned the user since"), "{submission}: {stderr}");
    }
    std::fs::write(&gate, "").unwrap();
    for job in &running {
        federation.reaches(&alice, job, JobState::Completed).await;
    }
    run(&bob, &order(rigid("true", 1, 60))).await;

    // The user sees the jobs and cancels them.
    let explained = user.run(&format!("explain {waiting}")).1.to_string();
    assert!(explained.contains("root has banned the user since"), "{explained}");
    assert_eq!(user.run(&format!("status {waiting}")).1["jobs"][0]["state"], "QUEUED");
    assert_eq!(user.run(&format!("cancel {cancelled}")).0, 0);
    federation.reaches(&alice, &cancelled, JobState::Canceled).await;

    let (code, bans, stderr) = operator.run("admin ban");
    let listed = bans["bans"].as_array().unwrap().iter();
    let listed: Vec<_> =
        listed.map(|ban| (ban["user"].as_str().unwrap(), ban["why"].as_str().unwrap())).collect();
    assert_eq!((code, listed), (0, vec![("alice", "stolen"); 2]), "{stderr}");
    assert_eq!(user.run("admin ban").0, 2, "users list no bans");
    // A server that is down is an error; the others end the ban.
    federation.kill("paris");
    let at_lyon = operator.run("admin unban alice --why checked --server lyon").1;
    assert!(at_lyon["servers"][0]["banned"].is_null(), "{at_lyon}");
    let (code, answered, stderr) = operator.run("admin unban alice --why checked");
    assert!(code != 0 && stderr.contains("paris"), "{stderr}");
    assert_eq!(answered["servers"].as_array().unwrap().len(), 1);
    federation.revive("paris");
    federation.attached(2).await;
    assert_eq!(operator.run("admin unban alice --why checked").0, 0);
    federation.reaches(&alice, &waiting, JobState::Completed).await;
    run(&alice, &order(rigid("true", 1, 60))).await;

    let (_, log, stderr) = operator.run("admin log lyon");
    let records = log["records"].as_array().unwrap().iter().filter(|one| one["user"] == "alice");
    let acts: Vec<&str> = records.map(|one| one["act"].as_str().unwrap()).collect();
    assert_eq!(acts, ["ban", "unban", "unban", "unban"], "{stderr}");
}

/// Waits until the agent lists these servers as drained, and no others.
async fn shows_drained(federation: &Federation, expected: &[&str]) {
    let client = federation.operator();
    until(&format!("{expected:?} drained"), async || {
        let found = client.servers().await.ok()?;
        let drained = found.servers.iter().filter(|server| server.drained);
        drained.map(|server| server.info.name.as_str()).eq(expected.iter().copied()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limited_user_runs_and_queues_no_more_over_a_restart() {
    let mut federation = Federation::start(&[Cluster::new("lyon", 3, 1.0)]).await;
    let (operator, user) = (CommandUser::operator(&federation), CommandUser::new(&federation, "alice"));
    let (alice, bob) = (federation.client("alice"), federation.client("bob"));
    assert_eq!(user.run("admin limit bob running-jobs=1 --why mischief").0, 2, "users limit no one");
    assert_eq!(user.run("admin limit").0, 2);
    assert_eq!(operator.run("admin limit alice running-jobs=1").0, 2, "without a reason");
    assert_eq!(operator.run("admin limit alice cores=1 --why exams").0, 2);
    let (code, set, stderr) = operator.run("admin limit alice running-jobs=1 waiting-jobs=2 --why exams");
    assert_eq!((code, &set["limits"][0]["running_jobs"]), (0, &1.into()), "{stderr}");
    federation.kill("lyon");
    federation.revive("lyon");
    federation.attached(1).await;
    assert_eq!(operator.run("admin limit").1, set);
    assert_eq!(operator.run("admin limit bob").1["limits"].as_array().unwrap().len(), 0);

    let gate = federation.path().join("gate");
    let first = submit(&alice, &order(rigid(&waiting_for(&gate), 1, 600))).await.handle;
    federation.reaches(&alice, &first, JobState::Active).await;
    let waiting = [
        submit(&alice, &order(rigid("true", 1, 60))).await.handle,
        submit(&alice, &order(rigid("true", 1, 60))).await.handle,
    ];
    let (code, _, stderr) = user.run("submit say text=hi");
    assert!(code != 0 && stderr.contains("root has limited the user since"), "{stderr}");
    run(&bob, &order(rigid("true", 1, 60))).await;
    assert_eq!(user.run(&format!("status {}", waiting[0])).1["jobs"][0]["state"], "QUEUED");
    let explained = user.run(&format!("explain {}", waiting[0])).1.to_string();
    assert!(explained.contains("root has limited the user since"), "{explained}");
    std::fs::write(&gate, "").unwrap();
    for job in &waiting {
        federation.reaches(&alice, job, JobState::Completed).await;
    }

    let (_, none, stderr) = operator.run("admin limit alice running-jobs=none waiting-jobs=none --why over");
    assert!(none["limits"][0]["by"].is_null(), "{none} {stderr}");
    let (_, log, stderr) = operator.run("admin log lyon");
    let records = log["records"].as_array().unwrap().iter().filter(|one| one["act"] == "limit");
    let whys: Vec<&str> = records.map(|one| one["why"].as_str().unwrap()).collect();
    let expected = ["running-jobs=1, waiting-jobs=2: exams", "running-jobs=none, waiting-jobs=none: over"];
    assert_eq!(whys, expected, "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_priority_of_a_waiting_job_comes_before_the_queue_over_a_restart() {
    let mut federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let (operator, user) = (CommandUser::operator(&federation), CommandUser::new(&federation, "alice"));
    let alice = federation.client("alice");
    let gate = federation.path().join("gate");
    let first = submit(&alice, &order(rigid(&waiting_for(&gate), 1, 600))).await;
    federation.reaches(&alice, &first.handle, JobState::Active).await;
    let mut waiting = Vec::new();
    for _ in 0..2 {
        waiting.push(submit(&alice, &order(rigid("true", 1, 60))).await.handle);
    }
    let last = &waiting[1];
    assert_eq!(user.run(&format!("admin priority {last} --why mine")).0, 2, "users set no priorities");
    assert_eq!(operator.run(&format!("admin priority {last} urgent --why deadline")).0, 2);
    let (code, jobs, stderr) = operator.run(&format!("admin priority {last} HIGHEST --why deadline"));
    assert_eq!((code, &jobs["jobs"][0]["job_id"]), (0, &last.to_string().into()), "{stderr}");
    federation.kill("lyon");
    federation.revive("lyon");
    federation.attached(1).await;
    let ahead = |job: &Handle| user.run(&format!("explain {job}")).1["waits"]["ahead"].clone();
    assert_eq!([ahead(last), ahead(&waiting[0])], [0, 1]);
    assert_eq!(operator.run(&format!("admin priority {last} -1 --why later")).0, 0);
    assert_eq!([ahead(last), ahead(&waiting[0])], [1, 0]);
    std::fs::write(&gate, "").unwrap();
    for job in &waiting {
        federation.reaches(&alice, job, JobState::Completed).await;
    }
    let (_, log, stderr) = operator.run("admin log lyon");
    let records = log["records"].as_array().unwrap().iter().filter(|one| one["act"] == "priority");
    let whys: Vec<&str> = records.map(|one| one["why"].as_str().unwrap()).collect();
    assert_eq!(whys, ["1000000: deadline", "-1: later"], "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_has_an_audit_trail_of_what_operators_and_others_did_at_it() {
    let federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let (operator, user) = (CommandUser::operator(&federation), CommandUser::new(&federation, "alice"));
    assert_eq!(user.run("reallocate --off").0, 2);
    assert_eq!(user.run("queue --all").0, 2);
    assert_eq!(operator.run("reallocate --set period=5m").0, 0);
    assert_eq!(operator.run("reallocate").0, 0);
    assert_eq!(operator.run("reallocate --off").0, 0);
    assert_eq!(operator.run("reallocate --reset").0, 0);
    let (code, log, stderr) = operator.run("admin log");
    assert_eq!(code, 0, "{stderr}");
    let records = log["records"].as_array().unwrap();
    let agent = records[0]["server"].as_str().unwrap().to_owned();
    let words =
        records.iter().map(|one| ["act", "by", "why"].map(|key| one[key].as_str().unwrap()).join(" "));
    let found: Vec<String> = words.collect();
    assert!(found[2].starts_with("configure operator/root algorithm="), "{found:?}");
    assert!(found[2].contains("period=300s"), "{found:?}");
    let policy = found[2].trim_start_matches("configure operator/root ");
    assert_eq!(found[3], format!("reallocate operator/root {policy}"));
    let others = [&found[..2], &found[4..]].concat();
    let expected = [
        "deny user/alice change the reallocation policy",
        "deny user/alice see the jobs of other users",
        "configure operator/root off",
        "configure operator/root reset",
    ];
    assert_eq!(others, expected);
    assert_eq!(operator.run(&format!("admin log {agent}")).1, log, "of that agent alone");
    assert_eq!(user.run(&format!("admin log {agent}")).0, 2);
    assert_eq!(operator.run("admin log nowhere").0, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_jobs_leave_a_drained_server_even_if_they_complete_later() {
    let mut federation = Federation::agent_only(
        "[reallocation]\nalgorithm = \"regular\"\nheuristic = \"mct\"\nperiod_s = 100000\nearly_s = 1\n",
    );
    federation.add_server(&Cluster::new("lyon", 1, 1.0));
    federation.add_server(&Cluster::new("paris", 1, 1.0));
    federation.attached(2).await;
    let operator = CommandUser::operator(&federation);
    let alice = federation.client("alice");
    let (short, long) = (federation.path().join("short"), federation.path().join("long"));
    let mut running = Vec::new();
    for (server, gate, walltime) in [("lyon", &short, 1_000), ("paris", &long, 5_000)] {
        running.push(submit(&alice, &order_to(server, rigid(&waiting_for(gate), 1, walltime))).await.handle);
    }
    for job in &running {
        federation.reaches(&alice, job, JobState::Active).await;
    }
    let waiting = submit(&alice, &order(rigid("true", 1, 60))).await;
    assert_eq!(waiting.server().as_str(), "lyon", "it completes earlier there");
    let pinned = submit(&alice, &order_to("lyon", rigid("true", 1, 60))).await.handle;
    assert_eq!(operator.run("admin drain lyon --why disks").0, 0);
    until("the job at paris", async || {
        let at = alice.job(&waiting.handle).await.ok()?;
        (at.server().as_str() == "paris").then_some(())
    })
    .await;
    let (_, explained, _) = operator.run(&format!("explain {}", waiting.handle));
    assert_eq!(explained["moves"][0]["reason"], "drained", "{explained}");
    assert!(explained["moves"][0]["gain_s"].as_i64().unwrap() < 0, "{explained}");
    // What its user has pinned runs there.
    assert_eq!(alice.job(&pinned).await.unwrap().server().as_str(), "lyon");
    std::fs::write(&short, "").unwrap();
    federation.reaches(&alice, &pinned, JobState::Completed).await;
    std::fs::write(&long, "").unwrap();
    federation.reaches(&alice, &waiting.handle, JobState::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_a_server_that_never_comes_back_end_when_an_operator_declares_it_lost() {
    let clusters = [Cluster::new("lyon", 1, 1.0), Cluster::new("paris", 1, 1.0)];
    let mut federation = Federation::start(&clusters).await;
    let (operator, user) = (CommandUser::operator(&federation), CommandUser::new(&federation, "alice"));
    let alice = federation.client("alice");
    let gate = federation.path().join("never");
    let running = submit(&alice, &order_to("lyon", rigid(&waiting_for(&gate), 1, 600))).await.handle;
    federation.reaches(&alice, &running, JobState::Active).await;
    let waiting = submit(&alice, &order_to("lyon", rigid("true", 1, 60))).await.handle;
    until("the agent to know the job", async || alice.find(&waiting).await.ok()).await;
    let (code, _, stderr) = operator.run("admin forget lyon --why gone");
    assert!(code == 2 && stderr.contains("the server lyon is connected"), "{code} {stderr}");
    assert_eq!(user.run("admin forget lyon --why gone").0, 2, "users declare nothing");

    federation.kill("lyon");
    federation.attached(1).await;
    // Until then they are as the agent knows them.
    let (code, _, stderr) = user.run(&format!("cancel {waiting}"));
    assert!(code == 1 && stderr.contains("an operator may declare it lost"), "{code} {stderr}");
    let (code, explained, stderr) = user.run(&format!("explain {waiting}"));
    assert_eq!((code, &explained["job"]["state"]), (0, &"QUEUED".into()), "{explained} {stderr}");
    assert_eq!(user.run(&format!("status {waiting}")).1["jobs"][0]["state"], "QUEUED");
    assert_eq!(user.run(&format!("wait {waiting} --timeout 1s")).0, 4);

    let waits = {
        let (alice, waiting) = (federation.client("alice"), waiting.clone());
        tokio::spawn(async move { alice.wait(&waiting, |_| {}).await })
    };
    let (code, forgotten, stderr) = operator.run("admin forget lyon --why broken");
    assert_eq!((code, &forgotten["jobs"]), (0, &2.into()), "{stderr}");
    let ended = waits.await.unwrap().unwrap();
    assert_eq!(ended.state, JobState::Failed);
    for job in [&running, &waiting] {
        let (_, shown, _) = user.run(&format!("status {job}"));
        assert_eq!(shown["jobs"][0]["state"], "FAILED", "{shown}");
        assert!(shown.to_string().contains("root has declared that the server lyon is lost"), "{shown}");
        assert_eq!(user.run(&format!("explain {job}")).1["job"]["state"], "FAILED");
        let (_, cancelled, stderr) = user.run(&format!("cancel {job}"));
        assert_eq!(cancelled["jobs"][0]["state"], "FAILED", "{cancelled} {stderr}");
    }
    let (_, servers, _) = operator.run("servers");
    assert_eq!(servers["servers"].as_array().unwrap().len(), 1, "{servers}");
    let (_, log, _) = operator.run("admin log");
    let trail = log["records"].as_array().unwrap();
    let found = trail.iter().find(|one| one["act"] == "forget").unwrap();
    assert_eq!((&found["by"], &found["why"]), (&"operator/root".into(), &"lyon: broken".into()));
    run(&alice, &order(rigid("true", 1, 60))).await;
}
