//! `cargo xtask claims`: the claims of the papers, each with its verdict and with the figures that tests find.
//!
//! The claims and verdicts are rows of the tables in `docs/research/paper-*.md`. Tests pass their figures to
//! `pliant_testing::claims`. With `--campaign` the figures are those of a finished campaign ([`campaign`]).

mod campaign;
mod draws;
mod runs;
mod skipped_claims;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Write;
use std::path::Path;

use self::verdict::{Judgement, VERDICTS, contradiction};
use crate::notes::Notes;
use crate::skipped::{self, Skipped};
use crate::step::{Failure, Step, workspace_root};

/// The variable that names the file of the figures.
const VARIABLE: &str = "PLIANT_CLAIMS";

/// The papers.
pub(crate) const PAPERS: [&str; 5] = ["000", "001", "002", "003", "004"];

/// A row of a table of claims.
#[derive(PartialEq, Eq, Debug)]
struct Claim {
    id: String,
    says: String,
    holds: String,
}

/// A figure that a test has noted, or an exact claim that it has shown.
#[derive(PartialEq, Debug)]
struct Figure {
    what: String,
    /// What was found, and the interval in which it must be.
    found: Option<(f64, f64, f64)>,
    /// Whether the figure is for or against the claim, if it decides.
    judgement: Judgement,
}

/// The claims of some papers with their figures.
struct Ledger {
    claims: Vec<Claim>,
    figures: BTreeMap<String, Vec<Figure>>,
    /// Claims with tests that were skipped because a file, such as a log, is absent.
    absent: BTreeSet<String>,
}

/// Runs the tests that settle the claims of one paper or of all, and prints the ledger.
pub(crate) fn run(paper: Option<&str>) -> Result<(), Failure> {
    let papers: Vec<&str> = PAPERS.into_iter().filter(|one| paper.is_none_or(|only| only == *one)).collect();
    let mut claims = Vec::new();
    for paper in &papers {
        let path = workspace_root().join(format!("docs/research/paper-{paper}.md"));
        let read = std::fs::read_to_string(&path);
        let page = read.map_err(|error| Failure::Unreadable { path, cause: error.to_string() })?;
        claims.extend(rows(&page));
    }
    let notes = Notes::new("claims");
    let skipped = Notes::new("skipped");
    let filter = papers.iter().map(|paper| format!("test(/[cg]{paper}_/)")).collect::<Vec<_>>().join(" or ");
    let tests = Step::cargo(&["nextest", "run", "--workspace", "--no-fail-fast", "-E", &filter])
        .env(VARIABLE, notes.path())
        .env(skipped::VARIABLE, skipped.path())
        .run();
    let skipped = skipped.take()?;
    let ledger = Ledger { claims, figures: figures(&notes.take()?), absent: skipped_claims::parse(&skipped) };
    let skipped = Skipped::parse(&skipped);
    // A reader that closes the pipe early has read enough.
    let _ = write!(std::io::stdout(), "{ledger}");
    eprintln!("{skipped}");
    match ledger.failures() {
        0 => tests,
        rows => Err(Failure::Claims { rows }),
    }
}

/// Prints the figures of a finished campaign, and compares them with the pages.
pub(crate) fn run_campaign(folder: &Path) -> Result<(), Failure> {
    campaign::run(folder)
}

/// The rows of the tables of claims on a page.
fn rows(page: &str) -> Vec<Claim> {
    let claim = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, id, says, .., holds, _] = cells[..] else { return None };
        let is_claim = id.strip_prefix('C').is_some_and(|rest| rest.contains('-'));
        is_claim.then(|| Claim { id: id.to_owned(), says: says.to_owned(), holds: holds.replace('*', "") })
    };
    page.lines().filter(|line| line.starts_with("| C")).filter_map(claim).collect()
}

/// The figures of a file of notes, by claim, each once.
fn figures(notes: &str) -> BTreeMap<String, Vec<Figure>> {
    let mut of_claims: BTreeMap<String, Vec<Figure>> = BTreeMap::new();
    for line in notes.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let (claim, what, found, judgement) = match fields[..] {
            [claim, what] => (claim, what, None, Judgement(None)),
            [claim, what, found, low, high, ref judged @ ..] => {
                // Tests write them as numbers.
                let number = |text: &str| text.parse().unwrap_or(f64::NAN);
                let found = Some((number(found), number(low), number(high)));
                (claim, what, found, Judgement(judged.first().map(|judged| *judged == "for")))
            }
            _ => continue,
        };
        let figure = Figure { what: what.to_owned(), found, judgement };
        let of_claim = of_claims.entry(claim.to_owned()).or_default();
        if !of_claim.contains(&figure) {
            of_claim.push(figure);
        }
    }
    of_claims
}

impl Claim {
    /// The verdict with which its row ends; none if it begins with another word.
    fn verdict(&self) -> Option<&'static str> {
        VERDICTS.into_iter().find(|verdict| {
            let rest = self.holds.strip_prefix(verdict);
            rest.is_some_and(|rest| !rest.starts_with(char::is_alphabetic))
        })
    }
}

impl Figure {
    fn is_inside(&self) -> bool {
        self.found.is_none_or(|(found, low, high)| (low..=high).contains(&found))
    }
}

impl Ledger {
    fn of(&self, claim: &Claim) -> &[Figure] {
        self.figures.get(&claim.id).map_or(&[], Vec::as_slice)
    }

    /// What is wrong with a claim: its row, its tests or its figures.
    fn problem(&self, claim: &Claim) -> Option<&'static str> {
        let figures = self.of(claim);
        match claim.verdict() {
            None => Some("the last column begins with none of: yes, in part, no, not checkable"),
            Some("not checkable") => None,
            Some(_) if figures.is_empty() && self.absent.contains(&claim.id) => None,
            Some(_) if figures.is_empty() => Some("no test has noted a figure"),
            Some(_) if !figures.iter().all(Figure::is_inside) => Some("a figure is outside of its interval"),
            Some(verdict) => {
                let judgements = figures.iter().map(|figure| figure.judgement);
                let decided: Vec<Judgement> = judgements.filter(|judgement| judgement.0.is_some()).collect();
                contradiction(verdict, &decided)
            }
        }
    }

    fn failures(&self) -> usize {
        let unknown = self.figures.keys().filter(|id| !self.claims.iter().any(|claim| claim.id == **id));
        self.claims.iter().filter(|claim| self.problem(claim).is_some()).count() + unknown.count()
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for claim in &self.claims {
            writeln!(f, "{:9} {}", claim.id, claim.says)?;
            writeln!(f, "          holds: {}", claim.holds)?;
            for Figure { what, found, judgement } in self.of(claim) {
                let judged = match judgement.0 {
                    Some(true) => ", for the claim",
                    Some(false) => ", against the claim",
                    None => "",
                };
                match found {
                    None => writeln!(f, "          {what}")?,
                    Some((found, low, high)) => {
                        let found = (found * 1000.0).round() / 1000.0;
                        writeln!(f, "          {what}: {found} (expected {low} to {high}){judged}")?;
                    }
                }
            }
            if self.absent.contains(&claim.id) {
                let some = if self.of(claim).is_empty() { "not run" } else { "a test of it not run" };
                writeln!(f, "          {some}: a file is absent")?;
            }
            if let Some(problem) = self.problem(claim) {
                writeln!(f, "          FAILED: {problem}")?;
            }
        }
        for id in self.figures.keys().filter(|id| !self.claims.iter().any(|claim| claim.id == **id)) {
            writeln!(f, "{id:9} FAILED: tests have noted figures, and no page has such a claim")?;
        }
        let figures: usize = self.figures.values().map(Vec::len).sum();
        write!(f, "{} claims, {figures} figures:", self.claims.len())?;
        for verdict in VERDICTS {
            let count = self.claims.iter().filter(|claim| claim.verdict() == Some(verdict)).count();
            write!(f, " {verdict} {count},")?;
        }
        writeln!(f, " failed {}", self.failures())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "| id | the paper says | Pliant finds | holds? |\n|---|---|---|---|\n\
                        | C000-1 | it grows (4.2) | the same | yes |\n\
                        | C000-2 | it is rare | half | **no**, see note |\n\
                        | C000-3 | in March | no log | not checkable |\n| C000-4 | late | early | nothing |\n";

    #[test]
    fn a_ledger_joins_rows_and_figures() {
        let notes = "C000-1\tgolden test\nC000-2\tshare\t0.5\t0.4\t0.6\nC000-2\tshare\t0.5\t0.4\t0.6\n";
        let ledger = Ledger { claims: rows(PAGE), figures: figures(notes), absent: BTreeSet::new() };
        assert_eq!(ledger.claims.len(), 4);
        let problems: Vec<bool> = ledger.claims.iter().map(|claim| ledger.problem(claim).is_some()).collect();
        assert_eq!(problems, [false, false, false, true]);
        let text = ledger.to_string();
        assert!(text.contains("          share: 0.5 (expected 0.4 to 0.6)\n"), "{text}");
        assert!(
            text.ends_with("4 claims, 2 figures: yes 1, in part 0, no 1, not checkable 1, failed 1\n"),
            "{text}"
        );
    }

    #[test]
    fn figures_outside_and_claims_without_figures_fail() {
        let failures = |notes: &str| {
            Ledger { claims: rows(PAGE), figures: figures(notes), absent: BTreeSet::new() }.failures()
        };
        // The row without a verdict always fails.
        assert_eq!(failures("C000-1\tgolden test\nC000-2\tshare\t0.7\t0.4\t0.6\n"), 2);
        assert_eq!(failures("C000-1\tgolden test\nC000-2\tshare\tNaN\t0.4\t0.6\n"), 2);
        assert_eq!(failures("C000-1\tgolden test\n"), 2);
        assert_eq!(failures("C000-1\tgolden test\nC000-2\tshare\t0.5\t0.4\t0.6\nC000-9\tother\n"), 2);
    }

    #[test]
    fn only_claims_whose_own_file_is_absent_need_no_figure() {
        let of = |absent: &str| {
            let absent = BTreeSet::from([absent.to_owned()]);
            Ledger { claims: rows(PAGE), figures: figures("C000-1\tgolden test\n"), absent }
        };
        assert_eq!((of("C000-2").failures(), of("C000-1").failures()), (1, 2));
        assert!(of("C000-2").to_string().contains("          not run: a file is absent"));
        assert!(of("C000-1").to_string().contains("          a test of it not run: a file is absent"));
    }

    #[test]
    fn a_verdict_against_its_figures_fails() {
        let failures = |first: &str, second: &str| {
            let notes = format!("C000-1\tgain\t1\t0\t2\t{first}\nC000-2\tshare\t1\t0\t2\t{second}\n");
            let ledger = Ledger { claims: rows(PAGE), figures: figures(&notes), absent: BTreeSet::new() };
            (ledger.failures(), ledger.to_string())
        };
        let (count, text) = failures("for", "against");
        assert_eq!(count, 1);
        assert!(text.contains("gain: 1 (expected 0 to 2), for the claim"), "{text}");
        assert_eq!((failures("against", "against").0, failures("for", "for").0), (2, 2));
    }

    #[test]
    fn verdicts_are_the_first_words() {
        let verdict =
            |holds: &str| Claim { id: String::new(), says: String::new(), holds: holds.to_owned() }.verdict();
        assert_eq!(verdict("no, with a window of 20"), Some("no"));
        assert_eq!(verdict("not checkable"), Some("not checkable"));
        assert_eq!(verdict("nothing"), None);
    }
}
