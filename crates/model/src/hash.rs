//! A hash that is the same in every process and release: results, journals and snapshots depend on it.

/// FNV-1a of 64 bits (draft-eastlake-fnv). It finds changes by accident, not by intent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> u64 {
        Fnv::default().with(bytes).value()
    }

    /// With these bytes behind the others.
    #[must_use]
    pub fn with(self, bytes: &[u8]) -> Fnv {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        Fnv(bytes.iter().fold(self.0, step))
    }

    /// The hash of all bytes.
    pub fn value(self) -> u64 {
        self.0
    }
}

impl std::io::Write for Fnv {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        *self = self.with(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test vectors of the hash's authors.
    #[test]
    fn known_hashes() {
        let check = |text: &str, expected: u64| assert_eq!(Fnv::of(text.as_bytes()), expected, "{text}");
        check("", 0xcbf2_9ce4_8422_2325);
        check("a", 0xaf63_dc4c_8601_ec8c);
        check("foobar", 0x8594_4171_f739_67e8);
        assert_eq!(Fnv::default().with(b"foo").with(b"bar").value(), Fnv::of(b"foobar"));
    }
}
