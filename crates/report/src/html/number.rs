//! Numbers as people read them: thousands apart, times in the unit that fits.

/// A count with its thousands apart.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count of things: `1 job`, `2,000 jobs`.
pub(crate) fn counted(number: u64, thing: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {thing}{ending}", count(number))
}

/// A unit of time and how many seconds it has.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct TimeUnit(&'static str, f64);

impl TimeUnit {
    /// The unit in which a time reads best.
    pub(super) fn of(seconds: f64) -> TimeUnit {
        match seconds.abs() {
            size if size < 600.0 => TimeUnit("s", 1.0),
            size if size < 2.0 * 3600.0 => TimeUnit("min", 60.0),
            size if size < 3.0 * 86_400.0 => TimeUnit("h", 3600.0),
            _ => TimeUnit("d", 86_400.0),
        }
    }

    /// A time in this unit.
    pub(super) fn text(self, seconds: f64) -> String {
        format!("{} {}", decimals(seconds / self.1), self.0)
    }
}

/// Seconds in the unit that fits: `45 s`, `12.5 min`, `3.2 h`, `41.7 d`.
pub(super) fn duration(seconds: f64) -> String {
    TimeUnit::of(seconds).text(seconds)
}

/// A column of times, all in the unit that fits the largest, so that they compare at a glance.
pub(super) fn durations(seconds: impl IntoIterator<Item = f64>) -> Vec<String> {
    let seconds: Vec<f64> = seconds.into_iter().collect();
    let unit = TimeUnit::of(seconds.iter().fold(0.0, |most, value| f64::max(most, value.abs())));
    seconds.into_iter().map(|value| unit.text(value)).collect()
}

/// A number with the decimals that its size deserves.
pub(super) fn decimals(number: f64) -> String {
    let size = number.abs();
    if size >= 1000.0 {
        let sign = if number < 0.0 { "-" } else { "" };
        format!("{sign}{}", count(size.round() as u64))
    } else if size >= 100.0 {
        format!("{number:.0}")
    } else if size >= 10.0 {
        format!("{number:.1}")
    } else if number == 0.0 {
        "0".to_owned()
    } else {
        format!("{number:.2}")
    }
}

/// A number of that many decimals; what rounds to 0 has no sign.
pub(super) fn fixed(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$}");
    let nothing = text.bytes().all(|letter| matches!(letter, b'-' | b'0' | b'.'));
    if nothing { text.replace('-', "") } else { text }
}

/// A share of one as a percentage.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(["0", "999", "1,000", "1,234,567"], [0, 999, 1000, 1_234_567].map(count)[..]);
        assert_eq!(["0 jobs", "1 job", "2,000 jobs"], [0, 1, 2000].map(|number| counted(number, "job"))[..]);
        let found = [0.0, 45.0, 750.0, 11_520.0, 3_602_880.0].map(duration);
        assert_eq!(["0 s", "45.0 s", "12.5 min", "3.20 h", "41.7 d"], found[..]);
        assert_eq!(["0 h", "0.50 h", "10.0 h"], durations([0.0, 1800.0, 36_000.0])[..]);
        assert_eq!(["-1,500", "123", "0.95"], [-1500.0, 123.4, 0.953].map(decimals)[..]);
        assert_eq!(["0.0", "-0.1", "0.00"], [fixed(-0.04, 1), fixed(-0.06, 1), fixed(-0.0, 2)]);
        assert_eq!(percent(0.4567), "45.7 %");
    }
}
