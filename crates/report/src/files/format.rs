//! The forms that results are written in.

/// A form of result files, by the word that chooses it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FileFormat {
    /// `jobs.csv`, `moves.csv` and `refused.csv`.
    Csv,
    /// `jobs.parquet`.
    Parquet,
    /// `schedule.swf`.
    Swf,
    /// `summary.json`.
    Json,
}

impl FileFormat {
    /// All of them.
    pub const ALL: [FileFormat; 4] = [Self::Csv, Self::Parquet, Self::Swf, Self::Json];

    /// The word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Parquet => "parquet",
            Self::Swf => "swf",
            Self::Json => "json",
        }
    }

    /// The form of a word.
    pub fn from_name(word: &str) -> Option<FileFormat> {
        Self::ALL.into_iter().find(|format| format.name() == word)
    }
}
