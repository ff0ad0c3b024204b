//! The keys of a typed service in a server's configuration: `signature`, `[service.parameters.NAME]`, `resident`, `idle`,
//! `idempotent`, `library` and `function`.

use std::collections::{BTreeMap, BTreeSet};

use pliant_calls::{C_FLOATS_MAX, C_WORDS_MAX, Parameter, ParameterType, Signature};
use pliant_config::{ContentError, Source};
use pliant_staging::FileName;
use serde::Deserialize;
use toml::{Spanned, Value};

use super::argument::ArgumentKind;
use super::call::{CallDeclaration, DEFAULT_IDLE, LibraryFunction, ParameterDeclaration, number_kind};
use super::declared::{Declared, span};
use super::template::{BUILT_IN, Template};
use crate::processes::{OutputFrom, ParameterFormat};

const SIGNATURE_HINT: &str = "a typed service has signature = [\"in int n\", \"out double v[n]\"]";

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeclaredParameter {
    #[serde(default)]
    summary: String,
    min: Option<Spanned<Value>>,
    max: Option<Spanned<Value>>,
    format: Option<Spanned<String>>,
    output: Option<Spanned<String>>,
}

/// How the service is called; none if it is not typed.
pub(crate) fn read_call(
    declared: &Declared,
    source: &Source,
) -> Result<Option<CallDeclaration>, ContentError> {
    let Some(signature) = &declared.signature else {
        return match first_typed_key(declared) {
            None => Ok(None),
            Some((key, at)) => {
                let message = format!("`{key}`: expected it with `signature` only, found it without");
                Err(source.error(at, message, SIGNATURE_HINT))
            }
        };
    };
    if let Some((name, _)) = declared.arguments.iter().next() {
        let message = "`arguments`: expected none of a service with a `signature`, found some";
        let hint = "the signature has the parameters; [service.parameters.NAME] says more of one";
        return Err(source.error(name.span(), message, hint));
    }
    let signature = read_signature(signature, source)?;
    let library = read_library(declared, &signature, source)?;
    let resident = read_resident(declared, library.is_some(), source)?;
    let mut parameters = BTreeMap::new();
    for (name, entry) in &declared.parameters {
        let Some(at) = signature.position(name.get_ref()) else {
            let message = format!(
                "`parameters`: expected a parameter of the signature, found `{}`",
                name.get_ref().escape_debug()
            );
            return Err(source.error(name.span(), message, format!("the signature is: {signature}")));
        };
        let parameter = &signature.parameters()[at];
        let read = read_parameter(entry.get_ref(), parameter, resident.is_some(), source)?;
        parameters.insert(name.get_ref().clone(), read);
    }
    check_outputs(&signature, &parameters, declared, resident.is_some(), source)?;
    let idempotent = declared.idempotent.as_ref().is_some_and(|idempotent| *idempotent.get_ref());
    Ok(Some(CallDeclaration { signature, parameters, resident, library, idempotent }))
}

fn first_typed_key(declared: &Declared) -> Option<(&'static str, std::ops::Range<usize>)> {
    let parameter = declared.parameters.keys().next().map(|name| ("parameters", name.span()));
    let resident = declared.resident.as_ref().map(|value| ("resident", value.span()));
    let idempotent = declared.idempotent.as_ref().map(|value| ("idempotent", value.span()));
    let texts = [("idle", &declared.idle), ("library", &declared.library), ("function", &declared.function)];
    let text = texts.into_iter().find_map(|(key, value)| Some((key, value.as_ref()?.span())));
    parameter.or(resident).or(idempotent).or(text)
}

fn read_signature(
    declared: &Spanned<Vec<Spanned<String>>>,
    source: &Source,
) -> Result<Signature, ContentError> {
    let mut parameters: Vec<Parameter> = Vec::new();
    for text in declared.get_ref() {
        let parameter: Parameter =
            text.get_ref().parse().map_err(|error: pliant_calls::SignatureError| {
                source.error(text.span(), format!("`signature`: {error}"), error.hint())
            })?;
        if BUILT_IN.contains(&parameter.name.as_str()) {
            let message = format!("`signature`: expected another name than `{}`, found it", parameter.name);
            let hint = format!("{} are placeholders of their own", BUILT_IN.join(", "));
            return Err(source.error(text.span(), message, hint));
        }
        parameters.push(parameter);
    }
    Signature::new(parameters).map_err(|error| {
        let at = declared.get_ref().get(error.parameter()).map_or(declared.span(), Spanned::span);
        source.error(at, format!("`signature`: {error}"), error.hint())
    })
}

fn read_library(
    declared: &Declared,
    signature: &Signature,
    source: &Source,
) -> Result<Option<LibraryFunction>, ContentError> {
    let Some(library) = &declared.library else {
        return match &declared.function {
            None => Ok(None),
            Some(function) => {
                let message = "`function`: expected it with `library` only, found it without";
                Err(source.error(function.span(), message, "library = \"/opt/lib/libsolve.so\""))
            }
        };
    };
    if let Some(command) = &declared.command {
        let message = "`command`: expected it or `library`, found both";
        return Err(source.error(command.span(), message, "remove one of them"));
    }
    let path = library.get_ref();
    if !path.starts_with('/') || path.contains('\0') {
        let message = format!("`library`: expected an absolute path, found `{}`", path.escape_debug());
        return Err(source.error(library.span(), message, "library = \"/opt/lib/libsolve.so\""));
    }
    let function = match &declared.function {
        None => declared.name.get_ref().clone(),
        Some(function) => function.get_ref().clone(),
    };
    let letters = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if function.is_empty()
        || !function.bytes().all(letters)
        || function.starts_with(|c: char| c.is_ascii_digit())
    {
        let at = declared.function.as_ref().map_or(declared.name.span(), Spanned::span);
        let message =
            format!("`function`: expected the name of a C function, found `{}`", function.escape_debug());
        return Err(source.error(
            at,
            message,
            "letters, digits and `_`; it is the name of the service if it is not given",
        ));
    }
    let (words, floats) = signature.c_arguments();
    if words > C_WORDS_MAX || floats > C_FLOATS_MAX {
        let message = format!(
            "`signature`: expected at most {C_WORDS_MAX} arguments of a function besides {C_FLOATS_MAX} floating-point numbers by value, \
             found {words} and {floats}"
        );
        return Err(source.error(library.span(), message, "pass several numbers as one vector"));
    }
    Ok(Some(LibraryFunction { library: path.clone(), function, signature: signature.to_string() }))
}

fn read_resident(
    declared: &Declared,
    is_library: bool,
    source: &Source,
) -> Result<Option<pliant_model::Span>, ContentError> {
    let is_resident = match &declared.resident {
        Some(resident) if is_library && !resident.get_ref() => {
            let message = "`resident`: expected true, since a library is loaded once, found false";
            return Err(source.error(resident.span(), message, "remove it"));
        }
        resident => is_library || resident.as_ref().is_some_and(|resident| *resident.get_ref()),
    };
    match (&declared.idle, is_resident) {
        (None, false) => Ok(None),
        (None, true) => Ok(Some(DEFAULT_IDLE)),
        (Some(idle), true) => span("idle", idle, source).map(Some),
        (Some(idle), false) => {
            let message = "`idle`: expected it with `resident = true` only, found it without";
            Err(source.error(
                idle.span(),
                message,
                "it says after how long without a call the process is ended",
            ))
        }
    }
}

fn read_parameter(
    declared: &DeclaredParameter,
    parameter: &Parameter,
    is_resident: bool,
    source: &Source,
) -> Result<ParameterDeclaration, ContentError> {
    let unfit = |key: &str, at: std::ops::Range<usize>, expected: &str| {
        let message = format!("`{key}`: expected it of {expected}, found it of `{parameter}`");
        source.error(at, message, "remove it")
    };
    let bounds = match (&parameter.kind, declared.min.as_ref().or(declared.max.as_ref())) {
        (_, None) => None,
        (ParameterType::Scalar(scalar), Some(at)) if parameter.direction.is_input() => {
            let kind = number_kind(*scalar);
            Some(bounded(kind, declared, source)?.ok_or_else(|| {
                let message = "`max`: expected at least `min`, found less";
                source.error(at.span(), message, "no value would be taken")
            })?)
        }
        (_, Some(at)) => return Err(unfit("min and max", at.span(), "a number that goes to the service")),
    };
    let is_array = matches!(parameter.kind, ParameterType::Vector { .. } | ParameterType::Matrix { .. });
    let format = match &declared.format {
        None => ParameterFormat::default(),
        Some(format) if is_resident => {
            return Err(unfit("format", format.span(), "a service whose calls start a command"));
        }
        Some(format) if !is_array => return Err(unfit("format", format.span(), "a vector or a matrix")),
        Some(format) => match format.get_ref().as_str() {
            "raw" => ParameterFormat::Raw,
            "text" => ParameterFormat::Text,
            other => {
                let message = format!("`format`: expected raw or text, found `{}`", other.escape_debug());
                let hint = "raw is the numbers as they are in memory, text has one number after the other";
                return Err(source.error(format.span(), message, hint));
            }
        },
    };
    let output = match &declared.output {
        None => None,
        Some(output) if is_resident => {
            return Err(unfit("output", output.span(), "a service whose calls start a command"));
        }
        Some(output) if !parameter.direction.is_output() => {
            return Err(unfit("output", output.span(), "a parameter that comes back"));
        }
        Some(output) if output.get_ref() == "stdout" => Some(OutputFrom::Stdout),
        Some(output) => {
            let name = output.get_ref().parse::<FileName>().map_err(|error| {
                let hint = "\"stdout\", or the name of a file in the work folder of the job";
                source.error(output.span(), format!("`output`: {error}"), hint)
            })?;
            Some(OutputFrom::File(name))
        }
    };
    Ok(ParameterDeclaration { summary: declared.summary.clone(), bounds, format, output })
}

fn bounded(
    kind: ArgumentKind,
    declared: &DeclaredParameter,
    source: &Source,
) -> Result<Option<ArgumentKind>, ContentError> {
    let wrong = |key: &str, value: &Spanned<Value>| {
        let message = format!("`{key}`: expected {}, found {}", kind.expected(), value.get_ref());
        source.error(value.span(), message, "it is a number of the parameter's type")
    };
    let integer = |key: &str, value: &Option<Spanned<Value>>, default: i64, within: (i64, i64)| match value {
        None => Ok(default),
        Some(value) => {
            let number = value.get_ref().as_integer().filter(|number| (within.0..=within.1).contains(number));
            number.ok_or_else(|| wrong(key, value))
        }
    };
    let float = |key: &str, value: &Option<Spanned<Value>>, default: f64| match value {
        None => Ok(default),
        Some(value) => {
            let number =
                value.get_ref().as_float().or_else(|| value.get_ref().as_integer().map(|n| n as f64));
            number.filter(|number| number.is_finite()).ok_or_else(|| wrong(key, value))
        }
    };
    Ok(match kind {
        ArgumentKind::Integer { min, max } => {
            let (least, most) = (
                integer("min", &declared.min, min, (min, max))?,
                integer("max", &declared.max, max, (min, max))?,
            );
            (least <= most).then_some(ArgumentKind::Integer { min: least, max: most })
        }
        ArgumentKind::Number { min, max } => {
            let (least, most) = (float("min", &declared.min, min)?, float("max", &declared.max, max)?);
            (least <= most).then_some(ArgumentKind::Number { min: least, max: most })
        }
        _ => None,
    })
}

/// Two outputs of a command cannot be the same stream or file.
fn check_outputs(
    signature: &Signature,
    parameters: &BTreeMap<String, ParameterDeclaration>,
    declared: &Declared,
    is_resident: bool,
    source: &Source,
) -> Result<(), ContentError> {
    let mut seen = BTreeSet::new();
    for parameter in signature.outputs().filter(|_| !is_resident) {
        let output = parameters.get(&parameter.name).and_then(|declared| declared.output.clone());
        let from = match output {
            Some(OutputFrom::Stdout) => "stdout".to_owned(),
            Some(OutputFrom::File(name)) => format!("./{}", name.as_str()),
            None => format!("./{}", parameter.name),
        };
        if !seen.insert(from) {
            let message = format!(
                "`output`: expected another place for each parameter, found that of `{}` twice",
                parameter.name
            );
            let at = declared.parameters.keys().find(|name| *name.get_ref() == parameter.name);
            let at = at.map_or(declared.name.span(), Spanned::span);
            return Err(source.error(at, message, "stdout has one parameter, and each file has one"));
        }
    }
    Ok(())
}

/// A number or a text that goes to a command which does not get it would be a mistake. Vectors, matrices and files are there in
/// any case.
pub(crate) fn check_parameters_used(
    declared: &Declared,
    call: &CallDeclaration,
    (command, environment): (&[Template], &BTreeMap<String, Template>),
    source: &Source,
) -> Result<(), ContentError> {
    if call.resident.is_some() {
        return Ok(());
    }
    check_no_text_in_script(declared, &call.signature, command, source)?;
    let words = command.iter().chain(environment.values());
    let sizes = call.signature.parameters().iter().flat_map(|parameter| parameter.kind.sizes());
    let sizes = sizes.flat_map(pliant_calls::Size::parameters);
    let scales = declared.scaled_argument();
    let used: BTreeSet<&str> = words.flat_map(Template::arguments).chain(sizes).chain(scales).collect();
    let unused = call.signature.inputs().find(|parameter| {
        let is_word = matches!(parameter.kind, ParameterType::Scalar(_) | ParameterType::String { .. });
        is_word && !used.contains(parameter.name.as_str())
    });
    match (unused, &declared.signature) {
        (Some(parameter), Some(signature)) => {
            let message = format!(
                "`signature`: expected each number and string that goes to the service to be used, found `{parameter}`"
            );
            let hint = format!("put {{{}}} into a word of the command, or remove it", parameter.name);
            Err(source.error(signature.span(), message, hint))
        }
        _ => Ok(()),
    }
}

/// Programs that read a word of their command as a script.
const INTERPRETERS: [&str; 14] = [
    "ash", "bash", "dash", "fish", "ksh", "lua", "node", "perl", "php", "python", "python3", "ruby", "sh",
    "zsh",
];

/// A text that a user wrote would be a part of the script that an interpreter gets as a word, as in `sh -c "echo {text}"`.
fn check_no_text_in_script(
    declared: &Declared,
    signature: &Signature,
    command: &[Template],
    source: &Source,
) -> Result<(), ContentError> {
    let Some(words) = declared.command.as_ref().map(Spanned::get_ref) else { return Ok(()) };
    let interpreter = words
        .iter()
        .position(|word| INTERPRETERS.iter().any(|name| word.get_ref().rsplit('/').next() == Some(name)));
    let Some(interpreter) = interpreter else { return Ok(()) };
    let is_text = |name: &&str| {
        let parameter = signature.position(name).map(|at| &signature.parameters()[at]);
        parameter.is_some_and(|parameter| matches!(parameter.kind, ParameterType::String { .. }))
    };
    let is_script_option =
        |word: &str| word.starts_with('-') && !word.starts_with("--") && word.ends_with(['c', 'e', 'r']);
    for at in interpreter + 1..words.len() {
        if is_script_option(words[at - 1].get_ref())
            && let Some(name) = command[at].arguments().find(is_text)
        {
            let message = format!(
                "`command`: expected no string in the script of an interpreter, found `{{{name}}}`, which would be read as a part of it"
            );
            let hint = "give it as a word of its own behind the script: [\"sh\", \"-c\", \"echo \\\"$1\\\"\", \"sh\", \"{text}\"]";
            return Err(source.error(words[at].span(), message, hint));
        }
    }
    Ok(())
}
