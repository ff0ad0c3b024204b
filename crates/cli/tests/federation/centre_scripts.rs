//! Scripts as users of computing centres have them, in front of a real Slurm: each of them runs unchanged, or an error names the option
//! that is not supported. The options are those of the introductory pages of NERSC, ARCHER2, CSC, TACC, the Digital Research Alliance of
//! Canada, LUMI and Jülich; the numbers are small enough for two nodes of four processors.

use std::fs;

use crate::harness::*;
use crate::slurm::Behind;

/// What a script has in its head, and what it prints.
const THAT_RUN: [(&str, &str, &str); 14] = [
    (
        "serial",
        "--job-name=serial --output=%x-%j.out --time=00:05:00 --ntasks=1 --mem-per-cpu=100M",
        "1 on 1",
    ),
    ("threads", "--nodes=1 --ntasks=1 --cpus-per-task=4 --mem=400M --time=00:05:00", "1 on 1"),
    (
        "mpi",
        "--nodes=2 --ntasks-per-node=4 --time=0-00:10 --account=z01 --partition=standard --qos=standard",
        "8 on 2",
    ),
    ("hybrid", "-N 2 --ntasks-per-node=2 --cpus-per-task=2 --exclusive -t 10", "4 on 2, 2 GPUs"),
    ("queue", "-J queue -o queue.o%j -e queue.e%j -p standard -N 1 -n 4 -t 00:05:00 -A TRAINING", "4 on 1"),
    ("mail", "--ntasks=2 --time=5 --mail-type=BEGIN,END,FAIL --mail-user=ann@example.org", "2 on 1"),
    ("gres", "--nodes=1 --ntasks=1 --gres=gpu:1 --time=0-0:5 --mem=200M", "1 on 1, 1 GPUs"),
    ("kind", "--nodes=1 --gpus-per-node=a100:2 --ntasks-per-node=2 --time=00:05:00", "2 on 1, 2 GPUs"),
    ("task", "--ntasks=2 --cpus-per-task=1 --gpus-per-task=1 --time=00:05:00 --nodes=1", "2 on 1, 2 GPUs"),
    ("feature", "-C fast -q debug -N 1 -c 2 -t 00:05:00", "1 on 1"),
    ("licence", "--licenses=matlab:1 --ntasks=1 --time=5", "1 on 1"),
    ("again", "--requeue --open-mode=append --ntasks=1 --time=5", "1 on 1"),
    ("passed", "--export=ALL --ntasks=1 --time=5", "1 on 1"),
    ("later", "--begin=now+1 --nice=100 --ntasks=1 --time=5", "1 on 1"),
];

/// What a script has in its head, and the option that the error names.
const NOT_SUPPORTED: [(&str, &str, &str); 6] = [
    ("dependency", "--dependency=afterok:4711 --ntasks=1 --time=5", "--dependency"),
    ("course", "--reservation=course --ntasks=1 --time=5", "--reservation"),
    ("hint", "--hint=nomultithread --ntasks=1 --time=5", "--hint"),
    ("placed", "--distribution=block:block --nodes=2 --ntasks=8 --time=5", "--distribution"),
    ("variables", "--export=PATH,OMP_NUM_THREADS --ntasks=1 --time=5", "--export"),
    ("signal", "--signal=B:USR1@60 --ntasks=1 --time=5", "--signal"),
];

#[tokio::test(flavor = "multi_thread")]
async fn scripts_of_computing_centres_run_or_one_option_is_named() {
    let keys = "period_s = 1\nnodes_every_s = 2\n\
                allow = { partitions = [\"*\"], accounts = [\"*\"], qos = [\"*\"] }\n";
    let Some(behind) = Behind::with_resources_and(2, 4, keys).await else { return };
    for name in ["lyon", "paris"] {
        behind.slurm(name).run(&["scontrol", "create", "PartitionName=standard", "Nodes=ALL", "State=UP"]);
    }
    let user = CommandUser::new(&behind.federation, "alice");
    let write = |name: &str, options: &str| {
        let line =
            |(at, option): (usize, &str)| format!("#SBATCH {}{option}\n", if at == 0 { "" } else { "-" });
        let lines: String = options.split(" -").enumerate().map(line).collect();
        let shown = "g=${SLURM_GPUS_ON_NODE-}\necho $SLURM_NTASKS on $SLURM_JOB_NUM_NODES${g:+, $g GPUs}\n";
        fs::write(user.dir().join(format!("{name}.sh")), format!("#!/bin/bash\n{lines}\n{shown}")).unwrap();
    };
    until("the partition to be listed", async || {
        write("first", "--ntasks=1 --time=5 --partition=standard");
        let (code, ..) = user.run("submit ./first.sh --dry-run");
        (code == 0).then_some(())
    })
    .await;
    for (name, options, _) in NOT_SUPPORTED {
        write(name, options);
    }
    let jobs: Vec<(&str, &str, String)> = THAT_RUN
        .iter()
        .map(|(name, options, printed)| {
            write(name, options);
            let (code, job, error) = user.run(&format!("submit ./{name}.sh"));
            assert_eq!(code, 0, "{name}: {error}");
            (*name, *printed, job["job_id"].as_str().unwrap().to_owned())
        })
        .collect();
    for (name, printed, job) in jobs {
        let (code, ended, error) = user.run(&format!("wait {job}"));
        assert_eq!(code, 0, "{name}: {ended} {error}");
        let (code, _, error) = user.run(&format!("fetch {job} --out {name}"));
        assert_eq!(code, 0, "{name}: {error}");
        assert_eq!(
            fs::read_to_string(user.dir().join(name).join("stdout")).unwrap(),
            format!("{printed}\n"),
            "{name}"
        );
    }
    for (name, _, option) in NOT_SUPPORTED {
        let (code, _, error) = user.run(&format!("submit ./{name}.sh"));
        assert_eq!(code, 2, "{name}: {error}");
        let named = error.matches("#SBATCH --").count();
        assert!(error.contains(&format!("#SBATCH {option}")) && named == 1, "{name}: {error}");
    }
    // The command follows an array until it is over.
    write(
        "array",
        "--array=1-5%2 --export=NONE --ntasks=1 --mem=100M --time=5 --output=%A_%a.out --comment=trial",
    );
    let (code, ended, error) = user.run("submit ./array.sh");
    assert_eq!((code, &ended["completed"]), (0, &5.into()), "{error}");
    assert!(user.rows("array-array-1").iter().all(|row| row["output"].contains("1 on 1")));
}

/// Scripts with steps: what they have in their head, and which ranks with how many threads they start on which nodes.
const WITH_STEPS: [(&str, &str, &str); 4] = [
    ("openmp", "--ntasks=1 --cpus-per-task=4 --time=5", "rank 0 of 1 with 4 on node 0 of 1\n"),
    (
        "two",
        "-N2 --ntasks-per-node=1 --cpus-per-task=3 --time=5",
        "rank 0 of 2 with 3 on node 0 of 2\nrank 1 of 2 with 3 on node 1 of 2\n",
    ),
    (
        "pairs",
        "--nodes=1 --ntasks=2 --cpus-per-task=2 --mem-per-cpu=50M --time=5",
        "rank 0 of 2 with 2 on node 0 of 1\nrank 1 of 2 with 2 on node 0 of 1\n",
    ),
    (
        "whole",
        "-N 2 --ntasks-per-node=2 --cpus-per-task=2 --exclusive --time=5",
        "rank 0 of 4 with 2 on node 0 of 2\nrank 1 of 4 with 2 on node 0 of 2\n\
         rank 2 of 4 with 2 on node 1 of 2\nrank 3 of 4 with 2 on node 1 of 2\n",
    ),
];

/// `#SBATCH --cpus-per-task` means for `srun` what it means in a job that `sbatch` itself submits to the same Slurm; a task waits for a node
/// on which it fits.
#[tokio::test(flavor = "multi_thread")]
async fn steps_of_scripts_have_the_ranks_and_threads_of_sbatch() {
    let Some(behind) = Behind::with_resources_and(2, 4, "period_s = 1\nnodes_every_s = 2\n").await else {
        return;
    };
    let user = CommandUser::new(&behind.federation, "alice");
    for (name, options, expected) in WITH_STEPS {
        let path = user.dir().join(format!("{name}.sh"));
        let body = "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK\n\
                    srun sh -c 'echo rank $SLURM_PROCID of $SLURM_NTASKS with $OMP_NUM_THREADS on node $SLURM_NODEID \
                    of $SLURM_NNODES' | sort\n";
        fs::write(&path, format!("#!/bin/bash\n#SBATCH {options}\n{body}")).unwrap();
        let printed = user.dir().join(format!("{name}.sbatch"));
        let output = format!("--output={}", printed.display());
        behind.slurm("lyon").run(&["sbatch", "--wait", "--parsable", &output, path.to_str().unwrap()]);
        assert_eq!(fs::read_to_string(&printed).unwrap(), expected, "{name} of sbatch");
        let (code, _, error) = user.run(&format!("submit ./{name}.sh --out {name}"));
        let logged = fs::read_to_string(user.dir().join(name).join("stderr")).unwrap_or_default();
        assert_eq!(code, 0, "{name}: {error} {logged}");
        assert_eq!(fs::read_to_string(user.dir().join(name).join("stdout")).unwrap(), expected, "{name}");
    }
    // Two processors are free on each node: enough for two tasks of two now, and on no node for one task of three.
    for name in ["lyon", "paris"] {
        let shape = ["--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=2", "--mem=10M", "--time=30"];
        behind.slurm(name).run(&[&["sbatch"], &shape[..], &["--wrap=sleep 1800"]].concat());
    }
    let start_s = |options: &str| {
        fs::write(user.dir().join("asked.sh"), format!("#!/bin/bash\n#SBATCH --time=5 {options}\n")).unwrap();
        let (code, found, error) = user.run("submit ./asked.sh --dry-run");
        assert_eq!(code, 0, "{options}: {error}");
        found["estimates"][0]["start_s"].as_i64().unwrap()
    };
    until("a task of three processors to wait for a node", async || {
        let waits_s = start_s("--ntasks=1 --cpus-per-task=3") - start_s("--ntasks=2 --cpus-per-task=2");
        (waits_s > 600).then_some(())
    })
    .await;
}
