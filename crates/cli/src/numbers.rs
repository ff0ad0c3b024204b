//! Options that take a whole number within limits: anything else is refused with the limits.

use std::fmt::Display;
use std::ops::RangeInclusive;

/// Reads a whole number of `range`.
pub(crate) fn whole<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync
where
    T: TryFrom<i128> + PartialOrd + Display + Clone + Send + Sync,
{
    move |text| {
        let number = text.parse::<i128>().ok().and_then(|number| T::try_from(number).ok());
        number.filter(|number| range.contains(number)).ok_or_else(|| {
            format!("expected a whole number from {} to {}, found `{text}`", range.start(), range.end())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_part_of_the_range_and_of_the_message() {
        let read = whole(1..=20_u32);
        assert_eq!(["1", "20", "+7"].map(|text| read(text).unwrap()), [1, 20, 7]);
        for text in ["0", "21", "-3", "1.5", "", "x", "99999999999999999999999999999999999999999"] {
            let expected = format!("expected a whole number from 1 to 20, found `{text}`");
            assert_eq!(read(text).unwrap_err(), expected);
        }
    }
}
