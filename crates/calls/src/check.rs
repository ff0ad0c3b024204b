//! Values compared with a signature.

use crate::encoding::VALUES_BYTES_MAX;
use crate::signature::{Parameter, ParameterType, Signature};
use crate::size::{Size, SizeError};
use crate::value::Value;

/// Values that are not what a signature says.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ValueError {
    /// More or fewer values than parameters.
    #[error("expected {expected} values ({signature}), found {found}")]
    Count {
        /// How many parameters the service has.
        expected: usize,
        /// How many values there are.
        found: usize,
        /// The signature.
        signature: String,
    },
    /// A parameter has no value.
    #[error("`{name}`: expected {expected}, found no value")]
    Missing {
        /// The parameter.
        name: String,
        /// Its declaration.
        expected: String,
    },
    /// A parameter has a value that does not travel this way.
    #[error("`{name}`: expected no value, since it is `{direction}`, found one")]
    Unexpected {
        /// The parameter.
        name: String,
        /// Its direction.
        direction: &'static str,
    },
    /// A value of another type or size.
    #[error("`{name}`: expected {expected}, found {found}")]
    Type {
        /// The parameter.
        name: String,
        /// Its type, with sizes as numbers.
        expected: String,
        /// What was found.
        found: String,
    },
    /// A size cannot be calculated.
    #[error("`{name}`: {error}")]
    Size {
        /// The parameter.
        name: String,
        /// Why.
        error: SizeError,
    },
    /// A value is larger than any list of values may be.
    #[error("`{name}`: expected at most {VALUES_BYTES_MAX} bytes, found a size of {found}")]
    TooLarge {
        /// The parameter.
        name: String,
        /// Its size in bytes, at most `u64::MAX`.
        found: u64,
    },
    /// The values that go one way are larger than any list of values may be.
    #[error("expected at most {VALUES_BYTES_MAX} bytes of all values that go one way, found {found}")]
    AllTooLarge {
        /// Their size in bytes, at most `u64::MAX`.
        found: u64,
    },
}

impl Signature {
    /// Checks the values of a call: one for each `in` and `inout` parameter, none for the `out` parameters, whose sizes are
    /// checked.
    ///
    /// # Errors
    /// The first value that is not what the signature says.
    pub fn check_arguments(&self, values: &[Option<Value>]) -> Result<(), ValueError> {
        self.check_arguments_but(values, |_| false)
    }

    /// The same, where the values of some parameters are elsewhere: they are not looked for.
    ///
    /// # Errors
    /// The first value that is not what the signature says.
    pub fn check_arguments_but(
        &self,
        values: &[Option<Value>],
        is_elsewhere: impl Fn(&Parameter) -> bool,
    ) -> Result<(), ValueError> {
        self.check(values, values, |parameter| parameter.direction.is_input() && !is_elsewhere(parameter))?;
        self.check_size_of_results(values)
    }

    /// Checks what a service returned for these arguments: one value for each `inout` and `out` parameter, none for the others.
    ///
    /// # Errors
    /// The first value that is not what the signature says.
    pub fn check_results(
        &self,
        arguments: &[Option<Value>],
        results: &[Option<Value>],
    ) -> Result<(), ValueError> {
        self.check(arguments, results, |parameter| parameter.direction.is_output())
    }

    /// The size, where the values of whole-number parameters are those of these arguments.
    ///
    /// # Errors
    /// If a value is missing or below 0, or the size is not below 2^64.
    pub fn evaluate(&self, size: &Size, arguments: &[Option<Value>]) -> Result<u64, SizeError> {
        size.evaluate(|name| arguments.get(self.position(name)?)?.as_ref()?.whole())
    }

    /// The sizes of a parameter in the call with these arguments: none of a scalar or a file, one of a vector or of a string
    /// with a capacity, rows and columns of a matrix.
    ///
    /// # Errors
    /// If a size cannot be calculated, or the value would be too large for any call.
    pub fn sizes(&self, parameter: &Parameter, arguments: &[Option<Value>]) -> Result<Vec<u64>, ValueError> {
        let name = || parameter.name.clone();
        let evaluated = parameter.kind.sizes().map(|size| self.evaluate(size, arguments));
        let sizes: Vec<u64> =
            evaluated.collect::<Result<_, _>>().map_err(|error| ValueError::Size { name: name(), error })?;
        let of = match &parameter.kind {
            ParameterType::Vector { of, .. } | ParameterType::Matrix { of, .. } => of.bytes(),
            _ => 1,
        };
        let bytes = sizes.iter().fold(of, |bytes, size| bytes.saturating_mul(*size));
        match bytes > VALUES_BYTES_MAX as u64 {
            true => Err(ValueError::TooLarge { name: name(), found: bytes }),
            false => Ok(sizes),
        }
    }

    /// Whether what comes back fits into one list, by the sizes in the arguments: a service allocates all of it first.
    fn check_size_of_results(&self, arguments: &[Option<Value>]) -> Result<(), ValueError> {
        let mut all = 0u64;
        for parameter in self.outputs() {
            let of = match &parameter.kind {
                ParameterType::Vector { of, .. } | ParameterType::Matrix { of, .. } => of.bytes(),
                _ => 1,
            };
            let sizes = self.sizes(parameter, arguments)?;
            all = all.saturating_add(sizes.iter().fold(of, |bytes, size| bytes.saturating_mul(*size)));
        }
        match all > VALUES_BYTES_MAX as u64 {
            true => Err(ValueError::AllTooLarge { found: all }),
            false => Ok(()),
        }
    }

    fn check(
        &self,
        arguments: &[Option<Value>],
        values: &[Option<Value>],
        travels: impl Fn(&Parameter) -> bool,
    ) -> Result<(), ValueError> {
        for list in [arguments, values] {
            if list.len() != self.parameters.len() {
                let (expected, found) = (self.parameters.len(), list.len());
                return Err(ValueError::Count { expected, found, signature: self.to_string() });
            }
        }
        for (parameter, value) in self.parameters.iter().zip(values) {
            let sizes = self.sizes(parameter, arguments)?;
            let name = || parameter.name.clone();
            match (value, travels(parameter)) {
                (None, false) => {}
                (None, true) => {
                    return Err(ValueError::Missing { name: name(), expected: parameter.to_string() });
                }
                (Some(_), false) => {
                    let direction = parameter.direction.name();
                    return Err(ValueError::Unexpected { name: name(), direction });
                }
                (Some(value), true) if fits(&parameter.kind, &sizes, value) => {}
                (Some(value), true) => {
                    let (expected, found) = (expected(&parameter.kind, &sizes), found(value));
                    return Err(ValueError::Type { name: name(), expected, found });
                }
            }
        }
        Ok(())
    }
}

fn fits(kind: &ParameterType, sizes: &[u64], value: &Value) -> bool {
    match (kind, value) {
        (ParameterType::Scalar(of), value) => value.scalar() == Some(*of),
        (ParameterType::String { capacity }, Value::String(text)) => {
            // The NUL at its end is one of them.
            let fits = capacity.is_none() || sizes.first().is_some_and(|most| (text.len() as u64) < *most);
            fits && !text.contains('\0')
        }
        (ParameterType::File, Value::File(name)) => !name.is_empty() && !name.contains('\0'),
        (ParameterType::Vector { of, .. }, Value::Vector(elements)) => {
            elements.scalar() == *of && sizes == [elements.len() as u64]
        }
        (ParameterType::Matrix { of, .. }, Value::Matrix { rows, columns, elements }) => {
            let count = rows.checked_mul(*columns);
            elements.scalar() == *of && sizes == [*rows, *columns] && count == Some(elements.len() as u64)
        }
        _ => false,
    }
}

fn expected(kind: &ParameterType, sizes: &[u64]) -> String {
    let brackets: String = sizes.iter().map(|size| format!("[{size}]")).collect();
    match kind {
        ParameterType::Scalar(of) => of.name().to_owned(),
        ParameterType::String { capacity: None } => "a string without NUL".to_owned(),
        ParameterType::String { .. } => {
            format!("a string of fewer than {} bytes without NUL", sizes.first().copied().unwrap_or_default())
        }
        ParameterType::File => "a file".to_owned(),
        ParameterType::Vector { of, .. } | ParameterType::Matrix { of, .. } => {
            format!("{}{brackets}", of.name())
        }
    }
}

fn found(value: &Value) -> String {
    match value {
        Value::String(text) if text.contains('\0') => "a string with NUL".to_owned(),
        Value::File(name) if name.is_empty() => "a file without a name".to_owned(),
        Value::Matrix { elements, .. } => format!("{} of {} elements", value.describe(), elements.len()),
        value => value.describe(),
    }
}
