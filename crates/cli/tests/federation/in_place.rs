//! `pliant submit --chdir`: scripts that run in a folder of the user's own.

use std::fs;

use serde_json::json;

use super::harness::{Cluster, CommandUser, Federation};

#[tokio::test]
async fn a_script_runs_in_its_users_folder_on_a_server_that_shares_it() {
    let scratch = tempfile::tempdir().unwrap();
    let home = scratch.path().canonicalize().unwrap();
    let run = home.join("alice/run one");
    fs::create_dir_all(&run).unwrap();
    fs::write(run.join("input"), "42\n").unwrap();
    // The slower server has the file system, at another path; the faster one has not.
    let elsewhere =
        home.parent().unwrap().join(format!("{}-mounted", home.file_name().unwrap().to_string_lossy()));
    std::os::unix::fs::symlink(&home, &elsewhere).unwrap();
    let shared = format!("[shared]\n\"{}\" = \"site-a\"\n", elsewhere.display());
    let slow = Cluster { tables: shared, ..Cluster::new("lyon", 2, 0.5) };
    let federation = Federation::start(&[Cluster::new("paris", 2, 2.0), slow]).await;
    let user = CommandUser::new(&federation, "alice");
    let script =
        "#!/bin/sh\nread number < input; echo $((number + 1)) > output; pwd -P; echo \"$PLIANT_JOB_DIR\"\n";
    fs::write(user.dir().join("job.sh"), script).unwrap();
    let line = |dir: &str| format!("submit ./job.sh --time 1m --wait --chdir {dir}");

    // Without [shared] in the client's file there is no such folder.
    fs::create_dir(user.dir().join("own")).unwrap();
    let (code, _, error) = user.run(&line("own"));
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("--chdir: expected a folder on a shared file system (none is named)"), "{error}");

    user.add_to_file(&format!("\n[shared]\n\"{}\" = \"site-a\"\n", home.display()));
    let link = user.dir().join("link");
    std::os::unix::fs::symlink(&run, &link).unwrap();
    let (code, job, error) = user.run(&line("link"));
    assert_eq!((code, &job["server"]), (0, &json!("lyon")), "{error}");
    assert_eq!(fs::read_to_string(run.join("output")).unwrap(), "43\n");
    let (code, fetched, error) =
        user.run(&format!("fetch {} --out results", job["job_id"].as_str().unwrap()));
    assert_eq!(code, 0, "{error}");
    let files = fetched["jobs"][0]["files"].as_array().unwrap().iter();
    let names: Vec<&str> = files.filter_map(|file| file["name"].as_str()).collect();
    assert_eq!(names, ["stdout", "stderr"], "nothing is staged");
    let said = fs::read_to_string(user.dir().join("results/stdout")).unwrap();
    let (place, job_dir) = said.trim_end().split_once('\n').unwrap();
    assert_eq!(place, run.to_string_lossy());
    assert!(job_dir.ends_with("/jobs/1"), "{said}");

    // Its standard input is in that folder.
    fs::write(user.dir().join("read.sh"), "#!/bin/sh\ncat > copied\n").unwrap();
    let (code, _, error) =
        user.run("submit ./read.sh --time 1m --wait --chdir link --stdin input --server lyon");
    assert_eq!(code, 0, "{error}");
    assert_eq!(fs::read_to_string(run.join("copied")).unwrap(), "42\n");

    // The other server says why it does not take it, and inputs are refused.
    let (code, _, error) = user.run(&format!("{} --server paris", line("link")));
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("found one on `site-a`"), "{error}");
    let (code, _, error) = user.run(&format!("{} --in job.sh", line("link")));
    assert_eq!(code, 2, "{error}");
    // A folder that is not there on the cluster is the job's failure.
    fs::remove_file(&elsewhere).unwrap();
    let (code, job, error) = user.run(&line("link"));
    assert_eq!((code, &job["exit"]["how"]), (3, &json!("not-started")), "{error}");
    assert!(job["exit"]["why"].as_str().unwrap().contains("there is no such folder"), "{job}");
}
