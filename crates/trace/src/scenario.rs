//! Workload files: several logs, or generated sites, joined into the workload of one federation.
//!
//! ```toml
//! name = "autumn-1996"
//!
//! [[log]]
//! file = "CTC-SP2-1996-3.1-cln.swf.gz"  # beside this file, or in one of the folders given for logs
//! cluster = "ctc"                       # the origin of its jobs
//! from = 1996-09-30                     # optional: first day, by the log's UnixStartTime (UTC)
//! to = 1996-12-31                       # optional: last day
//! align = "calendar"                    # or "start": the log's first job is at 0. Left out: the calendar
//!                                       # if the log says its UnixStartTime, else the start
//!
//! [[generate]]
//! cluster = "bordeaux"
//! procs = 640
//! jobs = 1000
//! days = 92.0
//! load = 0.6
//! seed = 1
//! ```
//!
//! Jobs are renumbered from 1, in order of submission (file order on ties). Users, groups and applications of
//! different clusters get different numbers.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use pliant_model::{Job, Procs, Time, check_name};
use serde::Deserialize;
use toml::Spanned;
use toml::value::Datetime;

use crate::calendar::{DAY_S, day_of, days_since_1970};
use crate::error::TraceError;
use crate::generate::{DAYS_MAX, JOBS_MAX, LOAD_MAX, Site, site};
use crate::logs;
use crate::repair::RepairReport;
use crate::toml_file::{Source, unknown_word};
use crate::workload::{Format, LoadOptions, Workload};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<String>,
    #[serde(default)]
    log: Vec<Log>,
    #[serde(default)]
    generate: Vec<GeneratedPart>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Log {
    file: Spanned<PathBuf>,
    cluster: Spanned<String>,
    from: Option<Spanned<Datetime>>,
    to: Option<Spanned<Datetime>>,
    align: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GeneratedPart {
    cluster: Spanned<String>,
    procs: Spanned<u32>,
    jobs: Spanned<u32>,
    days: Spanned<f64>,
    load: Spanned<f64>,
    #[serde(default = "first_seed")]
    seed: u64,
}

fn first_seed() -> u64 {
    1
}

/// Jobs of one part, on the common clock once `calendar` parts know their origin.
struct ScenarioPart {
    cluster: String,
    jobs: Vec<Job>,
    /// Unix time of its second 0, if it is placed by the calendar.
    calendar: Option<i64>,
    /// Processors that its jobs were made for, if known.
    procs: Option<i64>,
}

pub(crate) fn load(path: &Path, input: impl Read, options: &LoadOptions) -> Result<Workload, TraceError> {
    let source = Source::read_from(path, input)?;
    let hint = "a workload file is a list of [[log]] with file and cluster, and of [[generate]]";
    let file: File = source.parse(hint)?;
    let mut report = RepairReport::default();
    let mut parts = Vec::new();
    for log in &file.log {
        parts.push(read_log(&source, path, log, options, &mut report)?);
    }
    for one in &file.generate {
        parts.push(generate(&source, one, &mut report)?);
    }
    if parts.is_empty() {
        return Err(source.error(
            0..0,
            "expected at least one [[log]] or [[generate]], found none".to_owned(),
            hint.to_owned(),
        ));
    }
    Ok(join(file.name.unwrap_or_else(|| stem(path)), parts, report))
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

fn read_log(
    source: &Source,
    scenario: &Path,
    log: &Log,
    options: &LoadOptions,
    report: &mut RepairReport,
) -> Result<ScenarioPart, TraceError> {
    let file = log.file.get_ref();
    let cluster = cluster_name(source, &log.cluster)?;
    if Format::of(file) == Format::Scenario {
        let message = format!("`file`: expected a log, found the workload file `{}`", file.display());
        return Err(source.error(log.file.span(), message, "workload files do not nest".to_owned()));
    }
    let align = log.align.as_ref().map_or("calendar", |align| align.get_ref().as_str());
    if let Some(word) = &log.align
        && !["calendar", "start"].contains(&align)
    {
        let message = unknown_word("align", "an alignment", align, &["calendar", "start"]);
        return Err(source.error(word.span(), message, "`start` puts the first job at 0".to_owned()));
    }
    let found = find(scenario, file, &options.log_dirs).ok_or_else(|| {
        let message = format!("`file`: expected a log, found no file `{}`", file.display());
        let hint =
            "logs are searched in the folder of this file, in --traces and in PLIANT_TRACES".to_owned();
        source.error(log.file.span(), message, hint)
    })?;
    let workload = logs::load(&found, options)?;
    let start = workload.unix_start;
    let calendar_asked = log.align.is_some() && align == "calendar";
    if start.is_none() && (log.from.is_some() || log.to.is_some() || calendar_asked) {
        let message = format!(
            "`file`: `from`, `to` and align = \"calendar\" need a log with UnixStartTime, `{}` has none",
            file.display()
        );
        let hint = "leave the window out and use align = \"start\"".to_owned();
        return Err(source.error(log.file.span(), message, hint));
    }
    let procs = workload.max_procs;
    report.absorb(&workload.report);
    let total = workload.jobs.len();
    let mut jobs = window(source, log, workload)?;
    let outside = (total - jobs.len()) as u64;
    report.read -= outside;
    report.kept -= outside;
    let calendar = if align == "calendar" { start } else { None };
    if calendar.is_none() {
        let first = jobs.first().map_or(0, |job| job.submit.0);
        for job in &mut jobs {
            job.submit = Time(job.submit.0 - first);
        }
    }
    Ok(ScenarioPart { cluster, jobs, calendar, procs })
}

fn cluster_name(source: &Source, name: &Spanned<String>) -> Result<String, TraceError> {
    check_name(name.get_ref()).map_err(|error| {
        let hint = "give the name of a cluster of the platform".to_owned();
        source.error(name.span(), format!("`cluster`: {error}"), hint)
    })?;
    Ok(name.get_ref().clone())
}

/// The jobs from the first to the last day wanted; an error if that leaves none.
fn window(source: &Source, log: &Log, workload: Workload) -> Result<Vec<Job>, TraceError> {
    let from = window_end(source, "from", &log.from, 0)?.unwrap_or(i64::MIN);
    let to = window_end(source, "to", &log.to, DAY_S)?.unwrap_or(i64::MAX);
    if let (Some(first), Some(last), true) = (&log.from, &log.to, from >= to) {
        let message = format!("`to`: expected {} or a later day, found {}", first.get_ref(), last.get_ref());
        let hint = "`from` is the first day, `to` the last one".to_owned();
        return Err(source.error(last.span(), message, hint));
    }
    let origin = workload.unix_start.unwrap_or(0);
    let last_submit = origin + workload.last_submit().0;
    let mut jobs = workload.jobs;
    let any = !jobs.is_empty();
    jobs.retain(|job| (from..to).contains(&(origin + job.submit.0)));
    if any && jobs.is_empty() {
        let message = format!(
            "`file`: expected jobs between `from` and `to`, found them from {} to {} only",
            day_of(origin),
            day_of(last_submit)
        );
        let hint = "days are those of UTC, by the log's UnixStartTime".to_owned();
        return Err(source.error(log.file.span(), message, hint));
    }
    Ok(jobs)
}

/// Finds a log: in the folder of the workload file, or in one of the folders for logs.
fn find(scenario: &Path, file: &Path, dirs: &[PathBuf]) -> Option<PathBuf> {
    let beside = scenario.parent().unwrap_or(Path::new("")).join(file);
    std::iter::once(beside).chain(dirs.iter().map(|dir| dir.join(file))).find(|path| path.is_file())
}

/// Unix time of a day's start plus `offset`.
fn window_end(
    source: &Source,
    key: &str,
    date: &Option<Spanned<Datetime>>,
    offset: i64,
) -> Result<Option<i64>, TraceError> {
    let Some(spanned) = date else { return Ok(None) };
    match spanned.get_ref() {
        Datetime { date: Some(day), time: None, offset: None } => {
            let days = days_since_1970(i64::from(day.year), i64::from(day.month), i64::from(day.day));
            Ok(Some(days * DAY_S + offset))
        }
        other => {
            let message = format!("`{key}`: expected a day such as 1996-09-30, found {other}");
            Err(source.error(
                spanned.span(),
                message,
                "write it without quotes and without a time".to_owned(),
            ))
        }
    }
}

fn generate(
    source: &Source,
    one: &GeneratedPart,
    report: &mut RepairReport,
) -> Result<ScenarioPart, TraceError> {
    let positive = |value: &Spanned<f64>, key: &str, most: f64| {
        let found = *value.get_ref();
        if found > 0.0 && found <= most {
            return Ok(found);
        }
        let message = format!("`{key}`: expected a number above 0 and at most {most}, found {found}");
        Err(source.error(value.span(), message, "see docs/reference/files/workload.md".to_owned()))
    };
    let procs = *one.procs.get_ref();
    if procs == 0 {
        let hint = "the size of the cluster that the jobs are made for".to_owned();
        return Err(source.error(one.procs.span(), "`procs`: expected at least 1, found 0".to_owned(), hint));
    }
    let count = *one.jobs.get_ref();
    if count == 0 || count > JOBS_MAX {
        let message = format!("`jobs`: expected 1 to {JOBS_MAX}, found {count}");
        return Err(source.error(
            one.jobs.span(),
            message,
            "split the workload over several files".to_owned(),
        ));
    }
    let days = positive(&one.days, "days", DAYS_MAX)?;
    let load = positive(&one.load, "load", LOAD_MAX)?;
    let cluster = cluster_name(source, &one.cluster)?;
    let wanted = Site { name: cluster.clone(), procs: Procs(procs), jobs: count, days, load };
    let jobs = site(&wanted, one.seed);
    report.read += jobs.len() as u64;
    report.kept += jobs.len() as u64;
    Ok(ScenarioPart { cluster, jobs, calendar: None, procs: Some(i64::from(procs)) })
}

/// Logs number their users, groups and applications from 1, some from 0. Those of different clusters are made
/// different: each cluster's numbers are shifted to begin behind the largest one before.
fn keep_apart(parts: &mut [ScenarioPart]) {
    let mut clusters: Vec<String> = Vec::new();
    for part in parts.iter() {
        if !clusters.contains(&part.cluster) {
            clusters.push(part.cluster.clone());
        }
    }
    let fields: [fn(&mut Job) -> &mut i32; 3] =
        [|job| &mut job.user, |job| &mut job.group, |job| &mut job.executable];
    for field in fields {
        let mut largest = 0_i32;
        for cluster in &clusters {
            let same = parts.iter_mut().filter(|part| part.cluster == *cluster);
            let all = same.flat_map(|part| &mut part.jobs).map(field).filter(|number| **number >= 0);
            let mut numbers: Vec<&mut i32> = all.collect();
            let shift = largest.saturating_add(i32::from(numbers.iter().any(|number| **number == 0)));
            for number in &mut numbers {
                **number = number.saturating_add(shift);
                largest = largest.max(**number);
            }
        }
    }
}

fn join(name: String, mut parts: Vec<ScenarioPart>, report: RepairReport) -> Workload {
    keep_apart(&mut parts);
    // The clock starts with the first job of any part that the calendar places.
    let placed = parts.iter().filter_map(|part| Some(part.calendar? + part.jobs.first()?.submit.0));
    let origin = placed.min();
    let mut all: Vec<(Job, i32)> = Vec::new();
    let mut partition_names = BTreeMap::new();
    let mut sizes: BTreeMap<i32, Option<i64>> = BTreeMap::new();
    for part in parts {
        let known =
            partition_names.iter().find(|(_, name)| **name == part.cluster).map(|(number, _)| *number);
        let partition = known.unwrap_or(partition_names.len() as i32 + 1);
        partition_names.insert(partition, part.cluster);
        // Parts of one cluster were made for the same processors; one of unknown size hides the sum.
        let size = sizes.entry(partition).or_insert(Some(0));
        *size = size.zip(part.procs).map(|(most, procs)| most.max(procs));
        let shift = match (part.calendar, origin) {
            (Some(start), Some(origin)) => start - origin,
            _ => 0,
        };
        all.extend(part.jobs.into_iter().map(|mut job| {
            job.submit = Time(job.submit.0 + shift);
            (job, partition)
        }));
    }
    all.sort_by_key(|(job, _)| job.submit);
    let first = all.first().map_or(0, |(job, _)| job.submit.0);
    for (index, (job, _)) in all.iter_mut().enumerate() {
        job.log_id = index as u64 + 1;
        job.submit = Time(job.submit.0 - first);
    }
    let (jobs, partitions) = all.into_iter().unzip();
    Workload {
        name,
        jobs,
        partitions,
        partition_names,
        max_procs: sizes.into_values().sum(),
        unix_start: origin.map(|origin| origin + first),
        report,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_different_clusters_are_kept_apart() {
        let part = |cluster: &str, users: &[i32]| {
            let wanted = Site {
                name: cluster.to_owned(),
                procs: Procs(4),
                jobs: users.len() as u32,
                days: 1.0,
                load: 0.5,
            };
            let jobs = site(&wanted, 1).into_iter().zip(users).map(|(job, user)| Job { user: *user, ..job });
            ScenarioPart { cluster: cluster.to_owned(), jobs: jobs.collect(), calendar: None, procs: None }
        };
        let mut parts =
            [part("a", &[2, -1, 1]), part("b", &[0, 5]), part("a", &[3, 2]), part("c", &[1, i32::MAX, -1])];
        keep_apart(&mut parts);
        let users = parts.map(|part| part.jobs.iter().map(|job| job.user).collect::<Vec<_>>());
        assert_eq!(users, [vec![2, -1, 1], vec![4, 9], vec![3, 2], vec![10, i32::MAX, -1]]);
    }
}
