//! The options of a simulation as keyword arguments.

use pliant_model::Span;
use pliant_sim::{RunOptions, limits};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments::Argument;
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
        "slack" => options.slack = Some(argument.number()?),
        "share" => options.share = Some(argument.number()?),
        "mapping" => options.mapping = Some(argument.word()?),
        "realloc" if argument.text()? == "none" => options.realloc = None,
        "realloc" => options.realloc = Some(argument.word()?),
        "heuristic" => options.heuristic = Some(argument.word()?),
        "period" => options.period = Some(Span(argument.seconds(limits::PERIOD_S)?)),
        "threshold" => options.threshold = Some(Span(argument.seconds(limits::THRESHOLD_S)?)),
        "window" => options.window = Some(argument.whole(limits::WINDOW)?),
        "plan_by" => options.plan_by = argument.word()?,
        "dedicated_share" => {
            options.dedicated_share = argument.number()?;
            if !(options.dedicated_share > 0.0 && options.dedicated_share <= 1.0) {
                return Err(argument.wrong("a share above 0 and at most 1"));
            }
        }
        "seed" => options.seed = argument.whole(0..=u64::MAX)?,
        _ => return Err(wrong_input(format!("expected an option of a simulation, found {name:?}"))),
    }
    Ok(())
}

/// The exception of an option that would be ignored, or is wrong.
pub(crate) fn wrong_option(error: &pliant_sim::OptionError) -> PyErr {
    let (problem, hint) = error.explain(str::to_owned);
    wrong_input_with_hint(&problem, hint.as_deref())
}
