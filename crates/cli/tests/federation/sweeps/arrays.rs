//! Arrays as Slurm has them: `pliant submit --array`, and scripts with `#SBATCH --array` as they are.

use std::fs;

use super::CommandUser;
use crate::harness::{Cluster, Federation};

#[tokio::test(flavor = "multi_thread")]
async fn an_array_is_a_sweep_of_its_indices() {
    let federation = Federation::start(&[Cluster::new("lyon", 2, 1.0), Cluster::new("nancy", 2, 1.0)]).await;
    let alice = CommandUser::new(&federation, "alice");
    let all = "$SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_MIN $SLURM_ARRAY_TASK_MAX $SLURM_ARRAY_TASK_COUNT \
               $SLURM_ARRAY_TASK_STEP";
    alice.script("task.sh", &format!("echo \"$1 $PLIANT_ARRAY_TASK_ID $PLIANT_ARG_array_task_id {all}\""));
    let line = "submit --script task.sh --time 1m --array 1-10:3 --out kept -- n{array_task_id}";
    let (code, said, stderr) = alice.run(line);
    assert_eq!((code, &said["completed"], &said["instances"]), (0, &4.into(), &4.into()), "{stderr}");
    let rows = alice.rows("kept");
    assert_eq!(rows.len(), 4);
    for (row, index) in rows.iter().zip([1, 4, 7, 10]) {
        assert_eq!(row["array_task_id"], index.to_string());
        assert_eq!(row["output"], format!("\"n{index} {index} {index} {index} 1 10 4 3"), "{row:?}");
    }
    // It has completed, and the same command has nothing left to do.
    let (code, again, stderr) = alice.run(line);
    assert_eq!((code, &again["resumed"], &again["batches"]), (0, &true.into(), &said["batches"]), "{stderr}");

    // A script from sbatch, with one input file for each task.
    let script = "#!/bin/bash\n#SBATCH --job-name=wc\n#SBATCH --time=00:01:00\n#SBATCH --array=1-2,5%1\n\
                  #SBATCH --output=out-%A_%a.txt\n#SBATCH --ntasks=1 --cpus-per-task=2\n\
                  FILES=(zero one two three four five)\n\
                  echo \"task $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT reads ${FILES[$SLURM_ARRAY_TASK_ID]} on $PLIANT_PROCS\"\n\
                  mkdir $LOCK || exit 9; sleep 0.3; rmdir $LOCK\n";
    fs::write(alice.dir().join("wc.sh"), script).unwrap();
    let lock = federation.path().join("lock");
    let line = format!("submit ./wc.sh --out sbatch --env LOCK={}", lock.display());
    let (code, said, stderr) = alice.run(&line);
    assert_eq!((code, &said["completed"], &said["retried"]), (0, &3.into(), &0.into()), "{stderr}");
    let outputs: Vec<String> = alice.rows("sbatch").iter().map(|row| row["output"].clone()).collect();
    let expected = [(1, "one"), (2, "two"), (5, "five")];
    let expected = expected.map(|(index, file)| format!("\"task {index} of 3 reads {file} on 2"));
    assert_eq!(outputs, expected);

    let (code, _, stderr) = alice.run(&format!("{line} --array 1-3"));
    let words = "sbatch: arguments: expected array_task_id=1:3:1, found array_task_id=1,2,5";
    assert!(code == 2 && stderr.contains(words), "{code}: {stderr}");
    let (code, said, stderr) = alice.run("submit ./task.sh --time 1m --array 1-100 --dry-run");
    assert_eq!((code, &said["instances"]), (0, &100.into()), "{stderr}");
    for (line, words) in [
        ("submit ./task.sh --time 1m --array 1-3", "expected --out DIR with --array, found none"),
        ("submit ./task.sh --time 1m --array 3-1 --out none", "expected FIRST-LAST"),
        ("submit ./task.sh --time 1m --array 1-3 --out none --server lyon", "expected --array or --server"),
        ("submit ./task.sh --time 1m --array 1-3 --out none --nice 3", "expected --array or --nice"),
        (
            "submit ./task.sh --time 1m --array 1-3 --out none --speedup folding:2",
            "expected --array or --speedup",
        ),
        ("submit ./task.sh --time 1m --array 1-3 --out none -- {task}", "found `{task}`"),
        ("submit pi samples=1 --array 1-3 --out none", "expected --array with a script"),
        (
            "submit ./task.sh --time 1m --array 1-3 --out none --key 000102030405060708090a0b0c0d0e0f",
            "expected --key or --array",
        ),
    ] {
        let (code, _, stderr) = alice.run(line);
        assert!(code == 2 && stderr.contains(words), "{line}: {code}: {stderr}");
    }
    assert!(!alice.dir().join("none").exists(), "nothing was begun");
}
