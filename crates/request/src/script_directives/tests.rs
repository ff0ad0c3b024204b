//! Scripts and the options that they have.

use super::*;
use crate::sbatch_options::instead;

fn options(line: &str) -> JobOptions {
    parsed(line.split_whitespace().map(str::to_owned).collect())
        .unwrap_or_else(|failure| panic!("{failure:?}"))
}

fn script(lines: &str) -> String {
    format!("#!/bin/sh\n{lines}\necho done\n")
}

fn found(lines: &str) -> Result<Found, RequestError> {
    read("job.sh", script(lines).as_bytes(), &JobOptions::default())
}

/// The same options as if they were in no script.
fn unplaced(mut options: JobOptions) -> JobOptions {
    options.places = Default::default();
    options
}

#[test]
fn lines_are_options_of_submit() {
    let check = |lines: &str, expected: &str| {
        let found = found(lines).unwrap_or_else(|failure| panic!("{lines}: {failure:?}"));
        assert_eq!(unplaced(found.options), options(expected), "{lines}");
    };
    check("", "");
    check(
        "#PLIANT --time 1h --rigid 4\n# more\n#PLIANT --in a --in b=c",
        "--time 1h --rigid 4 --in a --in b=c",
    );
    check("#PLIANT --time 1h\n#PLIANT --time 2h --speedup folding:4", "--time 2h --speedup folding:4");
    check("#PLIANT --rigid 4\n#PLIANT --speedup folding:2", "--speedup folding:2");
    check("#SBATCH --time=1-12 --ntasks=4", "--time 36h --rigid 4");
    check("#SBATCH -t 10 -n4 -J fit\n#SBATCH -c2", "--time 10m --rigid 8 --cpus-per-task 2 --job-name fit");
    check("#SBATCH -n4 -c2\n#PLIANT --speedup amdahl:0.9,4", "--speedup amdahl:0.9,4");
    check("#SBATCH --cpus-per-task=3\n#SBATCH --cpus-per-task=2", "--rigid 2 --cpus-per-task 2");
    check("#SBATCH -QvW --mail-type=END --comment hello -s", "--wait");
    check("#SBATCH --chdir=run\n#SBATCH -J -x", "--chdir run --job-name=-x");
    check("#SBATCH --export=NONE\n#SBATCH --export=A=1,B=x", "--env A=1 --env B=x");
    check("#SBATCH --input=data -D run\n#PLIANT --merge-output", "--stdin data --chdir run --merge-output");
    // #PLIANT lines win, in any order.
    check("#PLIANT --time 1h\n#SBATCH --time=5 --ntasks=3", "--time 1h --rigid 3");
    check("#SBATCH --ntasks=3\n#PLIANT --speedup folding:2", "--speedup folding:2");
    check("#SBATCH --gres=gpu:1\n#PLIANT --ignore-sbatch --time 1h", "--ignore-sbatch --time 1h");
    check(
        "#SBATCH --nodes=2 --ntasks-per-node=4 --mem=8G --gres=gpu:a100:1",
        "--rigid 8 --nodes 2 --procs-per-node 4 --mem 16G --gpus a100:2",
    );
    check(
        "#SBATCH --mem-per-cpu=2G -C fast|ib -L matlab:2",
        "--mem-per-proc 2G --constraint fast|ib --licenses matlab:2",
    );
    check("#SBATCH --begin=2030-12-01T08:00 --time=5", "--begin 2030-12-01T08:00 --time 5m");
    check("#SBATCH --nice --time=5", "--nice 100 --time 5m");
    check("#SBATCH -a 1-9:2%3 --time=5\n#PLIANT --array 4", "--array 4 --time 5m");
    check("#SBATCH --nice=7\n#PLIANT --begin 2031-01-01", "--nice 7 --begin 2031-01-01");
    check("#SBATCH --requeue --time=5", "--requeue 5 --time 5m");
    check("#SBATCH --requeue\n#PLIANT --requeue 2", "--requeue 2");
    check("#SBATCH --no-requeue", "--requeue 0");
    check("#SBATCH --deadline 2030-12-01", "--deadline 2030-12-01");
    check("#SBATCH -b 2030-12-01\n#PLIANT --begin 2031-01-01", "--begin 2031-01-01");
    check(
        "#SBATCH --exclusive --tmp=1T -c4\n#PLIANT --scratch 2T",
        "--exclusive --scratch 2T --rigid 4 --cpus-per-task 4",
    );
}

#[test]
fn the_command_line_may_ignore_lines_of_slurm() {
    let given = options("--ignore-sbatch");
    let text = script("#SBATCH --gres=gpu:1 --time=5\n#PLIANT --rigid 2");
    let found = read("job.sh", text.as_bytes(), &given).unwrap();
    assert_eq!(unplaced(found.options), options("--rigid 2"));
}

#[test]
fn single_options_of_slurm_may_be_ignored() {
    let text = script(
        "#SBATCH -d 5 --priority=9 --reservation chem\n#SBATCH --time=5 -n 3\n#PLIANT --ignore-sbatch=reservation",
    );
    let failure = read("job.sh", text.as_bytes(), &options("--ignore-sbatch=priority")).unwrap_err();
    assert!(
        failure.message().starts_with("job.sh:2: #SBATCH -d is not supported: "),
        "{}",
        failure.message()
    );
    let hint = failure.hint_text().unwrap();
    assert_eq!(hint, "remove or change the lines; --ignore-sbatch=dependency ignores these options");
    let found = read("job.sh", text.as_bytes(), &options("--ignore-sbatch=priority,dependency")).unwrap();
    assert_eq!(unplaced(found.options), options("--ignore-sbatch=reservation --time 300s --rigid 3"));
    let failure = read("job.sh", text.as_bytes(), &options("--ignore-sbatch=d")).unwrap_err();
    assert_eq!(failure.message(), "--ignore-sbatch: expected long names of options of sbatch, found `d`");
    assert!(failure.hint_text().is_some());
}

#[test]
fn files_of_output_are_noted() {
    let notes = found("#SBATCH -o out-%j.txt\n#SBATCH --error=e").unwrap().notes;
    let notes: Vec<&str> = notes.iter().filter_map(|note| note.split(": output stays").next()).collect();
    assert_eq!(notes, ["job.sh:2: #SBATCH -o", "job.sh:3: #SBATCH --error"]);
}

#[test]
fn variables_of_the_command_are_noted() {
    let found = found("#SBATCH --export=ALL,A=1").unwrap();
    assert_eq!(unplaced(found.options), options("--env A=1"));
    assert!(found.notes[0].starts_with("job.sh:2: #SBATCH --export: no variables"), "{:?}", found.notes);
}

#[test]
fn options_of_the_command_line_are_joined_with_those_of_the_script() {
    let check = |lines: &str, given: &str, expected: &str| {
        let given = options(given);
        let found = read("job.sh", script(lines).as_bytes(), &given);
        let found = found.unwrap_or_else(|failure| panic!("{lines}: {failure:?}"));
        assert_eq!(unplaced(given.over(found.options)), options(expected), "{lines}");
    };
    check("#SBATCH --mem=4G", "--gpus 1", "--mem 4G --gpus 1");
    check(
        "#SBATCH --mem=4G --gpus=2 -C fast",
        "--mem-per-proc 1G",
        "--mem-per-proc 1G --gpus 2 --constraint fast",
    );
    check(
        "#SBATCH -N 4 --ntasks-per-node=8 --mem=10G --gres=gpu:a100:1",
        "--nodes 2",
        "--nodes 2 --rigid 16 --procs-per-node 8 --mem 20G --gpus a100:2",
    );
    check("#SBATCH -n 4 -c 2 -N 4", "--rigid 3", "--rigid 3 --nodes 3");
    check("#SBATCH -n 4", "--cpus-per-task 4", "--rigid 16 --cpus-per-task 4");
    // What is wrong in a line does not matter if the command line says it.
    check("#SBATCH -n 4 --mem=4G -t UNLIMITED", "--mem 4G --time 1h", "--rigid 4 --mem 4G --time 1h");
    check("#SBATCH --mem 1G\n#SBATCH --mem-per-cpu=2G", "--mem 3G", "--mem 3G");
    check("#SBATCH --gres=fpga:1 -N 2-4", "--gpus 1 --nodes 2", "--gpus 1 --nodes 2");
    check(
        "#PLIANT --rigid 8 --nodes 4 --procs-per-node 2",
        "--rigid 2",
        "--rigid 2 --nodes 2 --procs-per-node 2",
    );
    check("#PLIANT --rigid 8 --nodes 2 --procs-per-node 4", "--rigid 16", "--rigid 16 --nodes 2");
}

#[test]
fn options_that_are_wrong_only_in_the_end_are_named_with_their_line() {
    let order = |lines: &str, given: &str| {
        let given = options(given);
        given.clone().over(read("job.sh", script(lines).as_bytes(), &given).unwrap().options)
    };
    let folder = |options: JobOptions| options.folder(&Default::default()).unwrap_err().message().to_owned();
    let found = folder(order("#SBATCH -D /nope", ""));
    assert!(found.starts_with("job.sh:2: #SBATCH -D: expected a folder, found /nope: "), "{found}");
    let found = folder(order("#PLIANT --chdir /nope", ""));
    assert!(found.starts_with("job.sh:2: --chdir: expected a folder, found /nope: "), "{found}");
    let found = folder(order("#SBATCH -D /nope", "--chdir /none"));
    assert!(found.starts_with("--chdir: expected a folder, found /none: "), "{found}");
    let sent = |options: JobOptions| options.announced().unwrap_err().message().to_owned();
    let found = sent(order("#SBATCH -i /nope", ""));
    assert!(found.starts_with("job.sh:2: #SBATCH -i: /nope: cannot read: "), "{found}");
    let found = sent(order("#SBATCH -i /nope", "--stdin /none"));
    assert!(found.starts_with("/none: cannot read: "), "{found}");
}

#[test]
fn options_of_sbatch_on_the_command_line_have_a_hint() {
    let check = |word: &str, expected: &str| {
        let failure = parsed(vec![word.to_owned()]).unwrap_err();
        let hint = failure.hint_text().unwrap();
        assert!(hint.contains(expected), "{word}: {hint}");
    };
    check("--gres=gpu:1", "sbatch: `--gpus [KIND:]N` gives the GPUs");
    check("--ntasks-per-node=4", "`--procs-per-node N`");
    check("--dependency=afterok:1", "`pliant wait JOB && pliant submit ...`");
    check("--mem-per-cpu=1G", "`--mem-per-proc` does that");
    check("--mail-type=END", "it changes nothing here");
    check("-N", "`--nodes N` does that");
    check("-c2", "`--cpus-per-task N` does that");
    check("--ntasks=4", "`--rigid` does that");
    for option in &OPTIONS {
        assert!(instead(&format!("--{}", option.long)).is_some(), "{}", option.long);
    }
    assert_eq!(instead("--nonsense"), None);
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    let check = |lines: &str, message: &str| {
        let failure = found(lines).err().unwrap_or_else(|| panic!("{lines}: no error"));
        assert_eq!((failure.message(), failure.is_input()), (message, true), "{lines}");
        assert!(failure.hint_text().is_some(), "{lines}");
    };
    check(
        "#PLIANT --time 5",
        "job.sh:2: --time: expected a length of time with its unit, such as 90s, 15m or 2h, found `5`",
    );
    check("\n#PLIANT --tim 5m", "job.sh:3: unexpected argument '--tim' found");
    check("#PLIANT pi", "job.sh:2: unexpected argument 'pi' found");
    check("#PLIANT --key 1", "job.sh:2: unexpected argument '--key' found");
    check("#PLIANT --help", "job.sh:2: unexpected argument '--help' found");
    check(
        "#PLIANT --rigid 2 --speedup folding:2",
        "job.sh:2: the argument '--rigid <N>' cannot be used with '--speedup <MODEL>'",
    );
    check(
        "#SBATCH --time=0",
        "job.sh:2: #SBATCH --time: expected a time of 1 second at least, found `0`: every job has a limit",
    );
    check("#SBATCH -n 1-4", "job.sh:2: #SBATCH -n: expected a whole number from 1 to 10000000, found `1-4`");
    check(
        "#SBATCH -n 10000000\n#SBATCH -c 1000",
        "job.sh:3: #SBATCH -c: expected at most 10000000 processors of all tasks, found 10000000000",
    );
    check(
        "#SBATCH --mem 1G\n#SBATCH --mem-per-cpu=2G",
        "job.sh:3: #SBATCH --mem-per-cpu: expected one of both, found --mem in line 2 as well",
    );
    check(
        "#SBATCH --gres=gpu:2 -N 1\n#SBATCH --gpus-per-node=1",
        "job.sh:3: #SBATCH --gpus-per-node: expected one of both, found --gres in line 2 as well",
    );
    check("#SBATCH hetjob", "job.sh:2: #SBATCH expected an option, found `hetjob`");
    check("#SBATCH --hold=1", "job.sh:2: #SBATCH --hold: expected no value, found `1`");
    check("#SBATCH -J", "job.sh:2: #SBATCH -J: expected a value, found none");
    check(
        "#SBATCH --chdir=",
        "job.sh:2: #SBATCH --chdir: a value is required for '--chdir <DIR>' but none was supplied",
    );
    check(
        "#SBATCH --job-name=a/b",
        &format!(
            "job.sh:2: #SBATCH --job-name: expected a name of 1 to {} bytes without slashes and control \
             characters, found `a/b`",
            pliant_wire::bounds::NAME_BYTES_MAX
        ),
    );
    check(
        "#SBATCH --export=ALL,A",
        "job.sh:2: #SBATCH --export: expected ALL, NONE or NAME=VALUE, found `A`: no variables of the command are passed on",
    );
    check(
        "#SBATCH --nice=-5",
        &format!("job.sh:2: #SBATCH --nice: expected a whole number from {}", "0 to 2147483645, found `-5`"),
    );
    // Everything at once.
    check(
        "#SBATCH --hold --frobnicate 3\n#SBATCH -d afterok:7 --time=x",
        "job.sh:2: #SBATCH --frobnicate is not known: expected an option of sbatch that Pliant knows\n  \
         job.sh:2: #SBATCH --hold is not supported: --begin, or submit it when it may start\n  \
         job.sh:3: #SBATCH -d is not supported: `pliant wait JOB && pliant submit ...` submits after the end of another \
         job\n  \
         job.sh:3: #SBATCH --time: expected MIN, MIN:S, H:MIN:S, D-H, D-H:MIN or D-H:MIN:S, found `x`",
    );
}
