//! Logarithms that have the same bits everywhere: one bit of the result after the other, in integers.

/// Bits behind the point.
const BITS: u32 = 40;

/// The logarithm of `value` to base 2, rounded down to a multiple of 2^-40; that of 0 counts as that of 1.
///
/// Squaring the mantissa doubles its logarithm: whenever the square reaches 2, the next bit is a one. O(40).
pub(super) fn log2(value: u64) -> f64 {
    let value = value.max(1);
    let exponent = value.ilog2();
    // In [1, 2), with 63 bits behind the point.
    let mut mantissa = value << (63 - exponent);
    let mut result = u64::from(exponent);
    for _ in 0..BITS {
        let square = (u128::from(mantissa) * u128::from(mantissa)) >> 63;
        let carries = square >> 64 != 0;
        result = result << 1 | u64::from(carries);
        mantissa = (if carries { square >> 1 } else { square }) as u64;
    }
    // Fewer than 53 bits: exact.
    result as f64 / (1_u64 << BITS) as f64
}

/// The logarithm of `value` to base 10.
pub(super) fn log10(value: u64) -> f64 {
    log2(value) * std::f64::consts::LOG10_2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn powers_of_two_are_exact() {
        let check = |value: u64, expected: f64| assert_eq!(log2(value), expected, "log2({value})");
        check(0, 0.0);
        check(1, 0.0);
        check(2, 1.0);
        check(1 << 40, 40.0);
        check(1 << 63, 63.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Compared with the system's logarithm, which is good to its last bits.
        #[test]
        fn equals_the_logarithm(value in prop_oneof![1..100_000_u64, 1..=u64::MAX]) {
            let error = (value as f64).log2() - log2(value);
            prop_assert!((-1e-14..1e-12).contains(&error), "log2({value}) is off by {error}");
            prop_assert!((log10(value) - (value as f64).log10()).abs() < 1e-12);
        }

        #[test]
        fn never_falls(value in 1..u64::MAX) {
            prop_assert!(log2(value) <= log2(value + 1));
        }
    }
}
