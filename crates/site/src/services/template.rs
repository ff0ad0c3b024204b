//! Words of a command with placeholders.

use std::collections::BTreeMap;

use crate::word::{Piece, Word};

/// Placeholders that are no arguments.
pub(crate) const BUILT_IN: [&str; 3] = ["pliant", "procs", "walltime_s"];

/// A word as it is declared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Template(Vec<Slot>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Slot {
    Text(String),
    Pliant,
    Procs,
    Walltime,
    Argument(String),
}

/// What is wrong with a declared word: the message.
pub(crate) type BadWord = String;

impl Template {
    /// Reads a word. `{{` and `}}` are braces.
    pub(crate) fn parse(word: &str) -> Result<Template, BadWord> {
        if word.contains('\0') {
            return Err("expected text, found a NUL".to_owned());
        }
        let (mut slots, mut text, mut rest) = (Vec::new(), String::new(), word);
        while let Some(at) = rest.find(['{', '}']) {
            text.push_str(&rest[..at]);
            let (brace, next) = (&rest[at..=at], &rest[at + 1..]);
            if let Some(after) = next.strip_prefix(brace) {
                text.push_str(brace);
                rest = after;
                continue;
            }
            let inside = if brace == "{" { next.split_once('}') } else { None };
            let (name, after) = inside
                .ok_or_else(|| format!("expected each brace to have its other, found `{brace}` alone"))?;
            if !text.is_empty() {
                slots.push(Slot::Text(std::mem::take(&mut text)));
            }
            slots.push(match name {
                "pliant" => Slot::Pliant,
                "procs" => Slot::Procs,
                "walltime_s" => Slot::Walltime,
                name => Slot::Argument(name.to_owned()),
            });
            rest = after;
        }
        text.push_str(rest);
        if !text.is_empty() {
            slots.push(Slot::Text(text));
        }
        Ok(Template(slots))
    }

    /// The arguments it holds.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|slot| match slot {
            Slot::Argument(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// A word without placeholders.
    pub(crate) fn text(text: &str) -> Template {
        Template(vec![Slot::Text(text.to_owned())])
    }

    /// A word that is the path of this program.
    pub(crate) fn pliant() -> Template {
        Template(vec![Slot::Pliant])
    }

    /// A word that is the number of processors.
    pub(crate) fn procs() -> Template {
        Template(vec![Slot::Procs])
    }

    /// A word that is the value of an argument.
    pub(crate) fn argument(name: &str) -> Template {
        Template(vec![Slot::Argument(name.to_owned())])
    }

    /// True if the path of this program is in it.
    pub(crate) fn has_path(&self) -> bool {
        self.0.contains(&Slot::Pliant)
    }

    /// True if there is nothing in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The argument whose value the word begins with, which would make an option of it. Empty ones do not count.
    pub(crate) fn opened_by(&self, values: &BTreeMap<String, String>) -> Option<&str> {
        let begins = self.0.iter().find_map(|slot| match slot {
            Slot::Argument(name) if values.get(name).is_none_or(String::is_empty) => None,
            Slot::Argument(name) => Some(Some(name.as_str())),
            _ => Some(None),
        });
        begins.flatten()
    }

    /// Fills in the values, in one pass: braces in a value are letters like others. None if an argument has no
    /// value.
    pub(crate) fn fill(&self, values: &BTreeMap<String, String>, pliant: &str) -> Option<Word> {
        self.fill_but(&[], values, pliant)
    }

    /// The same, leaving the values of some arguments open.
    pub(crate) fn fill_but(
        &self,
        varied: &[String],
        values: &BTreeMap<String, String>,
        pliant: &str,
    ) -> Option<Word> {
        let piece = |slot: &Slot| match slot {
            Slot::Argument(name) if varied.contains(name) => Some(Piece::Varied(name.clone())),
            Slot::Text(text) => Some(Piece::Text(text.clone())),
            Slot::Pliant => Some(Piece::Text(pliant.to_owned())),
            Slot::Procs => Some(Piece::Procs),
            Slot::Walltime => Some(Piece::WalltimeS),
            Slot::Argument(name) => values.get(name).cloned().map(Piece::Text),
        };
        self.0.iter().map(piece).collect::<Option<_>>().map(Word::of)
    }
}

#[cfg(test)]
mod tests {
    use pliant_model::{Procs, Span};

    use super::*;

    #[test]
    fn placeholders_are_filled_in_once() {
        let check = |word: &str, expected: Option<&str>| {
            let values = [("size", "7"), ("tricky", "{size}{pliant} $(id); '\" x")];
            let values = values.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
            let filled = Template::parse(word).unwrap().fill(&values, "/bin/pliant");
            assert_eq!(filled.map(|word| word.at_start(Procs(4), Span(90))).as_deref(), expected, "{word}");
        };
        check("", Some(""));
        check("--n={size}x{size}", Some("--n=7x7"));
        check("{pliant}", Some("/bin/pliant"));
        check("-n{procs},{walltime_s}s", Some("-n4,90s"));
        check("{{size}} }}{{", Some("{size} }{"));
        check("{{{size}}}", Some("{7}"));
        check("{tricky}", Some("{size}{pliant} $(id); '\" x"));
        check("--seed={absent}", None);
    }

    #[test]
    fn braces_come_in_pairs() {
        for bad in ["{", "}", "a{size", "a}b", "{{}", "a\0"] {
            assert!(Template::parse(bad).is_err(), "{bad:?}");
        }
    }
}
