//! The claims whose tests were skipped because a file is absent. A test names its claims: `c001_2_to_8_the_whole_nasa_log`
//! has C001-2 to C001-8, `c002_4_13_categories` has C002-4 and C002-13.

use std::collections::BTreeSet;

/// The claims of the skipped tests, from the notes of a run.
pub(super) fn parse(notes: &str) -> BTreeSet<String> {
    let tests = notes.lines().filter_map(|line| line.strip_prefix("file\t")?.split('\t').next());
    tests.flat_map(|test| claims_of(test.rsplit("::").next().unwrap_or(test))).collect()
}

/// The claims that the name of a test begins with.
fn claims_of(test: &str) -> Vec<String> {
    let mut words = test.split('_').peekable();
    let Some(paper) = words.next().and_then(|word| word.strip_prefix('c')).filter(|paper| paper.len() == 3)
    else {
        return Vec::new();
    };
    let mut numbers = Vec::new();
    while let Some(first) = words.next_if(|word| *word != "and").map(str::parse::<u32>) {
        let Ok(first) = first else { break };
        let is_range = words.next_if_eq(&"to").is_some();
        let last = words.next_if(|_| is_range).and_then(|word| word.parse().ok()).unwrap_or(first);
        numbers.extend(first..=last);
        words.next_if_eq(&"and");
    }
    numbers.into_iter().map(|number| format!("C{paper}-{number}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tests_have_the_claims() {
        for (test, expected) in [
            ("c001_2_to_4_the_whole_nasa_log", "C001-2 C001-3 C001-4"),
            ("c002_4_13_categories_of_a_real_log", "C002-4 C002-13"),
            ("c000_5_to_7_and_27_under_four", "C000-5 C000-6 C000-7 C000-27"),
            ("c000_1_to_2_5_to_6", "C000-1 C000-2 C000-5 C000-6"),
            ("c001_9_fifo_on_10_000_jobs", "C001-9"),
            ("easy_on_five_logs", ""),
            ("g001_3_h1", ""),
            ("c000", ""),
        ] {
            assert_eq!(claims_of(test).join(" "), expected, "{test}");
        }
    }

    #[test]
    fn only_files_count() {
        let notes =
            "file\tpapers::paper_001::c001_2_to_3_log\tNASA is not there\nprogram\tp::c001_5_x\tno browser\n";
        assert_eq!(parse(notes).into_iter().collect::<Vec<_>>(), ["C001-2", "C001-3"]);
    }
}
