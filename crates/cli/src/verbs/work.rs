//! `pliant work`: programs that really compute, for demonstrations and tests. They use as many threads as the
//! batch system says in `PLIANT_PROCS`.

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::numbers::whole;
use crate::output::Output;
use crate::table::counted;
use crate::work::{matrix, pi};

/// The variable with the number of processors of a job.
const PROCS: &str = "PLIANT_PROCS";
/// The largest number of threads.
const PROCS_MAX: usize = 4096;
/// The largest matrix: three of them take 1.5 GiB.
const SIZE_MAX: usize = 8192;
/// The most samples: days of work.
const SAMPLES_MAX: u64 = 1_000_000_000_000_000;

#[derive(Subcommand)]
pub(crate) enum Work {
    /// Estimates pi by Monte Carlo, with its standard error.
    Pi(Pi),
    /// Multiplies dense matrices and checks the product by Freivalds' test.
    Matrix(Matrix),
}

#[derive(Args)]
pub(crate) struct Pi {
    /// How many random points.
    #[arg(long, value_name = "N", default_value_t = 100_000_000, value_parser = whole(1..=SAMPLES_MAX))]
    samples: u64,
    /// The seed: the same seed gives the same answer, on any number of processors.
    #[arg(long, value_name = "SEED", default_value_t = 1, value_parser = whole(0..=u64::MAX))]
    seed: u64,
    /// The file of the result (JSON).
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(Args)]
pub(crate) struct Matrix {
    /// Rows and columns of each matrix.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = whole(1..=SIZE_MAX))]
    size: usize,
    /// The seed: the same seed gives the same answer, on any number of processors.
    #[arg(long, value_name = "SEED", default_value_t = 1, value_parser = whole(0..=u64::MAX))]
    seed: u64,
    /// How many times to compute the product.
    #[arg(long, value_name = "R", default_value_t = 1, value_parser = whole(1..=1_000_000_u32))]
    repeat: u32,
    /// The file of the result (JSON).
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub(crate) fn run(output: Output, work: &Work) -> Result<(), Failure> {
    let threads = threads(std::env::var_os(PROCS).as_deref())?;
    match work {
        Work::Pi(arguments) => run_pi(output, arguments, threads),
        Work::Matrix(arguments) => run_matrix(output, arguments, threads),
    }
}

fn run_pi(output: Output, arguments: &Pi, threads: NonZeroUsize) -> Result<(), Failure> {
    let mut progress = Progress::new(output, "samples", arguments.samples);
    let begin = Instant::now();
    let found = pi::estimate(arguments.samples, arguments.seed, threads, |drawn| progress.report(drawn));
    let seconds = begin.elapsed().as_secs_f64();
    let value = json!({
        "samples": found.samples,
        "seed": arguments.seed,
        "inside": found.inside,
        "pi": found.pi(),
        "standard_error": found.standard_error(),
        "threads": threads,
        "seconds": seconds,
    });
    let (pi, error) = (found.pi(), found.standard_error());
    let text = format!("pi is {pi:.9}, standard error {error:.9}; {}, {seconds:.3} s\n", on(threads));
    finish(output, "work-pi", &arguments.out, text, value)
}

fn run_matrix(output: Output, arguments: &Matrix, threads: NonZeroUsize) -> Result<(), Failure> {
    let &Matrix { size, seed, repeat, .. } = arguments;
    let (a, b) = matrix::factors(NonZeroUsize::new(size).unwrap_or(NonZeroUsize::MIN), seed);
    let mut progress = Progress::new(output, "rows", size as u64 * u64::from(repeat));
    let mut seconds = 0.0;
    let mut checked: Option<(u64, matrix::Verdict)> = None;
    for round in 0..u64::from(repeat) {
        let begin = Instant::now();
        let rows = |rows: usize| progress.report(round * size as u64 + rows as u64);
        let c = matrix::product(&a, &b, threads, rows);
        seconds += begin.elapsed().as_secs_f64();
        let (checksum, verdict) = (c.checksum(), matrix::freivalds(&a, &b, &c, seed));
        if !verdict.passed() {
            let matrix::Verdict { residual, tolerance } = verdict;
            return Err(Failure::system(format!(
                "product {} of {repeat} is wrong: expected a residual of at most {tolerance:.3e}, found {residual:.3e}",
                round + 1
            )));
        }
        if let Some((before, _)) = checked.filter(|(before, _)| *before != checksum) {
            return Err(Failure::system(format!(
                "product {} of {repeat} is wrong: expected the checksum {before:016x} of those before, found {checksum:016x}",
                round + 1
            )));
        }
        checked = Some((checksum, verdict));
    }
    let gflop = 2e-9 * (size as f64).powi(3) * f64::from(repeat);
    let (checksum, residual, tolerance) = checked
        .map(|(checksum, verdict)| (format!("{checksum:016x}"), verdict.residual, verdict.tolerance))
        .unwrap_or_default();
    let value = json!({
        "size": size,
        "seed": seed,
        "repeat": repeat,
        "checksum": checksum,
        "residual": residual,
        "tolerance": tolerance,
        "gflop": gflop,
        "gflop_per_s": gflop / seconds.max(f64::MIN_POSITIVE),
        "threads": threads,
        "seconds": seconds,
    });
    let text = format!(
        "checksum {checksum}, residual {residual:.2e}; {gflop:.3} GFLOP, {}, {seconds:.3} s\n",
        on(threads)
    );
    finish(output, "work-matrix", &arguments.out, text, value)
}

fn on(threads: NonZeroUsize) -> String {
    counted(threads.get() as u64, "thread")
}

/// How many threads: what the batch system says, one without it.
fn threads(procs: Option<&std::ffi::OsStr>) -> Result<NonZeroUsize, Failure> {
    let Some(procs) = procs else { return Ok(NonZeroUsize::MIN) };
    let text = procs.to_string_lossy();
    let procs = whole(1..=PROCS_MAX)(&text).map_err(|error| Failure::input(format!("{PROCS}: {error}")))?;
    Ok(NonZeroUsize::new(procs).unwrap_or(NonZeroUsize::MIN))
}

/// Writes the result file, then prints.
fn finish(output: Output, verb: &str, out: &Path, text: String, value: Value) -> Result<(), Failure> {
    write_whole(out, format!("{value:#}\n").as_bytes())?;
    output.print(verb, || text, value)
}

/// Writes a file atomically.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let Some(name) = path.file_name() else {
        return Err(Failure::input(format!("--out: expected a file, found {}", path.display())));
    };
    let mut partial = name.to_owned();
    partial.push(format!(".{}.partial", std::process::id()));
    let partial = path.with_file_name(partial);
    let written = std::fs::write(&partial, bytes).and_then(|()| std::fs::rename(&partial, path));
    written.map_err(|source| {
        // What is left of it is of no use; that it cannot be removed either adds nothing to the message.
        let _ = std::fs::remove_file(&partial);
        Failure::io(path, "write this file", &source)
    })
}

/// A line on standard output for every twentieth of the work. None with JSON.
struct Progress {
    what: &'static str,
    total: u64,
    reported: u64,
    silent: bool,
}

impl Progress {
    const LINES: u64 = 20;

    fn new(output: Output, what: &'static str, total: u64) -> Progress {
        Progress { what, total, reported: 0, silent: output == Output::Json }
    }

    fn report(&mut self, done: u64) {
        if let Some(line) = self.line(done).filter(|_| !self.silent) {
            let mut out = io::stdout().lock();
            // The reader may be gone, or the disk full: the work continues.
            let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
        }
    }

    fn line(&mut self, done: u64) -> Option<String> {
        let share = |done: u64| u128::from(done) * u128::from(Self::LINES) / u128::from(self.total.max(1));
        if share(done) == share(self.reported) {
            return None;
        }
        self.reported = done;
        let percent = u128::from(done) * 100 / u128::from(self.total.max(1));
        Some(format!("{percent:3} %: {done} of {} {}\n", self.total, self.what))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn threads_are_what_the_batch_system_says() {
        assert_eq!(threads(None).unwrap().get(), 1);
        assert_eq!(threads(Some(OsStr::new("12"))).unwrap().get(), 12);
        for text in ["", "0", "-1", "two", "4097"] {
            assert_eq!(threads(Some(OsStr::new(text))).unwrap_err().code, 2, "{text}");
        }
    }

    #[test]
    fn progress_is_a_line_for_every_twentieth() {
        let mut progress = Progress::new(Output::Text, "rows", 1000);
        let lines: Vec<String> = (1..=1000).filter_map(|done| progress.line(done)).collect();
        assert_eq!(lines.len(), 20);
        assert_eq!(lines[0], "  5 %: 50 of 1000 rows\n");
        assert_eq!(lines[19], "100 %: 1000 of 1000 rows\n");
        let mut progress = Progress::new(Output::Text, "samples", 3);
        assert_eq!((1..=3).filter_map(|done| progress.line(done)).count(), 3);
    }

    #[test]
    fn results_replace_a_file_whole_and_leave_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pi.json");
        for (samples, threads) in [(1000, 1), (2000, 2)] {
            let arguments = Pi { samples, seed: 1, out: path.clone() };
            run_pi(Output::Json, &arguments, NonZeroUsize::new(threads).unwrap()).unwrap();
            let result: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            assert_eq!((&result["samples"], &result["threads"]), (&json!(samples), &json!(threads)));
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        let arguments = Pi { samples: 1, seed: 1, out: dir.path().join("absent/pi.json") };
        assert_eq!(run_pi(Output::Json, &arguments, NonZeroUsize::MIN).unwrap_err().code, 1);
    }

    #[test]
    fn the_matrix_result_does_not_depend_on_threads() {
        let dir = tempfile::tempdir().unwrap();
        let result = |threads: usize| -> Value {
            let out = dir.path().join(format!("{threads}.json"));
            let arguments = Matrix { size: 70, seed: 5, repeat: 2, out: out.clone() };
            run_matrix(Output::Json, &arguments, NonZeroUsize::new(threads).unwrap()).unwrap();
            serde_json::from_slice(&std::fs::read(out).unwrap()).unwrap()
        };
        let (one, three) = (result(1), result(3));
        for key in ["checksum", "residual", "size", "seed", "repeat", "gflop"] {
            assert_eq!(one[key], three[key], "{key}");
        }
        assert_eq!(one["checksum"].as_str().unwrap().len(), 16);
        assert!(one["residual"].as_f64().unwrap() <= one["tolerance"].as_f64().unwrap());
    }
}
