//! Messages as tables: one declaration gives both conversions of a message, its bounds and the strategy of its property tests.
//!
//! [`message!`] declares a message with fields, [`one_of!`] a `oneof`, [`enumeration!`] an `enum`. The left side of `<=>` is
//! protobuf's, the right side the domain's. To add a field: the `.proto`, the field of the domain type, and one row.
//!
//! ```text
//! message! {
//!     proto::MoveProposal <=> MoveProposal {
//!         job: HANDLE,                             the same name on both sides, and the field type (module `field`)
//!         sibling,                                 the same name, any value: short for `sibling: as_is()`
//!         gain_s <=> gain: optional(DIFFERENCE),   the name in the message, the name in the domain type
//!         published = false,                       only in the domain type, which gets this value
//!         submitted <=> (): empty::<i64>(),        only in the message
//!
//!         server: Peer { name: NAME, address: ADDRESS },
//!             Fields of the message that are in a struct of the domain type. Also in a tuple `(one: NAME, other: NAME)`,
//!             an array `[one, other]`, or on the heap `Box(Peer { ... })`.
//!
//!         launch: join(parts, whole) => (program: PROGRAM, inputs: INPUTS),
//!             Several fields of the message that are one of the domain type. `fn parts(&V) -> (A, B)` takes it apart,
//!             `fn whole((A, B)) -> Result<V, Malformed>` puts it together.
//!     } => (check: is_whole, fit: made_whole)
//!         Optional. `fn is_whole(T) -> Result<T, Malformed>` checks the whole value. `fn made_whole(T) -> T` changes the
//!         values that property tests draw, so that they pass the check.
//!
//!     proto::Refusal <=> (Name, Reason) (server: NAME, Reason { cause: enumeration(), why: TEXT })
//!         The domain type may be a tuple.
//! }
//!
//! message! {
//!     /// Which runs are wanted.
//!     #[derive(Clone, Debug)]
//!     proto::LocalsRequest <=> pub struct LocalJobsQuery {
//!         With `pub struct` the table declares the domain type, too. The rows then have the Rust types of its fields,
//!         which are public.
//!
//!         /// How many.
//!         limit: u32,
//!         /// Those that ended at this time or later.
//!         since_s <=> since: Time = TIME,
//!     }
//! }
//!
//! one_of! {
//!     proto::Exit { how: proto::exit::How } <=> Exit {
//!         A message with nothing but the `oneof` called `how`. A `oneof` beside other fields is `proto::exit::How <=> Exit`,
//!         and its row in the message has the field type `one_of()`.
//!
//!         Code <=> Code(as_is()),                                a variant with a value
//!         Cancelled(FLAG) <=> Cancelled,                         without one: the field type of what stands in the message
//!         Over(proto::Over) <=> Over { at: TIME, exit: EXIT },   with a message of its own, whose rows are here
//!         Servers(proto::Servers) <=> Servers(servers: SERVERS), the same, as a tuple
//!     } => (expected: "a code or an end")
//!         Optional: what errors expect, instead of the names of all variants. Or `(else: VALUE)`, what a message without a
//!         known variant means. Or `(check: ..., fit: ...)`, as above.
//! }
//!
//! enumeration! {
//!     proto::hello::Kind <=> ChildKind: "1 (server) or 2 (agent)" { Server, Agent }       what errors expect; the variants
//!     proto::Cause <=> Cause: else Unknown { TooLarge, Silent <=> NoAnswer }              other numbers mean `Unknown`
//! }
//! ```
//!
//! Fields are checked in the order of the rows. A field that has no row does not compile: `missing field`. A field type that has
//! the name of a field of the same message needs its path: `word: field::word(..)`.
//! A conversion that is no table implements [`HasMessage`](super::field::HasMessage) by hand and is listed in [`conversions!`].

mod one_of;
mod rows;

pub(crate) use one_of::{alternatives, field_name, one_of, variant};
pub(crate) use rows::rows;

/// `From` and `TryFrom` for types that have a message.
macro_rules! conversions {
    ($($($wire:ident)::+ <=> $type:ty;)+) => {$(
        impl From<&$type> for $($wire)::+ {
            fn from(value: &$type) -> Self {
                $crate::field::HasMessage::to_message(value)
            }
        }

        impl TryFrom<$($wire)::+> for $type {
            type Error = $crate::Malformed;
            fn try_from(message: $($wire)::+) -> Result<Self, $crate::Malformed> {
                $crate::field::HasMessage::from_message(message)
            }
        }
    )+};
}

/// Messages with fields; the grammar is above.
macro_rules! message {
    ($($(#[$meta:meta])* $($wire:ident)::+ <=> pub struct $type:ident { $($rows:tt)* } $(=> $options:tt)?)+) => {$(
        $crate::table::declare!([$(#[$meta])*] [$($wire)::+] $type [$($options)?] [] [] $($rows)*);
    )+};
    ($($($wire:ident)::+ <=> $type:tt $shape:tt $(=> $options:tt)?)+) => {$(
        $crate::table::message!(@ [$($wire)::+] $type $shape $($options)?);
    )+};
    (@ [$($wire:tt)+] ($($type:tt)+) ($($rows:tt)*)) => {
        $crate::table::message!(! [$($wire)+] [($($type)+)] [($($rows)*)] [] []);
    };
    (@ [$($wire:tt)+] $type:ident ($($rows:tt)*)) => {
        $crate::table::message!(! [$($wire)+] [$type] [$type ($($rows)*)] [] []);
    };
    (@ [$($wire:tt)+] $type:ident {$($rows:tt)*}) => {
        $crate::table::message!(! [$($wire)+] [$type] [$type {$($rows)*}] [] []);
    };
    (@ [$($wire:tt)+] $type:ident {$($rows:tt)*} (check: $check:path)) => {
        $crate::table::message!(! [$($wire)+] [$type] [$type {$($rows)*}] [$check]
            [|drawn| $check(drawn).expect("drawn values are right")]);
    };
    (@ [$($wire:tt)+] $type:ident {$($rows:tt)*} (check: $check:path, fit: $fit:path)) => {
        $crate::table::message!(! [$($wire)+] [$type] [$type {$($rows)*}] [$check] [$fit]);
    };
    (! [$($wire:tt)+] [$type:ty] $shape:tt [$($check:path)?] [$($fit:expr)?]) => {
        impl $crate::field::HasMessage for $type {
            type Message = $($wire)+;

            fn to_message(&self) -> $($wire)+ {
                $crate::table::rows!((encode self [$($wire)+]) $shape)
            }

            fn from_message(message: $($wire)+) -> Result<Self, $crate::Malformed> {
                let value = $crate::table::rows!((decode message [$($wire)+]) $shape);
                $(let value = $check(value)?;)?
                Ok(value)
            }

            #[cfg(test)]
            fn strategy() -> proptest::strategy::BoxedStrategy<Self> {
                use proptest::strategy::Strategy as _;
                $crate::table::rows!((strategy) $shape)$(.prop_map($fit))?.boxed()
            }
        }

        $crate::table::conversions!($($wire)+ <=> $type;);
    };
    ($($wrong:tt)*) => {
        compile_error!(concat!(
            "expected `proto::Message <=> Type { rows }` or `proto::Message <=> (A, B) (rows)`, found: ",
            stringify!($($wrong)*)
        ));
    };
}

/// The domain type of a message and its table, from rows that also say the types of the fields. The state is
/// `[attributes] [wire] Type [options] [fields of the type] [rows of the table] rows`.
macro_rules! declare {
    ([$($meta:tt)*] [$($wire:tt)+] $type:ident [$($options:tt)?] [$($fields:tt)*] [$($table:tt)*]) => {
        $($meta)*
        pub struct $type { $($fields)* }

        $crate::table::message! { $($wire)+ <=> $type { $($table)* } $(=> $options)? }
    };
    ($meta:tt $wire:tt $type:ident $options:tt [$($fields:tt)*] [$($table:tt)*]
        $(#[$doc:meta])* $name:ident <=> $field:ident : $value:ty = $kind:expr $(, $($rest:tt)*)?) => {
        $crate::table::declare!($meta $wire $type $options [$($fields)* $(#[$doc])* pub $field: $value,]
            [$($table)* $name <=> $field: $kind,] $($($rest)*)?);
    };
    ($meta:tt $wire:tt $type:ident $options:tt [$($fields:tt)*] [$($table:tt)*]
        $(#[$doc:meta])* $field:ident : $value:ident = $path:ident { $($inner:tt)* } $(, $($rest:tt)*)?) => {
        $crate::table::declare!($meta $wire $type $options [$($fields)* $(#[$doc])* pub $field: $value,]
            [$($table)* $field: $path { $($inner)* },] $($($rest)*)?);
    };
    ($meta:tt $wire:tt $type:ident $options:tt [$($fields:tt)*] [$($table:tt)*]
        $(#[$doc:meta])* $field:ident : $value:ty = $kind:expr $(, $($rest:tt)*)?) => {
        $crate::table::declare!($meta $wire $type $options [$($fields)* $(#[$doc])* pub $field: $value,]
            [$($table)* $field: $kind,] $($($rest)*)?);
    };
    ($meta:tt $wire:tt $type:ident $options:tt [$($fields:tt)*] [$($table:tt)*]
        $(#[$doc:meta])* $field:ident : $value:ty $(, $($rest:tt)*)?) => {
        $crate::table::declare!($meta $wire $type $options [$($fields)* $(#[$doc])* pub $field: $value,]
            [$($table)* $field,] $($($rest)*)?);
    };
    ($meta:tt $wire:tt $type:ident $options:tt $fields:tt $table:tt $($wrong:tt)+) => {
        compile_error!(concat!(
            "expected a row like `field: RustType`, `field: RustType = TYPE` or `wire <=> field: RustType = TYPE`, found: ",
            stringify!($($wrong)+)
        ));
    };
}

/// An `enum`; the grammar is above.
macro_rules! enumeration {
    ($($($wire:ident)::+ <=> $type:ident: $($expected:literal)? $(else $absent:ident)? {
        $($variant:ident $(<=> $domain:ident)?),+ $(,)?
    })+) => {$(
        impl $crate::field::Enumeration for $type {
            fn to_number(self) -> i32 {
                type Wire = $($wire)::+;
                match self {
                    $($crate::table::domain_variant!($type $variant $($domain)?) => Wire::$variant.into(),)+
                }
            }

            fn from_number(field: &str, number: i32) -> Result<Self, $crate::Malformed> {
                type Wire = $($wire)::+;
                match Wire::try_from(number) {
                    $(Ok(Wire::$variant) => Ok($crate::table::domain_variant!($type $variant $($domain)?)),)+
                    _ => $crate::table::enumeration!(@absent field number $($expected)? $($type::$absent)?),
                }
            }

            #[cfg(test)]
            fn strategy() -> proptest::strategy::BoxedStrategy<Self> {
                let all = vec![$($crate::table::domain_variant!($type $variant $($domain)?)),+];
                proptest::strategy::Strategy::boxed(proptest::sample::select(all))
            }
        }
    )+};
    (@absent $field:ident $number:ident $expected:literal) => {
        Err($crate::Malformed::new($field, $expected, $number))
    };
    (@absent $field:ident $number:ident $absent:path) => {{
        let _ = $field;
        Ok($absent)
    }};
}

/// The variant of a domain type, which has the name of prost's unless the table says another.
macro_rules! domain_variant {
    ($type:ident $variant:ident) => {
        $type::$variant
    };
    ($type:ident $variant:ident $domain:ident) => {
        $type::$domain
    };
}

pub(crate) use {conversions, declare, domain_variant, enumeration, message};
