//! Names of staged files.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The name of a staged file, relative to the working folder of its job: components separated by `/`.
///
/// It is UTF-8 of at most [`FileName::LENGTH_MAX`] bytes in at most [`FileName::DEPTH_MAX`] components of at
/// most [`FileName::COMPONENT_MAX`] bytes, none of them empty, `.` or `..`. It has no character that shows
/// nothing, ends lines or turns the direction of writing, so that it cannot pass for another name in a log or
/// on a terminal. Spaces, quotes and whatever shells act upon are letters like others: no name is ever given to a
/// shell.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FileName(Arc<str>);

/// A name that no staged file may have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NameError {
    /// What is wrong with it.
    pub problem: NameProblem,
    /// The name.
    pub found: String,
}

/// What is wrong with a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameProblem {
    /// It is empty.
    Empty,
    /// It begins with `/`.
    Absolute,
    /// A component is empty: `a//b` or `a/`.
    EmptyComponent,
    /// A component is `.` or `..`.
    Dots,
    /// It has a character that shows nothing, ends lines or turns the direction of writing.
    Unprintable,
    /// It is longer than [`FileName::LENGTH_MAX`] bytes.
    Length,
    /// A component is longer than [`FileName::COMPONENT_MAX`] bytes.
    ComponentLength,
    /// It has more than [`FileName::DEPTH_MAX`] components.
    Depth,
    /// It names no result: neither `stdout` nor `stderr` nor a file under `work/`.
    NoResult,
}

impl FileName {
    /// The longest name, in bytes.
    pub const LENGTH_MAX: usize = 1024;
    /// The longest component, in bytes: what file systems take.
    pub const COMPONENT_MAX: usize = 255;
    /// The most components.
    pub const DEPTH_MAX: usize = 16;

    /// The name, as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The folders it lies in, from the outermost to the innermost.
    pub fn folders(&self) -> impl Iterator<Item = &str> {
        self.0.rsplit_once('/').map(|(folders, _)| folders.split('/')).into_iter().flatten()
    }

    /// Its last component.
    pub fn last(&self) -> &str {
        self.0.rsplit_once('/').map_or(&self.0, |(_, last)| last)
    }

    /// True if this name would be a folder that `other` lies in.
    pub fn is_folder_of(&self, other: &FileName) -> bool {
        other.0.strip_prefix(&*self.0).is_some_and(|rest| rest.starts_with('/'))
    }
}

/// True if a character shows nothing, ends lines or turns the direction of writing.
pub fn is_unprintable(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

fn problem(name: &str) -> Option<NameProblem> {
    if name.is_empty() {
        return Some(NameProblem::Empty);
    }
    if name.len() > FileName::LENGTH_MAX {
        return Some(NameProblem::Length);
    }
    if name.starts_with('/') {
        return Some(NameProblem::Absolute);
    }
    if name.contains(is_unprintable) {
        return Some(NameProblem::Unprintable);
    }
    if name.split('/').count() > FileName::DEPTH_MAX {
        return Some(NameProblem::Depth);
    }
    name.split('/').find_map(|component| match component {
        "" => Some(NameProblem::EmptyComponent),
        "." | ".." => Some(NameProblem::Dots),
        long if long.len() > FileName::COMPONENT_MAX => Some(NameProblem::ComponentLength),
        _ => None,
    })
}

impl FromStr for FileName {
    type Err = NameError;
    fn from_str(text: &str) -> Result<FileName, NameError> {
        match problem(text) {
            None => Ok(FileName(text.into())),
            Some(problem) => Err(NameError { problem, found: text.to_owned() }),
        }
    }
}

impl TryFrom<String> for FileName {
    type Error = NameError;
    fn try_from(text: String) -> Result<FileName, NameError> {
        text.parse()
    }
}

impl From<FileName> for String {
    fn from(name: FileName) -> String {
        name.0.as_ref().to_owned()
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = shown(&self.found);
        write!(f, "expected a file name {}, found `{found}`", self.problem)
    }
}

impl fmt::Display for NameProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "that is not empty"),
            Self::Absolute => write!(f, "relative to the job's folder, without a leading `/`"),
            Self::EmptyComponent => write!(f, "without empty components"),
            Self::Dots => write!(f, "without `.` and `..`"),
            Self::Unprintable => write!(f, "of printable characters on one line"),
            Self::Length => write!(f, "of at most {} bytes", FileName::LENGTH_MAX),
            Self::ComponentLength => {
                write!(f, "with components of at most {} bytes", FileName::COMPONENT_MAX)
            }
            Self::Depth => write!(f, "of at most {} components", FileName::DEPTH_MAX),
            Self::NoResult => write!(f, "`stdout`, `stderr` or under `work/`"),
        }
    }
}

impl std::error::Error for NameError {}

impl NameError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self.problem {
            NameProblem::Absolute | NameProblem::Dots => "name the file as it is to lie in the job's folder",
            NameProblem::NoResult => "list the results of the job",
            _ => "rename the file",
        }
    }
}

/// Text of unknown origin as it may be shown: escaped and cut.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_that_are_taken() {
        let deep = vec!["a"; FileName::DEPTH_MAX].join("/");
        let wide = "x".repeat(FileName::COMPONENT_MAX);
        let names = [
            "a",
            "a.txt",
            "in/data (1).csv",
            ".hidden",
            "...",
            "-rf",
            "~",
            "été/числа.dat",
            "a b.txt",
            "it's.png",
            "(1).csv",
            "résumé.pdf",
            "$(id); `id` | \"x\" & <y> * ? !",
            "..\\a",
            &deep,
            &wide,
        ];
        for good in names {
            assert_eq!(good.parse::<FileName>().map(String::from), Ok(good.to_owned()));
        }
    }

    #[test]
    fn names_that_are_refused() {
        let check = |name: &str, expected| {
            let error = name.parse::<FileName>().unwrap_err();
            assert_eq!(error.problem, expected, "{name:?}");
            let message = error.to_string();
            assert!(!message.contains(['\n', '\u{1b}', '\u{202e}']) && message.len() < 1000, "{message}");
        };
        check("", NameProblem::Empty);
        for absolute in ["/", "/etc/shadow", "//a"] {
            check(absolute, NameProblem::Absolute);
        }
        for empty in ["a/", "a//b"] {
            check(empty, NameProblem::EmptyComponent);
        }
        for dots in [".", "..", "../a", "a/../b", "a/..", "./a", "a/."] {
            check(dots, NameProblem::Dots);
        }
        for unseen in [
            "a\nb",
            "a\rb",
            "a\0",
            "\u{1b}[31m",
            "a\u{7f}",
            "a\u{85}b",
            "a\u{202e}b",
            "\u{feff}a",
            "a\u{200b}",
        ] {
            check(unseen, NameProblem::Unprintable);
        }
        check(&"x".repeat(256), NameProblem::ComponentLength);
        check(&["x"; 17].join("/"), NameProblem::Depth);
        check(&"x/".repeat(600), NameProblem::Length);
    }

    #[test]
    fn folders_of_a_name() {
        let name = |text: &str| text.parse::<FileName>().unwrap();
        let deep = name("a/b/c.txt");
        assert_eq!((deep.folders().collect::<Vec<_>>(), deep.last()), (vec!["a", "b"], "c.txt"));
        assert_eq!((name("c").folders().count(), name("c").last()), (0, "c"));
    }

    /// The rules once more, one after the other and letter by letter.
    fn is_name(text: &str) -> bool {
        let letters: Vec<char> = text.chars().collect();
        let parts: Vec<&str> = text.split('/').collect();
        let bad = |letter: &char| {
            let code = *letter as u32;
            code < 0x20
                || (0x7f..0xa0).contains(&code)
                || [0x200b..=0x200f, 0x2028..=0x202e, 0x2060..=0x206f, 0xfeff..=0xfeff]
                    .iter()
                    .any(|range| range.contains(&code))
        };
        text.len() <= 1024
            && parts.len() <= 16
            && parts.iter().all(|part| !part.is_empty() && part.len() <= 255 && *part != "." && *part != "..")
            && !letters.iter().any(bad)
    }

    proptest! {
        #[test]
        fn the_rules_agree_with_their_plain_form(
            parts in prop::collection::vec(
                prop_oneof!["[a-z.]{0,3}", "\\PC{0,6}", ".{0,4}", Just("..".to_owned()), "[é]{120,130}", "[a-z\n$\u{202e}\u{9f}]{1,2}"],
                0..18,
            )
        ) {
            let text = parts.join("/");
            prop_assert_eq!(text.parse::<FileName>().is_ok(), is_name(&text), "{:?}", text);
        }

        /// A taken name, used as the kernel would, stays below the folder it is relative to.
        #[test]
        fn a_taken_name_leads_nowhere_else(text in "[a./~\\\\-]{1,12}") {
            if let Ok(name) = text.parse::<FileName>() {
                let path = std::path::Path::new("/base").join(name.as_str());
                let plain = |part| matches!(part, std::path::Component::Normal(_));
                prop_assert!(path.starts_with("/base") && path.components().skip(1).all(plain));
            }
        }
    }
}
