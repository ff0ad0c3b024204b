//! Arguments of services on the command line.

use std::collections::BTreeMap;

use crate::error::RequestError;

/// `KEY=VALUE`.
pub fn argument(text: &str) -> Result<(String, String), String> {
    let found = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = found
        .ok_or_else(|| format!("expected KEY=VALUE, found `{text}` (words for a script follow `--`)"))?;
    Ok((key.to_owned(), value.to_owned()))
}

/// The arguments by name, each at most once.
pub fn once_each(arguments: &[(String, String)]) -> Result<BTreeMap<String, String>, RequestError> {
    let mut given = BTreeMap::new();
    for (key, value) in arguments {
        if let Some(before) = given.insert(key.clone(), value.clone()) {
            let problem = format!("{key}: expected one value, found `{before}` and `{value}`");
            return Err(RequestError::input(problem));
        }
    }
    Ok(given)
}
