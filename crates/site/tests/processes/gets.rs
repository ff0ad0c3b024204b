//! What a job gets: an environment, cores and a share of them, space for its output.

use std::collections::BTreeMap;
use std::fs;

use pliant_site::processes::{RunSpec, Streams};
use pliant_wire::Outcome;

use crate::scratch::*;

#[tokio::test]
async fn cpu_time_and_memory_are_of_the_whole_job() {
    // `tail` keeps what it may have to print.
    let text = "sh -c 'head -c 64000000 /dev/zero | tail -c 64000000 | wc -c'";
    let scratch = Scratch::with(&script(text));
    let exit = scratch.run().await;
    assert!(exit.is_success() && exit.cpu_s > 0.0, "{exit:?}");
    assert_eq!(scratch.text("stdout"), "64000000\n");
    assert!(exit.max_rss_kb.unwrap() > 60_000, "{exit:?}");
}

#[tokio::test]
async fn environment_is_what_was_given() {
    let mut spec = program(&["env"]);
    spec.env = BTreeMap::from([("PLIANT_PROCS".into(), "4".into()), ("PLIANT_JOB_DIR".into(), "no".into())]);
    let scratch = Scratch::with(&spec);
    let exit = scratch.run().await;
    assert!(exit.is_success(), "{exit:?}");
    let stdout = scratch.text("stdout");
    let mut found: Vec<&str> = stdout.lines().collect();
    found.sort_unstable();
    let dir = scratch.dir().into_os_string().into_string().unwrap();
    let expected = [
        format!("HOME={dir}/work"),
        "LANG=C.UTF-8".into(),
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".into(),
        format!("PLIANT_JOB_DIR={dir}"),
        "PLIANT_PROCS=4".into(),
    ];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn throttled_jobs_use_no_more_than_their_share() {
    async fn check(text: &str, share: f64) {
        let spec = RunSpec { cpu_share: Some(share), walltime_s: 3, grace_s: 0, ..script(text) };
        let scratch = Scratch::with(&spec);
        let exit = scratch.run().await;
        assert!(exit.over_walltime, "{exit:?}");
        let used = exit.cpu_s / (exit.elapsed_ms as f64 / 1000.0);
        // Less than its share on a machine that is busy with something else.
        assert!(used > 0.0 && used < share * 1.4, "{text}: {used} cores of {share}");
    }
    let busy = "while :; do :; done";
    check(busy, 0.25).await;
    check(&format!("trap '' TERM; ({busy}) & {busy}"), 0.25).await;
    // Outside of the group, too.
    check(&format!("trap '' TERM; setsid sh -c '{busy}' & wait; sleep 1000"), 0.25).await;
}

#[tokio::test]
async fn pinned_jobs_stay_on_their_cores() {
    let allowed = |status: &str| {
        let line = status.lines().find(|line| line.starts_with("Cpus_allowed_list:"));
        line.unwrap().split_once(':').unwrap().1.trim().to_owned()
    };
    // The last core that this process may use: 0 would not distinguish a pin from a default.
    let own = allowed(&fs::read_to_string("/proc/self/status").unwrap());
    let core: u32 = own.rsplit([',', '-']).next().unwrap().parse().unwrap();
    let spec = RunSpec { cores: Some(vec![core]), ..script("sh -c 'cat /proc/self/status'") };
    let scratch = Scratch::with(&spec);
    assert!(scratch.run().await.is_success());
    assert_eq!(allowed(&scratch.text("stdout")), core.to_string());
}

#[tokio::test]
async fn output_is_cut_and_the_job_goes_on() {
    let text = "head -c 300000 /dev/zero | tr '\\0' x; echo few >&2; touch done";
    let scratch = Scratch::with(&RunSpec { max_output_bytes: 1000, ..script(text) });
    let exit = scratch.run().await;
    assert!(exit.is_success(), "{exit:?}");
    assert_eq!((exit.stdout_cut, exit.stderr_cut), (true, false));
    let expected = format!("{}\n[pliant: output beyond 1000 bytes was dropped]\n", "x".repeat(1000));
    assert_eq!((scratch.text("stdout"), scratch.text("stderr")), (expected, "few\n".to_owned()));
    assert!(scratch.dir().join("work/done").exists());
}

#[tokio::test]
async fn standard_input_is_a_file_and_both_outputs_are_one() {
    let streams = Streams { stdin: Some("in/data".parse().unwrap()), merge_output: true };
    let spec =
        RunSpec { streams, ..script("echo a; echo b >&2; cat; (sleep 0.1; echo d >&2) & echo c; wait") };
    let scratch = Scratch::with(&spec);
    fs::create_dir(scratch.dir().join("work/in")).unwrap();
    fs::write(scratch.dir().join("work/in/data"), "42\n").unwrap();
    assert!(scratch.run().await.is_success());
    assert_eq!(
        (scratch.text("stdout"), scratch.text("stderr")),
        ("a\nb\n42\nc\nd\n".to_owned(), String::new())
    );
    // Without the file the job is not started.
    let scratch = Scratch::with(&spec);
    let exit = scratch.run().await;
    let Outcome::NotStarted(why) = &exit.outcome else { panic!("{exit:?}") };
    assert!(why.starts_with("its standard input `in/data`: No such file"), "{why}");
}
