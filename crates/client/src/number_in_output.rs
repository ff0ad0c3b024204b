//! The number in what an instance or a request wrote.

/// The most bytes of a number in an output.
const NUMBER_BYTES_MAX: usize = 40;

/// The number that an output is or begins with; NaN if there is none.
pub(crate) fn number_in(output: &[u8]) -> f64 {
    let start = output.trim_ascii_start();
    let end = start.iter().position(|byte| byte.is_ascii_whitespace() || b",;".contains(byte));
    let word = &start[..end.unwrap_or(start.len()).min(NUMBER_BYTES_MAX)];
    let number = std::str::from_utf8(word).ok().and_then(|word| word.parse::<f64>().ok());
    number.filter(|number| number.is_finite()).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_has_the_number_that_it_begins_with() {
        for (output, expected) in
            [("3.25\n", Some(3.25)), (" -1e3 s\n", Some(-1000.0)), ("7,8\n", Some(7.0)), ("12;", Some(12.0))]
        {
            assert_eq!(Some(number_in(output.as_bytes())), expected, "{output:?}");
        }
        for output in ["", "\n", "pi is 3", "NaN", "inf", "1.2.3", &"1".repeat(4096)] {
            let found = number_in(output.as_bytes());
            assert!(found.is_nan() || output.len() > 40, "{output:?}: {found}");
        }
    }
}
