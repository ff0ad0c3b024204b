//! `cargo xtask claims --campaign DIR`: the figures of paper 000's pages from a finished campaign.
//!
//! The lines that are printed are rows of the tables of `docs/research/paper-000.md` and `paper-000-cancelling.md`. A row that
//! is not on its page like that fails, and so does a verdict that contradicts its intervals.

use std::io::Write;
use std::path::Path;

use super::draws::{Estimate, number};
use super::runs::{
    ALL, ALL_CANCELLATION, Draw, MCT_CAN, MCT_REG, MINMIN_CAN, MINMIN_REG, Measures, POLICIES, REGULAR, Runs,
    Setting,
};
use super::verdict::{Judgement, contradiction};
use super::{Claim, rows};
use crate::step::{Failure, workspace_root};

/// The local batch systems, in the order of the columns.
const BATCHES: [&str; 4] = ["cbf", "cbf-replan", "easy", "fcfs"];
/// The page of the claims, and that of the loads.
const PAGES: [&str; 2] = ["docs/research/paper-000.md", "docs/research/paper-000-cancelling.md"];

/// The runs under one local batch system at the months' own load.
struct System<'a> {
    dedicated: &'a Setting,
    /// A third of the jobs come through the federation.
    shared: &'a Setting,
    /// Dedicated, all clusters of one speed.
    homogeneous: &'a Setting,
}

/// A cell of a table of claims.
struct Cell {
    text: String,
    /// Whether each part of the claim holds.
    judgements: Vec<Judgement>,
}

/// A row of a table of claims: how a line of the page begins, and the cell of each system.
struct Row {
    begins: &'static str,
    cell: fn(&System<'_>) -> Cell,
}

/// Prints the figures of a finished campaign and compares them with the pages.
pub(super) fn run(folder: &Path) -> Result<(), Failure> {
    let path = folder.join("results.csv");
    let unreadable = |path: &Path, cause: String| Failure::Unreadable { path: path.to_owned(), cause };
    let read =
        |path: &Path| std::fs::read_to_string(path).map_err(|error| unreadable(path, error.to_string()));
    let runs = Runs::parse(&read(&path)?).map_err(|cause| unreadable(&path, cause))?;
    let [claims, loads] = PAGES.map(|page| read(&workspace_root().join(page)));
    let (claims, loads) = (claims?, loads?);
    let printed =
        if runs.loads() == [""] { own_load(&runs, &claims) } else { by_load(&runs, &claims, &loads) };
    let (text, problems) = printed.map_err(|cause| unreadable(&path, cause))?;
    // A reader that closes the pipe early has read enough.
    let _ = std::io::stdout().write_all(text.as_bytes());
    match problems {
        0 => Ok(()),
        rows => Err(Failure::Claims { rows }),
    }
}

/// The printed lines, and how many of them differ from the pages.
#[derive(Default)]
struct Printed {
    text: String,
    problems: usize,
}

impl Printed {
    fn line(&mut self, line: &str) {
        self.text += line;
        self.text.push('\n');
    }

    /// A row that a page must have: a line that begins so and holds all cells.
    fn row(&mut self, page: &str, begins: &str, cells: &[String]) {
        let cells = format!("| {} |", cells.join(" | "));
        self.line(&format!("{begins} {cells}"));
        let is_there = |line: &str| line.trim_start().starts_with(begins) && line.contains(&cells);
        if !page.lines().any(is_there) {
            self.problem("the page has no such row");
        }
    }

    fn problem(&mut self, what: &str) {
        self.line(&format!("  FAILED: {what}"));
        self.problems += 1;
    }
}

/// The tables of `paper-000.md`, from `paper-000-batch-systems.toml`.
fn own_load(runs: &Runs, page: &str) -> Result<(String, usize), String> {
    let mut printed = Printed::default();
    for dedicated in [true, false] {
        printed.line(if dedicated { "Dedicated" } else { "A third of the jobs through the federation" });
        for batch in BATCHES {
            let setting = runs.of(&format!("grid5000-{batch}"), "", dedicated)?;
            for (policy, name) in POLICIES.iter().enumerate() {
                printed.row(page, &format!("| `{batch}`, {name}"), &results(setting, policy));
            }
        }
    }
    let mut systems = Vec::new();
    for batch in BATCHES {
        systems.push(System {
            dedicated: runs.of(&format!("grid5000-{batch}"), "", true)?,
            shared: runs.of(&format!("grid5000-{batch}"), "", false)?,
            homogeneous: runs.of(&format!("grid5000-homogeneous-{batch}"), "", true)?,
        });
    }
    let claims = rows(page);
    printed.line("Claims");
    for Row { begins, cell } in ROWS {
        let cells: Vec<Cell> = systems.iter().map(cell).collect();
        printed.row(page, begins, &cells.iter().map(|cell| cell.text.clone()).collect::<Vec<_>>());
        judge(&mut printed, &claims, begins, &cells);
    }
    Ok((printed.text, printed.problems))
}

/// A row of the tables of results of a policy.
fn results(setting: &Setting, policy: usize) -> Vec<String> {
    let three = |of: fn(&Measures) -> f64, decimals: [usize; 3]| {
        let spread = setting.spread(policy, of);
        let texts: Vec<String> =
            spread.iter().zip(decimals).map(|(one, digits)| number(*one, digits)).collect();
        texts.join(" / ")
    };
    vec![
        three(|run| run.impacted, [0, 1, 0]),
        three(|run| run.moves, [1, 1, 0]),
        three(|run| run.early, [0, 1, 0]),
        three(|run| run.response, [2, 2, 2]),
        setting.mean(|draw| draw[policy].response).shown(2),
    ]
}

/// Prints for which systems the intervals decide the claim, and compares with the verdict.
fn judge(printed: &mut Printed, claims: &[Claim], begins: &str, cells: &[Cell]) {
    let id = begins.trim_start_matches("| ");
    let Some(claim) = claims.iter().find(|claim| claim.id == id) else { return };
    let judgements: Vec<Judgement> = cells.iter().flat_map(|cell| cell.judgements.clone()).collect();
    let words = BATCHES.iter().zip(cells).map(|(batch, cell)| {
        let words: Vec<&str> = cell.judgements.iter().map(|judgement| judgement.word()).collect();
        format!("{batch} {}", words.join("/"))
    });
    printed.line(&format!("  holds: {}; the page: {}", words.collect::<Vec<_>>().join(", "), claim.holds));
    if let Some(problem) = claim.verdict().and_then(|verdict| contradiction(verdict, &judgements)) {
        printed.problem(problem);
    }
}

/// The tables of `paper-000-cancelling.md` and the row of low load, from `paper-000-loads.toml`.
fn by_load(runs: &Runs, claims: &str, page: &str) -> Result<(String, usize), String> {
    let mut printed = Printed::default();
    for dedicated in [true, false] {
        printed.line(if dedicated { "Dedicated" } else { "A third of the jobs through the federation" });
        for batch in BATCHES {
            for load in runs.loads() {
                let setting = runs.of(&format!("grid5000-{batch}"), load, dedicated)?;
                let mean = |policy: usize| setting.mean(|draw| draw[policy].response).shown(2);
                let cells = [
                    mean(MCT_REG),
                    mean(MCT_CAN),
                    better(setting, MCT_CAN, MCT_REG).0.to_string(),
                    mean(MINMIN_REG),
                    mean(MINMIN_CAN),
                    better(setting, MINMIN_CAN, MINMIN_REG).0.to_string(),
                ];
                let load = load.trim_start_matches(|one: char| !one.is_ascii_digit());
                printed.row(page, &format!("| `{batch}` | {load}"), &cells);
            }
        }
    }
    let mut cells = Vec::new();
    for batch in BATCHES {
        let least = runs.loads().into_iter().next().unwrap_or_default();
        let setting = runs.of(&format!("grid5000-{batch}"), least, false)?;
        let (count, share) = setting.share(REGULAR, |run| run.moves < 1.0);
        cells.push(counted(count, share, share.is_above(50.0)));
    }
    printed.line("Claims");
    printed.row(claims, "| C000-18", &cells.iter().map(|cell| cell.text.clone()).collect::<Vec<_>>());
    judge(&mut printed, &rows(claims), "| C000-18", &cells);
    Ok((printed.text, printed.problems))
}

/// In how many draws a policy has a lower response than another one.
fn better(setting: &Setting, policy: usize, other: usize) -> (usize, Estimate) {
    setting.share_of_draws(1, |draw| usize::from(draw[policy].response < draw[other].response))
}

/// A cell with a count, its share in percent and one judgement.
fn counted(count: usize, share: Estimate, holds: Option<bool>) -> Cell {
    Cell { text: format!("{count}: {} %", share.shown(0)), judgements: vec![Judgement(holds)] }
}

/// The mean difference of two policies in a measure.
fn difference(setting: &Setting, policy: usize, other: usize, of: fn(&Measures) -> f64) -> Estimate {
    setting.mean(|draw: &Draw| of(&draw[policy]) - of(&draw[other]))
}

fn is_late(run: &Measures) -> bool {
    run.early < 50.0
}

/// The rows at the months' own load. The comment of each row says what its cells have.
const ROWS: &[Row] = &[
    // The least and the largest impacted %, and the share of the runs from 25 to 95 %.
    Row {
        begins: "| C000-5",
        cell: |system| {
            let [least, most] = system.dedicated.range(ALL, |run| run.impacted);
            let (_, share) = system.dedicated.share(ALL, |run| (25.0..=95.0).contains(&run.impacted));
            // Nearly all jobs are impacted in some runs of the paper.
            let some = Some(most >= 90.0);
            let text = format!("{}-{}; {} %", number(least, 0), number(most, 0), share.shown(0));
            Cell { text, judgements: vec![Judgement(share.is_above(90.0)), Judgement(some)] }
        },
    },
    // Points of impacted %: MCT-can over MCT-reg, and MinMin-can over MCT-can.
    Row {
        begins: "| C000-6",
        cell: |system| {
            let more = difference(system.dedicated, MCT_CAN, MCT_REG, |run| run.impacted);
            let most = difference(system.dedicated, MINMIN_CAN, MCT_CAN, |run| run.impacted);
            let text = format!("{}; {}", more.signed(1), most.signed(1));
            Cell { text, judgements: vec![Judgement(more.is_above(0.0)), Judgement(most.is_above(0.0))] }
        },
    },
    // The most moves, and the share of the runs within the paper's bound: regular, all-cancellation.
    Row {
        begins: "| C000-7",
        cell: |system| {
            let bounds = [(REGULAR, 15.0), (ALL_CANCELLATION, 50.0)];
            let parts = bounds.map(|(policies, bound)| {
                let [_, most] = system.dedicated.range(policies, |run| run.moves);
                let (_, share) = system.dedicated.share(policies, |run| run.moves <= bound);
                (format!("{}; {} %", thousands(most), share.shown(0)), Judgement(Some(most <= bound)))
            });
            let [(regular, first), (other, second)] = parts;
            let more = difference(system.dedicated, MCT_CAN, MCT_REG, |run| run.moves).is_above(0.0);
            Cell { text: format!("{regular}<br>{other}"), judgements: vec![first, second, Judgement(more)] }
        },
    },
    // Runs with more late jobs than early ones. The paper has three of 280.
    Row {
        begins: "| C000-8",
        cell: |system| {
            let (count, share) = system.dedicated.share(ALL, is_late);
            counted(count, share, share.is_below(5.0))
        },
    },
    // Mean early % in April: MCT-reg, MinMin-reg.
    Row {
        begins: "| C000-9",
        cell: |system| {
            let april = system.dedicated.month("april");
            let early = [MCT_REG, MINMIN_REG].map(|policy| april.mean(|draw| draw[policy].early));
            let always = Some(april.draws().all(|draw| REGULAR.iter().all(|policy| is_late(&draw[*policy]))));
            let text = format!("{}; {}", early[0].shown(0), early[1].shown(0));
            Cell { text, judgements: vec![Judgement(always)] }
        },
    },
    // Points of early %: MCT-reg over MinMin-reg, MinMin-can over MCT-reg, MCT-can over MinMin-can.
    Row {
        begins: "| C000-10",
        cell: |system| {
            let pairs = [(MCT_REG, MINMIN_REG), (MINMIN_CAN, MCT_REG), (MCT_CAN, MINMIN_CAN)];
            let found =
                pairs.map(|(policy, other)| difference(system.dedicated, policy, other, |run| run.early));
            let text = found.map(|one| one.signed(1)).join("; ");
            Cell { text, judgements: found.iter().map(|one| Judgement(one.is_above(0.0))).collect() }
        },
    },
    // Runs that gain 10 to 40 %, without MinMin-reg.
    Row {
        begins: "| C000-11",
        cell: |system| {
            let gains = |run: &Measures| (0.6..=0.9).contains(&run.response);
            let (count, share) = system.dedicated.share(&[MCT_REG, MCT_CAN, MINMIN_CAN], gains);
            counted(count, share, share.is_above(50.0))
        },
    },
    // The best policy, and the mean response of MCT-can minus that of the best other policy.
    Row {
        begins: "| C000-12",
        cell: |system| {
            let order = system.dedicated.by_response();
            let other = order.into_iter().find(|policy| *policy != MCT_CAN).unwrap_or(MCT_REG);
            let behind = difference(system.dedicated, MCT_CAN, other, |run| run.response);
            let text = format!("{}; {}", POLICIES[order[0]], behind.signed(2));
            Cell { text, judgements: vec![Judgement(behind.is_below(0.0))] }
        },
    },
    // Runs of MCT-reg that lose, and the largest loss. The paper has three of 70.
    Row {
        begins: "| C000-13",
        cell: |system| {
            let (count, share) = system.dedicated.share(&[MCT_REG], |run| run.response > 1.0);
            let [_, most] = system.dedicated.range(&[MCT_REG], |run| run.response);
            let loss = 100.0 * (most - 1.0).max(0.0);
            let text = format!("{count}: {} %; {} %", share.shown(0), number(loss, 0));
            Cell { text, judgements: vec![Judgement(share.is_below(10.0)), Judgement(Some(loss < 5.0))] }
        },
    },
    // Draws in which all-cancellation has the lower response: MCT, MinMin.
    Row {
        begins: "| C000-14",
        cell: |system| {
            let mct = better(system.dedicated, MCT_CAN, MCT_REG);
            let minmin = better(system.dedicated, MINMIN_CAN, MINMIN_REG);
            let parts = [mct, minmin].map(|(count, share)| counted(count, share, share.is_above(50.0)));
            let text = parts.each_ref().map(|part| part.text.as_str()).join("; ");
            Cell { text, judgements: parts.into_iter().flat_map(|part| part.judgements).collect() }
        },
    },
    // Runs that gain while most impacted jobs are late.
    Row {
        begins: "| C000-15",
        cell: |system| {
            let (count, share) = system.dedicated.share(ALL, |run| is_late(run) && run.response < 1.0);
            counted(count, share, Some(count > 0))
        },
    },
    // By how many points the response is lower on homogeneous clusters, mean of the policies.
    Row {
        begins: "| C000-24",
        cell: |system| {
            let response = |setting: &Setting| {
                setting.values(|draw| 25.0 * draw.iter().map(|run| run.response).sum::<f64>())
            };
            let pairs = response(system.dedicated).into_iter().zip(response(system.homogeneous));
            let gain = |(own, other): (Vec<f64>, Vec<f64>)| -> Vec<f64> {
                own.iter().zip(&other).map(|(own, other)| own - other).collect()
            };
            let gains = Estimate::of(&pairs.map(gain).collect::<Vec<_>>());
            Cell { text: gains.signed(1), judgements: vec![Judgement(gains.is_above(0.0))] }
        },
    },
    // Points of impacted %: MCT-can over MCT-reg.
    Row {
        begins: "| C000-16",
        cell: |system| {
            let more = difference(system.shared, MCT_CAN, MCT_REG, |run| run.impacted);
            Cell { text: more.signed(1), judgements: vec![Judgement(more.is_above(0.0))] }
        },
    },
    // Runs with more early jobs than late ones: regular, all-cancellation.
    Row {
        begins: "| C000-19",
        cell: |system| {
            let parts = [REGULAR, ALL_CANCELLATION].map(|policies| {
                let (count, share) = system.shared.share(policies, |run| run.early > 50.0);
                counted(count, share, share.is_above(50.0))
            });
            let text = parts.each_ref().map(|part| part.text.as_str()).join("; ");
            // About 70 % of the jobs are early.
            let early = |draw: &Draw| 0.5 * (draw[MCT_REG].early + draw[MINMIN_REG].early);
            let level = system.shared.mean(early).is_above(65.0);
            let mut judgements: Vec<Judgement> = parts.into_iter().flat_map(|part| part.judgements).collect();
            judgements.push(Judgement(level));
            Cell { text, judgements }
        },
    },
    // The least and the largest response, and the mean of the policy with the highest one.
    Row {
        begins: "| C000-20",
        cell: |system| {
            let [least, most] = system.shared.range(ALL, |run| run.response);
            let [.., worst] = system.shared.by_response();
            let mean = system.shared.mean(|draw| draw[worst].response);
            let text = format!("{}-{}; {}", number(least, 2), number(most, 2), mean.shown(2));
            Cell { text, judgements: vec![Judgement(mean.is_below(1.0)), Judgement(Some(most <= 1.4))] }
        },
    },
    Row { begins: "| MCT, dedicated", cell: |system| cancelling(system.dedicated, MCT_CAN, MCT_REG) },
    Row {
        begins: "| MinMin, dedicated",
        cell: |system| cancelling(system.dedicated, MINMIN_CAN, MINMIN_REG),
    },
    Row { begins: "| MCT, not dedicated", cell: |system| cancelling(system.shared, MCT_CAN, MCT_REG) },
    Row {
        begins: "| MinMin, not dedicated",
        cell: |system| cancelling(system.shared, MINMIN_CAN, MINMIN_REG),
    },
    // By how many points the best policy gains more if the platform is dedicated.
    Row {
        begins: "| C000-27",
        cell: |system| {
            let ([own, ..], [other, ..]) = (system.dedicated.by_response(), system.shared.by_response());
            let cell = gains_more(system, own, other);
            let [own, other] = [(system.dedicated, own), (system.shared, other)]
                .map(|(setting, policy)| 100.0 - setting.mean(|draw| 100.0 * draw[policy].response).mean);
            let text = format!("{}, {}: {}", number(own, 0), number(other, 0), cell.text);
            Cell { text, ..cell }
        },
    },
    Row { begins: "| MinMin-reg gains more", cell: |system| gains_more(system, MINMIN_REG, MINMIN_REG) },
    // The spread of the responses in a month: all-cancellation minus regular.
    Row {
        begins: "| C000-28",
        cell: |system| {
            let [all, regular] =
                [ALL_CANCELLATION, REGULAR].map(|policies| system.shared.spread_in_months(policies));
            let differences = all.iter().zip(&regular).map(|(all, regular)| vec![all - regular]);
            let more = Estimate::of(&differences.collect::<Vec<_>>());
            Cell { text: more.signed(2), judgements: vec![Judgement(more.is_below(0.0))] }
        },
    },
];

/// The mean response of all-cancellation minus that of regular reallocation in the same order.
fn cancelling(setting: &Setting, policy: usize, other: usize) -> Cell {
    let more = difference(setting, policy, other, |run| run.response);
    Cell { text: more.signed(2), judgements: vec![Judgement(more.is_below(0.0))] }
}

/// By how many points of the response a policy gains more on the dedicated platform than one does elsewhere.
fn gains_more(system: &System<'_>, dedicated: usize, shared: usize) -> Cell {
    let own = system.dedicated.values(|draw| 100.0 * draw[dedicated].response);
    let other = system.shared.values(|draw| 100.0 * draw[shared].response);
    let gains = own
        .iter()
        .zip(&other)
        .map(|(own, other)| -> Vec<f64> { own.iter().zip(other).map(|(own, other)| other - own).collect() });
    let more = Estimate::of(&gains.collect::<Vec<_>>());
    Cell { text: more.signed(0), judgements: vec![Judgement(more.is_above(0.0))] }
}

fn thousands(value: f64) -> String {
    let text = number(value, 0);
    match text.len().checked_sub(3) {
        Some(split) if split > 0 => format!("{},{}", &text[..split], &text[split..]),
        _ => text,
    }
}
