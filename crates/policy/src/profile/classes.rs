//! Half-octave classes of counts and spans: 1, 2, 3, 4, 6, 8, 12, 16, 24, ... A value belongs to the class
//! with the largest corner not above it. Searches and queues keep bounds per class, so that one comparison excludes many
//! sizes.

/// Number of classes: corners up to 3 * 2^20. Larger values fall into the last class. Class 1 is empty.
pub(crate) const CLASSES: usize = 44;

/// The class of `value` (at least 1).
pub(crate) fn class_of(value: i64) -> usize {
    debug_assert!(value >= 1);
    let octave = 63 - (value as u64).leading_zeros() as usize;
    let half = if octave == 0 { 0 } else { ((value >> (octave - 1)) & 1) as usize };
    (2 * octave + half).min(CLASSES - 1)
}

/// The least value of a class.
#[inline]
pub(crate) fn corner(class: usize) -> i64 {
    CORNERS[class]
}

/// Per class its least value.
const CORNERS: [i64; CLASSES] = {
    let mut corners = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        corners[class] = ((2 + (class as i64 & 1)) << (class / 2)) >> 1;
        class += 1;
    }
    corners
};

/// The largest value of a class.
pub(crate) fn largest(class: usize) -> i64 {
    match class {
        0 | 1 => 1,
        class if class == CLASSES - 1 => i64::MAX,
        class => corner(class + 1) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_between_its_corner_and_the_next() {
        for value in (1..5000).chain((1..40).map(|power| 1_i64 << power)) {
            let class = class_of(value);
            assert!(corner(class) <= value && value <= largest(class), "{value} in class {class}");
            assert_ne!(class, 1);
        }
        let corners: Vec<i64> = [0, 2, 3, 4, 5, 6, 7, 8].into_iter().map(corner).collect();
        assert_eq!(corners, [1, 2, 3, 4, 6, 8, 12, 16]);
    }
}
