//! The part of the DOT language that undirected graphs with attributes need: nodes, edges and attributes, names
//! as words, numbers or in quotes, comments of all three kinds. Subgraphs, ports, HTML and directed edges are
//! errors that say so.

use std::ops::Range;

use crate::error::TraceError;
use crate::toml_file::Source;

const HINT: &str = "docs/reference/files/mapping.md shows such a file";

/// A graph as it is written.
pub(super) struct Dot {
    pub(super) attributes: Vec<Attribute>,
    /// Nodes that have a statement of their own, in order.
    pub(super) nodes: Vec<NodeStatement>,
    pub(super) edges: Vec<EdgeStatement>,
}

/// `name = value`.
pub(super) struct Attribute {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) span: Range<usize>,
}

/// `name [attributes]`.
pub(super) struct NodeStatement {
    pub(super) name: String,
    pub(super) span: Range<usize>,
    pub(super) attributes: Vec<Attribute>,
}

/// `one -- other [attributes]`; a chain is as many of them.
pub(super) struct EdgeStatement {
    pub(super) ends: [String; 2],
    pub(super) span: Range<usize>,
    pub(super) attributes: std::rc::Rc<Vec<Attribute>>,
}

#[derive(Clone, PartialEq, Debug)]
enum Token {
    Word(String),
    /// In quotes: never a keyword.
    Quoted(String),
    Mark(&'static str),
    End,
}

impl Token {
    fn describe(&self) -> String {
        match self {
            Token::Word(word) => format!("`{word}`"),
            Token::Quoted(text) => format!("\"{text}\""),
            Token::Mark(mark) => format!("`{mark}`"),
            Token::End => "the end of the file".to_owned(),
        }
    }

    fn is_keyword(&self, keyword: &str) -> bool {
        matches!(self, Token::Word(word) if word.eq_ignore_ascii_case(keyword))
    }
}

pub(super) fn parse(source: &Source) -> Result<Dot, TraceError> {
    let mut parser = Parser { source, at: 0, token: Token::End, span: 0..0 };
    parser.advance()?;
    parser.graph()
}

struct Parser<'a> {
    source: &'a Source,
    /// Behind the present token.
    at: usize,
    token: Token,
    span: Range<usize>,
}

type Parsed<T> = Result<T, TraceError>;

impl Parser<'_> {
    fn graph(&mut self) -> Parsed<Dot> {
        if self.token.is_keyword("strict") {
            self.advance()?;
        }
        if self.token.is_keyword("digraph") {
            return Err(self.error("expected an undirected graph (`graph`), found `digraph`".to_owned()));
        }
        if !self.token.is_keyword("graph") {
            return Err(self.unexpected("`graph`"));
        }
        self.advance()?;
        if matches!(self.token, Token::Word(_) | Token::Quoted(_)) {
            self.advance()?;
        }
        self.take_mark("{")?;
        let mut dot = Dot { attributes: Vec::new(), nodes: Vec::new(), edges: Vec::new() };
        while self.token != Token::Mark("}") {
            self.statement(&mut dot)?;
            if self.token == Token::Mark(";") {
                self.advance()?;
            }
        }
        self.advance()?;
        if self.token == Token::End { Ok(dot) } else { Err(self.unexpected("the end of the file")) }
    }

    fn statement(&mut self, dot: &mut Dot) -> Parsed<()> {
        if self.token.is_keyword("subgraph") || self.token == Token::Mark("{") {
            return Err(self.error("expected nodes and edges, found a subgraph".to_owned()));
        }
        let about = ["graph", "node", "edge"].into_iter().find(|keyword| self.token.is_keyword(keyword));
        let (name, span) = self.name("a node, an edge or an attribute")?;
        if let Some(about) = about {
            // What `node [...]` and `edge [...]` say of all that follow is how they are drawn.
            let attributes = self.attributes()?;
            if about == "graph" {
                dot.attributes.extend(attributes);
            }
            return Ok(());
        }
        if self.token == Token::Mark("=") {
            self.advance()?;
            let (value, span) = self.name("a value")?;
            dot.attributes.push(Attribute { name, value, span });
            return Ok(());
        }
        if self.token != Token::Mark("--") {
            let attributes = self.attributes()?;
            dot.nodes.push(NodeStatement { name, span, attributes });
            return Ok(());
        }
        let mut chain = vec![(name, span)];
        while self.token == Token::Mark("--") {
            self.advance()?;
            chain.push(self.name("a node")?);
        }
        let attributes = std::rc::Rc::new(self.attributes()?);
        dot.edges.extend(chain.windows(2).map(|pair| EdgeStatement {
            ends: [pair[0].0.clone(), pair[1].0.clone()],
            span: pair[0].1.start..pair[1].1.end,
            attributes: attributes.clone(),
        }));
        Ok(())
    }

    fn attributes(&mut self) -> Parsed<Vec<Attribute>> {
        let mut attributes = Vec::new();
        while self.token == Token::Mark("[") {
            self.advance()?;
            while self.token != Token::Mark("]") {
                let (name, _) = self.name("an attribute")?;
                self.take_mark("=")?;
                let (value, span) = self.name("a value")?;
                attributes.push(Attribute { name, value, span });
                if matches!(self.token, Token::Mark("," | ";")) {
                    self.advance()?;
                }
            }
            self.advance()?;
        }
        Ok(attributes)
    }

    fn name(&mut self, expected: &str) -> Parsed<(String, Range<usize>)> {
        let (Token::Word(name) | Token::Quoted(name)) = self.token.clone() else {
            return Err(self.unexpected(expected));
        };
        let span = self.span.clone();
        self.advance()?;
        Ok((name, span))
    }

    fn take_mark(&mut self, mark: &'static str) -> Parsed<()> {
        if self.token == Token::Mark(mark) {
            self.advance()
        } else {
            Err(self.unexpected(&format!("`{mark}`")))
        }
    }

    fn unexpected(&self, expected: &str) -> TraceError {
        self.error(format!("expected {expected}, found {}", self.token.describe()))
    }

    fn error(&self, message: String) -> TraceError {
        self.source.error(self.span.clone(), message, HINT.to_owned())
    }

    /// Reads the next token.
    fn advance(&mut self) -> Parsed<()> {
        self.skip_blanks()?;
        let text = self.source.text();
        let rest = &text[self.at..];
        let start = self.at;
        let marks = ["--", "{", "}", "[", "]", "=", ";", ","];
        let Some(first) = rest.chars().next() else {
            (self.token, self.span) = (Token::End, start..start);
            return Ok(());
        };
        if rest.starts_with("->") {
            self.span = start..start + 2;
            return Err(self.error("expected an undirected edge `--`, found `->`".to_owned()));
        }
        if first == '"' {
            return self.quoted();
        }
        if let Some(mark) = marks.into_iter().find(|mark| rest.starts_with(mark)) {
            self.at += mark.len();
            self.token = Token::Mark(mark);
        } else {
            let word = rest.find(|letter| !is_of_word(letter)).unwrap_or(rest.len());
            // `a--b` is an edge, while `a-b` and `-1` are words.
            let length = ["--", "->"].iter().filter_map(|edge| rest.find(edge)).fold(word, usize::min);
            if length == 0 {
                self.span = start..start + first.len_utf8();
                return Err(self.error(format!("expected a name, a number or a mark, found `{first}`")));
            }
            self.at += length;
            self.token = Token::Word(rest[..length].to_owned());
        }
        self.span = start..self.at;
        Ok(())
    }

    /// A name in quotes, in which `\"` is a quote and everything else is as it stands.
    fn quoted(&mut self) -> Parsed<()> {
        let start = self.at;
        let mut name = String::new();
        let mut letters = self.source.text()[start + 1..].char_indices();
        while let Some((offset, letter)) = letters.next() {
            match letter {
                '"' => {
                    self.at = start + 1 + offset + 1;
                    (self.token, self.span) = (Token::Quoted(name), start..self.at);
                    return Ok(());
                }
                '\\' if letters.as_str().starts_with('"') => {
                    letters.next();
                    name.push('"');
                }
                other => name.push(other),
            }
        }
        self.span = start..start + 1;
        Err(self.error("expected a closing quote, found the end of the file".to_owned()))
    }

    /// Skips white space and comments.
    fn skip_blanks(&mut self) -> Parsed<()> {
        loop {
            let rest = &self.source.text()[self.at..];
            let blank = rest.len() - rest.trim_start().len();
            let rest = &rest[blank..];
            self.at += blank;
            let at_line_start = self.at == 0 || self.source.text()[..self.at].ends_with('\n');
            if rest.starts_with("//") || (rest.starts_with('#') && at_line_start) {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                let Some(length) = rest.find("*/") else {
                    self.span = self.at..self.at + 2;
                    return Err(
                        self.error("expected the end of a comment, found the end of the file".to_owned())
                    );
                };
                self.at += length + 2;
            } else {
                return Ok(());
            }
        }
    }
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '.' | '-' | '+')
}

/// Finds attributes by their names and reads numbers; everything else is how the graph is drawn.
pub(super) fn number(
    source: &Source,
    attributes: &[Attribute],
    name: &str,
) -> Result<Option<f64>, TraceError> {
    let Some(attribute) = find(attributes, name) else { return Ok(None) };
    let value = attribute.value.parse().map_err(|_| {
        let message = format!("`{name}`: expected a number, found `{}`", attribute.value);
        source.error(attribute.span.clone(), message, HINT.to_owned())
    })?;
    Ok(Some(value))
}

/// The same for a number that has to be there; `at` is the position of the statement that it belongs to.
pub(super) fn needed(
    source: &Source,
    attributes: &[Attribute],
    name: &str,
    at: &Range<usize>,
) -> Result<f64, TraceError> {
    number(source, attributes, name)?
        .ok_or_else(|| source.error(at.clone(), format!("missing attribute `{name}`"), HINT.to_owned()))
}

/// The attribute of that name; of several, the last one counts.
pub(super) fn find<'a>(attributes: &'a [Attribute], name: &str) -> Option<&'a Attribute> {
    attributes.iter().rev().find(|attribute| attribute.name == name)
}

/// A name as DOT.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\\\""))
}
