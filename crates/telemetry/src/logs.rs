//! Log lines on standard error, as text or JSON.

use std::fmt::{self, Write};
use std::str::FromStr;

use tracing::Dispatch;
use tracing::dispatcher::SetGlobalDefaultError;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, Registry};

/// The format of log lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogFormat {
    /// Text: time in UTC, level, message, `key=value`.
    #[default]
    Text,
    /// JSON: one object per line with `timestamp`, `level`, `target`, `message`, the fields of the line, and `spans`
    /// with the fields of each enclosing span, outermost first.
    Json,
}

impl FromStr for LogFormat {
    type Err = LoggingError;

    fn from_str(text: &str) -> Result<LogFormat, LoggingError> {
        match text {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            other => Err(LoggingError::Format { found: other.to_owned() }),
        }
    }
}

/// An error at the start of logging.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// The format is unknown.
    #[error("expected a log format (text, json), found `{found}`")]
    Format {
        /// The format requested.
        found: String,
    },
    /// A part of the filter is neither a level nor `target=level`.
    #[error(
        "log filter: expected a level (off, error, warn, info, debug, trace) or `target=level`, found `{found}`"
    )]
    Level {
        /// The part.
        found: String,
    },
    /// The filter cannot be parsed.
    #[error("log filter: expected levels and `target=level`, found `{found}`: {source}")]
    Filter {
        /// The filter.
        found: String,
        /// The parser's error.
        source: ParseError,
    },
    /// Logging was started twice.
    #[error("logging of this process has begun already")]
    Already {
        /// The cause.
        source: SetGlobalDefaultError,
    },
}

impl LoggingError {
    /// What to do about the error, if anything.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            LoggingError::Format { .. } => None,
            LoggingError::Level { .. } | LoggingError::Filter { .. } => {
                Some("use `info`; `info,pliant_daemon=debug` adds details of one crate")
            }
            LoggingError::Already { .. } => None,
        }
    }
}

/// Sends log lines that pass `filter` to standard error. A line that cannot be written is lost: a full disk behind
/// standard error stops no daemon.
///
/// # Errors
///
/// If the filter cannot be parsed, or logging was started before.
pub fn logging(format: LogFormat, filter: &str) -> Result<(), LoggingError> {
    tracing::dispatcher::set_global_default(subscriber(format, filter, std::io::stderr)?)
        .map_err(|source| LoggingError::Already { source })
}

/// The subscriber that [`logging`] installs, with any writer: tests read what it writes.
///
/// # Errors
///
/// If the filter cannot be parsed.
pub fn subscriber<W>(format: LogFormat, filter: &str, writer: W) -> Result<Dispatch, LoggingError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let targets = filter_of(filter)?;
    // Errors of the writer are not reported: the report would go to the same writer, and a failing report aborts the
    // process.
    let lines =
        tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(false).log_internal_errors(false);
    Ok(match format {
        LogFormat::Text => {
            let fields = debug_fn(|writer, field, value| {
                let mut writer = OneLine(writer);
                match field.name() {
                    "message" => write!(writer, "{value:?}"),
                    name => write!(writer, "{name}={value:?}"),
                }
            });
            dispatch(targets, lines.compact().with_target(false).fmt_fields(fields.delimited(" ")))
        }
        LogFormat::Json => {
            dispatch(targets, lines.json().flatten_event(true).with_current_span(false).with_span_list(true))
        }
    })
}

fn dispatch(targets: Targets, lines: impl Layer<Registry> + Send + Sync) -> Dispatch {
    Dispatch::new(Registry::default().with(lines.with_filter(targets)))
}

/// Parses a filter such as `info,pliant_daemon=debug`. A single word must be a level: as a target, a misspelt level would
/// silence all other targets.
fn filter_of(text: &str) -> Result<Targets, LoggingError> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let mut words = parts.iter().filter(|part| !part.contains('=') || part.contains('['));
    if let Some(word) = words.find(|word| word.is_empty() || LevelFilter::from_str(word).is_err()) {
        return Err(LoggingError::Level { found: (*word).to_owned() });
    }
    parts.join(",").parse().map_err(|source| LoggingError::Filter { found: text.to_owned(), source })
}

/// Escapes control characters, so that names from users can neither end a log line nor control a terminal.
struct OneLine<W>(W);

impl<W: Write> Write for OneLine<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(at) = rest.find(char::is_control) {
            let (plain, from) = rest.split_at(at);
            self.0.write_str(plain)?;
            let mut letters = from.chars();
            if let Some(control) = letters.next() {
                write!(self.0, "{}", control.escape_default())?;
            }
            rest = letters.as_str();
        }
        self.0.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_read_or_refused_with_a_reason() {
        let check = |text: &str, refused: Option<&str>| {
            let found = filter_of(text).err().map(|error| error.to_string());
            match refused {
                None => assert_eq!(found, None, "{text}"),
                Some(part) => assert!(found.as_deref().unwrap_or("").contains(part), "{text}: {found:?}"),
            }
        };
        check("info", None);
        check("INFO", None);
        check("warn,pliant_daemon=debug, pliant_journal=trace", None);
        check("off", None);
        check("inof", Some("found `inof`"));
        check("info,", Some("found ``"));
        check("", Some("found ``"));
        check("pliant_daemon=loud", Some("pliant_daemon=loud"));
        check("info,[span]=debug", Some("found `[span]=debug`"));
    }

    #[test]
    fn control_characters_become_escapes() {
        let check = |text: &str, expected: &str| {
            let mut written = String::new();
            OneLine(&mut written).write_str(text).unwrap();
            assert_eq!(written, expected);
        };
        check("plain, wörds", "plain, wörds");
        check("a\nb\r\x1b[31m\u{9b}c\t", "a\\nb\\r\\u{1b}[31m\\u{9b}c\\t");
        check("", "");
    }
}
