//! Aligned text tables.

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

    /// The table, each line ended; nothing if there are no rows.
    pub(crate) fn render(&self) -> String {
        if self.rows.len() == 1 {
            return String::new();
        }
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                if column > 0 {
                    line.push_str("  ");
                }
                let padding = " ".repeat(width - cell.chars().count());
                if column < self.left {
                    line.push_str(cell);
                    line.push_str(&padding);
                } else {
                    line.push_str(&padding);
                    line.push_str(cell);
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
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
