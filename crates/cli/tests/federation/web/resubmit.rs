//! What was submitted as a job, and the same submitted again: through the pages and on the command line.

use super::*;

/// What runs as the first job: it keeps one input, changes one and removes one.
const TEXT: &str = "#!/bin/sh\n#PLIANT --time 1m\ncat kept.txt; echo \"$1 $MODE\"; echo more >> changed.txt; rm in/gone.txt\n";

/// Submits that script as a command of alice, and waits for its end.
fn submitted(user: &CommandUser) -> String {
    std::fs::write(user.dir().join("job.sh"), TEXT).unwrap();
    for name in ["kept.txt", "changed.txt", "gone.txt"] {
        std::fs::write(user.dir().join(name), format!("{name} of alice\n")).unwrap();
    }
    let inputs = "--in kept.txt --in changed.txt --in in/gone.txt=gone.txt";
    let line = format!("submit ./job.sh --rigid 2 --env MODE=fast {inputs} --wait -- one");
    let (code, document, error) = user.run(&line);
    assert_eq!(code, 0, "{error}");
    document["job_id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_shows_what_was_submitted_and_is_submitted_again() {
    let mut federation = Federation::start(&[Cluster::new("lyon", 2, 1.0)]).await;
    let user = CommandUser::new(&federation, "alice");
    let id = submitted(&user);
    let pages = Pages::opened(&federation, Role::User, "alice");
    let path = format!("/api/v1/jobs/{id}");
    let states = |found: &Value| -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let inputs = found["inputs"].as_array().unwrap();
        inputs.iter().map(|input| (text(&input["name"]), text(&input["state"]))).collect()
    };
    let expected = [("kept.txt", "kept"), ("changed.txt", "changed"), ("in/gone.txt", "removed")];
    let expected = expected.map(|(name, state)| (name.to_owned(), state.to_owned()));
    let found = pages.json(&format!("{path}/submitted"));
    let script = json!({
        "kind": "script", "name": "job.sh", "text": TEXT,
        "options": ["--rigid", "2", "--env", "MODE=fast"], "arguments": ["one"],
    });
    assert_eq!((&found["work"], &found["server"]), (&script, &Value::Null));
    assert_eq!(states(&found), expected);
    let kept = pages.get(&format!("{path}/files/work/kept.txt"));
    assert_eq!((kept.status, kept.text().as_str()), (200, "kept.txt of alice\n"));
    // Other users do not see it, and operators do.
    let bob = Pages::opened(&federation, Role::User, "bob");
    assert_eq!(bob.get(&format!("{path}/submitted")).status, 404);
    let again = json!({ "work": found["work"], "inputs_of": id });
    assert_eq!(bob.post("/api/v1/jobs", &again).status, 404);
    let root = Pages::opened(&federation, Role::Operator, "root");
    assert_eq!(root.json(&format!("{path}/submitted"))["work"], script);

    // Files that are not as they were are not sent in the place of those.
    let refused = pages.post("/api/v1/jobs", &again).json(422);
    assert!(refused["detail"].as_str().unwrap().contains("changed.txt"), "{refused}");
    // They are not needed if the submission was accepted before.
    let key = "0123456789abcdef0123456789abcdef";
    let first = pages.post("/api/v1/jobs", &json!({ "work": found["work"], "key": key })).json(201);
    let repeated = json!({ "work": found["work"], "inputs_of": id, "key": key });
    let accepted = async || {
        let answer = pages.post("/api/v1/jobs", &repeated);
        (answer.status == 201).then(|| answer.json(201))
    };
    assert_eq!(until("the agent to know the job", accepted).await["job_id"], first["job_id"]);
    let (code, _, error) = user.run(&format!("resubmit {id}"));
    assert!(code == 2 && error.contains("changed.txt") && error.contains("--in"), "{code} {error}");
    // The server has it in a file: its memory forgets it.
    federation.kill("lyon");
    federation.revive("lyon");
    let inputs = "--in changed.txt --in in/gone.txt=gone.txt";
    let (code, document, error) = user.run(&format!("resubmit {id} {inputs}"));
    assert_eq!(code, 0, "{error}");
    let second = document["job_id"].as_str().unwrap();
    assert_ne!(second, id);
    let (code, _, error) = user.run(&format!("wait {second}"));
    assert_eq!(code, 0, "{error}");
    assert_eq!(pages.get(&format!("/api/v1/jobs/{second}/log")).text(), "kept.txt of alice\none fast\n");
    assert_eq!(pages.json(&format!("/api/v1/jobs/{second}/submitted"))["work"], script);
}

#[tokio::test(flavor = "multi_thread")]
async fn input_files_of_an_earlier_job_go_along() {
    let federation = Federation::start(&[Cluster::new("lyon", 2, 1.0)]).await;
    let user = CommandUser::new(&federation, "alice");
    std::fs::write(user.dir().join("data.txt"), "data\n").unwrap();
    std::fs::write(user.dir().join("job.sh"), "#!/bin/sh\n#PLIANT --time 1m --in data.txt\ncat data.txt\n")
        .unwrap();
    let (code, document, error) = user.run("submit ./job.sh --server lyon --wait");
    assert_eq!(code, 0, "{error}");
    let id = document["job_id"].as_str().unwrap();
    let pages = Pages::opened(&federation, Role::User, "alice");
    let found = pages.json(&format!("/api/v1/jobs/{id}/submitted"));
    assert_eq!((&found["server"], &found["work"]["options"]), (&json!("lyon"), &json!([])));
    // The name is that of a file of the machine of the pages, which is never read.
    let without = json!({ "work": found["work"] });
    assert_eq!(pages.post("/api/v1/jobs", &without).status, 422);
    let again = json!({ "work": found["work"], "inputs_of": id, "server": "lyon" });
    assert_eq!(pages.post("/api/v1/estimates", &again).json(200)["estimates"].as_array().unwrap().len(), 1);
    let second = pages.post("/api/v1/jobs", &again).json(201)["job_id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/jobs/{second}");
    until("the end of the job", async || (pages.json(&path)["job"]["state"] == "COMPLETED").then_some(()))
        .await;
    assert_eq!(pages.get(&format!("{path}/log")).text(), "data\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_never_started_is_submitted_again() {
    let federation = Federation::start(&[Cluster::new("lyon", 2, 1.0)]).await;
    let alice = federation.client("alice");
    let long = submit(&alice, &order(rigid("sleep 1000", 2, 2000))).await;
    let user = CommandUser::new(&federation, "alice");
    let (code, document, error) = user.run("submit say text=hi");
    assert_eq!(code, 0, "{error}");
    let id = document["job_id"].as_str().unwrap();
    let pages = Pages::opened(&federation, Role::User, "alice");
    let path = format!("/api/v1/jobs/{id}");
    let service = json!({ "kind": "service", "name": "say", "arguments": { "text": "hi" } });
    let found = pages.json(&format!("{path}/submitted"));
    assert_eq!((&found["work"], &found["inputs"]), (&service, &json!([])), "while it waits");
    pages.post(&format!("{path}/cancel"), &json!({})).json(200);
    assert_eq!(pages.json(&path)["job"]["state"], "CANCELED");
    let kept = async || {
        let answer = pages.get(&format!("{path}/submitted"));
        (answer.status == 200).then(|| answer.json(200))
    };
    assert_eq!(until("the server to keep it", kept).await["work"], service);
    alice.cancel(&long.handle).await.unwrap();
    let (code, document, error) = user.run(&format!("resubmit {id}"));
    assert_eq!(code, 0, "{error}");
    let second = document["job_id"].as_str().unwrap();
    assert_eq!(user.run(&format!("wait {second}")).0, 0);
    assert_eq!(pages.get(&format!("/api/v1/jobs/{second}/log")).text(), "<hi>");
    // What was not kept is said so.
    let folder = federation.folder("lyon").join("state/jobs").join(second.rsplit('.').next().unwrap());
    assert!(folder.join("submitted.json").exists(), "{}", folder.display());
    std::fs::remove_dir_all(folder).unwrap();
    let gone = async || {
        let answer = pages.get(&format!("/api/v1/jobs/{second}/submitted"));
        (answer.status == 404).then(|| answer.text())
    };
    let gone = until("the machine to forget it", gone).await;
    assert!(gone.contains("is not kept at server lyon"), "{gone}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_form_is_filled_in_a_browser() {
    let Some(program) = pliant_testing::browser::find() else { return };
    let federation = Federation::start(&[Cluster::new("lyon", 2, 1.0)]).await;
    let user = CommandUser::new(&federation, "alice");
    std::fs::write(user.dir().join("data.txt"), "data\n").unwrap();
    std::fs::write(user.dir().join("job.sh"), "#!/bin/sh\ncat data.txt; echo \"$1\"\n").unwrap();
    let (code, document, error) =
        user.run("submit ./job.sh --time 2m --rigid 2 --nice 3 --in data.txt --wait -- it's");
    assert_eq!(code, 0, "{error}");
    let id = document["job_id"].as_str().unwrap();
    let mut browser = chromium::Browser::start(&program);
    browser.show(1280, 900, false);
    let site = Pages::start(&federation, Role::User, "alice");
    browser.open(&format!("http://{}{}", site.address, site.link));
    browser.until("document.body.dataset.page === 'overview'");
    browser.open(&format!("http://{}/jobs/{id}", site.address));
    browser.until("document.querySelector('#inputs a')?.textContent === 'data.txt'");
    browser::look(&mut browser, "job-submitted");
    browser::click(&mut browser, "#resubmit");
    browser
        .until("document.body.dataset.page === 'submit' && document.body.dataset.rendered === 'estimates:1'");
    for (field, expected) in [
        ("time", "2m"),
        ("rigid", "2"),
        ("options", "--nice 3"),
        ("arguments", "'it'\"'\"'s'"),
        ("name", "job.sh"),
    ] {
        assert_eq!(
            browser.evaluate(&format!("document.querySelector('[name={field}]').value")),
            expected,
            "{field}"
        );
    }
    assert_eq!(
        browser.evaluate("document.querySelector('#inputs-of').textContent"),
        format!("Input files of {id} are sent along: data.txt.")
    );
    browser::look(&mut browser, "resubmit");
    browser::click(&mut browser, "#submit [type=submit]");
    browser.until(&format!(
        "document.body.dataset.page === 'job' && document.querySelector('#job').dataset.job !== '{id}'"
    ));
    browser.until("document.querySelector('#log').textContent === \"data\\nit's\\n\"");
    // What the form would change is not filled in.
    std::fs::write(user.dir().join("lines.sh"), "#!/bin/sh\necho one # \r\necho two # \r\n").unwrap();
    let (code, document, error) = user.run("submit ./lines.sh --time 2m --rigid 1 --wait");
    assert_eq!(code, 0, "{error}");
    let lines = document["job_id"].as_str().unwrap();
    browser.open(&format!("http://{}/submit?from={lines}", site.address));
    browser.until(&format!("document.body.innerText.includes('pliant resubmit {lines}')"));
    let text = browser.evaluate("document.querySelector('[name=text]').value").to_string();
    assert!(!text.contains("echo two"), "{text}");
    browser::clean(&mut browser);
}

#[tokio::test(flavor = "multi_thread")]
async fn input_files_come_with_a_submission_and_replace_those_of_an_earlier_job() {
    let federation = Federation::start(&[Cluster::new("lyon", 2, 1.0)]).await;
    let pages = Pages::opened(&federation, Role::User, "alice");
    let body = |files: Value, inputs_of: Option<&str>| {
        let text = "#!/bin/sh\ncat a 'in/b c'; echo more >> a\n";
        let work = json!({ "kind": "script", "name": "job.sh", "text": text, "options": ["--rigid", "1", "--time", "1m"] });
        json!({ "work": work, "files": files, "inputs_of": inputs_of })
    };
    let file = |name: &str, base64: &str| json!({ "name": name, "base64": base64 });
    let files = json!([file("a", "b25lCg=="), file("in/b c", "dHdvCg==")]);
    let estimates = pages.post("/api/v1/estimates", &body(json!([{ "name": "a" }]), None)).json(200);
    let command = estimates["command"].as_str().unwrap();
    assert!(command.starts_with("pliant submit --in a --rigid 1"), "{command}");
    for (wrong, expected) in [
        (file("../key.pem", ""), "files: "),
        (file("/etc/passwd", ""), "files: "),
        (file("a", "b25l!"), "files: expected the content of `a` in base64"),
    ] {
        let refused = pages.post("/api/v1/jobs", &body(json!([wrong]), None)).json(400);
        assert!(refused["detail"].as_str().unwrap().starts_with(expected), "{refused}");
    }
    let ended = async |body: &Value| {
        let id = pages.post("/api/v1/jobs", body).json(201)["job_id"].as_str().unwrap().to_owned();
        let path = format!("/api/v1/jobs/{id}");
        until("its end", async || (pages.json(&path)["job"]["state"] == "COMPLETED").then_some(())).await;
        (id, pages.get(&format!("{path}/log")).text())
    };
    let (first, log) = ended(&body(files, None)).await;
    assert_eq!(log, "one\ntwo\n");
    // The job has changed `a`, so it cannot be sent again: another one takes its place.
    assert_eq!(pages.post("/api/v1/jobs", &body(json!([]), Some(&first))).status, 422);
    let (_, log) = ended(&body(json!([file("a", "dGhyZWUK")]), Some(&first))).await;
    assert_eq!(log, "three\ntwo\n");
}
