//! Services that need memory and GPUs: their operator says so, and no user.

use std::fs;

use pliant_control::job::JobState;
use serde_json::{Value, json};

use crate::harness::*;

/// A host of four processors with a made-up list of devices, and services that need some of it.
fn cluster(gate: &str) -> Cluster {
    let cluster = Cluster::new("lyon", 4, 1.0);
    let tables = format!(
        r#"
[cluster.node]
memory = "1G"
gpus = ["GPU-a", "GPU-b"]
gpu_kind = "a100"

[optional]
cores = 1

[[service]]
name = "train"
command = ["/bin/sh", "-c", "until [ -e {gate} ]; do sleep 0.05; done; echo $1 $PLIANT_MEMORY_MIB $CUDA_VISIBLE_DEVICES", "train", "{{x}}"]
speedup = "rigid:1"
runtime = "60s"

[service.arguments.x]
type = "integer"
default = 1

[service.resources]
mem = "600M"
gpus = "a100:1"

[[service]]
name = "chosen"
command = ["/bin/sh", "-c", "echo $CUDA_VISIBLE_DEVICES"]
speedup = "table:2=100,2+2g=30"
runtime = "60s"
{}"#,
        cluster.tables
    );
    Cluster { tables, cluster_keys: "power_mflops = 1000.0\nhost_load = false", ..cluster }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_a_service_have_what_it_declares() {
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    // The other one is too weak for a task of the launch.
    let plain =
        Cluster { cluster_keys: "power_mflops = 1.0\nhost_load = false", ..Cluster::new("plain", 4, 9.0) };
    let federation = Federation::start(&[cluster(gate.to_str().unwrap()), plain]).await;
    let (alice, client) = (CommandUser::new(&federation, "alice"), federation.client("alice"));
    let needs = json!("600M of memory, 1 a100 GPU");

    let (code, shown, error) = alice.run("servers --services");
    assert_eq!(code, 0, "{error}");
    let offered =
        shown["servers"].as_array().unwrap().iter().find(|server| server["name"] == "lyon").unwrap();
    let resources = |name: &str| {
        let offered = offered["offer"].as_array().unwrap().iter();
        offered.clone().find(|service| service["name"] == name).unwrap()["resources"].clone()
    };
    assert_eq!((resources("train"), resources("say")), (needs.clone(), Value::Null));

    // Three processors and a GPU are free while the first job runs, and less memory than the second one needs.
    let order = || order(service("train", &[]));
    let (first, second) = (submit(&client, &order()).await, submit(&client, &order()).await);
    federation.reaches(&client, &first.handle, JobState::Active).await;
    assert_eq!((second.server().as_str(), second.state), ("lyon", JobState::Queued));
    assert!(second.expected.start >= first.expected.completion(), "{second:?}");
    let (code, status, error) = alice.run(&format!("status {}", second.handle));
    assert_eq!((code, &status["jobs"][0]["gpus"]), (0, &json!(1)), "{error} {status}");
    assert_eq!(status["jobs"][0]["requested"]["resources"], needs);

    // The services of other servers need nothing, and users cannot change what this one needs.
    let (code, _, error) = alice.run("submit train --mem 1M");
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("expected --mem with a script, found it with the service `train`"), "{error}");
    let (code, _, error) = alice.run("sweep train --vary x=1..3 --gpus 2 --out refused");
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("expected --gpus with a script, found it with the service `train`"), "{error}");

    fs::write(&gate, "").unwrap();
    for job in [&first, &second] {
        let ended = client.wait(&job.handle, |_| {}).await.unwrap();
        assert_eq!(ended.state, JobState::Completed, "{ended:?}");
        assert_eq!(fetched(&client, &job.handle).await["stdout"], b"1 600 GPU-a\n");
    }
    let (code, swept, error) = alice.run("sweep train --vary x=5..7 --out swept");
    assert_eq!(code, 0, "{error} {swept}");
    let results = fs::read_to_string(alice.dir().join("swept/results.csv")).unwrap();
    for x in 5..=7 {
        assert!(results.contains(&format!("{x} 600 GPU-")), "{results}");
    }
    let (_, queue, _) = alice.run("queue --ended");
    let jobs = queue["jobs"].as_array().unwrap();
    assert!(jobs.len() > 2 && jobs.iter().all(|job| job["requested"]["resources"] == needs), "{queue}");

    // A table chooses the GPUs of its size.
    let (code, job, error) = alice.run("submit chosen --out chosen");
    assert_eq!((code, &job["gpus"], &job["procs"]), (0, &json!(2), &json!(2)), "{error}");
    assert_eq!(fs::read_to_string(alice.dir().join("chosen/stdout")).unwrap(), "GPU-a,GPU-b\n");
    let config = federation.client_file(pliant_transport::Role::User, "alice");
    let shown =
        |verb: &str| said(pliant(&config, &[verb, job["job_id"].as_str().unwrap()]).output().unwrap()).1;
    assert!(shown("status").contains("server     lyon, 2 processors, 2 GPUs"), "{}", shown("status"));
    assert!(shown("explain").contains("On 2 processors it has 2 GPUs."), "{}", shown("explain"));

    // Requests of explorations and tasks of launches get processors alone.
    let refused = "expected a service that needs processors alone, found `train`, which needs 600M of memory, 1 a100 GPU";
    let (code, explored, error) = alice.run("explore train --max 1 --deadline 10s --out explored");
    assert!(code != 0 && error.contains(refused), "{code} {explored} {error}");
    let application = "mcr_mflops = 100\n[[task]]\nname = \"a\"\nrcr = 1.0\nservice = \"train\"\n";
    fs::write(alice.dir().join("app.toml"), application).unwrap();
    let (code, launched, error) = alice.run("launch app.toml");
    assert!(code != 0 && error.contains(refused), "{code} {launched} {error}");
}
