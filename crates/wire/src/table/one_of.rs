//! Tables of `oneof`s.

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

pub(crate) use {one_of, variant};
