//! Source files as the lints read them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Texts of source files by their paths, without comments and tests.
pub(crate) type Sources = BTreeMap<String, String>;

/// The names of the folders in a folder, sorted.
pub(crate) fn folders(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The source files below a folder, without those of tests: path relative to the folder, text.
pub(crate) fn sources(root: &Path) -> Sources {
    let mut found = BTreeMap::new();
    let mut pending = vec![root.to_owned()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let relative = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            if relative.contains("test") {
                continue;
            }
            if path.is_dir() {
                pending.push(path);
            } else if let Ok(text) = fs::read_to_string(&path)
                && relative.ends_with(".rs")
            {
                found.insert(relative, code(&text));
            }
        }
    }
    found
}

/// A source text without its comments and without what follows `#[cfg(test)]` at its end.
pub(crate) fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<&str>>().join("\n")
}
