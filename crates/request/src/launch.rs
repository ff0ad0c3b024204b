//! The options of `pliant launch` that say what is launched.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use pliant_client::InputPaths;
use pliant_control::coallocation::Mapping;
use pliant_control::names::{Key, Name};
use pliant_model::Span;
use pliant_site::services::{DurationError, parse_duration};
use pliant_wire::{LaunchRequest, bounds};

use crate::RequestError;
use crate::application::{self, LaunchDescription};
use crate::numbers::similarity_threshold;
use crate::submit::drawn;

/// The options of a launch.
#[derive(Args)]
pub struct LaunchOptions {
    /// The application: its tasks, their programs and their communication (docs/reference/files/launch.md).
    #[arg(value_name = "APP.toml", required = true)]
    pub application: Option<PathBuf>,
    /// The name of the launch [default: the file's name].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The walltime of the tasks.
    #[arg(long = "time", value_name = "TIME", default_value = "1h", value_parser = parse_duration as fn(&str) -> Result<Span, DurationError>)]
    walltime: Span,
    /// How long the servers of a launch may wait for each other with reserved machines, at most 1d.
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = parse_duration as fn(&str) -> Result<Span, DurationError>)]
    reservation_timeout: Span,
    /// The server near which the search for machines begins [default: the first one].
    #[arg(long, value_name = "SERVER")]
    from: Option<Name>,
    /// The similarity threshold, above 0 and below 1: a higher value makes larger clusters of tasks [default: 0.5].
    #[arg(long, value_name = "DELTA", value_parser = similarity_threshold, allow_negative_numbers = true)]
    similarity: Option<f64>,
    /// How tasks are mapped to machines: by clusters of tasks and their traffic (wase), or by a baseline to compare it with.
    #[arg(long, value_name = "NAME", default_value = Mapping::Wase.word(), value_parser = mapping_word())]
    mapper: Mapping,
    /// Shows the machines of the tasks, and reserves nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// The unique key of the launch, 32 hexadecimal digits: the same command with the same key gives the same launch,
    /// never a second one.
    #[arg(long, value_name = "HEX")]
    key: Option<Key>,
}

fn mapping_word() -> impl TypedValueParser<Value = Mapping> {
    let named = |word: String| {
        let found = Mapping::ALL.into_iter().find(|mapping| mapping.word() == word);
        found.ok_or("no way to map")
    };
    PossibleValuesParser::new(Mapping::ALL.map(Mapping::word)).try_map(named)
}

impl LaunchOptions {
    /// The launch of the application in this file, with the paths of the input files of tasks.
    ///
    /// # Errors
    ///
    /// If an option is beyond its limits, or a file cannot be read or is wrong.
    pub fn request(&self, file: &Path) -> Result<(LaunchRequest, InputPaths), RequestError> {
        let timeout = bounds::HELD_S;
        if !timeout.contains(&self.reservation_timeout.0) {
            let (least, most) = (timeout.start(), timeout.end());
            let found = self.reservation_timeout.0;
            return Err(RequestError::input(format!(
                "--reservation-timeout: expected {least} s to {most} s, found {found} s"
            )));
        }
        let LaunchDescription { application, inputs } = application::read(file)?;
        let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let request = LaunchRequest {
            key: self.key.unwrap_or_else(drawn),
            name: self.name.clone().unwrap_or_else(|| stem.to_owned()),
            application,
            walltime: self.walltime,
            timeout: self.reservation_timeout,
            user_lan: self.from.clone(),
            threshold: self.similarity,
            mapping: self.mapper,
            dry_run: self.dry_run,
            // The client signs.
            signed: None,
        };
        Ok((request, inputs))
    }
}
