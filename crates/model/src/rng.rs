//! Named streams of a seed, so that drawing more numbers for one purpose never changes another.
//!
//! This module derives numbers; the generators themselves are handed in by the drivers.

/// The seed of stream `name` under `seed`: FNV-1a over the name, then two rounds of the SplitMix64
/// finaliser. Stable across versions: results depend on it.
pub fn stream_seed(seed: u64, name: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in name.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    mix(mix(seed ^ hash).wrapping_add(hash))
}

/// The SplitMix64 finaliser: a bijection that spreads every input bit over the output.
fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::stream_seed;

    /// Results of published campaigns depend on these numbers.
    #[test]
    fn streams_are_stable_and_apart() {
        let streams = [stream_seed(1, "mapping"), stream_seed(1, "types"), stream_seed(2, "mapping")];
        // Computed from the description by another program.
        let expected =
            [6_667_190_687_325_877_905_u64, 13_079_767_292_795_105_826, 17_463_734_517_194_354_574];
        assert_eq!(streams, expected);
    }
}
