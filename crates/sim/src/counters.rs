//! Adds the counters of runs.

/// Implements `Add` for a type whose fields are all counters, field by field.
macro_rules! add_each {
    ($type:ident { $($counter:ident),+ $(,)? }) => {
        impl std::ops::Add for $type {
            type Output = $type;

            fn add(self, other: $type) -> $type {
                $type { $($counter: self.$counter + other.$counter),+ }
            }
        }
    };
}

pub(crate) use add_each;
