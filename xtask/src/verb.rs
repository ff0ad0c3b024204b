//! What the command line asks for.

use std::path::PathBuf;

use crate::claims::PAPERS;
use crate::mutants::{self, Selection};

/// The text of `cargo xtask help`.
pub(crate) const HELP: &str = "\
Usage: cargo xtask VERB

  test [--require-files]
                   run every test: unit, property, golden, command-line, real logs, browser, database, documentation;
                   installs cargo-nextest, and Debian's chromium and postgresql when root, if they are missing; ends
                   with what tests have left out for want of a log or a program; a log that is missing is a failure
                   on demand
  lint             check formatting, clippy and documentation with warnings denied, and licences with
                   cargo-deny if it is installed
  fuzz [SECONDS]   run each fuzz target for that long (default 60); needs cargo-fuzz and a nightly toolchain
  soak [--seeds N] [--from S]
                   run N fault schedules (default 10000) of agents, servers and clients, from seed S on (default 0); says
                   which fail and shows the first one, which then becomes a row of crates/sim/tests/faults.rs
  upgrade [COMMIT] run the day of operation with daemons of that commit (default HEAD~1), which is built first, and upgrade them to
                   the present build in the middle of it
  mutants [--crate NAME]... [--file GLOB] [--shard K/N] [--sample N] [--seed S]
                   make small changes of the code (mutants), one at a time, in a copy, and say which of them no test notices;
                   of the crates model, policy, tig and control (default: all), of the files that match GLOB, of part K of N
                   (0/N to N-1/N), and of these only N for each crate, drawn with seed S (default 0); a crate takes hours
                   without these; installs cargo-mutants if it is missing
  benefit [--sizes] [--rounds N] [--seed S] [--seconds T]
                   gives the same work to three federations of three real Slurm clusters each at the same time, one without
                   moves, one with reallocation, one with siblings, N times (default 1) from seed S on (default 60), and prints
                   the mean responses and the simulator's predictions; the work comes within T seconds (default 60): the
                   fewer, the longer are the queues; needs root, Debian and some minutes a round. --sizes compares how moldable
                   jobs are sized instead (tuners exact and slack), on Pliant's own batch system and then on Slurm
  claims [PAPER]   run the tests that settle the claims of the papers, or of one (000 to 004), and print each claim with its
                   verdict and its figures; fails if a figure has left its interval, if a claim has no figure, or if a verdict
                   contradicts its figures
  claims --campaign DIR
                   print the figures of paper 000's tables from the results of a finished campaign in DIR, with intervals
                   (paper-000-batch-systems or paper-000-loads of campaigns/), and fail if they are not those of its page
  paper-004 --live run the scenarios of paper 004 on real daemons at full length (a quarter of an hour), and compare with their simulation
  python [--python PATH]
                   build the Python package (crates/python) as a wheel, install it in an environment of its own (target/python),
                   and run its tests there with the interpreter PATH (default python3, and then a short form with one of each
                   further version that is found); needs Python 3.9 or later with the module venv
  snakemake        the same with the Snakemake plugin (integrations/snakemake-executor-plugin-pliant) and Snakemake: its own suite for
                   executor plugins, the tests of the plugin on a federation on this machine, and the recipes of integrations/recipes
                   with Dask and Parsl; needs Python 3.11.4 or later
  dist [--binary FILE] [--glibc VERSION] [--out DIR]
                   write a Debian package, a tarball and their checksums into DIR (default target/packages), with the
                   program FILE or, by default, one that is built with all optimisations (profile dist) and that needs
                   the glibc of this machine, or, with cargo-zigbuild, an older one
  ci               lint, then test
  help             this text

Exit codes: 0 all passed; 2 wrong usage; 1 a tool or a required file is missing; otherwise that of the first step that failed.
Real logs are read from PLIANT_TRACES or, if unset, from ../shared/traces, other simulators' schedules of them
from PLIANT_ORACLE or ../shared/oracle. A golden file that differs is a failure; `cargo insta review` accepts it.
";

/// How long a fuzz target runs when the command line does not say.
const FUZZ_SECONDS: u32 = 60;

/// How many fault schedules are run when the command line does not say.
const SOAK_SEEDS: u64 = 10_000;

/// From which commit daemons are upgraded when the command line does not say.
const EARLIER: &str = "HEAD~1";

/// How often work is given to real clusters, the first seed, and within how many seconds it comes, when the command line
/// does not say.
const BENEFIT: (u64, u64, u64) = (1, 60, 60);

/// One task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verb {
    /// Prints [`HELP`].
    Help,
    /// Runs every test.
    Test {
        /// Whether a log that is missing is a failure.
        require_files: bool,
    },
    /// Runs every static check.
    Lint,
    /// Lints, then tests.
    Ci,
    /// Runs each fuzz target.
    Fuzz {
        /// For how long each.
        seconds: u32,
    },
    /// Writes packages.
    Dist {
        /// The program to package; none: it is built.
        binary: Option<PathBuf>,
        /// The glibc that the programs need, such as 2.28; none: that of this machine.
        glibc: Option<String>,
        /// The folder of the packages.
        out: PathBuf,
    },
    /// Prints the claims of the papers with their figures.
    Claims {
        /// The only paper; none: all.
        paper: Option<String>,
    },
    /// Prints the figures of paper 000's tables.
    Campaign {
        /// The folder of a finished campaign.
        folder: PathBuf,
    },
    /// Runs the scenarios of paper 004.
    Paper004,
    /// Tests the Python package.
    Python {
        /// The interpreter; none: `python3`, and others shortly.
        program: Option<PathBuf>,
    },
    /// Tests the Snakemake plugin.
    Snakemake,
    /// Runs fault schedules.
    Soak {
        /// How many.
        seeds: u64,
        /// The first one.
        from: u64,
    },
    /// Upgrades daemons of an earlier commit.
    Upgrade {
        /// The commit.
        commit: String,
    },
    /// Tests small changes of the code.
    Mutants(Selection),
    /// Compares policies on real clusters.
    Benefit {
        /// Compares how moldable jobs are sized, not the reallocation of waiting jobs.
        sizes: bool,
        /// How many times.
        rounds: u64,
        /// The first seed.
        seed: u64,
        /// Within how many seconds the work comes.
        seconds: u64,
    },
}

/// A command line that asks for nothing known.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum UsageError {
    /// No verb was given.
    Missing,
    /// The verb is not one of ours.
    UnknownVerb(String),
    /// An argument that the verb does not take.
    Unexpected { verb: &'static str, found: String },
    /// Not a number of seconds.
    Seconds(String),
    /// Nothing after an option.
    Value {
        /// The option.
        option: &'static str,
    },
    /// Not a crate whose mutants can be tested.
    Crate(String),
    /// Not a part, as `0/4`.
    Shard(String),
    /// Not the number that an option takes.
    Number {
        /// The option.
        option: &'static str,
        /// What was found.
        found: String,
    },
}

impl Verb {
    /// Reads the arguments after the program's name.
    pub(crate) fn parse(arguments: &[String]) -> Result<Verb, UsageError> {
        let (first, rest) = arguments.split_first().ok_or(UsageError::Missing)?;
        let (verb, name, rest) = match first.as_str() {
            "help" | "--help" | "-h" => (Verb::Help, "help", rest),
            "test" => {
                let require_files = rest.first().is_some_and(|option| option == "--require-files");
                (Verb::Test { require_files }, "test", &rest[usize::from(require_files)..])
            }
            "lint" => (Verb::Lint, "lint", rest),
            "ci" => (Verb::Ci, "ci", rest),
            "python" => {
                let (program, rest) = value("--python", rest)?;
                (Verb::Python { program: program.map(PathBuf::from) }, "python", rest)
            }
            "snakemake" => (Verb::Snakemake, "snakemake", rest),
            "fuzz" => {
                let seconds = rest.first().map_or(Ok(FUZZ_SECONDS), |text| parse_seconds(text))?;
                (Verb::Fuzz { seconds }, "fuzz", rest.get(1..).unwrap_or_default())
            }
            "claims" if rest.first().is_some_and(|option| option == "--campaign") => {
                let (folder, rest) = value("--campaign", rest)?;
                (Verb::Campaign { folder: folder.unwrap_or_default().into() }, "claims", rest)
            }
            "claims" => {
                let paper = rest.first().filter(|one| PAPERS.contains(&one.as_str())).cloned();
                let taken = usize::from(paper.is_some());
                (Verb::Claims { paper }, "claims", &rest[taken..])
            }
            "paper-004" => {
                let live = rest.first().is_none_or(|option| option == "--live");
                (Verb::Paper004, "paper-004", if live { rest.get(1..).unwrap_or_default() } else { rest })
            }
            "dist" => {
                let (binary, rest) = value("--binary", rest)?;
                let (glibc, rest) = value("--glibc", rest)?;
                let (out, rest) = value("--out", rest)?;
                let out = out.map_or_else(|| PathBuf::from("target/packages"), PathBuf::from);
                (Verb::Dist { binary: binary.map(PathBuf::from), glibc, out }, "dist", rest)
            }
            "soak" => {
                let (seeds, rest) = number("--seeds", rest, SOAK_SEEDS)?;
                let (from, rest) = number("--from", rest, 0)?;
                (Verb::Soak { seeds, from }, "soak", rest)
            }
            "upgrade" => {
                let commit = rest.first().map_or(EARLIER, String::as_str).to_owned();
                (Verb::Upgrade { commit }, "upgrade", rest.get(1..).unwrap_or_default())
            }
            "mutants" => {
                let (selection, rest) = parse_selection(rest)?;
                (Verb::Mutants(selection), "mutants", rest)
            }
            "benefit" => {
                let sizes = rest.first().is_some_and(|first| first == "--sizes");
                let (rounds, rest) = number("--rounds", &rest[usize::from(sizes)..], BENEFIT.0)?;
                let (seed, rest) = number("--seed", rest, BENEFIT.1)?;
                let (seconds, rest) = number("--seconds", rest, BENEFIT.2)?;
                (Verb::Benefit { sizes, rounds, seed, seconds }, "benefit", rest)
            }
            _ => return Err(UsageError::UnknownVerb(first.clone())),
        };
        match rest.first() {
            None => Ok(verb),
            Some(found) => Err(UsageError::Unexpected { verb: name, found: found.clone() }),
        }
    }
}

/// The number after an option that stands first, and what follows; without the option that default.
fn number<'a>(
    option: &'static str,
    arguments: &'a [String],
    default: u64,
) -> Result<(u64, &'a [String]), UsageError> {
    match arguments.split_first() {
        Some((first, rest)) if first == option => {
            let found = rest.first().map_or("", String::as_str);
            let number = found.parse();
            let number = number.map_err(|_| UsageError::Number { option, found: found.to_owned() })?;
            Ok((number, &rest[1..]))
        }
        _ => Ok((default, arguments)),
    }
}

/// The value after an option that stands first, and what follows.
fn value<'a>(
    option: &'static str,
    arguments: &'a [String],
) -> Result<(Option<String>, &'a [String]), UsageError> {
    match arguments {
        [first, found, rest @ ..] if first == option => Ok((Some(found.clone()), rest)),
        [first] if first == option => Err(UsageError::Value { option }),
        _ => Ok((None, arguments)),
    }
}

/// Which mutants are tested, and what follows.
fn parse_selection(mut arguments: &[String]) -> Result<(Selection, &[String]), UsageError> {
    let mut crates = Vec::new();
    while let (Some(name), rest) = value("--crate", arguments)? {
        if !mutants::is_known(&name) {
            return Err(UsageError::Crate(name));
        }
        crates.push(name);
        arguments = rest;
    }
    let (file, rest) = value("--file", arguments)?;
    let (shard, rest) = value("--shard", rest)?;
    let shard = shard.map_or(Ok((0, 1)), |text| parse_shard(&text).ok_or(UsageError::Shard(text)))?;
    let (sample, rest) = number("--sample", rest, 0)?;
    let (seed, rest) = number("--seed", rest, 0)?;
    Ok((Selection { crates, file, shard, sample, seed }, rest))
}

/// Part k of n, from `k/n`.
fn parse_shard(text: &str) -> Option<(usize, usize)> {
    let (part, parts) = text.split_once('/')?;
    let (part, parts) = (part.parse().ok()?, parts.parse().ok()?);
    (part < parts).then_some((part, parts))
}

/// At least 1: the fuzzer reads 0 as "for ever".
fn parse_seconds(text: &str) -> Result<u32, UsageError> {
    text.parse().ok().filter(|seconds| *seconds > 0).ok_or_else(|| UsageError::Seconds(text.to_owned()))
}

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            UsageError::Missing => write!(
                f,
                "expected a verb (test, lint, fuzz, soak, upgrade, mutants, benefit, claims, paper-004, dist, ci, help), found none"
            )?,
            UsageError::UnknownVerb(found) => {
                write!(
                    f,
                    "expected a verb (test, lint, fuzz, soak, upgrade, mutants, benefit, claims, paper-004, dist, ci, help), found `{found}`"
                )?;
            }
            UsageError::Unexpected { verb, found } => {
                write!(f, "expected no further argument to `{verb}`, found `{found}`")?;
            }
            UsageError::Number { option, found } => {
                write!(f, "expected a whole number after {option}, found `{found}`")?;
            }
            UsageError::Value { option } => write!(f, "expected a value after {option}, found none")?,
            UsageError::Crate(found) => {
                write!(f, "expected one of model, policy, tig, control after --crate, found `{found}`")?;
            }
            UsageError::Shard(found) => {
                write!(f, "expected a part K/N from 0/N to N-1/N after --shard, found `{found}`")?;
            }
            UsageError::Seconds(found) => {
                write!(f, "expected a whole number of seconds, at least 1, found `{found}`")?;
            }
        }
        write!(f, "; see `cargo xtask help`")
    }
}

impl std::error::Error for UsageError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Result<Verb, UsageError>) {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        assert_eq!(Verb::parse(&arguments), expected, "cargo xtask {line}");
    }

    #[test]
    fn verbs() {
        check("test", Ok(Verb::Test { require_files: false }));
        check("test --require-files", Ok(Verb::Test { require_files: true }));
        check("lint", Ok(Verb::Lint));
        check("ci", Ok(Verb::Ci));
        check("help", Ok(Verb::Help));
        check("--help", Ok(Verb::Help));
        check("fuzz", Ok(Verb::Fuzz { seconds: 60 }));
        check("fuzz 5", Ok(Verb::Fuzz { seconds: 5 }));
        check("claims", Ok(Verb::Claims { paper: None }));
        check("claims 002", Ok(Verb::Claims { paper: Some("002".to_owned()) }));
        check("claims --campaign out", Ok(Verb::Campaign { folder: "out".into() }));
        check("paper-004 --live", Ok(Verb::Paper004));
        check("soak", Ok(Verb::Soak { seeds: SOAK_SEEDS, from: 0 }));
        check("upgrade", Ok(Verb::Upgrade { commit: EARLIER.to_owned() }));
        check("upgrade v1", Ok(Verb::Upgrade { commit: "v1".to_owned() }));
        check("soak --from 7", Ok(Verb::Soak { seeds: SOAK_SEEDS, from: 7 }));
        check("soak --seeds 5 --from 7", Ok(Verb::Soak { seeds: 5, from: 7 }));
        let dist = |binary: Option<&str>, glibc: Option<&str>, out: &str| {
            let glibc = glibc.map(ToOwned::to_owned);
            Ok(Verb::Dist { binary: binary.map(Into::into), glibc, out: out.into() })
        };
        check("dist", dist(None, None, "target/packages"));
        check("dist --binary b --out o", dist(Some("b"), None, "o"));
        check("dist --glibc 2.28 --out o", dist(None, Some("2.28"), "o"));
        let all = Selection { crates: Vec::new(), file: None, shard: (0, 1), sample: 0, seed: 0 };
        check("mutants", Ok(Verb::Mutants(all)));
        check(
            "mutants --crate tig --crate model --file a.rs --shard 1/4 --sample 5 --seed 9",
            Ok(Verb::Mutants(Selection {
                crates: vec!["tig".to_owned(), "model".to_owned()],
                file: Some("a.rs".to_owned()),
                shard: (1, 4),
                sample: 5,
                seed: 9,
            })),
        );
        check("benefit", Ok(Verb::Benefit { sizes: false, rounds: 1, seed: 60, seconds: 60 }));
        check("benefit --sizes --seed 7", Ok(Verb::Benefit { sizes: true, rounds: 1, seed: 7, seconds: 60 }));
        check(
            "benefit --rounds 3 --seed 7 --seconds 20",
            Ok(Verb::Benefit { sizes: false, rounds: 3, seed: 7, seconds: 20 }),
        );
    }

    #[test]
    fn wrong_usage() {
        let unexpected = |verb, found: &str| Err(UsageError::Unexpected { verb, found: found.to_owned() });
        check("", Err(UsageError::Missing));
        check("tset", Err(UsageError::UnknownVerb("tset".to_owned())));
        check("test now", unexpected("test", "now"));
        check("test --require-files now", unexpected("test", "now"));
        check("lint --require-files", unexpected("lint", "--require-files"));
        check("fuzz 5 swf", unexpected("fuzz", "swf"));
        check("soak 5", unexpected("soak", "5"));
        check("upgrade v1 v2", unexpected("upgrade", "v2"));
        check("claims 2", unexpected("claims", "2"));
        check("paper-004 --dead", unexpected("paper-004", "--dead"));
        check("paper-004 --live now", unexpected("paper-004", "now"));
        let not_a_number = |option, found: &str| Err(UsageError::Number { option, found: found.to_owned() });
        check("soak --seeds many", not_a_number("--seeds", "many"));
        check("soak --seeds 5 --from", not_a_number("--from", ""));
        check("dist --out", Err(UsageError::Value { option: "--out" }));
        check("claims --campaign", Err(UsageError::Value { option: "--campaign" }));
        check("claims --campaign out 000", unexpected("claims", "000"));
        check("mutants --crate", Err(UsageError::Value { option: "--crate" }));
        check("mutants --crate cli", Err(UsageError::Crate("cli".to_owned())));
        check("mutants --crate tig 5", unexpected("mutants", "5"));
        for shard in ["1", "4/4", "-1/4", "0/0", "a/b"] {
            check(&format!("mutants --shard {shard}"), Err(UsageError::Shard(shard.to_owned())));
        }
        for text in ["0", "-1", "1.5", "long", "4294967296"] {
            check(&format!("fuzz {text}"), Err(UsageError::Seconds(text.to_owned())));
        }
    }

    #[test]
    fn every_verb_is_in_the_help_text() {
        for line in HELP.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   ")) {
            let word = line.split_whitespace().next().unwrap().to_owned();
            assert!(Verb::parse(std::slice::from_ref(&word)).is_ok(), "the help text offers `{word}`");
        }
    }
}
