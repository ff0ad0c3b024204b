//! The options of a simulation as keyword arguments.

use std::fmt::Display;
use std::str::FromStr;

use pliant_model::Span;
use pliant_sim::{RunOptions, limits};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{wrong_input, wrong_input_with_hint};

/// The options that these keyword arguments give; those that are None are not given.
pub(crate) fn run_options(given: &Bound<'_, PyDict>) -> PyResult<RunOptions> {
    let mut options = RunOptions::default();
    for (name, value) in given {
        if value.is_none() {
            continue;
        }
        let name: String = name.extract()?;
        set(&mut options, &name, &Argument { name: &name, value: &value })?;
    }
    Ok(options)
}

fn set(options: &mut RunOptions, name: &str, argument: &Argument<'_, '_>) -> PyResult<()> {
    match name {
        "batch" => options.local.batch = Some(argument.text()?),
        "order" => options.local.order = Some(argument.text()?),
        "aging" => options.local.aging = Some(argument.word()?),
        "ties" => options.ties = argument.word()?,
        "moldable" => options.moldable = argument.word()?,
        "tuner" => options.tuner = Some(argument.word()?),
        "slack" => options.slack = Some(argument.value.extract()?),
        "share" => options.share = Some(argument.value.extract()?),
        "mapping" => options.mapping = Some(argument.word()?),
        "realloc" if argument.text()? == "none" => options.realloc = None,
        "realloc" => options.realloc = Some(argument.word()?),
        "heuristic" => options.heuristic = Some(argument.word()?),
        "period" => options.period = Some(Span(argument.within(limits::PERIOD_S)?)),
        "threshold" => options.threshold = Some(Span(argument.within(limits::THRESHOLD_S)?)),
        "window" => options.window = Some(argument.within(limits::WINDOW)?),
        "plan_by" => options.plan_by = argument.word()?,
        "dedicated_share" => {
            options.dedicated_share = argument.value.extract()?;
            if !(options.dedicated_share > 0.0 && options.dedicated_share <= 1.0) {
                let found = options.dedicated_share;
                return Err(wrong_input(format!(
                    "{name}: expected a share above 0 and at most 1, found {found}"
                )));
            }
        }
        "seed" => options.seed = argument.value.extract()?,
        _ => return Err(wrong_input(format!("expected an option of a simulation, found {name:?}"))),
    }
    Ok(())
}

/// The exception of an option that would be ignored, or is wrong.
pub(crate) fn wrong_option(error: &pliant_sim::OptionError) -> PyErr {
    let (problem, hint) = error.explain(str::to_owned);
    wrong_input_with_hint(&problem, hint.as_deref())
}

/// One keyword argument.
struct Argument<'a, 'py> {
    name: &'a str,
    value: &'a Bound<'py, PyAny>,
}

impl Argument<'_, '_> {
    fn text(&self) -> PyResult<String> {
        self.value.extract()
    }

    /// A word of a registry.
    fn word<T: FromStr<Err: Display>>(&self) -> PyResult<T> {
        self.text()?.parse().map_err(|error: T::Err| wrong_input(format!("{}: {error}", self.name)))
    }

    fn within<T>(&self, bounds: std::ops::RangeInclusive<T>) -> PyResult<T>
    where
        T: for<'a, 'py> FromPyObject<'a, 'py, Error = PyErr> + PartialOrd + Display,
    {
        let found: T = self.value.extract()?;
        if bounds.contains(&found) {
            return Ok(found);
        }
        let (least, most) = (bounds.start(), bounds.end());
        Err(wrong_input(format!(
            "{}: expected a whole number from {least} to {most}, found {found}",
            self.name
        )))
    }
}
