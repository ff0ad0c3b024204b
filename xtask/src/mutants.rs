//! `cargo xtask mutants`: whether tests notice small changes of the code. cargo-mutants makes the changes ("mutants"), one at
//! a time, in a copy of the tree, and runs tests on each; a mutant that passes them all is missed.

mod tally;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::machine;
use crate::step::{Failure, Step, workspace_root};
use tally::Tally;

/// The crates whose code decides, and the tests that their mutants meet.
const CRATES: [(&str, &[Stage]); 4] =
    [("model", &[UNIT]), ("policy", &[UNIT, ALL]), ("tig", &[ALL]), ("control", &[UNIT, ALL, FAULTS])];

/// Tests that mutants meet. A later stage takes longer, and meets only mutants that every earlier one missed.
struct Stage {
    /// The name of its folder.
    name: &'static str,
    /// Whose tests run; none: those of the mutated crate.
    package: Option<&'static str>,
    /// Arguments of `cargo test`.
    tests: &'static [&'static str],
}

const UNIT: Stage = Stage { name: "unit", package: None, tests: &["--lib"] };
const ALL: Stage = Stage { name: "all", package: None, tests: &["--tests"] };
const FAULTS: Stage =
    Stage { name: "faults", package: Some("pliant-sim"), tests: &["--test", "faults", "--test", "protocol"] };

/// Where cargo-mutants writes the names of mutants by outcome, in its output folder.
const OUTCOMES: &str = "mutants.out";

/// No test is given up as endless before this, however short the tests of the crate are: others may use the machine.
const TEST_TIMEOUT_S: &str = "60";

/// Which mutants are tested.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Selection {
    /// Of these crates; empty: of all.
    pub(crate) crates: Vec<String>,
    /// Of the files that match this glob.
    pub(crate) file: Option<String>,
    /// Part k of n, as `(k, n)`.
    pub(crate) shard: (usize, usize),
    /// That many of each crate, drawn with the seed; 0: all.
    pub(crate) sample: u64,
    /// The seed of the sample.
    pub(crate) seed: u64,
}

/// Whether mutants of that crate can be tested.
pub(crate) fn is_known(name: &str) -> bool {
    CRATES.iter().any(|(known, _)| *known == name)
}

/// Tests the selected mutants, and prints what was found also if a crate could not be tested.
pub(crate) fn run(selection: &Selection) -> Result<(), Failure> {
    if !machine::prepare_cargo_tool("mutants", "cargo-mutants") {
        return Err(Failure::Missing { what: "cargo-mutants", hint: "cargo install cargo-mutants --locked" });
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace_root().join("target"), PathBuf::from);
    let folder = file_result(&target, std::path::absolute(&target))?.join("mutants");
    let mut tallies = Vec::new();
    let mut failure = None;
    for (name, stages) in CRATES {
        if selection.crates.is_empty() || selection.crates.iter().any(|chosen| chosen == name) {
            match test_crate(name, stages, selection, &folder) {
                Ok(tally) => tallies.push(tally),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
    }
    print!("{}", tally::table(&tallies));
    failure.map_or(Ok(()), Err)
}

fn test_crate(
    name: &'static str,
    stages: &[Stage],
    selection: &Selection,
    folder: &Path,
) -> Result<Tally, Failure> {
    let mutants = list(name, selection.file.as_deref())?;
    let mut chosen = selection.choose(&mutants);
    let mut tally = Tally { name, mutants: mutants.len(), ..Tally::default() };
    for stage in stages {
        if chosen.is_empty() {
            break;
        }
        let output = folder.join(name).join(stage.name);
        leave_out(&mutants, &chosen, &output)?;
        run_stage(name, stage, selection.file.as_deref(), &output, &folder.join("build"))?;
        let outcome = |file: &str| read_lines(&output.join(OUTCOMES).join(file));
        tally.caught += outcome("caught.txt")?.len();
        tally.timeouts += outcome("timeout.txt")?.len();
        tally.unviable += outcome("unviable.txt")?.len();
        chosen = outcome("missed.txt")?;
    }
    Ok(Tally { missed: chosen, ..tally })
}

/// The names of the crate's mutants.
fn list(name: &str, file: Option<&str>) -> Result<Vec<String>, Failure> {
    let package = format!("pliant-{name}");
    let mut arguments = vec!["mutants", "--list", "--package", &package];
    arguments.extend(file.into_iter().flat_map(|file| ["--file", file]));
    let listed = Step::cargo(&arguments).output().ok_or_else(|| Failure::NotStarted {
        step: format!("cargo {}", arguments.join(" ")),
        cause: "it failed".to_owned(),
    })?;
    Ok(listed.lines().map(str::to_owned).collect())
}

/// Has cargo-mutants leave out all but the chosen mutants: with `--iterate` it leaves out those that it finds here as caught
/// before. (Its filters by name let mutants of struct fields through.)
fn leave_out(mutants: &[String], chosen: &[String], output: &Path) -> Result<(), Failure> {
    let chosen: BTreeSet<&String> = chosen.iter().collect();
    let others: String =
        mutants.iter().filter(|name| !chosen.contains(name)).map(|name| format!("{name}\n")).collect();
    let folder = output.join(OUTCOMES);
    if folder.exists() {
        file_result(&folder, std::fs::remove_dir_all(&folder))?;
    }
    file_result(&folder, std::fs::create_dir_all(&folder))?;
    let file = folder.join("previously_caught.txt");
    file_result(&file, std::fs::write(&file, others))
}

/// Runs the tests of a stage on each mutant that is not left out.
fn run_stage(
    name: &str,
    stage: &Stage,
    file: Option<&str>,
    output: &Path,
    build: &Path,
) -> Result<(), Failure> {
    let (package, output) = (format!("pliant-{name}"), output.to_string_lossy());
    let mut arguments = vec!["mutants", "--iterate", "--output", &output, "--package", &package];
    // As in a build of the whole workspace; code of a feature that is off would never be compiled.
    arguments.push("--all-features");
    arguments.extend(["--minimum-test-timeout", TEST_TIMEOUT_S]);
    arguments.extend(file.into_iter().flat_map(|file| ["--file", file]));
    arguments.extend(stage.package.into_iter().flat_map(|package| ["--test-package", package]));
    // These reach the build of the tests too, so that tests that do not run are not built.
    let tests: Vec<String> = stage.tests.iter().map(|test| format!("--cargo-arg={test}")).collect();
    arguments.extend(tests.iter().map(String::as_str));
    let step = Step::cargo(&arguments)
        .env("CARGO_TARGET_DIR", build)
        .env("CARGO_PROFILE_TEST_DEBUG", "0")
        .env("INSTA_UPDATE", "no");
    match step.run() {
        // Some mutants were missed, or ran too long.
        Err(Failure::Exit { code: 2 | 3, .. }) => Ok(()),
        result => result,
    }
}

impl Selection {
    /// The selected mutants among those of a crate.
    fn choose(&self, mutants: &[String]) -> Vec<String> {
        let (part, parts) = self.shard;
        let names = mutants.iter().skip(part).step_by(parts).cloned().collect();
        if self.sample == 0 { names } else { sample(names, self.sample, self.seed) }
    }
}

/// Draws that many names, each set of them as likely as any other; in their order.
fn sample(mut names: Vec<String>, count: u64, seed: u64) -> Vec<String> {
    names.sort_by_cached_key(|name| hash(seed, name));
    names.truncate(usize::try_from(count).unwrap_or(usize::MAX));
    names.sort();
    names
}

/// FNV-1a, with the last step of MurmurHash3: the same on every machine.
fn hash(seed: u64, text: &str) -> u64 {
    let bytes = seed.to_le_bytes().into_iter().chain(text.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

fn read_lines(path: &Path) -> Result<Vec<String>, Failure> {
    let text = file_result(path, std::fs::read_to_string(path))?;
    Ok(text.lines().map(str::to_owned).collect())
}

fn file_result<T>(path: &Path, result: std::io::Result<T>) -> Result<T, Failure> {
    result.map_err(|error| Failure::File { path: path.to_owned(), cause: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_depends_on_the_seed_alone() {
        let names: Vec<String> = (0..1_000).map(|number| format!("mutant {number}")).collect();
        let reversed: Vec<String> = names.iter().rev().cloned().collect();
        let drawn = sample(names.clone(), 100, 7);
        assert_eq!(drawn.len(), 100);
        assert_eq!(drawn, sample(reversed, 100, 7));
        assert_ne!(drawn, sample(names.clone(), 100, 8));
        assert_eq!(sample(names, 5_000, 7).len(), 1_000);
    }

    #[test]
    fn samples_cover_all_mutants_alike() {
        let names: Vec<String> = (0..40).map(|number| number.to_string()).collect();
        let mut times = [0; 40];
        for seed in 0..4_000 {
            for name in sample(names.clone(), 10, seed) {
                times[name.parse::<usize>().unwrap()] += 1;
            }
        }
        // The mean is 1,000, the standard deviation 27.
        assert!(times.iter().all(|times| (890..=1_110).contains(times)), "{times:?}");
    }

    #[test]
    fn shards_are_disjoint_and_cover_all_mutants() {
        let names: Vec<String> = (0..11).map(|number| number.to_string()).collect();
        let choose = |shard, sample| {
            Selection { crates: Vec::new(), file: None, shard, sample, seed: 1 }.choose(&names)
        };
        let mut parts: Vec<String> = (0..3).flat_map(|part| choose((part, 3), 0)).collect();
        parts.sort_by_key(|name| name.parse::<u32>().unwrap());
        assert_eq!(parts, names);
        let (shard, drawn) = (choose((1, 3), 0), choose((1, 3), 2));
        assert!(drawn.len() == 2 && drawn.iter().all(|name| shard.contains(name)), "{drawn:?} of {shard:?}");
    }

    #[test]
    fn all_but_the_chosen_mutants_are_left_out() {
        let output = std::env::temp_dir().join(format!("xtask-mutants-{}", std::process::id()));
        let names = ["a", "b", "c"].map(str::to_owned);
        std::fs::create_dir_all(output.join(OUTCOMES)).unwrap();
        std::fs::write(output.join(OUTCOMES).join("caught.txt"), "of an earlier run").unwrap();
        leave_out(&names, &names[1..2], &output).unwrap();
        let left_out = read_lines(&output.join(OUTCOMES).join("previously_caught.txt")).unwrap();
        assert_eq!(left_out, ["a", "c"]);
        assert_eq!(std::fs::read_dir(output.join(OUTCOMES)).unwrap().count(), 1);
        std::fs::remove_dir_all(&output).unwrap();
    }
}
