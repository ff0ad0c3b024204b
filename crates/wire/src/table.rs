//! Messages as tables: one declaration gives both conversions of a message, its bounds and the strategy of its property tests.
//!
//! [`message!`] declares a message with fields, [`one_of!`] a `oneof`, [`enumeration!`] an `enum`. The left side of `<=>` is
//! protobuf's, the right side the domain's. To add a field: the `.proto`, the field of the domain type, and one row.
//!
//! ```text
//! message! {
//!     proto::Order <=> Order {
//!         job: HANDLE,                          // the same name on both sides, of this field type (module `field`)
//!         copy,                                 // the same, and any value: field type `as_is()`
//!         gain_s <=> gain: optional(DIFFERENCE),// the name in the message, the name in the domain type
//!         server: Peer { name: NAME, address: ADDRESS },       // a struct of the domain whose fields are fields of the
//!                                                              // message; also a tuple `(a, b)`, an array `[a, b]`,
//!                                                              // and `Box(Peer { ... })`
//!         launch: join(parts, whole) => (program: PROGRAM, inputs: INPUTS), // several fields of the message in one of the
//!                                       // domain: `parts` makes a tuple of it, `whole` goes back or says what is wrong
//!         published = false,                    // not in the message: this value in the domain type
//!     } => (check: is_whole, fit: made_whole)   // optional: `fn(T) -> Result<T, Malformed>` checks the whole value, and for
//!                                               // property tests `fn(T) -> T` makes drawn values pass the check
//!     proto::Refusal <=> (Name, Reason) (server: NAME, Reason { cause: enumeration(), why: text(99) }) // a tuple
//! }
//!
//! one_of! {
//!     proto::Exit { how: proto::exit::How } <=> Exit {      // a message that is only a `oneof`, its field and prost's enum;
//!                                                           // without `proto::Exit { how: }`, a `oneof` beside other fields,
//!                                                           // which is then of the field type `one_of()`
//!         Code <=> Code(as_is()),                           // a variant with a value
//!         Cancelled(FLAG) <=> Cancelled,                    // without a value: the field type is that of the message
//!         Over(proto::Over) <=> Over { at: TIME, exit: EXIT }, // with a message of its own, whose rows are here;
//!         Servers(proto::Servers) <=> Servers(servers: SERVERS), // also into a tuple
//!     } => (expected: "a code or an end")                // optional: what errors say instead of the names of all variants;
//!                                                       // or `(else: VALUE)`, what no variant means; or `(check: , fit: )`
//! }
//!
//! enumeration! {
//!     proto::Kind <=> ChildKind: "1 (server) or 2 (agent)" { Server, Agent }  // what errors expect; the variants
//!     proto::Cause <=> Cause: else Unknown { NotConnected <=> Absent } // other numbers are no error
//! }
//! ```
//!
//! Fields are checked in the order of the rows. A field that is missing on either side does not compile. A field type that is
//! called like a field of the same message needs its path: `word: field::word(..)`.
//! A conversion that is no table implements [`HasMessage`](super::field::HasMessage) by hand and is listed in [`conversions!`].

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

/// The rows of one message, for one purpose: `(encode value [wire])`, `(decode message [wire])` or `(strategy)`.
///
/// The rows become a pattern that takes the domain value apart, an expression that makes it, and a list of fields: names
/// in the message, which are the names of the bindings, with field types. What stands in a row is moved there one row after
/// the other; rows within rows wait on a stack. The state is
/// `purpose style [pattern] [expression] [fields] [bindings taken apart further] { rows } stack`.
macro_rules! rows {
    ($purpose:tt [$($path:ident)::+ { $($rows:tt)* }]) => {
        $crate::table::rows!(@ $purpose fields [] [] [] [] { $($rows)* } (end [$($path)::+] braces))
    };
    ($purpose:tt [$($path:ident)::+ ( $($rows:tt)* )]) => {
        $crate::table::rows!(@ $purpose items [] [] [] [] { $($rows)* } (end [$($path)::+] parentheses))
    };
    ($purpose:tt [( $($rows:tt)* )]) => {
        $crate::table::rows!(@ $purpose items [] [] [] [] { $($rows)* } (end [] parentheses))
    };

    // All rows are read: of the message, or of rows within rows.
    (@ $purpose:tt $style:ident [$($pattern:tt)*] [$($make:tt)*] $fields:tt $apart:tt {}
        (end [$($path:tt)*] braces)) => {
        $crate::table::rows!(! $purpose [$($path)* { $($pattern)* }] [$($path)* { $($make)* }] $fields $apart)
    };
    (@ $purpose:tt $style:ident [$($pattern:tt)*] [$($make:tt)*] $fields:tt $apart:tt {}
        (end [$($path:tt)*] parentheses)) => {
        $crate::table::rows!(! $purpose [$($path)* ( $($pattern)* )] [$($path)* ( $($make)* )] $fields $apart)
    };
    (@ $purpose:tt $style:ident [$($inner:tt)*] [$($made:tt)*] $fields:tt $apart:tt {}
        (in $outer:ident [$($pattern:tt)*] [$($make:tt)*] { $($rest:tt)* } $stack:tt [$($before:tt)*] braces)) => {
        $crate::table::rows!(@ $purpose $outer
            [$($pattern)* $($before)* { $($inner)* },] [$($make)* $($before)* { $($made)* },]
            $fields $apart { $($rest)* } $stack)
    };
    (@ $purpose:tt $style:ident [$($inner:tt)*] [$($made:tt)*] $fields:tt $apart:tt {}
        (in $outer:ident [$($pattern:tt)*] [$($make:tt)*] { $($rest:tt)* } $stack:tt [$($before:tt)*] parentheses)) => {
        $crate::table::rows!(@ $purpose $outer
            [$($pattern)* $($before)* ( $($inner)* ),] [$($make)* $($before)* ( $($made)* ),]
            $fields $apart { $($rest)* } $stack)
    };
    (@ $purpose:tt $style:ident [$($inner:tt)*] [$($made:tt)*] $fields:tt $apart:tt {}
        (in $outer:ident [$($pattern:tt)*] [$($make:tt)*] { $($rest:tt)* } $stack:tt [$($before:tt)*] brackets)) => {
        $crate::table::rows!(@ $purpose $outer
            [$($pattern)* $($before)* [ $($inner)* ],] [$($make)* $($before)* [ $($made)* ],]
            $fields $apart { $($rest)* } $stack)
    };
    (@ $purpose:tt $style:ident [$($inner:tt)*] [$($made:tt)*] $fields:tt [$($apart:tt)*] {}
        (in $outer:ident [$($pattern:tt)*] [$($make:tt)*] { $($rest:tt)* } $stack:tt $field:ident box $path:ident)) => {
        $crate::table::rows!(@ $purpose $outer
            [$($pattern)* $field: $field,] [$($make)* $field: Box::new($path { $($made)* }),]
            $fields [[($path { $($inner)* }) (&**$field)] $($apart)*] { $($rest)* } $stack)
    };
    (@ $purpose:tt $style:ident [$($inner:tt)*] [$($made:tt)*] $fields:tt [$($apart:tt)*] {}
        (in $outer:ident [$($pattern:tt)*] [$($make:tt)*] { $($rest:tt)* } $stack:tt $field:ident join $split:path, $join:path)) => {
        $crate::table::rows!(@ $purpose $outer
            [$($pattern)* $field: $field,] [$($make)* $field: $join(($($made)*))?,]
            $fields [[(($($inner)*)) (&$split($field))] $($apart)*] { $($rest)* } $stack)
    };

    // A row of a struct.
    (@ $purpose:tt fields [$($pattern:tt)*] [$($make:tt)*] [$($fields:tt)*] $apart:tt
        { $wire:ident <=> $field:ident : $type:expr $(, $($rest:tt)*)? } $stack:tt) => {
        $crate::table::rows!(@ $purpose fields
            [$($pattern)* $field: $wire,] [$($make)* $field: $wire,] [$($fields)* [$wire ($type)]] $apart
            { $($($rest)*)? } $stack)
    };
    (@ $purpose:tt fields [$($pattern:tt)*] [$($make:tt)*] [$($fields:tt)*] $apart:tt
        { $wire:ident <=> $field:ident $(, $($rest:tt)*)? } $stack:tt) => {
        $crate::table::rows!(@ $purpose fields
            [$($pattern)* $field: $wire,] [$($make)* $field: $wire,]
            [$($fields)* [$wire ($crate::field::as_is())]] $apart { $($($rest)*)? } $stack)
    };
    (@ $purpose:tt fields [$($pattern:tt)*] [$($make:tt)*] $fields:tt $apart:tt
        { $field:ident = $value:expr $(, $($rest:tt)*)? } $stack:tt) => {
        $crate::table::rows!(@ $purpose fields
            [$($pattern)* $field: _,] [$($make)* $field: $value,] $fields $apart { $($($rest)*)? } $stack)
    };
    (@ $purpose:tt fields $pattern:tt $make:tt $fields:tt $apart:tt
        { $field:ident : Box($path:ident { $($inner:tt)* }) $(, $($rest:tt)*)? } $stack:tt) => {
        $crate::table::rows!(@ $purpose fields [] [] $fields $apart { $($inner)* }
            (in fields $pattern $make { $($($rest)*)? } $stack $field box $path))
    };
    (@ $purpose:tt fields $pattern:tt $make:tt $fields:tt $apart:tt
        { $field:ident : join($split:path, $join:path) => ($($inner:tt)*) $(, $($rest:tt)*)? } $stack:tt) => {
        $crate::table::rows!(@ $purpose items [] [] $fields $apart { $($inner)* }
            (in fields $pattern $make { $($($rest)*)? } $stack $field join $split, $join))
    };
    (@ $purpose:tt fields $pattern:tt $make:tt $fields:tt $apart:tt
        { $field:ident : $path:ident { $($inner:tt)* } $(, $($rest:tt)*)? } $stack:tt) => {
        $crate::table::rows!(@ $purpose fields [] [] $fields $apart { $($inner)* }
            (in fields $pattern $make { $($($rest)*)? } $stack [$field: $path] braces))
    };
    (@ $purpose:tt fields $pattern:tt $make:tt $fields:tt $apart:tt
        { $field:ident : ($($inner:tt)*) $(, $($rest:tt)*)? } $stack:tt) => {
        $crate::table::rows!(@ $purpose items [] [] $fields $apart { $($inner)* }
            (in fields $pattern $make { $($($rest)*)? } $stack [$field:] parentheses))
    };
    (@ $purpose:tt fields $pattern:tt $make:tt $fields:tt $apart:tt
        { $field:ident : [$($inner:tt)*] $(, $($rest:tt)*)? } $stack:tt) => {
        $crate::table::rows!(@ $purpose items [] [] $fields $apart { $($inner)* }
            (in fields $pattern $make { $($($rest)*)? } $stack [$field:] brackets))
    };
    (@ $purpose:tt fields [$($pattern:tt)*] [$($make:tt)*] [$($fields:tt)*] $apart:tt
        { $field:ident : $type:expr $(, $($rest:tt)*)? } $stack:tt) => {
        $crate::table::rows!(@ $purpose fields
            [$($pattern)* $field: $field,] [$($make)* $field: $field,] [$($fields)* [$field ($type)]] $apart
            { $($($rest)*)? } $stack)
    };
    (@ $purpose:tt fields [$($pattern:tt)*] [$($make:tt)*] [$($fields:tt)*] $apart:tt
        { $field:ident $(, $($rest:tt)*)? } $stack:tt) => {
        $crate::table::rows!(@ $purpose fields
            [$($pattern)* $field: $field,] [$($make)* $field: $field,]
            [$($fields)* [$field ($crate::field::as_is())]] $apart { $($($rest)*)? } $stack)
    };

    // An item of a tuple or an array.
    (@ $purpose:tt items $pattern:tt $make:tt $fields:tt $apart:tt
        { $path:ident { $($inner:tt)* } $(, $($rest:tt)*)? } $stack:tt) => {
        $crate::table::rows!(@ $purpose fields [] [] $fields $apart { $($inner)* }
            (in items $pattern $make { $($($rest)*)? } $stack [$path] braces))
    };
    (@ $purpose:tt items [$($pattern:tt)*] [$($make:tt)*] [$($fields:tt)*] $apart:tt
        { $field:ident : $type:expr $(, $($rest:tt)*)? } $stack:tt) => {
        $crate::table::rows!(@ $purpose items
            [$($pattern)* $field,] [$($make)* $field,] [$($fields)* [$field ($type)]] $apart
            { $($($rest)*)? } $stack)
    };
    (@ $purpose:tt items [$($pattern:tt)*] [$($make:tt)*] [$($fields:tt)*] $apart:tt
        { $field:ident $(, $($rest:tt)*)? } $stack:tt) => {
        $crate::table::rows!(@ $purpose items
            [$($pattern)* $field,] [$($make)* $field,] [$($fields)* [$field ($crate::field::as_is())]] $apart
            { $($($rest)*)? } $stack)
    };

    // The three purposes.
    (! (encode $value:ident [$($wire:tt)+]) [$($pattern:tt)+] $make:tt [$([$field:ident ($type:expr)])*]
        [$([($($part:tt)+) ($whole:expr)])*]) => {{
        #[allow(irrefutable_let_patterns, reason = "only enums have other variants")]
        let $($pattern)+ = $value else { unreachable!("the variant was matched before") };
        $(let $($part)+ = $whole;)*
        $($wire)+ { $($field: $crate::field::FieldType::encode(&$type, $field),)* }
    }};
    (! (decode $message:ident [$($wire:tt)+]) $pattern:tt [$($make:tt)+] [$([$field:ident ($type:expr)])*] $apart:tt) => {{
        let $($wire)+ { $($field),* } = $message;
        $(let $field = $crate::field::FieldType::decode(&$type, stringify!($field), $field)?;)*
        $($make)+
    }};
    (! (strategy) $pattern:tt [$($make:tt)+] [$([$field:ident ($type:expr)])*] $apart:tt) => {
        $crate::field::message_of(|fields| {
            $(let $field = fields.next(&$type);)*
            Ok($($make)+)
        })
    };

    (@ $purpose:tt fields $pattern:tt $make:tt $fields:tt $apart:tt { $($wrong:tt)* } $stack:tt) => {
        compile_error!(concat!(
            "expected a row like `field`, `field: TYPE`, `wire <=> field: TYPE` or `field: Struct { rows }`, found: ",
            stringify!($($wrong)*)
        ))
    };
    (@ $purpose:tt items $pattern:tt $make:tt $fields:tt $apart:tt { $($wrong:tt)* } $stack:tt) => {
        compile_error!(concat!(
            "expected an item like `wire`, `wire: TYPE` or `Struct { rows }`, found: ",
            stringify!($($wrong)*)
        ))
    };
}

/// A `oneof`; the grammar is above.
macro_rules! one_of {
    ($($($wire:ident)::+ $({ $oneof:ident : $($variants:ident)::+ })? <=> $type:ident { $($rows:tt)+ } $(=> $options:tt)?)+) => {$(
        $crate::table::one_of!(@ [$($wire)::+] [$($oneof $($variants)::+)?] $type { $($rows)+ } $($options)?);
    )+};
    (@ [$($message:tt)+] [$oneof:ident $($wire:tt)+] $type:ident $rows:tt $($options:tt)?) => {
        $crate::table::one_of!(@ [$($wire)+] [] $type $rows $($options)?);

        impl $crate::field::HasMessage for $type {
            type Message = $($message)+;

            fn to_message(&self) -> $($message)+ {
                $($message)+ { $oneof: Some($crate::field::OneOf::to_variant(self)) }
            }

            fn from_message(message: $($message)+) -> Result<Self, $crate::Malformed> {
                message.$oneof.map_or_else(
                    <$type as $crate::field::OneOf<$($wire)+>>::absent,
                    $crate::field::OneOf::from_variant,
                )
            }

            #[cfg(test)]
            fn strategy() -> proptest::strategy::BoxedStrategy<Self> {
                <$type as $crate::field::OneOf<$($wire)+>>::strategy()
            }
        }

        $crate::table::conversions!($($message)+ <=> $type;);
    };
    (@ [$($wire:tt)+] [] $type:ident {
        $($variant:ident $(($($payload:tt)*))? <=> $domain:ident $(($($items:tt)*))? $({ $($rows:tt)* })?),+ $(,)?
    } $($options:tt)?) => {
        impl $crate::field::OneOf<$($wire)+> for $type {
            fn to_variant(&self) -> $($wire)+ {
                type Wire = $($wire)+;
                match self {$(
                    $type::$domain { .. } => Wire::$variant($crate::table::variant!(
                        encode self [$type::$domain] [$($($payload)*)?] $(($($items)*))? $({ $($rows)* })?
                    )),
                )+}
            }

            fn from_variant(variant: $($wire)+) -> Result<Self, $crate::Malformed> {
                type Wire = $($wire)+;
                let within = |variant, malformed: $crate::Malformed| {
                    malformed.under(&$crate::table::field_name(variant))
                };
                let value = match variant {$(
                    Wire::$variant(payload) => {
                        let value = || -> Result<Self, $crate::Malformed> {
                            Ok($crate::table::variant!(
                                decode payload [$type::$domain] [$($($payload)*)?] $(($($items)*))? $({ $($rows)* })?
                            ))
                        };
                        value().map_err(|malformed| within(stringify!($variant), malformed))?
                    }
                )+};
                $crate::table::one_of!(check value $($options)?)
            }

            fn absent() -> Result<Self, $crate::Malformed> {
                $crate::table::one_of!(absent [$(stringify!($variant)),+] $($options)?)
            }

            #[cfg(test)]
            fn strategy() -> proptest::strategy::BoxedStrategy<Self> {
                use proptest::strategy::Strategy as _;
                let variants = proptest::strategy::Union::new([$(
                    $crate::table::variant!(
                        strategy [$type::$domain] [$($($payload)*)?] $(($($items)*))? $({ $($rows)* })?
                    ).boxed(),
                )+]);
                $crate::table::one_of!(fit variants $($options)?).boxed()
            }
        }
    };
    (check $value:ident (check: $check:path, fit: $fit:path)) => { $check($value) };
    (check $value:ident $($options:tt)?) => { Ok($value) };
    (fit $values:ident (check: $check:path, fit: $fit:path)) => { $values.prop_map($fit) };
    (fit $values:ident $($options:tt)?) => { $values };
    (absent $variants:tt (else: $absent:expr)) => { Ok($absent) };
    (absent $variants:tt (expected: $expected:literal)) => { Err($crate::Malformed::missing("", $expected)) };
    (absent $variants:tt $($options:tt)?) => {
        Err($crate::Malformed::missing("", $crate::table::alternatives(&$variants)))
    };
    ($($wrong:tt)*) => {
        compile_error!(concat!(
            "expected `proto::Message { field: proto::message::Oneof } <=> Type { Variant <=> Variant(TYPE) }`, found: ",
            stringify!($($wrong)*)
        ));
    };
}

/// One variant of a `oneof`, for one purpose.
macro_rules! variant {
    // Without a value: the field type is that of the message.
    (encode $value:ident [$($domain:tt)+] [$type:expr]) => { $crate::field::FieldType::encode(&$type, &()) };
    (decode $payload:ident [$($domain:tt)+] [$type:expr]) => {{
        $crate::field::FieldType::decode(&$type, "", $payload)?;
        $($domain)+
    }};
    (strategy [$($domain:tt)+] [$type:expr]) => { proptest::strategy::Just($($domain)+) };
    // With a value.
    (encode $value:ident [$($domain:tt)+] [] ($type:expr)) => {{
        let $($domain)+(value) = $value else { unreachable!("the variant was matched before") };
        $crate::field::FieldType::encode(&$type, value)
    }};
    (decode $payload:ident [$($domain:tt)+] [] ($type:expr)) => {
        $($domain)+($crate::field::FieldType::decode(&$type, "", $payload)?)
    };
    (strategy [$($domain:tt)+] [] ($type:expr)) => {
        $crate::field::FieldType::strategy(&$type).prop_map($($domain)+)
    };
    // With a message of its own.
    (encode $value:ident [$($domain:tt)+] [$($wire:ident)::+] $shape:tt) => {
        $crate::table::rows!((encode $value [$($wire)::+]) [$($domain)+ $shape])
    };
    (decode $payload:ident [$($domain:tt)+] [$($wire:ident)::+] $shape:tt) => {
        $crate::table::rows!((decode $payload [$($wire)::+]) [$($domain)+ $shape])
    };
    (strategy [$($domain:tt)+] [$($wire:ident)::+] $shape:tt) => {
        $crate::table::rows!((strategy) [$($domain)+ $shape])
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

/// The name of the field that a variant of prost's stands for: `NotStarted` is `not_started`.
pub(crate) fn field_name(variant: &str) -> String {
    let mut name = String::with_capacity(variant.len() + 2);
    for letter in variant.chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// The fields of a `oneof`, as an error lists what it expected: `code, signal or lost`.
pub(crate) fn alternatives(variants: &[&str]) -> String {
    let names: Vec<String> = variants.iter().map(|variant| field_name(variant)).collect();
    match names.as_slice() {
        [] => String::new(),
        [name] => name.clone(),
        [names @ .., last] => format!("{} or {last}", names.join(", ")),
    }
}

pub(crate) use {conversions, domain_variant, enumeration, message, one_of, rows, variant};
