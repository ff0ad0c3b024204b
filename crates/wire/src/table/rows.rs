//! The rows of a message, as code.

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
    (@ $purpose:tt fields $pattern:tt $make:tt [$($fields:tt)*] [$($apart:tt)*]
        { $wire:ident <=> () : $type:expr $(, $($rest:tt)*)? } $stack:tt) => {
        $crate::table::rows!(@ $purpose fields
            $pattern $make [$($fields)* [$wire ($type)]] [[($wire) (&())] $($apart)*] { $($($rest)*)? } $stack)
    };
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
        $(#[allow(unused_variables, reason = "it is not in the domain type")]
        let $field = $crate::field::FieldType::decode(&$type, stringify!($field), $field)?;)*
        $($make)+
    }};
    (! (strategy) $pattern:tt [$($make:tt)+] [$([$field:ident ($type:expr)])*] $apart:tt) => {
        $crate::field::message_of(|fields| {
            $(#[allow(unused_variables, reason = "it is not in the domain type")]
            let $field = fields.next(&$type);)*
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

pub(crate) use rows;
