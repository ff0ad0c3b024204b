//! The parameter space of `explore` and `sweep`, as options.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use pliant_client::{ParameterRange, ParameterSpace, ParameterTable};

use crate::error::RequestError;
use crate::service_arguments::argument;

/// The largest number of requests or instances.
pub const REQUESTS_MAX: u32 = 10_000_000;

/// The options of a parameter space.
#[derive(Args)]
pub struct ParameterOptions {
    /// Arguments that are the same for all runs.
    #[arg(value_name = "KEY=VALUE", value_parser = argument)]
    arguments: Vec<(String, String)>,
    /// An argument that varies: seed=1..1000, x=0:1:0.001 or mode=draft,final; may be repeated, for all combinations.
    #[arg(long, value_name = "KEY=VALUES")]
    vary: Vec<ParameterRange>,
    /// A CSV file of arguments: names in the first line, values in every other line.
    #[arg(long, value_name = "FILE")]
    vary_file: Option<PathBuf>,
    /// Changes all varied arguments together, instead of all combinations.
    #[arg(long)]
    zip: bool,
}

impl ParameterOptions {
    /// The parameter space, with one more argument that is the same for all runs; each argument occurs once.
    pub fn space(&self, first: Option<(String, String)>) -> Result<ParameterSpace, RequestError> {
        let table = self.vary_file.as_deref().map(read_table).transpose()?;
        let mut fixed = BTreeMap::new();
        for (name, value) in first.iter().chain(&self.arguments) {
            if fixed.insert(name.clone(), value.clone()).is_some() {
                return Err(RequestError::input(format!(
                    "expected each argument once, found `{name}` twice"
                )));
            }
        }
        let parameters = ParameterSpace { fixed, varied: self.vary.clone(), table, zip: self.zip };
        parameters.check().map_err(RequestError::input)?;
        Ok(parameters)
    }
}

fn read_table(path: &Path) -> Result<ParameterTable, RequestError> {
    let bytes = std::fs::read(path).map_err(|error| RequestError::io(path, "read", &error))?;
    let wrong = |error: &dyn std::fmt::Display| RequestError::input(format!("{}: {error}", path.display()));
    let text = String::from_utf8(bytes).map_err(|error| wrong(&error))?;
    ParameterTable::try_from(text).map_err(|error| wrong(&error))
}
