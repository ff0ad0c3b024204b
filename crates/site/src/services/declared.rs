//! `[[service]]` in a server's configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use pliant_config::{ContentError, Source};
use pliant_control::names::{Name, User};
use pliant_model::{Procs, Span};
use serde::Deserialize;
use toml::Spanned;

use super::argument::{Argument, ArgumentKind};
use super::call::CallDeclaration;
use super::declared_argument::{DeclaredArgument, check_argument_name, read_argument, whole};
use super::declared_call::{DeclaredParameter, check_parameters_used, read_call};
use super::declared_resources::{DeclaredResources, read_resources};
use super::duration::parse_duration;
use super::prepared::Bounds;
use super::service::{Runtime, Scaling, Service};
use super::speedup_spec::{SpeedupSpec, SpeedupSpecError};
use super::template::{BUILT_IN, Template};

/// What a service looks like.
pub(crate) const HINT: &str = "a [[service]] has name, summary, command (a list of words), speedup and runtime; \
                               [service.arguments.NAME] has type";

/// A service as it stands in a file. [`Catalogue`](super::Catalogue) makes a service of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declared {
    pub(super) name: Spanned<String>,
    #[serde(default)]
    summary: String,
    pub(super) command: Option<Spanned<Vec<Spanned<String>>>>,
    #[serde(default)]
    pub(super) arguments: BTreeMap<Spanned<String>, Spanned<DeclaredArgument>>,
    speedup: Spanned<String>,
    runtime: Spanned<String>,
    first: Option<Spanned<String>>,
    min_runtime: Option<Spanned<String>>,
    runtime_per: Option<Spanned<DeclaredScaling>>,
    walltime_factor: Option<Spanned<f64>>,
    max_walltime: Option<Spanned<String>>,
    max_procs: Option<Spanned<i64>>,
    max_input_bytes: Option<Spanned<i64>>,
    max_output_bytes: Option<Spanned<i64>>,
    users: Option<Vec<Spanned<String>>>,
    #[serde(default)]
    environment: BTreeMap<Spanned<String>, Spanned<String>>,
    resources: Option<DeclaredResources>,
    pub(super) signature: Option<Spanned<Vec<Spanned<String>>>>,
    #[serde(default)]
    pub(super) parameters: BTreeMap<Spanned<String>, Spanned<DeclaredParameter>>,
    pub(super) resident: Option<Spanned<bool>>,
    pub(super) idle: Option<Spanned<String>>,
    pub(super) idempotent: Option<Spanned<bool>>,
    pub(super) library: Option<Spanned<String>>,
    pub(super) function: Option<Spanned<String>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeclaredScaling {
    argument: Spanned<String>,
    exponent: Spanned<f64>,
    at: Spanned<f64>,
}

impl Declared {
    pub(crate) fn name_span(&self) -> Range<usize> {
        self.name.span()
    }

    /// The argument by which the runtime is scaled.
    pub(super) fn scaled_argument(&self) -> Option<&str> {
        self.runtime_per.as_ref().map(|scaling| scaling.get_ref().argument.get_ref().as_str())
    }
}

pub(crate) fn read_service(declared: &Declared, source: &Source) -> Result<Service, ContentError> {
    let name = declared.name.get_ref().parse::<Name>();
    let name = name.map_err(|error| {
        source.error(declared.name.span(), format!("`name`: {error}"), "users submit to it by this name")
    })?;
    let mut arguments = BTreeMap::new();
    for (name, argument) in &declared.arguments {
        check_argument_name(name, source)?;
        arguments.insert(name.get_ref().clone(), read_argument(argument, source)?);
    }
    let call = read_call(declared, source)?;
    if let Some(call) = &call {
        arguments = call.number_arguments();
    }
    let known: BTreeSet<&str> = match &call {
        None => arguments.keys().map(String::as_str).collect(),
        Some(call) if call.resident.is_some() => BTreeSet::new(),
        Some(call) => call.signature.parameters().iter().map(|parameter| parameter.name.as_str()).collect(),
    };
    let command = match &call {
        Some(CallDeclaration { library: Some(library), .. }) => library.command(),
        _ => read_command(declared, &known, source)?,
    };
    let environment = read_environment(declared, &known, source)?;
    match &call {
        None => check_all_used(declared, &command, &environment, source)?,
        Some(call) => check_parameters_used(declared, call, (&command, &environment), source)?,
    }
    let speedup = read_speedup(declared, source)?;
    let resources = declared.resources.as_ref().map(|resources| read_resources(resources, &speedup, source));
    let bytes = |key, value: &Option<Spanned<i64>>| whole(key, value, u64::MAX, source);
    Ok(Service {
        name: name.to_string(),
        summary: declared.summary.clone(),
        speedup,
        resources: resources.transpose()?.flatten().map(Arc::new),
        runtime: read_runtime(declared, source)?,
        scaling: match &declared.runtime_per {
            None => None,
            Some(scaling) => Some(read_scaling(scaling.get_ref(), &arguments, source)?),
        },
        walltime_factor: match &declared.walltime_factor {
            None => 1.5,
            Some(factor) => number("walltime_factor", factor, 1.0, source)?,
        },
        max_walltime: declared
            .max_walltime
            .as_ref()
            .map(|text| span("max_walltime", text, source))
            .transpose()?,
        bounds: Bounds {
            max_input_bytes: bytes("max_input_bytes", &declared.max_input_bytes)?,
            max_output_bytes: bytes("max_output_bytes", &declared.max_output_bytes)?,
        },
        users: read_users(declared, source)?,
        arguments,
        command,
        environment,
        call,
    })
}

fn read_command(
    declared: &Declared,
    known: &BTreeSet<&str>,
    source: &Source,
) -> Result<Vec<Template>, ContentError> {
    let Some(declared) = &declared.command else {
        let hint = "say what runs: command = [\"/opt/bin/program\", \"{argument}\"]";
        return Err(source.error(declared.name.span(), "missing key `command`", hint));
    };
    let words = declared.get_ref().iter();
    let words: Vec<Template> =
        words.map(|word| read_word("command", word, known, source)).collect::<Result<_, _>>()?;
    let Some(program) = words.first() else {
        let message = "`command`: expected a program, found an empty list";
        let hint = "the first word is the program; no shell reads it";
        return Err(source.error(declared.span(), message, hint));
    };
    let at = || declared.get_ref()[0].span();
    if program.is_empty() {
        let message = "`command`: expected a program, found an empty word";
        return Err(source.error(at(), message, "name the program first"));
    }
    if let Some(name) = program.arguments().next() {
        let message = format!("`command`: expected a program, found one that `{name}` chooses");
        return Err(source.error(at(), message, "declare one service for each program"));
    }
    Ok(words)
}

fn read_environment(
    declared: &Declared,
    known: &BTreeSet<&str>,
    source: &Source,
) -> Result<BTreeMap<String, Template>, ContentError> {
    let mut environment = BTreeMap::new();
    for (name, value) in &declared.environment {
        let text = name.get_ref();
        let letters = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let starts_well = text.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
        if !starts_well || !text.bytes().all(letters) || text.starts_with("PLIANT_") {
            let message = format!("`environment`: expected a variable, found `{}`", text.escape_debug());
            let hint = "letters, digits and `_`, not beginning with a digit or PLIANT_";
            return Err(source.error(name.span(), message, hint));
        }
        environment.insert(text.clone(), read_word(text, value, known, source)?);
    }
    Ok(environment)
}

fn read_word(
    key: &str,
    word: &Spanned<String>,
    known: &BTreeSet<&str>,
    source: &Source,
) -> Result<Template, ContentError> {
    let template = Template::parse(word.get_ref()).map_err(|message| {
        source.error(word.span(), format!("`{key}`: {message}"), "write {{ or }} for a brace itself")
    })?;
    if let Some(name) = template.arguments().find(|name| !known.contains(name)) {
        let known: Vec<&str> = known.iter().copied().chain(BUILT_IN).collect();
        let message = format!("`{key}`: expected a known placeholder, found `{{{}}}`", name.escape_debug());
        let hint = format!("known are {}; declare others as [service.arguments.NAME]", known.join(", "));
        return Err(source.error(word.span(), message, hint));
    }
    Ok(template)
}

fn check_all_used(
    declared: &Declared,
    command: &[Template],
    environment: &BTreeMap<String, Template>,
    source: &Source,
) -> Result<(), ContentError> {
    let words = command.iter().chain(environment.values());
    let used: BTreeSet<&str> = words.flat_map(Template::arguments).collect();
    let scales = declared.scaled_argument();
    match declared.arguments.keys().find(|name| {
        let name = name.get_ref().as_str();
        !used.contains(name) && scales != Some(name)
    }) {
        None => Ok(()),
        Some(name) => {
            let message =
                format!("`{}`: expected each argument to be used, found one that is not", name.get_ref());
            let hint = format!("put {{{}}} into a word of the command, or remove it", name.get_ref());
            Err(source.error(name.span(), message, hint))
        }
    }
}

fn read_speedup(declared: &Declared, source: &Source) -> Result<SpeedupSpec, ContentError> {
    let wrong = |error: SpeedupSpecError| {
        source.error(declared.speedup.span(), format!("`speedup`: {error}"), error.hint())
    };
    let spec: SpeedupSpec = declared.speedup.get_ref().parse().map_err(wrong)?;
    match whole("max_procs", &declared.max_procs, u64::from(u32::MAX), source)? {
        None => Ok(spec),
        Some(procs) => spec.within(Procs(u32::try_from(procs).unwrap_or(u32::MAX))).map_err(wrong),
    }
}

fn read_runtime(declared: &Declared, source: &Source) -> Result<Runtime, ContentError> {
    if declared.runtime.get_ref() != "history" {
        let only_learned = [("first", &declared.first), ("min_runtime", &declared.min_runtime)];
        if let Some((key, value)) = only_learned.iter().find_map(|(key, value)| Some((key, value.as_ref()?)))
        {
            let message =
                format!("`{key}`: expected it with runtime = \"history\" only, found it with a duration");
            return Err(source.error(value.span(), message, "remove one of them"));
        }
        return Ok(Runtime::Fixed(span("runtime", &declared.runtime, source)?));
    }
    let Some(first) = &declared.first else {
        let hint = "say how long the first run takes at most: first = \"10m\"";
        return Err(source.error(declared.runtime.span(), "missing key `first`", hint));
    };
    let first = span("first", first, source)?;
    let Some(declared) = &declared.min_runtime else { return Ok(Runtime::History { first, least: first }) };
    let least = span("min_runtime", declared, source)?;
    if least > first {
        let message = format!("`min_runtime`: expected at most `first`, found `{}`", declared.get_ref());
        return Err(source.error(declared.span(), message, "no learned runtime below `min_runtime` counts"));
    }
    Ok(Runtime::History { first, least })
}

fn read_scaling(
    declared: &DeclaredScaling,
    arguments: &BTreeMap<String, Argument>,
    source: &Source,
) -> Result<Scaling, ContentError> {
    let name = declared.argument.get_ref();
    let always = |argument: &Argument| argument.required || argument.default.is_some();
    let positive =
        arguments.get(name).filter(|argument| always(argument)).is_some_and(|argument| match argument.kind {
            ArgumentKind::Integer { min, .. } => min > 0,
            ArgumentKind::Number { min, .. } => min > 0.0,
            _ => false,
        });
    if !positive {
        let message =
            format!("`argument`: expected an integer or number above 0, found `{}`", name.escape_debug());
        let hint = "it needs min above 0, and a default or required = true";
        return Err(source.error(declared.argument.span(), message, hint));
    }
    let exponent = *declared.exponent.get_ref();
    if !(-10.0..=10.0).contains(&exponent) {
        let message = format!("`exponent`: expected a number of -10 to 10, found {exponent}");
        return Err(source.error(declared.exponent.span(), message, "3.0 for a product of square matrices"));
    }
    let at = number("at", &declared.at, f64::MIN_POSITIVE, source)?;
    Ok(Scaling { argument: name.clone(), exponent, at })
}

fn read_users(declared: &Declared, source: &Source) -> Result<Option<BTreeSet<User>>, ContentError> {
    let Some(users) = &declared.users else { return Ok(None) };
    let read = |user: &Spanned<String>| {
        user.get_ref().parse().map_err(|error| {
            source.error(user.span(), format!("`users`: {error}"), "users are named as in their certificates")
        })
    };
    users.iter().map(read).collect::<Result<_, _>>().map(Some)
}

pub(super) fn span(key: &str, text: &Spanned<String>, source: &Source) -> Result<Span, ContentError> {
    parse_duration(text.get_ref())
        .map_err(|error| source.error(text.span(), format!("`{key}`: {error}"), error.hint()))
}

fn number(key: &str, value: &Spanned<f64>, least: f64, source: &Source) -> Result<f64, ContentError> {
    let number = *value.get_ref();
    if number >= least && number <= 1e9 {
        return Ok(number);
    }
    let expected = if least >= 1.0 { format!("{least} to 1e9") } else { "above 0, up to 1e9".to_owned() };
    let message = format!("`{key}`: expected a number of {expected}, found {number}");
    Err(source.error(value.span(), message, "change it"))
}
