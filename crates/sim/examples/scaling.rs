//! Measures what a job costs as queues, federations and workloads grow, and draws it:
//! `cargo run --release -p pliant-sim --example scaling -- OUT_DIR [queue|clusters|jobs|overload|million]...`
//!
//! docs/performance.md quotes the tables and shows the pictures. Times are wall-clock times of one run each.
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a program of its own, that measures time, prints tables and writes pictures"
)]

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use pliant_model::{Platform, Procs, Run, Span, Time};
use pliant_policy::reallocation::{Algorithm, Heuristic, Reallocation};
use pliant_sim::{Policies, Silent, SimJob, simulate};
use pliant_trace::{Workload, generate, moldable, platform};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(out) = arguments.next() else {
        eprintln!("usage: scaling OUT_DIR [queue|clusters|jobs|overload|million]...");
        std::process::exit(2);
    };
    let wanted: Vec<String> = arguments.collect();
    let out = Path::new(&out);
    std::fs::create_dir_all(out).expect("the output folder can be made");
    for (name, measure) in [
        ("queue", queue as fn(&Path)),
        ("clusters", clusters),
        ("jobs", jobs),
        ("overload", overload),
        ("million", million),
    ] {
        if wanted.is_empty() || wanted.iter().any(|one| one == name) {
            measure(out);
        }
    }
}

/// A run and how long it took, in seconds.
fn timed(
    platform: &Platform,
    workload: &Workload,
    moldable: bool,
    reallocation: Option<Reallocation>,
) -> (Run, f64) {
    let rigid = || vec![pliant_model::Speedup::Rigid; workload.jobs.len()];
    let types = if moldable { moldable::assign_types(&workload.jobs, 1) } else { rigid() };
    let jobs = workload.jobs.iter().cloned().zip(types);
    let jobs: Vec<SimJob> = jobs.map(|(job, speedup)| SimJob { job, speedup, managed: true }).collect();
    let policies = Policies { reallocation, keep_moves: false, ..Policies::default() };
    let begin = Instant::now();
    let run = simulate(platform, &jobs, &policies, &mut Silent).expect("a valid run");
    (run, begin.elapsed().as_secs_f64())
}

fn hourly(algorithm: Algorithm) -> Option<Reallocation> {
    Some(Reallocation::new(algorithm, Heuristic::Mct))
}

/// Jobs that wait on average, by Little's law.
fn mean_queue(run: &Run) -> f64 {
    let waited: f64 = run.jobs.iter().map(|job| job.wait().0 as f64).sum();
    let end = run.jobs.iter().map(|job| job.end.0).max().unwrap_or(1);
    waited / end as f64
}

/// Microseconds per event against the queue length: the same overload for a longer and longer time.
fn queue(out: &Path) {
    let platform = platform::built_in("grid5000").expect("built in");
    let (mut rigid, mut moldable, mut similar) = (Vec::new(), Vec::new(), Vec::new());
    println!("queue length: {:>8} {:>9} {:>12} {:>12}", "jobs", "which", "mean queue", "us/event");
    for days in [1.0, 2.0, 4.0, 8.0, 16.0, 31.0] {
        let count = (133_135.0 * days / 31.0) as u32;
        let mixed = generate::federation(&platform, count, days, 1.3, 1);
        let alike = similar_jobs(&platform, count, days);
        for (which, workload, points) in [
            ("rigid", &mixed, &mut rigid),
            ("moldable", &mixed, &mut moldable),
            ("similar", &alike, &mut similar),
        ] {
            // The last overload of similar jobs would take many minutes.
            if which == "similar" && days > 16.0 {
                continue;
            }
            let (run, seconds) = timed(&platform, workload, which == "moldable", None);
            let point = (mean_queue(&run), seconds * 1e6 / (2.0 * f64::from(count)));
            println!("              {count:>8} {which:>9} {:>12.0} {:>12.2}", point.0, point.1);
            points.push(point);
        }
    }
    let series = [("rigid jobs", rigid), ("moldable jobs", moldable), ("rigid jobs, all similar", similar)];
    draw(
        &out.join("queue.svg"),
        "Cost of an event against queue length (CBF, 130 % load)",
        "mean queue length (jobs)",
        "microseconds per event",
        &series,
    );
}

/// The hardest queue for conservative backfilling: 1 to 64 processors, within a factor of twelve of the same
/// length, asking for one to three times their runtime, at 130 % load. Nothing is so small that it gets ahead, so all
/// wait, and every early end moves most of them.
fn similar_jobs(platform: &Platform, count: u32, days: f64) -> Workload {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut workload = generate::federation(platform, count, days, 1.0, 1);
    for job in &mut workload.jobs {
        job.submit = Time(rng.random_range(0..(days * 86_400.0) as i64));
        job.procs = Procs(rng.random_range(1..=64));
        job.runtime = Span(rng.random_range(600..=7200));
        job.walltime = Span((job.runtime.0 as f64 * rng.random_range(1.0..3.0)) as i64);
    }
    workload.jobs.sort_by_key(|job| job.submit);
    generate::rescale(&mut workload, platform.capacity(), 1.3);
    workload
}

/// Microseconds per job against the number of clusters: 100,000 jobs, 800 processors per cluster.
fn clusters(out: &Path) {
    let (mut mapped, mut moved) = (Vec::new(), Vec::new());
    println!("clusters:     {:>8} {:>14} {:>14}", "clusters", "MCT us/job", "MCT-reg us/job");
    for count in [3, 10, 30, 100, 300] {
        let platform = platform::generated(count, u64::from(count) * 800, 1);
        // As many jobs per processor and day everywhere.
        let days = 100_000.0 / (f64::from(count) * 800.0) * 7.44;
        let workload = generate::federation(&platform, 100_000, days, 0.7, 1);
        let (_, without) = timed(&platform, &workload, true, None);
        let (_, with) = timed(&platform, &workload, true, hourly(Algorithm::Regular));
        println!("              {count:>8} {:>14.1} {:>14.1}", without * 10.0, with * 10.0);
        mapped.push((f64::from(count), without * 10.0));
        moved.push((f64::from(count), with * 10.0));
    }
    let series = [("mapping only", mapped), ("with hourly reallocation", moved)];
    draw(
        &out.join("clusters.svg"),
        "Cost of a job against the size of the federation",
        "clusters",
        "microseconds per job",
        &series,
    );
}

/// Microseconds per job against the number of jobs: 300 clusters with 240,000 processors.
fn jobs(out: &Path) {
    let platform = platform::generated(300, 240_000, 1);
    let (mut mapped, mut moved) = (Vec::new(), Vec::new());
    println!("jobs:         {:>8} {:>14} {:>14}", "jobs", "MCT us/job", "MCT-reg us/job");
    for count in [10_000_u32, 30_000, 100_000, 300_000, 1_000_000] {
        let days = 31.0 * f64::from(count) / 1_000_000.0;
        let workload = generate::federation(&platform, count, days, 0.7, 1);
        let per_job = 1e6 / f64::from(count);
        let (_, without) = timed(&platform, &workload, true, None);
        let (_, with) = timed(&platform, &workload, true, hourly(Algorithm::Regular));
        println!("              {count:>8} {:>14.1} {:>14.1}", without * per_job, with * per_job);
        mapped.push((f64::from(count), without * per_job));
        moved.push((f64::from(count), with * per_job));
    }
    let series = [("mapping only", mapped), ("with hourly reallocation", moved)];
    draw(
        &out.join("jobs.svg"),
        "Cost of a job against the number of jobs (300 clusters)",
        "jobs",
        "microseconds per job",
        &series,
    );
}

/// A month of 133,135 jobs at 130 % load.
fn overload(_: &Path) {
    let platform = platform::built_in("grid5000").expect("built in");
    let workload = generate::federation(&platform, 133_135, 31.0, 1.3, 1);
    println!(
        "overload:     {:>9} {:>18} {:>10} {:>12} {:>10}",
        "moldable", "reallocation", "seconds", "mean queue", "moves"
    );
    for is_moldable in [false, true] {
        for algorithm in [None, Some(Algorithm::Regular), Some(Algorithm::AllCancellation)] {
            let (run, seconds) = timed(&platform, &workload, is_moldable, algorithm.and_then(hourly));
            let name = algorithm.map_or("none", Algorithm::name);
            println!(
                "              {is_moldable:>9} {name:>18} {seconds:>10.1} {:>12.0} {:>10}",
                mean_queue(&run),
                run.reallocations
            );
        }
    }
}

/// A million jobs over 300 clusters with 240,000 processors.
fn million(_: &Path) {
    let platform = platform::generated(300, 240_000, 1);
    println!(
        "million:      {:>6} {:>18} {:>10} {:>12} {:>10}",
        "load", "reallocation", "seconds", "mean queue", "moves"
    );
    for load in [0.5, 0.7] {
        let workload = generate::federation(&platform, 1_000_000, 31.0, load, 1);
        for algorithm in [Algorithm::Regular, Algorithm::AllCancellation] {
            let (run, seconds) = timed(&platform, &workload, true, hourly(algorithm));
            println!(
                "              {load:>6} {:>18} {seconds:>10.1} {:>12.0} {:>10}",
                algorithm.name(),
                mean_queue(&run),
                run.reallocations
            );
        }
    }
}

/// Draws lines on logarithmic axes as SVG.
fn draw(path: &Path, title: &str, x_title: &str, y_title: &str, series: &[(&str, Vec<(f64, f64)>)]) {
    let (width, height, left, bottom) = (640.0, 360.0, 70.0, 310.0);
    let all = || series.iter().flat_map(|(_, points)| points.iter().copied());
    let decades = |value: fn((f64, f64)) -> f64| {
        let low = all().map(value).fold(f64::INFINITY, f64::min).max(1e-3).log10().floor();
        let high = all().map(value).fold(0.0, f64::max).log10().ceil();
        (low, high.max(low + 1.0))
    };
    let ((x0, x1), (y0, y1)) = (decades(|point| point.0), decades(|point| point.1));
    let x_at = |x: f64| left + (x.max(1e-3).log10() - x0) / (x1 - x0) * (width - left - 20.0);
    let y_at = |y: f64| bottom - (y.max(1e-3).log10() - y0) / (y1 - y0) * (bottom - 40.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/><text x=\"{left}\" y=\"20\" font-size=\"14\">{title}</text>"
    );
    for decade in x0 as i32..=x1 as i32 {
        let x = x_at(10_f64.powi(decade));
        let _ = write!(
            svg,
            "<path d=\"M{x:.1} 40V{bottom}\" stroke=\"#ddd\"/><text x=\"{x:.1}\" y=\"326\" text-anchor=\"middle\">{}</text>",
            10_f64.powi(decade)
        );
    }
    for decade in y0 as i32..=y1 as i32 {
        let y = y_at(10_f64.powi(decade));
        let _ = write!(
            svg,
            "<path d=\"M{left} {y:.1}H620\" stroke=\"#ddd\"/><text x=\"62\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            y + 4.0,
            10_f64.powi(decade)
        );
    }
    let _ = write!(
        svg,
        "<text x=\"345\" y=\"348\" text-anchor=\"middle\">{x_title}</text><text transform=\"translate(16 175) rotate(-90)\" text-anchor=\"middle\">{y_title}</text>"
    );
    for ((name, points), (colour, at)) in
        series.iter().zip([("#0a6ebd", 56.0), ("#c2410c", 74.0), ("#15803d", 92.0)])
    {
        let line: Vec<String> =
            points.iter().map(|(x, y)| format!("{:.1},{:.1}", x_at(*x), y_at(*y))).collect();
        let _ = write!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            line.join(" ")
        );
        for point in &line {
            let (x, y) = point.split_once(',').unwrap_or_default();
            let _ = write!(svg, "<circle cx=\"{x}\" cy=\"{y}\" r=\"3\" fill=\"{colour}\"/>");
        }
        let _ = write!(
            svg,
            "<path d=\"M80 {at}h20\" stroke=\"{colour}\" stroke-width=\"2\"/><text x=\"106\" y=\"{}\">{name}</text>",
            at + 4.0
        );
    }
    svg.push_str("</svg>\n");
    std::fs::write(path, svg).expect("the picture can be written");
}
