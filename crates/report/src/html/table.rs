//! The one writer of HTML tables.

use std::fmt::Write as _;

use super::page::escape;

/// A value of a table.
pub(super) struct Cell {
    text: String,
    best: bool,
}

impl Cell {
    /// A value, bold if it is the best of those that it is compared with.
    pub(super) fn marked(text: String, best: bool) -> Cell {
        Cell { text, best }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell { text, best: false }
    }
}

/// A column of numbers.
pub(super) struct Column {
    title: &'static str,
    explanation: &'static str,
    cells: Vec<Cell>,
}

/// A column of values as text.
pub(super) fn column<C: Into<Cell>>(
    title: &'static str,
    explanation: &'static str,
    values: impl IntoIterator<Item = C>,
) -> Column {
    Column { title, explanation, cells: values.into_iter().map(Into::into).collect() }
}

impl Column {
    /// The same column, its [best] values marked.
    pub(super) fn marked(mut self, values: &[Option<f64>], greatest: bool) -> Column {
        let texts: Vec<String> = self.cells.iter().map(|cell| cell.text.clone()).collect();
        let marks = best(values, &texts, greatest);
        self.cells.iter_mut().zip(marks).for_each(|(cell, mark)| cell.best = mark);
        self
    }
}

/// A table whose first column names the row and whose other columns are numbers.
pub(super) struct Table {
    html: String,
    columns: usize,
    /// Which columns are words, and no numbers, the first one not counted.
    words: Vec<bool>,
}

impl Table {
    /// Columns as (title, explanation); the explanation appears when the pointer rests on the title.
    pub(super) fn new(columns: &[(&str, &str)]) -> Table {
        Table::with_words(columns, Vec::new())
    }

    /// The same; the columns of values that are words begin at the left, as words do.
    pub(super) fn with_words(columns: &[(&str, &str)], words: Vec<bool>) -> Table {
        let is_words = |column: usize| column > 0 && words.get(column - 1) == Some(&true);
        let mut html = String::from("<div class=\"scroll\"><table><thead><tr>");
        for (column, (title, explanation)) in columns.iter().enumerate() {
            let _ = write!(html, "<th scope=\"col\"");
            if is_words(column) {
                html.push_str(" class=\"words\"");
            }
            if !explanation.is_empty() {
                let _ = write!(html, " title=\"{}\"", escape(explanation));
            }
            let _ = write!(html, ">{}</th>", escape(title));
        }
        html.push_str("</tr></thead><tbody>");
        Table { html, columns: columns.len(), words }
    }

    /// The markup of a table given by its columns; `first` is the title of the names.
    pub(super) fn of_columns<'a>(
        first: &str,
        names: impl IntoIterator<Item = &'a str>,
        columns: impl IntoIterator<Item = Column>,
    ) -> String {
        let columns: Vec<Column> = columns.into_iter().collect();
        let mut titles = vec![(first, "")];
        titles.extend(columns.iter().map(|column| (column.title, column.explanation)));
        let mut table = Table::new(&titles);
        let mut cells: Vec<_> = columns.into_iter().map(|column| column.cells.into_iter()).collect();
        for name in names {
            table.row(name, cells.iter_mut().filter_map(Iterator::next).collect::<Vec<Cell>>());
        }
        table.html()
    }

    /// A title over the rows that follow.
    pub(super) fn group(&mut self, title: &str) {
        let (columns, title) = (self.columns, escape(title));
        let _ = write!(
            self.html,
            "<tr class=\"group\"><th scope=\"colgroup\" colspan=\"{columns}\">{title}</th></tr>"
        );
    }

    /// A row of a name and its values, all as text.
    pub(super) fn row<C: Into<Cell>>(&mut self, name: &str, values: impl IntoIterator<Item = C>) {
        let _ = write!(self.html, "<tr><th scope=\"row\">{}</th>", escape(name));
        for (column, cell) in values.into_iter().enumerate() {
            let Cell { text, best } = cell.into();
            let class = match (best, self.words.get(column) == Some(&true)) {
                (true, true) => " class=\"best words\"",
                (true, false) => " class=\"best\"",
                (false, true) => " class=\"words\"",
                (false, false) => "",
            };
            let _ = write!(self.html, "<td{class}>{}</td>", escape(&text));
        }
        self.html.push_str("</tr>");
    }

    /// The markup.
    pub(super) fn html(mut self) -> String {
        self.html.push_str("</tbody></table></div>\n");
        self.html
    }
}

/// Which of several values are the best: the least, or the greatest if `greatest`, and those that read the
/// same; none where all read the same.
pub(super) fn best(values: &[Option<f64>], texts: &[String], greatest: bool) -> Vec<bool> {
    let there = values.iter().enumerate().filter_map(|(index, value)| Some((index, (*value)?)));
    let order =
        |a: &(usize, f64), b: &(usize, f64)| if greatest { b.1.total_cmp(&a.1) } else { a.1.total_cmp(&b.1) };
    let wanted = there.min_by(order).map(|(index, _)| &texts[index]);
    let same = |(value, text): (&Option<f64>, &String)| value.is_some() && Some(text) == wanted;
    let marks: Vec<bool> = values.iter().zip(texts).map(same).collect();
    let all = values.iter().zip(&marks).all(|(value, mark)| value.is_none() || *mark);
    if all { vec![false; marks.len()] } else { marks }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_text_and_the_best_is_marked() {
        let mut table = Table::new(&[("<b>", "a \"title\""), ("x", "")]);
        table.group("a & b");
        table.row("<i>", [Cell::marked("1".into(), true)]);
        table.row("n", ["<2>".to_owned()]);
        let expected = "<div class=\"scroll\"><table><thead><tr><th scope=\"col\" title=\"a &quot;title&quot;\">&lt;b&gt;</th>\
            <th scope=\"col\">x</th></tr></thead><tbody>\
            <tr class=\"group\"><th scope=\"colgroup\" colspan=\"2\">a &amp; b</th></tr>\
            <tr><th scope=\"row\">&lt;i&gt;</th><td class=\"best\">1</td></tr>\
            <tr><th scope=\"row\">n</th><td>&lt;2&gt;</td></tr></tbody></table></div>\n";
        assert_eq!(table.html(), expected);
    }

    #[test]
    fn columns_of_words_are_marked_in_their_title_and_in_every_row() {
        let mut table = Table::with_words(&[("n", ""), ("x", ""), ("verdict", "")], vec![false, true]);
        table.row("a", ["1".to_owned(), "holds".to_owned()]);
        let expected = "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">n</th><th scope=\"col\">x</th>\
            <th scope=\"col\" class=\"words\">verdict</th></tr></thead><tbody>\
            <tr><th scope=\"row\">a</th><td>1</td><td class=\"words\">holds</td></tr></tbody></table></div>\n";
        assert_eq!(table.html(), expected);
    }

    #[test]
    fn the_best_is_the_least_or_the_greatest_and_what_reads_the_same() {
        let check = |values: &[Option<f64>], greatest, expected: &[bool]| {
            let texts: Vec<String> =
                values.iter().map(|value| format!("{:.0}", value.unwrap_or(0.0))).collect();
            assert_eq!(best(values, &texts, greatest), expected, "{values:?}");
        };
        check(&[Some(2.0), None, Some(1.0), Some(1.2)], false, &[false, false, true, true]);
        check(&[Some(2.0), None, Some(1.0)], true, &[true, false, false]);
        check(&[Some(0.9), Some(1.1)], false, &[false, false]);
        check(&[Some(1.0), None], false, &[false, false]);
        check(&[], false, &[]);
    }
}
