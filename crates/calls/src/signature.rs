//! The parameters of a service.

use std::fmt;

use crate::size::Size;

/// The most parameters of a service.
pub const PARAMETERS_MAX: usize = 64;

/// The most floating-point numbers that go to a C function by value.
pub const C_FLOATS_MAX: usize = 8;
/// The most other arguments of a C function.
pub const C_WORDS_MAX: usize = 32;

/// The parameters of a service, in the order of a call. Parsed from and written as text:
/// `in int n, in double a[n][n], out double b[n]`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Signature {
    pub(crate) parameters: Vec<Parameter>,
}

/// A parameter of a service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// Its name: lower-case letters, digits and `_`, beginning with a letter.
    pub name: String,
    /// Which way its value goes.
    pub direction: Direction,
    /// What its value is.
    pub kind: ParameterType,
}

/// Which way the value of a parameter goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// To the service.
    In,
    /// To the service and back.
    InOut,
    /// Back from the service.
    Out,
}

/// The type of a parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ParameterType {
    /// One number: `int n`.
    Scalar(ScalarType),
    /// A text without NUL, in UTF-8: `string name`. With a capacity, `string text[80]`, it has at most so many bytes, the
    /// NUL at its end in C included; one that comes back (`inout`, `out`) always has a capacity.
    String {
        /// Its capacity in bytes.
        capacity: Option<Size>,
    },
    /// A file: `file data`.
    File,
    /// A vector: `double v[n]`.
    Vector {
        /// The type of its elements.
        of: ScalarType,
        /// How many there are.
        length: Size,
    },
    /// A matrix, row by row: `double a[n][m]` has `n` rows of `m` elements.
    Matrix {
        /// The type of its elements.
        of: ScalarType,
        /// How many rows it has.
        rows: Size,
        /// How many elements each row has.
        columns: Size,
    },
}

/// The type of a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScalarType {
    /// `char`: a byte without sign.
    Char,
    /// `int`: 32 bits with sign.
    Int,
    /// `long`: 64 bits with sign.
    Long,
    /// `float`: IEEE 754, 32 bits.
    Float,
    /// `double`: IEEE 754, 64 bits.
    Double,
}

impl Signature {
    /// The parameters, in the order of a call.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The place of the parameter of that name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.parameters.iter().position(|parameter| parameter.name == name)
    }

    /// How many arguments a C function has: pointers and whole numbers, and floating-point numbers by value.
    pub fn c_arguments(&self) -> (usize, usize) {
        let floats = self.parameters.iter().filter(|parameter| parameter.is_float_by_value()).count();
        (self.parameters.len() - floats, floats)
    }

    /// The parameters whose value goes to the service.
    pub fn inputs(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter().filter(|parameter| parameter.direction.is_input())
    }

    /// The parameters whose value comes back.
    pub fn outputs(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter().filter(|parameter| parameter.direction.is_output())
    }
}

impl Parameter {
    /// Whether a C function gets it as a floating-point number by value.
    pub fn is_float_by_value(&self) -> bool {
        let is_float = matches!(self.kind, ParameterType::Scalar(scalar) if !scalar.is_whole());
        is_float && self.direction == Direction::In
    }
}

impl Direction {
    /// All directions, in the order of their documentation.
    pub const ALL: [Direction; 3] = [Direction::In, Direction::InOut, Direction::Out];

    /// True if the value goes to the service.
    pub fn is_input(self) -> bool {
        self != Direction::Out
    }

    /// True if the value comes back.
    pub fn is_output(self) -> bool {
        self != Direction::In
    }

    /// The word of a signature.
    pub fn name(self) -> &'static str {
        match self {
            Direction::In => "in",
            Direction::InOut => "inout",
            Direction::Out => "out",
        }
    }
}

impl ScalarType {
    /// All types of numbers, in the order of their documentation.
    pub const ALL: [ScalarType; 5] =
        [ScalarType::Char, ScalarType::Int, ScalarType::Long, ScalarType::Float, ScalarType::Double];

    /// The word of a signature.
    pub fn name(self) -> &'static str {
        match self {
            ScalarType::Char => "char",
            ScalarType::Int => "int",
            ScalarType::Long => "long",
            ScalarType::Float => "float",
            ScalarType::Double => "double",
        }
    }

    /// Bytes of one number.
    pub fn bytes(self) -> u64 {
        match self {
            ScalarType::Char => 1,
            ScalarType::Int | ScalarType::Float => 4,
            ScalarType::Long | ScalarType::Double => 8,
        }
    }

    /// True if it is a whole number.
    pub fn is_whole(self) -> bool {
        !matches!(self, ScalarType::Float | ScalarType::Double)
    }
}

impl ParameterType {
    /// True if a value of the type can stay at a server as data of later calls: numbers are what a call is planned by, and files and strings
    /// without a capacity have no size that is known before.
    pub fn can_stay(&self) -> bool {
        match self {
            ParameterType::Vector { .. }
            | ParameterType::Matrix { .. }
            | ParameterType::String { capacity: Some(_) } => true,
            ParameterType::String { capacity: None } | ParameterType::Scalar(_) | ParameterType::File => {
                false
            }
        }
    }

    /// The sizes in it, in the order in which they are written.
    pub fn sizes(&self) -> impl Iterator<Item = &Size> {
        let (first, second) = match self {
            ParameterType::Scalar(_) | ParameterType::File => (None, None),
            ParameterType::String { capacity } => (capacity.as_ref(), None),
            ParameterType::Vector { length, .. } => (Some(length), None),
            ParameterType::Matrix { rows, columns, .. } => (Some(rows), Some(columns)),
        };
        first.into_iter().chain(second)
    }

    fn word(&self) -> &'static str {
        match self {
            ParameterType::Scalar(of)
            | ParameterType::Vector { of, .. }
            | ParameterType::Matrix { of, .. } => of.name(),
            ParameterType::String { .. } => "string",
            ParameterType::File => "file",
        }
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.direction.name(), self.kind.word(), self.name)?;
        self.kind.sizes().try_for_each(|size| write!(f, "[{size}]"))
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, parameter) in self.parameters.iter().enumerate() {
            f.write_str(if number > 0 { ", " } else { "" })?;
            parameter.fmt(f)?;
        }
        Ok(())
    }
}
