//! Jobs with memory and GPUs, on servers that count them and one that does not.

use std::fs;

use pliant_control::job::{Exit, JobState};
use pliant_model::{GpuCount, Gpus, Resources};
use pliant_wire::{MovingChange, SubmittedWork};
use serde_json::json;

use crate::harness::*;

/// A host with a made-up list of devices.
fn counting(name: &'static str, node: &str) -> Cluster {
    let cluster = Cluster::new(name, 4, 1.0);
    Cluster { tables: format!("[cluster.node]\n{node}{}", cluster.tables), ..cluster }
}

fn needing_gpu(work: SubmittedWork) -> SubmittedWork {
    let SubmittedWork::Script(mut script) = work else { panic!("expected a script") };
    let gpus = Some(Gpus { count: GpuCount::Total(1), kind: None });
    script.work.resources = Some(Resources { gpus, ..Resources::default() }.into());
    SubmittedWork::Script(script)
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_have_what_they_ask_for_and_no_more() {
    let node = "memory = \"2G\"\ndefault_memory = \"128M\"\ngpus = [\"GPU-a\", \"GPU-b\"]\ngpu_kind = \"a100\"\n\
                features = [\"fast\"]\nlicences = { matlab = 1 }\n";
    let mut federation = Federation::start(&[Cluster::new("plain", 4, 1.0), counting("large", node)]).await;
    let user = CommandUser::new(&federation, "alice");
    let write = |name: &str, text: &str| {
        fs::write(user.dir().join(name), format!("#!/bin/sh\n{text}\n")).unwrap();
    };
    write(
        "shows.sh",
        "echo \"${CUDA_VISIBLE_DEVICES-unset} ${PLIANT_GPUS-unset} ${PLIANT_MEMORY_MIB-unset}\"",
    );
    for (number, (line, expected)) in [
        ("--gpus a100:2 --mem 512M --nodes 1", "GPU-a,GPU-b 2 512\n"),
        ("--rigid 2 --constraint fast", " 0 256\n"),
        ("--rigid 2 --gpus-per-proc 1 --mem-per-proc 300M --licenses matlab", "GPU-a,GPU-b 2 600\n"),
    ]
    .into_iter()
    .enumerate()
    {
        let (code, job, error) = user.run(&format!("submit ./shows.sh --time 60s --out r{number} {line}"));
        assert_eq!((code, &job["server"]), (0, &json!("large")), "{line}: {error}");
        assert_eq!(
            fs::read_to_string(user.dir().join(format!("r{number}/stdout"))).unwrap(),
            expected,
            "{line}"
        );
    }
    // A cluster that counts processors only takes a job that needs one node, and sets none of that.
    let (code, job, error) = user.run("submit ./shows.sh --time 60s --nodes 1 --server plain --out plain");
    assert_eq!((code, &job["server"]), (0, &json!("plain")), "{error}");
    assert_eq!(fs::read_to_string(user.dir().join("plain/stdout")).unwrap(), "unset unset unset\n");

    write("hog.sh", "head -c 300M /dev/zero | tail | wc -c");
    let (code, job, error) = user.run("submit ./hog.sh --time 60s --mem 100M --wait");
    assert_eq!((code, &job["exit"]["how"]), (3, &json!("over-limit")), "{error}");
    assert_eq!(job["requested"]["resources"], json!("100M of memory"));
    let (code, _, error) = user.run("submit ./hog.sh --time 60s --mem 1G --wait");
    assert_eq!(code, 0, "{error}");

    // What processes have in common since a fork counts once, until they write to it.
    let fork = |in_each: &str| {
        format!(
            "perl -e '$x = \"a\"; $x x= 80 << 20; for (1 .. 3) {{ fork or do {{ {in_each} sleep 2; exit }} }} \
             1 while wait > 0'"
        )
    };
    write("forks.sh", &fork(""));
    let (code, job, error) = user.run("submit ./forks.sh --time 60s --mem 220M --wait");
    assert_eq!(code, 0, "{error} {job}");
    write("copies.sh", &fork("$x =~ tr/a/b/;"));
    let (code, job, error) = user.run("submit ./copies.sh --time 60s --mem 220M --wait");
    assert_eq!((code, &job["exit"]["how"]), (3, &json!("over-limit")), "{error}");

    let (code, _, error) = user.run("submit ./shows.sh --time 60s --gpus 3");
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("large: no nodes of this cluster have what it needs: 3 GPUs"), "{error}");
    assert!(error.contains("plain: expected work that needs processors only"), "{error}");
    let (code, estimates, error) = user.run("submit ./shows.sh --time 60s --mem 1G --dry-run");
    assert_eq!((code, estimates["estimates"].as_array().unwrap().len()), (0, 1), "{error} {estimates}");

    let (code, _, error) = user.run("submit ./shows.sh --time 60s --account p1");
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("--ignore-sbatch=account,partition,qos"), "{error}");
    // Without the server that counts memory no server takes such a job, until it is up again.
    federation.stop("large");
    for more in ["", " --dry-run"] {
        let (code, _, error) = user.run(&format!("submit ./shows.sh --time 60s --mem 1G{more}"));
        assert_eq!(code, 1, "{error}");
        assert!(error.contains("large: down, and may have what the job needs"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_moves_to_where_a_gpu_is_free() {
    let node = "memory = \"1G\"\ngpus = [\"0\"]\n";
    let [lyon, paris] = ["lyon", "paris"].map(|name| counting(name, node));
    // One that is idle and fast, and counts no GPUs.
    let federation = Federation::start(&[lyon, paris, Cluster::new("plain", 4, 2.0)]).await;
    let (alice, bob, operator) =
        (federation.client("alice"), federation.client("bob"), federation.operator());
    let gate = |name: &str| federation.path().join(format!("gate-{name}"));
    for (name, walltime) in [("lyon", 900), ("paris", 600)] {
        let held = needing_gpu(rigid(&waiting_for(&gate(name)), 1, walltime));
        let blocker = submit(&bob, &order_to(name, held)).await;
        federation.reaches(&bob, &blocker.handle, JobState::Active).await;
    }
    // Three processors of each are free.
    let waiting = submit(&alice, &order(needing_gpu(rigid("echo $CUDA_VISIBLE_DEVICES", 1, 60)))).await;
    assert_eq!((waiting.server().as_str(), waiting.state), ("paris", JobState::Queued));
    operator.change_moving(&MovingChange::Set(on_demand())).await.unwrap();
    let report = operator.reallocate(false).await.unwrap();
    assert_eq!((report.movable, report.proposals.len()), (1, 0), "{report:?}");
    fs::write(gate("lyon"), "").unwrap();
    crate::moves::free(&operator, "lyon").await;
    let report = operator.reallocate(false).await.unwrap();
    assert_eq!(moved(&report), [&waiting.handle], "{report:?}");
    let ended = alice.wait(&waiting.handle, |_| {}).await.unwrap();
    assert_eq!((ended.server().as_str(), &ended.exit), ("lyon", &Some(Exit::Code(0))));
    assert_eq!(fetched(&alice, &waiting.handle).await["stdout"], b"0\n");
    fs::write(gate("paris"), "").unwrap();
}
