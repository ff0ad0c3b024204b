//! Arguments of services on the command line.

use std::collections::BTreeMap;

use crate::failure::Failure;

/// `KEY=VALUE`.
pub(crate) fn argument(text: &str) -> Result<(String, String), String> {
    let found = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = found.ok_or_else(|| format!("expected KEY=VALUE, found `{text}`"))?;
    Ok((key.to_owned(), value.to_owned()))
}

/// The arguments by name, each at most once.
pub(crate) fn once_each(arguments: &[(String, String)]) -> Result<BTreeMap<String, String>, Failure> {
    let mut given = BTreeMap::new();
    for (key, value) in arguments {
        if let Some(before) = given.insert(key.clone(), value.clone()) {
            let problem = format!("{key}: expected one value, found `{before}` and `{value}`");
            return Err(Failure::input(problem));
        }
    }
    Ok(given)
}
