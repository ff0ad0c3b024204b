//! A campaign's folder: what is in it, and how it is written so that a kill at any moment harms nothing.
//!
//! | file | holds |
//! |---|---|
//! | `campaign.json` | name, fingerprint and every key, written first |
//! | `runs/KEY.json` | one [`Record`]; written under another name and renamed, so present means complete |
//! | `results.json`, `results.csv` | all records in the order of the matrix |
//! | `timing.csv` | how long runs took: the only file that differs between two machines |

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Campaign, CampaignError, JobSource, PlatformChoice, Record};

/// The version of `campaign.json` and `results.json`.
const SCHEMA: &str = "pliant.campaign/1";

/// The version of `runs/KEY.json`.
const RUN_SCHEMA: &str = "pliant.run/1";

/// `campaign.json`: which campaign a folder is of. Shards of one campaign have the same.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    schema: String,
    /// The campaign's name.
    pub(super) name: String,
    /// Changes with anything that results depend on.
    pub(super) fingerprint: String,
    /// The policy that the others are compared with.
    pub(super) reference: String,
    /// Of each policy that has them, the policies that it is compared with beside the reference.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) compare_with: BTreeMap<String, Vec<String>>,
    /// Every key, in the order of the matrix.
    pub(super) runs: Vec<String>,
}

/// The results of a campaign.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    schema: String,
    /// The campaign's name.
    pub name: String,
    /// The policy that the others are compared with.
    pub reference: String,
    /// Of each policy that has them, the policies that it is compared with beside the reference.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub compare_with: BTreeMap<String, Vec<String>>,
    /// How many runs the whole campaign has.
    pub planned: usize,
    /// Those that are there, in the order of the matrix.
    pub runs: Vec<Record>,
    /// Files of runs that are there and cannot be used: these runs are missing.
    #[serde(skip)]
    pub damaged: Vec<Damage>,
}

/// A file of a run that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.problem)
    }
}

/// What a campaign folder holds of a run.
pub(super) enum Stored {
    /// Nothing.
    Absent,
    /// Its result.
    Whole(Box<Record>),
    /// A file that cannot be used: the run has to be simulated again.
    Damaged(Damage),
}

/// `runs/KEY.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunFile {
    schema: String,
    fingerprint: String,
    run: Record,
}

impl Manifest {
    /// The manifest of a campaign. Reads the files that the campaign names, for the fingerprint.
    pub(super) fn of(campaign: &Campaign) -> Result<Manifest, CampaignError> {
        Ok(Manifest {
            schema: SCHEMA.to_owned(),
            name: campaign.name.clone(),
            fingerprint: fingerprint(campaign)?,
            reference: campaign.policies[campaign.reference].name.clone(),
            compare_with: campaign
                .policies
                .iter()
                .filter(|one| !one.compare_with.is_empty())
                .map(|one| (one.name.clone(), one.compare_with.clone()))
                .collect(),
            runs: campaign.keys(),
        })
    }
}

/// 64 bits over everything that results depend on: this version of Pliant, the campaign as understood (its
/// comments and layout do not count) and the content of the files that it names.
fn fingerprint(campaign: &Campaign) -> Result<String, CampaignError> {
    let mut hash = Fnv::new();
    hash.add(env!("CARGO_PKG_VERSION").as_bytes());
    // That a workload may be absent changes nothing about the one that is there.
    let workloads: Vec<_> =
        campaign.workloads.iter().map(|one| (&one.name, &one.source, &one.platforms)).collect();
    let axes = (&campaign.seeds, &campaign.dedicated_shares, &campaign.moldable, workloads);
    hash.add(format!("{axes:?}").as_bytes());
    hash.add(format!("{:?}{}", campaign.policies, campaign.reference).as_bytes());
    let mut logs: BTreeSet<&Path> = BTreeSet::new();
    let mut platforms: BTreeSet<&Path> = BTreeSet::new();
    for workload in &campaign.workloads {
        if let JobSource::File { path, .. } = &workload.source {
            logs.insert(path);
        }
        platforms.extend(workload.platforms.iter().filter_map(PlatformChoice::file));
    }
    let logs = logs.into_iter().map(|log| campaign.log(log));
    let platforms = platforms.into_iter().map(|platform| Ok(campaign.base.join(platform)));
    for path in logs.chain(platforms) {
        let path = path?;
        hash.add(&fs::read(&path).map_err(|source| CampaignError::io(&path, "read this file", source))?);
    }
    Ok(format!("{:016x}", hash.0))
}

/// FNV-1a, 64 bits: stable across versions and machines, which the standard hasher is not.
struct Fnv(u64);

impl Fnv {
    fn new() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    /// Adds bytes and their number, so that neighbours cannot trade bytes.
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(&(bytes.len() as u64).to_le_bytes()) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

/// An open campaign folder.
pub(super) struct Store {
    dir: PathBuf,
    pub(super) manifest: Manifest,
}

impl Store {
    /// Opens a folder for a campaign, creating it if needed. Runs of another campaign are refused; a folder
    /// that was made for another one and got no runs is taken over.
    pub(super) fn create(dir: &Path, manifest: Manifest) -> Result<Store, CampaignError> {
        let runs = dir.join("runs");
        fs::create_dir_all(&runs).map_err(|source| CampaignError::io(&runs, "create this folder", source))?;
        match read_manifest(dir) {
            Ok(found) if found == manifest => {}
            Ok(found) if holds_runs(&runs)? => {
                return Err(CampaignError::Changed {
                    dir: dir.to_owned(),
                    expected: (manifest.name, manifest.fingerprint),
                    found: (found.name, found.fingerprint),
                });
            }
            Ok(_) | Err(CampaignError::Absent(_)) => write_json(&dir.join("campaign.json"), &manifest)?,
            Err(error) => return Err(error),
        }
        Ok(Store { dir: dir.to_owned(), manifest })
    }

    /// Opens a campaign folder that is there.
    pub(super) fn open(dir: &Path) -> Result<Store, CampaignError> {
        Ok(Store { dir: dir.to_owned(), manifest: read_manifest(dir)? })
    }

    fn run_path(&self, key: &str) -> PathBuf {
        self.dir.join("runs").join(format!("{key}.json"))
    }

    /// What is there of the run of that key.
    pub(super) fn read_run(&self, key: &str) -> Stored {
        let path = self.run_path(key);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Stored::Absent,
            Err(error) => {
                return Stored::Damaged(Damage { path, problem: format!("cannot read this file: {error}") });
            }
        };
        match self.understand_run(key, &text) {
            Ok(run) => Stored::Whole(Box::new(run)),
            Err(problem) => Stored::Damaged(Damage { path, problem }),
        }
    }

    fn understand_run(&self, key: &str, text: &[u8]) -> Result<Record, String> {
        let file: RunFile = serde_json::from_slice(text).map_err(|error| not_as_written(&error))?;
        if file.schema != RUN_SCHEMA {
            return Err(format!("key `schema`: expected `{RUN_SCHEMA}`, found `{}`", file.schema));
        }
        let expected = &self.manifest.fingerprint;
        if file.fingerprint != *expected {
            return Err(format!(
                "expected a result of this campaign ({expected}), found one of another ({})",
                file.fingerprint
            ));
        }
        if file.run.key != key {
            return Err(format!("expected the result of this run, found that of {}", file.run.key));
        }
        Ok(file.run)
    }

    /// Keeps a record.
    pub(super) fn write_run(&self, run: &Record) -> Result<(), CampaignError> {
        let path = self.run_path(&run.key);
        let (schema, fingerprint) = (RUN_SCHEMA.to_owned(), self.manifest.fingerprint.clone());
        write_json(&path, &RunFile { schema, fingerprint, run: run.clone() })
    }

    /// Collects the records that are there.
    pub(super) fn results(&self) -> Results {
        let (mut runs, mut damaged) = (Vec::new(), Vec::new());
        for key in &self.manifest.runs {
            match self.read_run(key) {
                Stored::Whole(run) => runs.push(*run),
                Stored::Damaged(damage) => damaged.push(damage),
                Stored::Absent => {}
            }
        }
        Results {
            schema: SCHEMA.to_owned(),
            name: self.manifest.name.clone(),
            reference: self.manifest.reference.clone(),
            compare_with: self.manifest.compare_with.clone(),
            planned: self.manifest.runs.len(),
            runs,
            damaged,
        }
    }

    /// Writes `results.json` and `results.csv` from the records that are there.
    pub(super) fn write_results(&self) -> Result<Results, CampaignError> {
        let results = self.results();
        write_json(&self.dir.join("results.json"), &results)?;
        write_whole(&self.dir.join("results.csv"), results.to_csv().as_bytes())?;
        Ok(results)
    }

    /// Appends to `timing.csv` how long runs took.
    pub(super) fn write_timing(&self, seconds: &BTreeMap<String, f64>) -> Result<(), CampaignError> {
        let path = self.dir.join("timing.csv");
        let failed = |source| CampaignError::io(&path, "write this file", source);
        let mut text = if path.exists() { String::new() } else { String::from("key,seconds\n") };
        for (key, seconds) in seconds {
            text.push_str(&format!("{key},{seconds:.3}\n"));
        }
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&path).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)
    }
}

impl Results {
    /// One line per run; a metric that a run does not have is left empty.
    fn to_csv(&self) -> String {
        let metrics: BTreeSet<&str> =
            self.runs.iter().flat_map(|run| run.metrics.keys().map(String::as_str)).collect();
        let mut text = String::from("key,workload,platform,moldable,dedicated_share,seed,policy");
        for metric in &metrics {
            text.push(',');
            text.push_str(metric);
        }
        text.push('\n');
        for run in &self.runs {
            let Record { key, workload, platform, moldable, dedicated_share, seed, policy, .. } = run;
            text.push_str(&format!(
                "{key},{workload},{platform},{moldable},{dedicated_share},{seed},{policy}"
            ));
            for metric in &metrics {
                text.push(',');
                if let Some(value) = run.metrics.get(*metric) {
                    text.push_str(&value.to_string());
                }
            }
            text.push('\n');
        }
        text
    }
}

fn holds_runs(runs: &Path) -> Result<bool, CampaignError> {
    let failed = |source| CampaignError::io(runs, "read this folder", source);
    for entry in fs::read_dir(runs).map_err(failed)? {
        if entry.map_err(failed)?.path().extension().is_some_and(|extension| extension == "json") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The results in a campaign folder: of the runs that are there, also while the campaign still runs.
pub fn read_results(dir: &Path) -> Result<Results, CampaignError> {
    Ok(Store::open(dir)?.results())
}

fn read_manifest(dir: &Path) -> Result<Manifest, CampaignError> {
    let path = dir.join("campaign.json");
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => {
            return Err(CampaignError::Absent(dir.to_owned()));
        }
        Err(source) => return Err(CampaignError::io(&path, "read this file", source)),
    };
    let damaged = |problem: String| CampaignError::Damaged { path: path.clone(), problem };
    let manifest: Manifest =
        serde_json::from_slice(&text).map_err(|error| damaged(not_as_written(&error)))?;
    if manifest.schema != SCHEMA {
        return Err(damaged(format!("key `schema`: expected `{SCHEMA}`, found `{}`", manifest.schema)));
    }
    Ok(manifest)
}

/// What is wrong with a file that is not as Pliant wrote it.
fn not_as_written(error: &serde_json::Error) -> String {
    let (line, column) = (error.line().max(1), error.column().max(1));
    if error.is_eof() {
        return format!("cut off at line {line}, column {column}");
    }
    format!("expected a file as Pliant writes it, found something else at line {line}, column {column}")
}

pub(super) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), CampaignError> {
    let mut bytes = serde_json::to_vec_pretty(value)
        .map_err(|source| CampaignError::io(path, "write this file", source.into()))?;
    bytes.push(b'\n');
    write_whole(path, &bytes)
}

/// Writes a whole file or none: under a temporary name of this process, then renamed.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), CampaignError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".partial-{}", std::process::id()));
    let temporary = path.with_file_name(name);
    fs::write(&temporary, bytes)
        .and_then(|()| fs::rename(&temporary, path))
        .map_err(|source| CampaignError::io(path, "write this file", source))
}
