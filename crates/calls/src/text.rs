//! Values as text: what people type into a form or behind a command, and what they read as results.
//!
//! Numbers are decimal. The elements of a vector or a matrix are separated by blanks, commas, semicolons or ends of lines, those
//! of a matrix row by row; how many there are is known from the sizes in the signature.

use std::collections::BTreeMap;

use crate::check::ValueError;
use crate::signature::{Parameter, ParameterType, ScalarType, Signature};
use crate::value::{Array, Value};

/// The most characters of a wrong text that an error shows.
const SHOWN_CHARS: usize = 40;

/// A text that is not the value of its parameter.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TextError {
    /// A text for a parameter that the service does not have.
    #[error("`{name}`: expected a parameter of `{signature}`, found none of that name")]
    Unknown {
        /// The name.
        name: String,
        /// The signature.
        signature: String,
    },
    /// A word that is no number of the declared type.
    #[error("`{name}`{line}: expected a number of type {expected}, found `{found}`")]
    Number {
        /// The parameter.
        name: String,
        /// Where, as ` line 3`; empty where there is one line only.
        line: String,
        /// The type.
        expected: &'static str,
        /// The word.
        found: String,
    },
    /// More or fewer elements than the sizes say.
    #[error("`{name}`: expected {expected} ({sizes}), found {found}")]
    Count {
        /// The parameter.
        name: String,
        /// How many numbers.
        expected: String,
        /// The declaration with the sizes as numbers, as `double[2][3]`.
        sizes: String,
        /// How many there are.
        found: usize,
    },
    /// A value that is not what the signature says.
    #[error(transparent)]
    Value(#[from] ValueError),
}

impl Signature {
    /// The arguments that these texts are, by the names of parameters: one value for each parameter, none where there is no text. A
    /// text of a file is its name. [`Signature::check_arguments`] finds what is missing.
    ///
    /// # Errors
    /// A text that is no value of its parameter, or belongs to no parameter.
    pub fn parse_arguments(&self, texts: &BTreeMap<String, String>) -> Result<Vec<Option<Value>>, TextError> {
        if let Some(name) = texts.keys().find(|name| self.position(name).is_none()) {
            let name = name.chars().take(SHOWN_CHARS).flat_map(char::escape_debug).collect();
            return Err(TextError::Unknown { name, signature: self.to_string() });
        }
        let mut values: Vec<Option<Value>> = vec![None; self.parameters().len()];
        // Sizes depend on numbers, which may stand behind what they are the size of.
        for numbers in [true, false] {
            for (at, parameter) in self.parameters().iter().enumerate() {
                let is_number = matches!(parameter.kind, ParameterType::Scalar(_));
                let text = texts.get(&parameter.name).filter(|_| is_number == numbers);
                let Some(text) = text else { continue };
                values[at] = Some(self.parse_argument(parameter, text, &values)?);
            }
        }
        Ok(values)
    }

    /// The value of a parameter, where the numbers that its sizes depend on are known.
    fn parse_argument(
        &self,
        parameter: &Parameter,
        text: &str,
        values: &[Option<Value>],
    ) -> Result<Value, TextError> {
        let wrong_number = |line: Option<usize>, word: &str, of: ScalarType| TextError::Number {
            name: parameter.name.clone(),
            line: line.map(|line| format!(" line {line}")).unwrap_or_default(),
            expected: of.name(),
            found: word.chars().take(SHOWN_CHARS).flat_map(char::escape_debug).collect(),
        };
        let elements = |of: ScalarType| {
            let words = text.split(is_separator).filter(|word| !word.is_empty());
            Array::parse(of, words).ok_or_else(|| {
                let is_one_line = !text.trim().contains('\n');
                let (line, word) = first_wrong(of, text);
                wrong_number(Some(line).filter(|_| !is_one_line), word, of)
            })
        };
        let sized = |of: ScalarType, elements: &Array| {
            let sizes = self.sizes(parameter, values)?;
            let expected = sizes.iter().fold(1u64, |product, size| product.saturating_mul(*size));
            if expected == elements.len() as u64 {
                return Ok(sizes);
            }
            let brackets: String = sizes.iter().map(|size| format!("[{size}]")).collect();
            let expected = format!("{expected} number{}", if expected == 1 { "" } else { "s" });
            let sizes = format!("{}{brackets}", of.name());
            Err(TextError::Count { name: parameter.name.clone(), expected, sizes, found: elements.len() })
        };
        Ok(match &parameter.kind {
            ParameterType::Scalar(of) => {
                let word = text.trim();
                let parsed = Array::parse(*of, [word].into_iter());
                parsed.and_then(|parsed| parsed.first()).ok_or_else(|| wrong_number(None, word, *of))?
            }
            ParameterType::String { .. } => Value::String(text.to_owned()),
            ParameterType::File => Value::File(text.to_owned()),
            ParameterType::Vector { of, .. } => {
                let elements = elements(*of)?;
                sized(*of, &elements)?;
                Value::Vector(elements)
            }
            ParameterType::Matrix { of, .. } => {
                let elements = elements(*of)?;
                let sizes = sized(*of, &elements)?;
                let (rows, columns) =
                    (sizes.first().copied().unwrap_or(0), sizes.get(1).copied().unwrap_or(0));
                Value::Matrix { rows, columns, elements }
            }
        })
    }
}

impl Value {
    /// It as text, which [`Signature::parse_arguments`] reads as the same value: the elements of a vector one to a line, those of a
    /// matrix one row to a line.
    pub fn to_text(&self) -> String {
        let (elements, columns) = match self {
            Value::Vector(elements) => (elements, 1),
            Value::Matrix { columns, elements, .. } => {
                (elements, usize::try_from(*columns).unwrap_or(usize::MAX))
            }
            value => return value.word().unwrap_or_default(),
        };
        let (mut text, mut place) = (String::new(), 0);
        elements.for_each_text(|element| {
            place += 1;
            text.push_str(element);
            text.push(if place == columns { '\n' } else { ' ' });
            place %= columns.max(1);
        });
        text
    }
}

/// True of what stands between two elements.
fn is_separator(character: char) -> bool {
    character.is_whitespace() || matches!(character, ',' | ';')
}

/// The first word of a text that is no number of that type, with its line.
fn first_wrong(of: ScalarType, text: &str) -> (usize, &str) {
    let lines = (1..).zip(text.lines());
    let mut words = lines.flat_map(|(line, text)| text.split(is_separator).map(move |word| (line, word)));
    let is_wrong = |word: &str| !word.is_empty() && Array::parse(of, [word].into_iter()).is_none();
    words.find(|(_, word)| is_wrong(word)).unwrap_or((1, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(signature: &str, texts: &[(&str, &str)]) -> Result<Vec<Option<Value>>, String> {
        let signature: Signature = signature.parse().unwrap();
        let owned = texts.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        signature.parse_arguments(&owned).map_err(|error| error.to_string())
    }

    const PRODUCT: &str =
        "in double a[n][m], in int n, in long m, inout char b[3], in string s, in file f, out double x";

    #[test]
    fn values_are_read_by_their_types_and_sizes() {
        let texts = [
            ("a", "1 2.5, -3\n4;5e1;\t6\n"),
            ("n", " 2 "),
            ("m", "3"),
            ("b", "0,255,7"),
            ("s", " as it is\n"),
            ("f", "in.dat"),
        ];
        let matrix = Value::Matrix {
            rows: 2,
            columns: 3,
            elements: Array::Double(vec![1.0, 2.5, -3.0, 4.0, 50.0, 6.0]),
        };
        let expected = [
            Some(matrix),
            Some(Value::Int(2)),
            Some(Value::Long(3)),
            Some(Value::Vector(Array::Char(vec![0, 255, 7]))),
            Some(Value::String(" as it is\n".to_owned())),
            Some(Value::File("in.dat".to_owned())),
            None,
        ];
        assert_eq!(parsed(PRODUCT, &texts).unwrap(), expected);
        // What is missing is for the check of the whole call.
        assert_eq!(parsed(PRODUCT, &[]).unwrap(), vec![None; 7]);
    }

    #[test]
    fn wrong_texts_are_named_with_their_place() {
        let check = |texts: &[(&str, &str)], expected: &str| {
            assert_eq!(parsed(PRODUCT, texts).unwrap_err(), expected);
        };
        check(&[("n", "2.5")], "`n`: expected a number of type int, found `2.5`");
        check(&[("n", "")], "`n`: expected a number of type int, found ``");
        check(&[("b", "1 2 256")], "`b`: expected a number of type char, found `256`");
        check(
            &[("n", "2"), ("m", "2"), ("a", "1 2\n\n3 four")],
            "`a` line 3: expected a number of type double, found `four`",
        );
        check(&[("n", "2"), ("m", "2"), ("a", "1 2 3")], "`a`: expected 4 numbers (double[2][2]), found 3");
        check(&[("a", "1")], "`a`: expected a value of `n`, found none");
        check(&[("b", "1 2")], "`b`: expected 3 numbers (char[3]), found 2");
        check(
            &[("z", "1")],
            "`z`: expected a parameter of `in double a[n][m], in int n, in long m, inout char b[3], in string s, in file f, out double x`, found none of that name",
        );
    }

    #[test]
    fn a_text_is_read_as_the_same_value() {
        let signature = "in int n, in double a[n][2], in float v[n], in long none[0]";
        let values = [
            Some(Value::Int(2)),
            Some(Value::Matrix {
                rows: 2,
                columns: 2,
                elements: Array::Double(vec![0.1, -2e300, 1e-7, 3.0]),
            }),
            Some(Value::Vector(Array::Float(vec![0.1, f32::MAX]))),
            Some(Value::Vector(Array::Long(Vec::new()))),
        ];
        let texts: Vec<String> = values.iter().flatten().map(Value::to_text).collect();
        assert_eq!(texts[1].lines().count(), 2, "a row is a line: {:?}", texts[1]);
        let named: Vec<(&str, &str)> =
            ["n", "a", "v", "none"].into_iter().zip(texts.iter().map(String::as_str)).collect();
        assert_eq!(parsed(signature, &named).unwrap(), values);
    }
}
