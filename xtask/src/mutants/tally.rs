//! What became of the mutants of each crate.

use std::fmt::Write;

/// The mutants of a crate.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Tally {
    pub(super) name: &'static str,
    /// Those from which a sample was drawn, and without one those that were tested.
    pub(super) mutants: usize,
    /// A test has failed.
    pub(super) caught: usize,
    /// The tests did not end: noticed, too.
    pub(super) timeouts: usize,
    /// It does not compile.
    pub(super) unviable: usize,
    /// Names of those that passed all tests.
    pub(super) missed: Vec<String>,
}

impl Tally {
    /// Mutants that compile, and how many of them tests have noticed.
    fn viable(&self) -> (usize, usize) {
        let noticed = self.caught + self.timeouts;
        (noticed + self.missed.len(), noticed)
    }
}

/// A line for each crate, then the missed mutants.
pub(super) fn table(tallies: &[Tally]) -> String {
    let mut text =
        "crate    mutants  tested  unviable  caught  timeout  missed    share  95 % interval\n".to_owned();
    for tally in tallies {
        let (viable, noticed) = tally.viable();
        let Tally { name, mutants, caught, timeouts, unviable, missed } = tally;
        let tested = viable + unviable;
        let missed = missed.len();
        let _ = write!(
            text,
            "{name:<7}  {mutants:>7}  {tested:>6}  {unviable:>8}  {caught:>6}  {timeouts:>7}  {missed:>6}"
        );
        let _ = match viable {
            0 => writeln!(text, "        -"),
            _ => {
                let share = 100.0 * noticed as f64 / viable as f64;
                let (low, high) = interval(noticed, viable);
                writeln!(text, "  {share:>5.1} %  {:.1} to {:.1} %", 100.0 * low, 100.0 * high)
            }
        };
    }
    for name in tallies.iter().flat_map(|tally| &tally.missed) {
        let _ = writeln!(text, "missed: {name}");
    }
    text
}

/// Wilson's interval for the share of all mutants, at 95 %, by a sample of them.
fn interval(noticed: usize, viable: usize) -> (f64, f64) {
    let z = 1.959_964;
    let (noticed, viable) = (noticed as f64, viable as f64);
    let share = noticed / viable;
    let center = share + z * z / (2.0 * viable);
    let reach = z * (share * (1.0 - share) / viable + z * z / (4.0 * viable * viable)).sqrt();
    let scale = 1.0 + z * z / viable;
    ((center - reach) / scale, (center + reach) / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_wilson() {
        // Newcombe 1998, table I, method 3.
        let check = |noticed, viable, low: f64, high: f64| {
            let (found_low, found_high) = interval(noticed, viable);
            let near = (found_low - low).abs() < 5e-5 && (found_high - high).abs() < 5e-5;
            assert!(near, "{noticed} of {viable}: {found_low} to {found_high}");
        };
        check(81, 263, 0.2553, 0.3662);
        check(15, 148, 0.0624, 0.1605);
        check(0, 20, 0.0, 0.1611);
        check(1, 29, 0.0061, 0.1718);
    }

    #[test]
    fn timeouts_count_as_noticed_and_unviable_mutants_as_nothing() {
        let policy = Tally {
            name: "policy",
            mutants: 900,
            caught: 17,
            timeouts: 1,
            unviable: 3,
            missed: vec!["a.rs:1:2: replace + with -".to_owned(), "a.rs:3:4: delete !".to_owned()],
        };
        let lines = [
            "crate    mutants  tested  unviable  caught  timeout  missed    share  95 % interval",
            "policy       900      23         3      17        1       2   90.0 %  69.9 to 97.2 %",
            "tig            0       0         0       0        0       0        -",
            "missed: a.rs:1:2: replace + with -",
            "missed: a.rs:3:4: delete !",
            "",
        ];
        assert_eq!(table(&[policy, Tally { name: "tig", ..Tally::default() }]), lines.join("\n"));
    }
}
