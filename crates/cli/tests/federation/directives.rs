//! Options in the head of a script.

use std::fs;

use serde_json::json;

use super::harness::{Cluster, CommandUser, Federation};

#[tokio::test]
async fn a_script_has_its_options_with_it() {
    let federation = Federation::start(&[Cluster::new("lyon", 4, 1.0)]).await;
    let user = CommandUser::new(&federation, "alice");
    let write = |name: &str, lines: &str| {
        let text = format!("#!/bin/sh\n{lines}\ncat input 2>/dev/null; echo $PLIANT_PROCS\n#PLIANT --late\n");
        fs::write(user.dir().join(name), text).unwrap();
    };
    fs::write(user.dir().join("input"), "42\n").unwrap();
    write("own.sh", "#PLIANT --time 2m --rigid 2 --in input\n#PLIANT --job-name 'fit 3' --out results");
    let (code, job, error) = user.run("submit ./own.sh");
    assert_eq!((code, &job["state"], &job["name"]), (0, &json!("COMPLETED"), &json!("fit 3")), "{error}");
    assert_eq!((&job["procs"], &job["walltime_s"]), (&json!(2), &json!(120)));
    assert_eq!(fs::read_to_string(user.dir().join("results/stdout")).unwrap(), "42\n2\n");
    // The command line wins.
    let (code, job, error) = user.run("submit ./own.sh --rigid 3 --job-name other --out again");
    assert_eq!((code, &job["procs"], &job["name"]), (0, &json!(3), &json!("other")), "{error}");
    assert_eq!(fs::read_to_string(user.dir().join("again/stdout")).unwrap(), "42\n3\n");

    write(
        "slurm.sh",
        "#SBATCH --time=0-0:05 -n 2\n#SBATCH -c 2 --job-name=slow --mail-type=ALL\n#PLIANT --wait",
    );
    let (code, job, error) = user.run("submit ./slurm.sh");
    assert_eq!((code, &job["procs"], &job["walltime_s"]), (0, &json!(4), &json!(300)), "{error}");
    assert_eq!((&job["state"], &job["name"]), (&json!("COMPLETED"), &json!("slow")));

    // Its tasks are in the variables of Slurm.
    let text = "#!/bin/sh\n#SBATCH --time=1 -n 2 --cpus-per-task=2 -J fit\n\
                echo $SLURM_NTASKS $SLURM_CPUS_PER_TASK $PLIANT_PROCS $SLURM_JOB_ID $SLURM_JOB_NAME\n";
    fs::write(user.dir().join("tasks.sh"), text).unwrap();
    let (code, job, error) = user.run("submit ./tasks.sh --out tasks");
    assert_eq!(code, 0, "{error}");
    let found = fs::read_to_string(user.dir().join("tasks/stdout")).unwrap();
    assert_eq!(found, format!("2 2 4 {} fit\n", job["job_id"].as_str().unwrap()));

    // Variables reach the script, and those of the command line win.
    let text = "#!/bin/sh\n#PLIANT --time 1m --env A=1 --env 'B=x $HOME y'\n#SBATCH --export=A=2,C=3\necho \"$A,$B,$C\"\n";
    fs::write(user.dir().join("variables.sh"), text).unwrap();
    let (code, _, error) = user.run("submit ./variables.sh --env C=4 --out variables");
    assert_eq!(code, 0, "{error}");
    assert_eq!(fs::read_to_string(user.dir().join("variables/stdout")).unwrap(), "1,x $HOME y,4\n");

    // Standard input is a file, and both outputs are one.
    let text =
        "#!/bin/sh\n#PLIANT --time 1m --merge-output\n#SBATCH --input=input\necho a; echo b >&2; cat; ls\n";
    fs::write(user.dir().join("streams.sh"), text).unwrap();
    let (code, _, error) = user.run("submit ./streams.sh --out streams");
    assert_eq!(code, 0, "{error}");
    let said = |name: &str| fs::read_to_string(user.dir().join("streams").join(name)).unwrap();
    assert_eq!((&*said("stdout"), &*said("stderr")), ("a\nb\n42\ninput\n", ""));

    // What Pliant does not have is named, and nothing is submitted.
    write("gpus.sh", "#SBATCH --time=5\n#SBATCH --reservation=gpu");
    let (code, _, error) = user.run("submit ./gpus.sh");
    assert_eq!(code, 2, "{error}");
    assert!(error.starts_with("error: ./gpus.sh:3: #SBATCH --reservation is not supported: "), "{error}");
    let (_, queue, _) = user.run("queue --ended");
    assert_eq!(queue["jobs"].as_array().unwrap().len(), 6);
    assert!(error.contains("--ignore-sbatch=reservation ignores these options"), "{error}");
    let (code, job, error) = user.run("submit ./gpus.sh --ignore-sbatch=reservation --wait");
    assert_eq!((code, &job["procs"]), (0, &json!(1)), "{error}");
    let (code, job, error) = user.run("submit ./gpus.sh --ignore-sbatch --time 1m --wait");
    assert_eq!((code, &job["procs"]), (0, &json!(1)), "{error}");
}
