//! Arguments of a service that run through values: what `explore` and `sweep` have in common.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use pliant_client::{ParameterRange, ParameterSpace, ParameterTable};

use crate::failure::Failure;
use crate::service_arguments::argument;

/// More requests or instances than anybody waits for.
pub(crate) const REQUESTS_MAX: u32 = 10_000_000;

#[derive(Args)]
pub(crate) struct ParameterOptions {
    /// The arguments that are always the same.
    #[arg(value_name = "KEY=VALUE", value_parser = argument)]
    arguments: Vec<(String, String)>,
    /// An argument that runs through values: seed=1..1000, x=0:1:0.001 or mode=draft,final; may be repeated, for all
    /// combinations.
    #[arg(long, value_name = "KEY=VALUES")]
    vary: Vec<ParameterRange>,
    /// A file that lists arguments (CSV): their names in the first line, their values in each other one.
    #[arg(long, value_name = "FILE")]
    vary_file: Option<PathBuf>,
    /// The values of all varied arguments change together, in place of every combination.
    #[arg(long)]
    zip: bool,
}

impl ParameterOptions {
    /// What varies, and what does not; each argument is there once.
    pub(crate) fn space(&self) -> Result<ParameterSpace, Failure> {
        let table = self.vary_file.as_deref().map(read_table).transpose()?;
        let mut fixed = BTreeMap::new();
        for (name, value) in &self.arguments {
            if fixed.insert(name.clone(), value.clone()).is_some() {
                return Err(Failure::input(format!("expected each argument once, found `{name}` twice")));
            }
        }
        let parameters = ParameterSpace { fixed, varied: self.vary.clone(), table, zip: self.zip };
        parameters.check().map_err(Failure::input)?;
        Ok(parameters)
    }
}

fn read_table(path: &Path) -> Result<ParameterTable, Failure> {
    let bytes = std::fs::read(path).map_err(|error| Failure::io(path, "read", &error))?;
    let wrong = |error: &dyn std::fmt::Display| Failure::input(format!("{}: {error}", path.display()));
    let text = String::from_utf8(bytes).map_err(|error| wrong(&error))?;
    ParameterTable::try_from(text).map_err(|error| wrong(&error))
}
