//! Keyword arguments as Rust values; a wrong one is an `InputError` that names it.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use pliant_request::numbers::duration;
use pyo3::prelude::*;

use crate::errors::wrong_input;

/// The longest text of a value in a message.
const SHOWN: usize = 60;

/// One keyword argument.
pub(crate) struct Argument<'a, 'py> {
    pub(crate) name: &'a str,
    pub(crate) value: &'a Bound<'py, PyAny>,
}

impl Argument<'_, '_> {
    pub(crate) fn text(&self) -> PyResult<String> {
        self.value.extract().map_err(|_| self.wrong("a text"))
    }

    /// A word of a registry.
    pub(crate) fn word<T: FromStr<Err: Display>>(&self) -> PyResult<T> {
        self.text()?.parse().map_err(|error: T::Err| wrong_input(format!("{}: {error}", self.name)))
    }

    /// A number.
    pub(crate) fn number(&self) -> PyResult<f64> {
        self.value.extract().map_err(|_| self.wrong("a number"))
    }

    /// A whole number.
    pub(crate) fn whole<T>(&self, bounds: RangeInclusive<T>) -> PyResult<T>
    where
        T: for<'a, 'py> FromPyObject<'a, 'py, Error = PyErr> + PartialOrd + Display,
    {
        let found = self.value.extract().ok().filter(|found| bounds.contains(found));
        found
            .ok_or_else(|| self.wrong(&format!("a whole number from {} to {}", bounds.start(), bounds.end())))
    }

    /// A length of time: whole seconds, or a text such as `1h` as the command takes it.
    pub(crate) fn seconds(&self, bounds: RangeInclusive<i64>) -> PyResult<i64> {
        match self.value.extract::<String>() {
            Ok(text) => {
                duration(bounds)(&text).map_err(|error| wrong_input(format!("{}: {error}", self.name)))
            }
            Err(_) => self.whole(bounds),
        }
    }

    /// The exception of a wrong value.
    pub(crate) fn wrong(&self, expected: &str) -> PyErr {
        wrong_input(format!("{}: expected {expected}, found {}", self.name, shown(self.value)))
    }
}

/// A value in a message.
pub(crate) fn shown(value: &Bound<'_, PyAny>) -> String {
    let repr = value.repr().map_or_else(|_| "an object".to_owned(), |repr| repr.to_string());
    let mut shown: String = repr.chars().take(SHOWN).collect();
    if shown.len() < repr.len() {
        shown.push_str("...");
    }
    shown
}
