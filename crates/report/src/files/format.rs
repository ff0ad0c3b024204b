//! The forms that results are written in.

/// A form of result files, by the word that chooses it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FileFormat {
    /// `jobs.csv`, `moves.csv` and `refused.csv`.
    Csv,
    /// `jobs.parquet`.
    #[cfg(feature = "parquet")]
    Parquet,
    /// `schedule.swf`.
    Swf,
    /// `summary.json`.
    Json,
}

impl FileFormat {
    /// The formats of this build.
    pub const ALL: &[FileFormat] = &[
        Self::Csv,
        #[cfg(feature = "parquet")]
        Self::Parquet,
        Self::Swf,
        Self::Json,
    ];

    /// The word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            #[cfg(feature = "parquet")]
            Self::Parquet => "parquet",
            Self::Swf => "swf",
            Self::Json => "json",
        }
    }

    /// The form of a word.
    pub fn from_name(word: &str) -> Option<FileFormat> {
        Self::ALL.iter().copied().find(|format| format.name() == word)
    }
}
