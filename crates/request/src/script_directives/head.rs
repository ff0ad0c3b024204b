//! The head of a script, and the lines of options in it.

use crate::error::RequestError;

/// Whose options a line has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Dialect {
    /// `#PLIANT`: options of `pliant submit`.
    Pliant,
    /// `#SBATCH`: options of Slurm's `sbatch`.
    Slurm,
}

/// A line of options.
#[derive(PartialEq, Debug)]
pub(super) struct Directive {
    /// The number of the line, from 1.
    pub(super) line: usize,
    pub(super) dialect: Dialect,
    /// The words behind the prefix, without quotes.
    pub(super) words: Vec<String>,
}

impl Dialect {
    /// How its lines begin.
    const fn prefix(self) -> &'static str {
        match self {
            Dialect::Pliant => "#PLIANT",
            Dialect::Slurm => "#SBATCH",
        }
    }
}

/// The lines of options in the head of a script, in their order. Words are quoted as in a shell, and a `#` begins a comment.
pub(super) fn directives(shown: &str, text: &[u8]) -> Result<Vec<Directive>, RequestError> {
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).enumerate();
    let head = lines.take_while(|(_, line)| line.is_empty() || line.starts_with(b"#"));
    let found = head.filter_map(|(index, line)| {
        [Dialect::Pliant, Dialect::Slurm].into_iter().find_map(|dialect| {
            let rest = line.strip_prefix(dialect.prefix().as_bytes())?;
            // `#SBATCHES` is a comment.
            let is_directive = rest.first().is_none_or(u8::is_ascii_whitespace);
            is_directive.then(|| directive(shown, index + 1, dialect, rest))
        })
    });
    found.collect()
}

fn directive(shown: &str, line: usize, dialect: Dialect, rest: &[u8]) -> Result<Directive, RequestError> {
    let prefix = dialect.prefix();
    let place = || format!("{shown}:{line}: {prefix}");
    let Ok(rest) = std::str::from_utf8(rest) else {
        let problem = format!("{}: expected options in UTF-8, found other bytes", place());
        return Err(RequestError::input(problem)
            .hint("save the script in UTF-8, or give the options on the command line"));
    };
    let words = shlex::split(rest).ok_or_else(|| {
        let problem =
            format!("{}: expected quotes in pairs, found an open one in `{}`", place(), rest.trim());
        RequestError::input(problem).hint("close the quote, or write \\' for an apostrophe itself")
    })?;
    Ok(Directive { line, dialect, words })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_read_up_to_the_first_command() {
        let text = "#!/bin/sh\n\n# a comment\n#PLIANT --time 1h  # how long\n#SBATCH -J 'a b' --comment=\"x y\"\r\n\
            #PLIANTS --x\n# SBATCH --x\n  #PLIANT --wait\n#SBATCH\n\techo\n#SBATCH --late\n";
        let found = directives("job.sh", text.as_bytes()).unwrap();
        let found: Vec<(usize, Dialect, Vec<&str>)> = found
            .iter()
            .map(|found| (found.line, found.dialect, found.words.iter().map(String::as_str).collect()))
            .collect();
        assert_eq!(
            found,
            [
                (4, Dialect::Pliant, vec!["--time", "1h"]),
                (5, Dialect::Slurm, vec!["-J", "a b", "--comment=x y"]),
                (8, Dialect::Pliant, vec!["--wait"]),
                (9, Dialect::Slurm, vec![]),
            ]
        );
    }

    #[test]
    fn the_head_ends_before_other_bytes() {
        assert_eq!(directives("x", b"#!/bin/sh\n\xff\xfe\n#PLIANT --x").unwrap(), []);
        assert_eq!(directives("x", b"").unwrap(), []);
    }

    #[test]
    fn what_cannot_be_split_is_an_error_with_its_line() {
        let check = |text: &[u8], message: &str| {
            let failure = directives("job.sh", text).unwrap_err();
            assert_eq!((failure.message(), failure.is_input()), (message, true));
            assert!(failure.hint_text().is_some());
        };
        check(
            b"#!/bin/sh\n#PLIANT --job-name 'x",
            "job.sh:2: #PLIANT: expected quotes in pairs, found an open one in `--job-name 'x`",
        );
        check(
            b"#!/bin/sh\n\n#SBATCH -J \xe9",
            "job.sh:3: #SBATCH: expected options in UTF-8, found other bytes",
        );
    }
}
