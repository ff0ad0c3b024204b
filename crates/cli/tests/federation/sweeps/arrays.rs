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
        ("submit ./task.sh --time 1m --array 3-1 --out none", "expected FIRST-LAST"),
        (
            "submit ./task.sh --time 1m --array 1-3 --out none --begin now+1h --deadline now+30m",
            "expected --deadline by --time after --begin",
        ),
        (
            "submit ./task.sh --time 1m --begin now+1h --deadline now+30m",
            "expected --deadline by --time after",
        ),
        ("submit ./task.sh --time 1h --array 1-3 --deadline now+30m --dry-run", "after its deadline"),
        ("submit ./task.sh --time 1h --deadline now+30m --dry-run", "after its deadline"),
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
    let (code, _, stderr) = alice.run("submit ./task.sh --time 1m --array 1-3 --out named --server nowhere");
    assert!(code != 0 && stderr.contains("the federation has no server nowhere"), "{code}: {stderr}");
    // A folder of the command's own does not stay.
    let (code, _, stderr) = alice.run("submit ./task.sh --time 1h --array 1-3 --deadline now+30m");
    assert!(code == 2 && stderr.contains("after its deadline"), "{code}: {stderr}");
    assert!(!alice.dir().join("task-array-1").exists(), "nothing was begun");
    let (code, said, stderr) =
        alice.run("submit ./task.sh --time 1m --array 1-100 --deadline now+10m --dry-run");
    assert!(code == 0 && said["deadline_s"].is_number(), "{stderr}");
    // The name of the job is no option and no other folder.
    let (code, said, stderr) = alice.run("submit ./task.sh --time 1m --array 1 --job-name=-x");
    assert_eq!((code, said["out"].as_str()), (0, Some("x-array-1")), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_an_array_have_what_jobs_have() {
    let scratch = tempfile::tempdir().unwrap();
    let home = scratch.path().canonicalize().unwrap();
    let project = home.join("project");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("data"), "in place\n").unwrap();
    let shared = format!("[shared]\n\"{}\" = \"site-a\"\n", home.display());
    let lyon = Cluster { tables: shared.clone(), ..Cluster::new("lyon", 2, 0.5) };
    let federation = Federation::start(&[Cluster::new("nancy", 4, 2.0), lyon]).await;
    let alice = CommandUser::new(&federation, "alice");
    alice.add_to_file(&format!("\n{shared}"));
    alice.script("read.sh", "cat; echo from $1 >&2; pwd -P; echo $1 >> all");
    fs::write(alice.dir().join("sent"), "sent\n").unwrap();
    let table = |folder: &str| fs::read_to_string(alice.dir().join(folder).join("results.csv")).unwrap();

    // Each task has the file in its folder.
    let line =
        "submit ./read.sh --time 1m --array 1-3 --stdin sent --merge-output --server nancy --out apart";
    let (code, said, stderr) = alice.run(&format!("{line} -- {{array_task_id}}"));
    assert_eq!((code, &said["completed"]), (0, &3.into()), "{stderr}");
    for index in 1..=3 {
        assert!(table("apart").contains(&format!("\"sent\nfrom {index}\n")), "{}", table("apart"));
    }
    let (code, _, stderr) = alice.run(&format!("{} -- 1", line.replace("nancy", "lyon")));
    assert!(code == 2 && stderr.contains("expected"), "another server: {code}: {stderr}");

    // In a folder of the user's own, on the server that shares it.
    let line = "submit ./read.sh --time 1m --array 1-3%1 --stdin data --merge-output";
    let chdir = format!("--chdir {}", project.display());
    let (code, said, stderr) = alice.run(&format!("{line} {chdir} --out in-place -- {{array_task_id}}"));
    assert_eq!((code, &said["completed"]), (0, &3.into()), "{stderr}");
    let mut all: Vec<String> =
        fs::read_to_string(project.join("all")).unwrap().lines().map(str::to_owned).collect();
    all.sort();
    assert_eq!(all, ["1", "2", "3"]);
    for index in 1..=3 {
        let expected = format!("\"in place\nfrom {index}\n{}\n", project.display());
        assert!(table("in-place").contains(&expected), "{}", table("in-place"));
    }
    let jobs = table("in-place").matches(",lyon.").count();
    assert_eq!(jobs, 3, "{}", table("in-place"));
    let (code, _, stderr) =
        alice.run(&format!("{line} {chdir} --server nancy --out elsewhere -- {{array_task_id}}"));
    assert!(code != 0 && stderr.contains("a file system of the server"), "{code}: {stderr}");
    let (code, _, stderr) = alice.run(&format!("{line} {chdir} --in sent --out none -- 1"));
    assert!(code == 2 && stderr.contains("expected --chdir or --in"), "{code}: {stderr}");

    // With a speedup each task has the fewest processors that the model allows.
    alice.script("wide.sh", "echo $PLIANT_PROCS");
    let (code, _, stderr) =
        alice.run("submit ./wide.sh --time 1m --array 1-2 --speedup table:2=20,4=12 --out wide");
    assert_eq!(code, 0, "{stderr}");
    assert!(alice.rows("wide").iter().all(|row| row["output"] == "\"2"), "{:?}", alice.rows("wide"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_makes_its_folder_and_keeps_begin_and_deadline() {
    let federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let alice = CommandUser::new(&federation, "alice");
    alice.script("task.sh", "date +%s.%N");
    for folder in ["task-array-1", "task-array-2"] {
        let (code, said, stderr) = alice.run("submit ./task.sh --time 1m --array 1-2 --nice 3");
        assert_eq!(
            (code, &said["completed"], said["out"].as_str()),
            (0, &2.into(), Some(folder)),
            "{stderr}"
        );
        assert_eq!(alice.rows(folder).len(), 2);
    }
    // No task starts before that instant, and none is submitted.
    let begin = chrono::Utc::now() + chrono::Duration::seconds(4);
    let at = begin.format("%Y-%m-%dT%H:%M:%SZ");
    let (code, _, stderr) =
        alice.run(&format!("submit ./task.sh --time 1m --array 1-2 --begin {at} --out later"));
    assert_eq!(code, 0, "{stderr}");
    for row in alice.rows("later") {
        let ran: f64 = row["output"].trim_matches('"').parse().unwrap();
        assert!(ran >= begin.timestamp() as f64, "{row:?} before {at}");
    }
    // Two tasks of a minute cannot both run by then on one processor; the one that runs leaves the other no time.
    alice.script("slow.sh", "sleep 4");
    let line = "submit ./slow.sh --time 10s --array 1-2 --deadline now+13 --out late";
    let (code, said, stderr) = alice.run(line);
    let found = [&said["completed"], &said["failed"], &said["not_started"]];
    assert_eq!((code, found), (3, [&1.into(), &0.into(), &1.into()]), "{stderr}");
    assert!(said["batches"].as_u64().unwrap() < 6, "few submissions: {said}");
    let rows = alice.rows("late");
    let late = rows.iter().find(|row| row["state"] == "not-started").unwrap();
    assert!(late["how"].starts_with("\"no server completes it by its deadline; lyon: "), "{late:?}");
    let (code, _, stderr) = alice.run("submit ./slow.sh --time 10s --array 1-2 --deadline now+5 --out never");
    assert!(code != 0 && stderr.contains("after its deadline"), "{code}: {stderr}");

    // A task takes little of its ten seconds: the one that is too late at first runs when the other has ended.
    alice.script("quick.sh", "true");
    let line = "submit ./quick.sh --time 10s --array 1-2 --deadline now+22 --out quick";
    let (code, said, stderr) = alice.run(line);
    assert_eq!((code, &said["completed"], &said["not_started"]), (0, &2.into(), &0.into()), "{stderr}");
}
