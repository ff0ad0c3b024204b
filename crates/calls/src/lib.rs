//! Typed services: the signature of a service, the values of a call, and their bytes.
//!
//! - [`Signature`]: ordered parameters, each `in`, `inout` or `out`, with a type. The sizes of vectors and matrices are
//!   [`Size`] expressions of other parameters, as in the interface descriptions of Ninf-G.
//! - [`Value`]: what a parameter carries in one call. [`Signature::check_arguments`] and [`Signature::check_results`]
//!   compare values with a signature.
//! - [`Signature::parse_arguments`] and [`Value::to_text`]: values as the text that people type and read.
//! - [`encode`] and [`decode`]: one binary encoding of a list of values, for arguments and results alike.
//! - [`frame`]: how a resident process receives calls and answers them.
//!
//! ```
//! use pliant_calls::{Array, Signature, Value};
//!
//! let signature: Signature = "in int n, in double a[n][n], out double sum".parse().unwrap();
//! let matrix = Value::Matrix { rows: 2, columns: 2, elements: Array::Double(vec![1.0, 2.0, 3.0, 4.0]) };
//! let arguments = [Some(Value::Int(2)), Some(matrix), None];
//! signature.check_arguments(&arguments).unwrap();
//! let bytes = pliant_calls::encode(&arguments).unwrap();
//! assert_eq!(pliant_calls::decode(&bytes).unwrap(), arguments);
//! ```
//!
//! The crate reads no file and no clock, and does not allocate more than a message that it reads is long.

mod check;
mod encoding;
pub mod frame;
mod parse;
mod signature;
mod size;
mod text;
mod value;

pub use check::ValueError;
pub use encoding::{ENCODING_VERSION, EncodingError, VALUES_BYTES_MAX, decode, encode};
pub use parse::SignatureError;
pub use signature::{
    C_FLOATS_MAX, C_WORDS_MAX, Direction, PARAMETERS_MAX, Parameter, ParameterType, ScalarType, Signature,
};
pub use size::{Factor, Size, SizeError};
pub use text::TextError;
pub use value::{Array, Value};
