//! Scripts that users bring.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use pliant_control::environment::{VARIABLE_NAME, may_be_given};
use pliant_control::job::Work;
use pliant_model::{Procs, Span};
use pliant_staging::{FileName, SCRIPT};

use super::prepared::{Bounds, Prepared};
use super::refusal::Refusal;
use super::speedup_spec::SpeedupSpec;
use crate::processes::Streams;
use crate::word::Word;

/// A script and how it is to be run. It is put into its job's folder by
/// [`put_script`](pliant_staging::put_script), beside the working folder, where no input can take its place.
#[derive(Clone, PartialEq, Debug)]
pub struct Script<'a> {
    /// What the user calls it.
    pub name: &'a FileName,
    /// Its text.
    pub content: &'a [u8],
    /// Its arguments, as they are.
    pub arguments: &'a [String],
    /// How its time changes with the number of processors; `rigid:N` for a fixed size.
    pub speedup: SpeedupSpec,
    /// Its walltime at speed 1, on the processors of the speedup.
    pub walltime: Span,
    /// The folder of the user's own in which it runs.
    pub folder: Option<PathBuf>,
    /// Variables of its environment besides those that every job has.
    pub environment: &'a BTreeMap<String, String>,
    /// Its standard input, and where its standard error goes.
    pub streams: Streams,
}

/// What is wrong with a script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScriptProblem {
    /// There is nothing in it.
    Empty,
    /// It is longer than [`Script::LENGTH_MAX`].
    Length,
    /// It does not begin with `#!`.
    NoInterpreter,
    /// What stands behind `#!` is not an absolute path.
    Interpreter,
    /// Its first line is longer than the kernel reads.
    InterpreterLength,
    /// Its first line ends with a carriage return.
    CarriageReturn,
    /// Its arguments are too many, too long, or one has a NUL.
    Arguments,
    /// The variables of its environment are too long, or one has a name that is reserved or a NUL.
    Environment,
}

impl Script<'_> {
    /// The longest script, in bytes.
    pub const LENGTH_MAX: usize = 1 << 20;
    /// The longest first line, in bytes: what every Linux reads of it.
    const FIRST_LINE_MAX: usize = 126;
    /// The most bytes of arguments, and of variables.
    const ARGUMENTS_MAX: usize = 1 << 16;

    /// Checks whether it can be run.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        self.problem().map_or(Ok(()), |problem| Err(Refusal::Script(problem)))
    }

    /// Checks the script, and makes it something to run within `procs` processors and `walltime`.
    pub(crate) fn prepare(&self, procs: Option<Procs>, walltime: Option<Span>) -> Result<Prepared, Refusal> {
        self.check()?;
        if let Some(allowed) = walltime.filter(|allowed| self.walltime > *allowed) {
            return Err(Refusal::TooLong { allowed, found: self.walltime });
        }
        let within = procs.map_or(Ok(self.speedup.clone()), |procs| self.speedup.clone().within(procs));
        let SpeedupSpec { speedup, procs } = within.map_err(Refusal::Speedup)?;
        let program = Word::text(format!("../{SCRIPT}"));
        let arguments = self.arguments.iter().map(Word::text);
        Ok(Prepared {
            name: self.name.last().to_owned(),
            command: std::iter::once(program).chain(arguments).collect(),
            environment: self
                .environment
                .iter()
                .map(|(name, value)| (name.clone(), Word::text(value)))
                .collect(),
            work: Work::new(procs, self.walltime.max(Span(1)), speedup),
            // In a folder of the user's own it is there already.
            inputs: self.streams.stdin.iter().filter(|_| self.folder.is_none()).cloned().collect(),
            scale: 1.0,
            bounds: Bounds::default(),
            folder: self.folder.clone(),
            streams: self.streams.clone(),
            call: None,
        })
    }

    fn problem(&self) -> Option<ScriptProblem> {
        let bytes: usize = self.arguments.iter().map(|argument| argument.len() + 1).sum();
        if bytes > Self::ARGUMENTS_MAX || self.arguments.iter().any(|argument| argument.contains('\0')) {
            return Some(ScriptProblem::Arguments);
        }
        let variables = || self.environment.iter();
        let bytes: usize = variables().map(|(name, value)| name.len() + value.len() + 2).sum();
        let wrong = |(name, value): (&String, &String)| !may_be_given(name) || value.contains('\0');
        if bytes > Self::ARGUMENTS_MAX || variables().any(wrong) {
            return Some(ScriptProblem::Environment);
        }
        if self.content.is_empty() {
            return Some(ScriptProblem::Empty);
        }
        if self.content.len() > Self::LENGTH_MAX {
            return Some(ScriptProblem::Length);
        }
        let Some(rest) = self.content.strip_prefix(b"#!") else { return Some(ScriptProblem::NoInterpreter) };
        let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
        if line.ends_with(b"\r") {
            return Some(ScriptProblem::CarriageReturn);
        }
        if line.len() > Self::FIRST_LINE_MAX {
            return Some(ScriptProblem::InterpreterLength);
        }
        let interpreter = line.trim_ascii_start();
        let absolute = interpreter.starts_with(b"/") && !line.contains(&0);
        (!absolute).then_some(ScriptProblem::Interpreter)
    }
}

impl ScriptProblem {
    /// What to do about it.
    pub fn hint(self) -> &'static str {
        match self {
            Self::Empty => "was it saved?",
            Self::Length => "send the data as inputs, and read them in the script",
            Self::NoInterpreter => {
                "begin it with the program that reads it: `#!/bin/sh` or `#!/usr/bin/env python3`"
            }
            Self::Interpreter | Self::InterpreterLength => {
                "for example `#!/bin/sh` or `#!/usr/bin/env python3`"
            }
            Self::CarriageReturn => "it was saved with the line ends of Windows: `dos2unix SCRIPT` mends it",
            Self::Arguments => "send what is long as an input",
            Self::Environment => "set other variables in the script, and send what is long as an input",
        }
    }
}

impl fmt::Display for ScriptProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "expected a script, found an empty file"),
            Self::Length => {
                write!(f, "expected a script of at most {} bytes, found more", Script::LENGTH_MAX)
            }
            Self::NoInterpreter => {
                write!(f, "expected a script that begins with `#!`, found one that does not")
            }
            Self::Interpreter => write!(f, "expected an absolute path behind `#!`, found something else"),
            Self::InterpreterLength => {
                write!(f, "expected a first line of at most {} bytes, found more", Script::FIRST_LINE_MAX + 2)
            }
            Self::CarriageReturn => {
                write!(f, "expected a first line that ends with its program, found a carriage return")
            }
            Self::Arguments => {
                write!(f, "expected at most {} bytes of arguments without NUL", Script::ARGUMENTS_MAX)
            }
            Self::Environment => {
                let most = Script::ARGUMENTS_MAX;
                write!(f, "expected at most {most} bytes of variables without NUL, each {VARIABLE_NAME}")
            }
        }
    }
}
