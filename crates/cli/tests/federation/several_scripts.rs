//! Several scripts in one command.

use std::fs;

use serde_json::Value;

use crate::harness::*;

/// Writes scripts that print their own names, and returns their paths as words of a command.
fn scripts(user: &CommandUser, names: &[String]) -> String {
    for name in names {
        fs::write(user.dir().join(name), format!("#!/bin/sh\necho {name} $1\n")).unwrap();
    }
    names.iter().map(|name| format!(" ./{name}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_script_is_a_job_of_its_own_in_the_order_of_the_command() {
    let federation = Federation::start(&[Cluster::new("lyon", 4, 1.0), Cluster::new("nancy", 4, 1.0)]).await;
    let user = CommandUser::new(&federation, "alice");
    let names: Vec<String> = (0..100).map(|number| format!("job-{number:02}.sh")).collect();
    let words = scripts(&user, &names);
    let (code, found, error) = user.run(&format!("submit --time 5s --wait{words} -- end"));
    assert_eq!(code, 0, "{error}");
    let jobs = found["jobs"].as_array().unwrap();
    let of =
        |key: &str| -> Vec<String> { jobs.iter().map(|job| job[key].as_str().unwrap().to_owned()).collect() };
    assert_eq!(of("name"), names);
    assert_eq!(of("script"), names.iter().map(|name| format!("./{name}")).collect::<Vec<String>>());
    assert!(jobs.iter().all(|job| job["state"] == "COMPLETED"), "{found}");
    for (job, name) in of("job_id").iter().zip(&names).step_by(33) {
        let (_, logs, _) = user.run(&format!("logs {job}"));
        assert_eq!(logs["text"], format!("{name} end\n"), "{logs}");
    }
    // The same command with the same key gives the same jobs.
    let again = format!("submit --time 5s --key 000102030405060708090a0b0c0d0e0f{words}");
    let [first, second] = [(); 2].map(|()| {
        let mut command = user.command(&again);
        let output = command.env("XDG_STATE_HOME", user.dir().join("state")).output().unwrap();
        let (code, text, stderr) = said(output);
        assert_eq!(code, 0, "{stderr}");
        let found: Value = serde_json::from_str(&text).unwrap();
        let jobs = found["jobs"].as_array().unwrap();
        jobs.iter().map(|job| job["job_id"].clone()).collect::<Vec<Value>>()
    });
    assert_eq!(first.len(), names.len());
    assert_eq!(first, second);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_cannot_be_submitted_does_not_hold_up_the_others() {
    let federation = Federation::start(&[Cluster::new("lyon", 2, 1.0)]).await;
    let user = CommandUser::new(&federation, "alice");
    let words = scripts(&user, &["one.sh".to_owned(), "two.sh".to_owned()]);
    fs::write(user.dir().join("large.sh"), "#!/bin/sh\n#PLIANT --rigid 64\n").unwrap();
    let (code, found, error) = user.run(&format!("submit --time 5s ./large.sh{words}"));
    assert_eq!(code, 2, "{error}");
    let scripts_of = |key: &str| -> Vec<&Value> {
        found[key].as_array().unwrap().iter().map(|one| &one["script"]).collect()
    };
    assert_eq!(scripts_of("jobs"), ["./one.sh", "./two.sh"]);
    assert_eq!(scripts_of("not_submitted"), ["./large.sh"]);
    assert!(error.contains("1 of 3 scripts not submitted:\n  ./large.sh: "), "{error}");
    // All are read before one is submitted.
    let (code, _, error) = user.run(&format!("submit --time 5s{words} ./none.sh"));
    assert_eq!(code, 1, "{error}");
    assert!(error.contains("./none.sh: cannot read"), "{error}");
    let (code, _, error) = user.run(&format!("submit --time 5s --out results{words}"));
    assert_eq!((code, error.contains("expected --out with one script, found 2")), (2, true), "{error}");
    let (_, queue, _) = user.run("queue --ended");
    assert_eq!(queue["jobs"].as_array().unwrap().len(), 2, "{queue}");
}
