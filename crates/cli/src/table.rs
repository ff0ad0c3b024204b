//! Aligned text tables, which fit a terminal.

use std::io::IsTerminal;

/// Columns of these titles are never shortened: users copy from them, or look for them first.
const WHOLE: [&str; 5] = ["job", "launch", "serial", "server", "state"];
/// The least width of a shortened column, in characters.
const LEAST: usize = 6;

/// Rows of text under a header; the first `left` columns are words, the others numbers.
pub(crate) struct Table {
    left: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(left: usize, header: &[&str]) -> Table {
        Table { left, rows: vec![header.iter().map(|name| (*name).to_owned()).collect()] }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The table, each line ended; nothing if there are no rows. If standard output is a terminal, words are shortened so
    /// that lines fit it.
    pub(crate) fn render(&self) -> String {
        self.render_within(terminal_width())
    }

    /// The table in lines of at most `most` characters, as far as shortened words allow.
    fn render_within(&self, most: Option<usize>) -> String {
        if self.rows.len() == 1 {
            return String::new();
        }
        let mut widths = self.widths();
        if let Some(most) = most {
            self.shorten(&mut widths, most);
        }
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                if column > 0 {
                    line.push_str("  ");
                }
                let cell = fitted(cell, width);
                if column < self.left {
                    line.push_str(&format!("{cell:<width$}"));
                } else {
                    line.push_str(&format!("{cell:>width$}"));
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// The width of lines if no word is shortened, in characters.
    pub(crate) fn width(&self) -> usize {
        line_width(&self.widths())
    }

    /// The width of each column.
    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        (0..columns).map(width).collect()
    }

    /// Narrows the widest column of words until lines have at most `most` characters.
    fn shorten(&self, widths: &mut [usize], most: usize) {
        let is_whole = |column: usize| {
            let title = self.rows[0].get(column).map_or("", |title| title.trim_start());
            WHOLE.contains(&title)
        };
        let words: Vec<usize> =
            (0..self.left.min(widths.len())).filter(|column| !is_whole(*column)).collect();
        let mut excess = line_width(widths).saturating_sub(most);
        while excess > 0 {
            // The first of the widest ones.
            let Some(&widest) = words.iter().rev().max_by_key(|column| widths[**column]) else { return };
            if widths[widest] <= LEAST {
                return;
            }
            widths[widest] -= 1;
            excess -= 1;
        }
    }
}

/// The width of lines with columns of these widths.
fn line_width(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1)
}

/// A text of at most `most` characters: of a longer one its beginning, with an ellipsis.
fn fitted(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// The width of the terminal that standard output is: COLUMNS, or as the terminal says; none if it is none.
pub(crate) fn terminal_width() -> Option<usize> {
    let out = std::io::stdout();
    // Unit tests must not depend on the terminal that they run on.
    if cfg!(test) || !out.is_terminal() {
        return None;
    }
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let asked = || Some(usize::from(rustix::termios::tcgetwinsize(&out).ok()?.ws_col));
    said.or_else(asked).filter(|columns| *columns > 0)
}

/// A number with thousands separated, as people read it.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count of things: `1 job`, `2,000 jobs`.
pub(crate) fn counted(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// A number with one decimal and thousands separated.
pub(crate) fn grouped_tenths(number: f64) -> String {
    let text = format!("{:.1}", number.abs());
    let (whole, tenth) = text.split_once('.').unwrap_or((&text, "0"));
    let sign = if number < 0.0 { "-" } else { "" };
    whole
        .parse()
        .map_or_else(|_| format!("{sign}{text}"), |whole| format!("{sign}{}.{tenth}", grouped(whole)))
}

/// A number of that many decimals, or a dash.
pub(crate) fn decimals(number: Option<f64>, decimals: usize) -> String {
    number.map_or_else(|| "-".to_owned(), |number| format!("{number:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_aligned_left_and_numbers_right() {
        let mut table = Table::new(1, &["policy", "jobs"]);
        assert_eq!(table.render(), "", "no header without rows");
        table.row(vec!["a".into(), "12".into()]);
        table.row(vec!["longer name".into(), "3".into()]);
        assert_eq!(table.render(), "policy       jobs\na              12\nlonger name     3\n");
    }

    #[test]
    fn the_widest_words_are_shortened_to_fit_a_terminal() {
        let mut table = Table::new(3, &["job", "name", "reason", "procs"]);
        table.row(vec!["lyon.123456".into(), "render".into(), "a reason of some length".into(), "2".into()]);
        table.row(vec!["lyon.7".into(), "größe-über-alles".into(), "short".into(), "128".into()]);
        let check = |most: Option<usize>, expected: &str| assert_eq!(table.render_within(most), expected);
        let whole = "\
job          name              reason                   procs
lyon.123456  render            a reason of some length      2
lyon.7       größe-über-alles  short                      128
";
        check(None, whole);
        check(Some(61), whole);
        check(
            Some(50),
            "\
job          name            reason          procs
lyon.123456  render          a reason of s…      2
lyon.7       größe-über-al…  short             128
",
        );
        // No less than that can be done.
        let least = "\
job          name    reason  procs
lyon.123456  render  a rea…      2
lyon.7       größe…  short     128
";
        check(Some(34), least);
        check(Some(10), least);
    }

    #[test]
    fn thousands_are_separated() {
        let check = |number, text: &str| assert_eq!(grouped(number), text);
        check(0, "0");
        check(999, "999");
        check(1_000, "1,000");
        check(1_234_567, "1,234,567");
        assert_eq!(["0 jobs", "1 job", "2,000 jobs"], [0, 1, 2000].map(|number| counted(number, "job"))[..]);
        let check = |number, text: &str| assert_eq!(grouped_tenths(number), text);
        check(0.04, "0.0");
        check(1_234_567.96, "1,234,568.0");
        check(-1_000.25, "-1,000.2");
        check(1e30, "1000000000000000019884624838656.0");
    }
}
