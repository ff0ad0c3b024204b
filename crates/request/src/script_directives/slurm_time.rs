//! Times as Slurm's `--time` has them: `MIN`, `MIN:S`, `H:MIN:S`, `D-H`, `D-H:MIN` and `D-H:MIN:S` (sbatch(1)).

/// The longest: 10 000 days, as `--time` has it.
const LONGEST_S: u64 = 10_000 * 86_400;

/// What was expected in place of a text that is no such time.
pub(super) fn expected(text: &str) -> String {
    match sum(text) {
        Some(0) => format!("expected a time of 1 second at least, found `{text}`: every job has a limit"),
        Some(_) => format!("expected a time of 10000 days at most, found `{text}`"),
        None if ["INFINITE", "UNLIMITED"].contains(&text.to_uppercase().as_str()) => {
            format!("expected a time, found `{text}`: every job has a limit")
        }
        None => format!("expected MIN, MIN:S, H:MIN:S, D-H, D-H:MIN or D-H:MIN:S, found `{text}`"),
    }
}

/// The seconds of such a time; none if it is no time, no limit at all, or too long.
pub(super) fn seconds(text: &str) -> Option<u64> {
    sum(text).filter(|seconds| (1..=LONGEST_S).contains(seconds))
}

fn sum(text: &str) -> Option<u64> {
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (Some(number(days)?), clock),
        None => (None, text),
    };
    let parts: Vec<u64> = clock.split(':').map(number).collect::<Option<_>>()?;
    let [hours, minutes, seconds] = match (days, &parts[..]) {
        (None, [minutes]) => [0, *minutes, 0],
        (None, [minutes, seconds]) => [0, *minutes, *seconds],
        (Some(_), [hours]) => [*hours, 0, 0],
        (Some(_), [hours, minutes]) => [*hours, *minutes, 0],
        (_, [hours, minutes, seconds]) => [*hours, *minutes, *seconds],
        _ => return None,
    };
    // Numbers of at most nine digits do not overflow.
    Some(days.unwrap_or(0) * 86_400 + hours * 3600 + minutes * 60 + seconds)
}

fn number(digits: &str) -> Option<u64> {
    let is_number = (1..=9).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_of_slurm_is_understood() {
        for (text, expected) in [
            ("30", 1800),
            ("90", 5400),
            ("30:05", 1805),
            ("1:30:00", 5400),
            ("00:00:10", 10),
            ("100:00:00", 360_000),
            ("2-0", 172_800),
            ("1-12", 129_600),
            ("1-12:30", 131_400),
            ("7-00:00:01", 604_801),
            ("10000-0", 864_000_000),
        ] {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn everything_else_is_no_time() {
        for text in [
            "",
            "0",
            "0:00",
            "-1",
            "INFINITE",
            "UNLIMITED",
            "1h",
            "1:2:3:4",
            "1-",
            "-",
            "1-2-3",
            "1-1:1:1:1",
            "1.5",
            "+5",
            "9999999999",
            "10000-1",
            "14400001",
        ] {
            assert_eq!(seconds(text), None, "{text}");
            assert!(expected(text).contains(&format!("found `{text}`")), "{text}");
        }
    }
}
