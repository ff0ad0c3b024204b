//! Columns of integers as text: variable-length bytes (seven bits each, least first) in base64. Sorted
//! columns are packed as differences; a job takes about 14 bytes this way, before base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Integers packed one after another.
#[derive(Default)]
pub(super) struct Packed(Vec<u8>);

impl Packed {
    /// Appends a number.
    pub(super) fn push(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    /// Appends a number that may be negative: 0, -1, 1, -2 become 0, 1, 2, 3.
    pub(super) fn push_signed(&mut self, number: i64) {
        self.push(((number << 1) ^ (number >> 63)) as u64);
    }

    /// As text.
    pub(super) fn text(&self) -> String {
        STANDARD.encode(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_seven_bits_least_first() {
        let mut packed = Packed::default();
        for number in [0, 127, 128, 300] {
            packed.push(number);
        }
        packed.push_signed(-1);
        packed.push_signed(1);
        assert_eq!(packed.0, [0, 0x7f, 0x80, 1, 0xac, 2, 1, 2]);
        assert_eq!(packed.text(), "AH+AAawCAQI=");
    }
}
