//! Sizes of vectors, matrices and strings: sums of products of whole numbers and scalar parameters.

use std::fmt;

/// A size, as a signature writes it: `16`, `n`, `2*n*m`, `n+1`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Size {
    /// The products, which are added up. Never empty, and none of them is.
    pub(crate) products: Vec<Vec<Factor>>,
}

/// A factor of a size.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Factor {
    /// A whole number.
    Number(u64),
    /// The value of the parameter of that name.
    Parameter(String),
}

/// A size that cannot be calculated.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SizeError {
    /// The parameter has no value.
    #[error("expected a value of `{0}`, found none")]
    Missing(String),
    /// The parameter is below 0.
    #[error("expected `{name}` to be 0 or more, since it is a size, found {found}")]
    Negative {
        /// The parameter.
        name: String,
        /// Its value.
        found: i64,
    },
    /// The size is not below 2^64.
    #[error("expected the size `{0}` to be below 2^64, found more")]
    Overflow(String),
}

impl Size {
    /// A size that is always the same.
    pub fn number(number: u64) -> Size {
        Size { products: vec![vec![Factor::Number(number)]] }
    }

    /// The parameters that it depends on.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        self.products.iter().flatten().filter_map(|factor| match factor {
            Factor::Number(_) => None,
            Factor::Parameter(name) => Some(name.as_str()),
        })
    }

    /// The products, which are added up.
    pub fn products(&self) -> &[Vec<Factor>] {
        &self.products
    }

    /// The size, where `value` is the value of a parameter.
    ///
    /// # Errors
    /// A parameter has no value or one below 0, or the size does not fit.
    pub fn evaluate(&self, value: impl Fn(&str) -> Option<i64>) -> Result<u64, SizeError> {
        let overflow = || SizeError::Overflow(self.to_string());
        let mut sum = 0u64;
        for product in &self.products {
            let mut size = 1u64;
            for factor in product {
                let next = match factor {
                    Factor::Number(number) => *number,
                    Factor::Parameter(name) => {
                        let found = value(name).ok_or_else(|| SizeError::Missing(name.clone()))?;
                        let negative = |_| SizeError::Negative { name: name.clone(), found };
                        u64::try_from(found).map_err(negative)?
                    }
                };
                size = size.checked_mul(next).ok_or_else(overflow)?;
            }
            sum = sum.checked_add(size).ok_or_else(overflow)?;
        }
        Ok(sum)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, product) in self.products.iter().enumerate() {
            f.write_str(if number > 0 { "+" } else { "" })?;
            for (number, factor) in product.iter().enumerate() {
                f.write_str(if number > 0 { "*" } else { "" })?;
                match factor {
                    Factor::Number(number) => write!(f, "{number}")?,
                    Factor::Parameter(name) => f.write_str(name)?,
                }
            }
        }
        Ok(())
    }
}
