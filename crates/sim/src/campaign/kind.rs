//! What a campaign is a campaign of: the key `kind` of its file, the schema of its folder.

use std::path::Path;

use pliant_trace::toml_file::{Source, unknown_word};
use serde::Deserialize;
use toml::Spanned;

use super::{CampaignError, mapping, multi_job};

/// What a campaign is a campaign of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Workloads simulated under policies: what a file is of that says nothing.
    Simulations,
    /// Task interaction graphs mapped onto grids.
    Mapping,
    /// Multi-jobs allocated over clusters.
    MultiJob,
}

#[derive(Deserialize)]
struct File {
    kind: Option<Spanned<String>>,
}

impl Kind {
    /// Every one, in the order in which they are listed to users.
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
    pub fn of_file(path: &Path) -> Result<Kind, CampaignError> {
        let source = Source::read(path)?;
        let file: File = source.parse("docs/campaigns.md lists every key")?;
        let Some(word) = file.kind else { return Ok(Kind::Simulations) };
        let found = Kind::ALL.iter().copied().find(|kind| kind.name() == word.get_ref());
        found.ok_or_else(|| {
            let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
            let message = unknown_word("kind", "a kind of campaign", word.get_ref(), &names);
            source.error(word.span(), message, "docs/campaigns.md lists every key".to_owned()).into()
        })
    }

    /// The kind of a campaign folder. One that is damaged or no such folder passes for the first kind, whose reader
    /// says what is wrong.
    pub fn of_folder(dir: &Path) -> Kind {
        match () {
            () if mapping::is_folder(dir) => Kind::Mapping,
            () if multi_job::is_folder(dir) => Kind::MultiJob,
            () => Kind::Simulations,
        }
    }
}
