//! The checks that the settings of all batch systems share.

use std::ops::RangeInclusive;

/// A setting with a value that cannot be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{key}`: expected {expected}, found `{found}`")]
pub struct SettingError {
    /// Its key.
    pub key: &'static str,
    /// What was expected.
    pub expected: String,
    /// What was found.
    pub found: String,
}

impl SettingError {
    pub(crate) fn new(key: &'static str, expected: impl Into<String>, found: &str) -> SettingError {
        SettingError { key, expected: expected.into(), found: found.to_owned() }
    }
}

/// Checks names that go into options, where there are some.
pub(crate) fn check_names<const N: usize>(
    names: [(&'static str, &Option<String>); N],
) -> Result<(), SettingError> {
    let is_wrong = |name: &str| {
        name.is_empty() || name.chars().any(|letter| letter.is_whitespace() || letter.is_control())
    };
    let wrong =
        names.into_iter().find_map(|(key, name)| Some((key, name.as_deref().filter(|name| is_wrong(name))?)));
    wrong.map_or(Ok(()), |(key, name)| Err(SettingError::new(key, "a name without spaces", name)))
}

/// Checks further options of the command that submits: none is one that Pliant sets itself, or a beginning of one, since batch
/// systems take any unambiguous beginning of an option's name for it.
pub(crate) fn check_extra(
    extra: &[String],
    command: &str,
    example: &str,
    own: &[&str],
) -> Result<(), SettingError> {
    for option in extra {
        let Some(name) = option.strip_prefix("--").and_then(|rest| rest.split('=').next()) else {
            let expected = format!("long options of {command}, such as `{example}`");
            return Err(SettingError::new("extra", expected, option));
        };
        if name.is_empty() || own.iter().any(|own| own.starts_with(name)) {
            return Err(SettingError::new("extra", "options that pliant does not set itself", option));
        }
    }
    Ok(())
}

/// Checks numbers of seconds.
pub(crate) fn check_seconds<const N: usize>(
    spans: [(&'static str, u32, RangeInclusive<u32>); N],
) -> Result<(), SettingError> {
    for (key, found, allowed) in spans {
        if !allowed.contains(&found) {
            let expected = format!("{} to {}", allowed.start(), allowed.end());
            return Err(SettingError::new(key, expected, &found.to_string()));
        }
    }
    Ok(())
}
