//! The names of the columns of a table of jobs: those that are read, and those that are probably misspelt.
//!
//! A table may have columns for other purposes, which are ignored. A column whose name is close to one that is read, and absent, is an
//! error: the jobs would be simulated without its values.

use arrow_schema::Schema;
use pyo3::prelude::*;

use crate::errors::wrong_input_with_hint;

/// The columns that are read. The first three are needed.
const KNOWN: [&str; 9] =
    ["submit", "procs", "runtime", "walltime", "job", "user", "group", "executable", "cluster"];
/// Names of other things that are close to one of these: `wait_time`, `used`.
const OTHERS: [&str; 2] = ["waittime", "used"];
/// Ends of names that say what the values are: `user_id`, `walltime_s`, `clusters`.
const ENDS: [&str; 4] = ["id", "s", "sec", "seconds"];

/// Refuses a column that is there twice, and one that is probably misspelt.
pub(crate) fn check(schema: &Schema) -> PyResult<()> {
    let names = || schema.fields().iter().map(|field| field.name().as_str());
    for known in KNOWN {
        let count = names().filter(|name| *name == known).count();
        if count > 1 {
            let problem = format!("expected one column {known}, found {count}");
            return Err(wrong_input_with_hint(&problem, Some("drop or rename the others")));
        }
        if count == 1 {
            continue;
        }
        if let Some(found) = names().find(|found| !KNOWN.contains(found) && is_close(found, known)) {
            let problem = format!("column {found}: expected a name that is not close to {known}");
            let hint = format!(
                "rename it to {known}, or drop it; the columns {} are read, and others are ignored",
                KNOWN.join(", ")
            );
            return Err(wrong_input_with_hint(&problem, Some(&hint)));
        }
    }
    Ok(())
}

/// True if the first name is probably meant to be the known one.
fn is_close(found: &str, known: &str) -> bool {
    let found: String =
        found.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    let begin = |end: &&str| found.strip_suffix(*end);
    if OTHERS.contains(&found.as_str()) || ENDS.iter().filter_map(begin).any(|name| OTHERS.contains(&name)) {
        return false;
    }
    let most = match known.len() {
        ..4 => 0,
        4..7 => 1,
        _ => 2,
    };
    ENDS.iter().filter_map(begin).any(|name| name == known) || distance(&found, known) <= most
}

/// The number of letters to insert, to remove or to replace between two words (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (at, letter) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}
