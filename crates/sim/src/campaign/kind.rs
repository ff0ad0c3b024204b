//! The kinds of campaigns: the key `kind` of their files, and the dispatch by kind.

use std::path::{Path, PathBuf};

use pliant_trace::toml_file::{Source, unknown_word};
use serde::Deserialize;
use toml::Spanned;

use super::mapping::{MappingCampaign, Mappings};
use super::multi_job::{MultiJobCampaign, MultiJobs};
use super::runner::{self, FinishedCampaign, Options, Progress};
use super::simulations::Simulations;
use super::store::{FolderContents, identity};
use super::{CampaignError, Measure, SimulationCampaign, SkippedWorkload};

/// The kind of a campaign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Workloads simulated under policies; the default of files without `kind`.
    Simulations,
    /// Task interaction graphs mapped onto grids.
    Mapping,
    /// Multi-jobs allocated over clusters.
    MultiJob,
}

impl Kind {
    /// All kinds, in the order of user listings.
    pub const ALL: &'static [Kind] = &[Self::Simulations, Self::Mapping, Self::MultiJob];

    /// The stable name, as in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Simulations => "simulations",
            Self::Mapping => "mapping",
            Self::MultiJob => "multi-job",
        }
    }

    /// The kind of a campaign file.
    fn of_file(source: &Source) -> Result<Kind, CampaignError> {
        #[derive(Deserialize)]
        struct File {
            kind: Option<Spanned<String>>,
        }
        let file: File = source.parse("docs/reference/files/campaign.md lists every key")?;
        let Some(word) = file.kind else { return Ok(Kind::Simulations) };
        let found = Kind::ALL.iter().copied().find(|kind| kind.name() == word.get_ref());
        found.ok_or_else(|| {
            let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
            let message = unknown_word("kind", "a kind of campaign", word.get_ref(), &names);
            source
                .error(word.span(), message, "docs/reference/files/campaign.md lists every key".to_owned())
                .into()
        })
    }

    /// The kind of a campaign folder.
    fn of_folder(dir: &Path) -> Result<Kind, CampaignError> {
        identity(dir)?.kind().ok_or_else(|| {
            let problem = "expected a kind of campaign in the key `kind`, found another word".to_owned();
            CampaignError::Damaged { path: dir.join("campaign.json"), problem }
        })
    }
}

/// A campaign, as read from its file.
#[derive(Clone, PartialEq, Debug)]
pub enum Campaign {
    /// Of simulations.
    Simulations(SimulationCampaign),
    /// Of mappings.
    Mapping(Box<MappingCampaign>),
    /// Of multi-jobs.
    MultiJob(MultiJobCampaign),
}

impl Campaign {
    /// Reads a campaign file. Logs that are not in its folder are searched in `log_dirs`.
    pub fn read(path: &Path, log_dirs: Vec<PathBuf>) -> Result<Campaign, CampaignError> {
        Ok(match Kind::of_file(&Source::read(path)?)? {
            Kind::Simulations => {
                Self::Simulations(SimulationCampaign { log_dirs, ..SimulationCampaign::read(path)? })
            }
            Kind::Mapping => Self::Mapping(Box::new(MappingCampaign::read(path)?)),
            Kind::MultiJob => Self::MultiJob(MultiJobCampaign { log_dirs, ..MultiJobCampaign::read(path)? }),
        })
    }

    /// Removes optional parts whose file is absent. The result is another campaign than the whole one, and their folders are not
    /// mixed.
    pub fn skip_absent(&mut self) -> Vec<SkippedWorkload> {
        match self {
            Self::Simulations(campaign) => campaign.skip_absent(),
            Self::Mapping(_) => Vec::new(),
            Self::MultiJob(campaign) => campaign.skip_absent(),
        }
    }

    /// Runs the cells of the campaign that have no record in `dir` yet. `measure` computes the metrics of simulated runs.
    pub fn run(
        &self,
        dir: &Path,
        options: Options,
        measure: &Measure<'_>,
        progress: &dyn Progress,
    ) -> Result<FinishedCampaign, CampaignError> {
        match self {
            Self::Simulations(campaign) => {
                runner::run(&Simulations::new(campaign, measure, progress), dir, options, progress)
            }
            Self::Mapping(campaign) => runner::run(&Mappings::new(campaign), dir, options, progress),
            Self::MultiJob(campaign) => runner::run(&MultiJobs::new(campaign), dir, options, progress),
        }
    }
}

/// Reads a campaign folder, also while the campaign still runs.
pub fn read_folder(dir: &Path) -> Result<FolderContents, CampaignError> {
    match Kind::of_folder(dir)? {
        Kind::Simulations => runner::read::<Simulations<'_>>(dir),
        Kind::Mapping => runner::read::<Mappings<'_>>(dir),
        Kind::MultiJob => runner::read::<MultiJobs<'_>>(dir),
    }
}

/// Merges the folders of a campaign's shards into `out`, which may hold some of its records already. The results equal those
/// of a run on one machine, byte for byte.
pub fn merge(out: &Path, dirs: &[&Path]) -> Result<FolderContents, CampaignError> {
    let Some(first) = dirs.first() else { return Err(CampaignError::NothingToMerge) };
    match Kind::of_folder(first)? {
        Kind::Simulations => runner::merge::<Simulations<'_>>(out, first, dirs),
        Kind::Mapping => runner::merge::<Mappings<'_>>(out, first, dirs),
        Kind::MultiJob => runner::merge::<MultiJobs<'_>>(out, first, dirs),
    }
}
