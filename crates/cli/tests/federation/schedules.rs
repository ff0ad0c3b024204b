//! When jobs run: not before an instant.

use std::fs;

use pliant_control::job::JobState;
use serde_json::json;

use crate::harness::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_job_starts_at_its_instant_also_if_its_server_is_killed_before() {
    let mut federation = Federation::start(&[Cluster::new("lyon", 2, 1.0)]).await;
    let user = CommandUser::new(&federation, "alice");
    let client = federation.client("alice");
    fs::write(user.dir().join("job.sh"), "#!/bin/sh\n#SBATCH --time=1\n#SBATCH -b now+8\n").unwrap();

    let (code, found, error) = user.run("submit ./job.sh --begin now+1h --dry-run");
    let start = found["estimates"][0]["start_s"].as_i64().unwrap();
    assert!(code == 0 && (3_590..=3_600).contains(&(start - now().0)), "{found} {error}");

    let (code, job, error) = user.run("submit ./job.sh");
    assert_eq!(code, 0, "{error}");
    let begin = job["requested"]["begin_s"].as_i64().unwrap();
    assert_eq!(job["expected"]["start_s"], json!(begin));
    let (_, explanation, _) = user.run(&format!("explain {}", job["job_id"].as_str().unwrap()));
    let why = explanation["unplanned"].as_str().unwrap_or_else(|| panic!("{explanation}"));
    assert!(why.starts_with("its owner lets it start from "), "{why}");

    federation.kill("lyon");
    federation.revive("lyon");
    let handle = job["job_id"].as_str().unwrap().parse().unwrap();
    let ended = federation.reaches(&client, &handle, JobState::Completed).await;
    let started = ended.started.unwrap().0;
    assert!((begin..begin + 30).contains(&started), "started at {started}, expected {begin}");

    // It is for scripts.
    let (code, _, error) = user.run("submit pi --begin now+1h");
    assert_eq!(code, 2, "{error}");
    assert!(error.starts_with("error: expected --begin with a script"), "{error}");
    let (code, _, error) = user.run("submit ./job.sh --begin later");
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("expected now+COUNT[UNIT]"), "{error}");
}
