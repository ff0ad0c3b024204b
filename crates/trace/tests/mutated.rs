//! Logs with bytes changed, lines cut and joined: what the fuzz targets check, for a few thousand inputs.

mod support;

use proptest::prelude::*;
use support::gzip;
use support::invariants::hold;

const SWF: &str = "; Version: 2.2\n; UnixStartTime: 843480031\n; MaxProcs: 100 (a, b)\n; Partition: 1 a\n\
    1 599850 37 4319 8 -1 -1 8 14400 -1 1 1 1 -1 -1 1 -1 -1\n\
    2 599900 0 0 1 -1 -1 1 60 -1 0 2 1 -1 -1 1 -1 -1\n\
    3 599800 -1 90.5 -1 -1 -1 4 60 -1 5 3 1 7 -1 -1 -1 -1 extra\n";
const GWF: &str = "# UnixStartTime: 5\n# MaxProcs: 4\n\
    1 0 -3 10 2 -1 -1 2 20 -1 1 U1 G1 X1 Q1 P1 S1 S2 UNITARY -1 -1 -1 -1 -1 -1 -1 -1 -1 -1\n\
    j2 4 0 10.5 2 -1 -1 -1 -1 -1 1 alice G1 X1 Q1 P1 -1 -1 BoT -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1\n";
/// Pieces that parsers trip over.
const PIECES: [&[u8]; 14] = [
    b"-",
    b"--1",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"1e308",
    b"nan",
    b".",
    b"\0",
    b"\r",
    b"\n;",
    b"\n#",
    b":",
    b"\xff\xfe",
    b" 0 ",
];

/// One change at a position in thousandths of the input.
fn change(bytes: &mut Vec<u8>, (position, kind, value): (usize, u8, u8)) {
    let at = position * bytes.len() / 1_000;
    match kind {
        0 if at < bytes.len() => bytes[at] = value,
        1 => bytes.insert(at, value),
        2 => bytes.truncate(at),
        3 => drop(bytes.drain(at..(at + usize::from(value)).min(bytes.len()))),
        _ => drop(bytes.splice(at..at, PIECES[usize::from(value) % PIECES.len()].iter().copied())),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn logs_hold(changes in prop::collection::vec((0..=1_000_usize, 0..8_u8, any::<u8>()), 1..8), compressed in 0..8_u8) {
        for (name, text) in [("log.swf", SWF), ("log.gwf", GWF)] {
            let mut bytes = text.as_bytes().to_vec();
            if compressed == 0 {
                bytes = gzip(&bytes);
            }
            changes.iter().for_each(|one| change(&mut bytes, *one));
            hold(name, &bytes);
        }
    }

    #[test]
    fn any_bytes_hold(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        hold("log.swf", &bytes);
        hold("log.gwf", &bytes);
    }
}

#[test]
fn the_unchanged_logs_are_readable() {
    for (name, text, kept) in [("log.swf", SWF, 2), ("log.gwf", GWF, 2)] {
        assert_eq!(support::read(name, text.as_bytes(), support::CLEAN).unwrap().report.kept, kept, "{name}");
    }
}
