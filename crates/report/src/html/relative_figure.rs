//! Ratios with their intervals as dots and lines on a logarithmic axis, a panel for each policy that others are divided by.
//!
//! Colours are those of the page, with what they are in a file of its own behind them.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use super::page::escape;
use super::relative::tip;
use crate::relative::Relative;

const PANEL: f64 = 520.0;
const LEFT: f64 = 240.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 26.0;
const LINE: f64 = 13.0;
const COLUMNS: usize = 2;
/// Letters of a name that fit beside the axis.
const LETTERS: usize = 38;
const COLOURS: [&str; 12] = [
    "#0072b2", "#d55e00", "#009e73", "#aa4499", "#b8860b", "#332288", "#7a4a21", "#667788", "#e0218a",
    "#4d9221", "#00857a", "#444444",
];
/// How wide a letter of the legend is, and the gap between two names.
const LEGEND: (f64, f64) = (6.6, 14.0);
/// Ticks of an axis over a few powers of ten, and over less than one.
const STEPS: [f64; 3] = [1.0, 2.0, 5.0];
const CLOSE_STEPS: [f64; 9] = [1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0];
/// An axis has that many ticks, as far as the steps give them.
const TICKS: RangeInclusive<usize> = 4..=8;

/// What is divided by one policy.
pub(super) struct Panel<'a> {
    /// The policy.
    pub(super) base: &'a str,
    /// The ratios.
    pub(super) ratios: Vec<&'a Relative>,
}

/// Rows of a panel, a line for each policy in each.
struct Layout<'a> {
    rows: Vec<&'a str>,
    policies: Vec<&'a str>,
}

impl<'a> Panel<'a> {
    /// Rows are logs, lines policies; of a single log, rows are policies.
    fn layout(&self) -> Layout<'a> {
        let (mut rows, mut policies) = (Vec::new(), Vec::new());
        for one in &self.ratios {
            for (all, name) in [(&mut rows, one.log.as_str()), (&mut policies, one.policy.as_str())] {
                if !all.contains(&name) {
                    all.push(name);
                }
            }
        }
        if rows.len() == 1 {
            Layout { rows: policies, policies: Vec::new() }
        } else {
            Layout { rows, policies }
        }
    }

    fn height(&self) -> f64 {
        let layout = self.layout();
        TOP + BOTTOM + layout.rows.len() as f64 * layout.row_height()
    }
}

impl Layout<'_> {
    fn row_height(&self) -> f64 {
        LINE * self.policies.len().max(1) as f64 + 6.0
    }
}

/// What the axis reaches over, the same for all panels.
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    fn of(panels: &[Panel<'_>]) -> Axis {
        let ratios = panels.iter().flat_map(|panel| &panel.ratios);
        let ends = ratios.flat_map(|one| {
            let (low, high) = one.interval.unwrap_or((one.ratio, one.ratio));
            [low, high]
        });
        let (low, high) = ends.fold((0.5_f64, 1.25_f64), |(low, high), end| (low.min(end), high.max(end)));
        Axis { low: (low * 0.93).ln(), high: (high * 1.07).ln() }
    }

    fn position(&self, value: f64) -> f64 {
        LEFT + (PANEL - LEFT - RIGHT) * (value.ln() - self.low) / (self.high - self.low)
    }

    /// 1, 2 and 5 times the powers of ten; the powers only where these are many, and more where they are few.
    fn ticks(&self) -> Vec<f64> {
        let shown = self.multiples(&STEPS);
        if shown.len() < *TICKS.start() {
            self.multiples(&CLOSE_STEPS)
        } else if shown.len() > *TICKS.end() {
            self.multiples(&STEPS[..1])
        } else {
            shown
        }
    }

    fn multiples(&self, steps: &[f64]) -> Vec<f64> {
        // In powers of ten that are whole numbers, so that 0.6 is written as 0.6.
        let times = |power: i32, step: f64| match power {
            0.. => step * 10_f64.powi(power),
            _ => step / 10_f64.powi(-power),
        };
        let all = (-6..=6).flat_map(|power| steps.iter().map(move |step| times(power, *step)));
        all.filter(|value| (self.low..=self.high).contains(&value.ln())).collect()
    }
}

/// All panels as one picture; `metric` is what the ratios are of. Where rows are logs a policy has the same colour in all of
/// them.
pub(super) fn panels(metric: &str, panels: &[Panel<'_>]) -> String {
    let axis = Axis::of(panels);
    let mut policies: Vec<&str> = Vec::new();
    for one in panels.iter().flat_map(|panel| &panel.ratios) {
        if !policies.contains(&one.policy.as_str()) {
            policies.push(&one.policy);
        }
    }
    let colours = Colours(policies);
    let heights: Vec<f64> =
        panels.chunks(COLUMNS).map(|row| row.iter().map(Panel::height).fold(0.0, f64::max)).collect();
    let width = PANEL * panels.len().clamp(1, COLUMNS) as f64;
    let height: f64 = heights.iter().sum();
    let mut svg = format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"Ratios; the numbers follow as a table\" \
         style=\"width:100%;max-width:{}px;height:auto\" font-family=\"sans-serif\" font-size=\"12\">\
         <rect width=\"{width}\" height=\"{height}\" fill=\"var(--paper, #ffffff)\"/>",
        width * 1.2
    );
    let mut top = 0.0;
    for (row, height) in panels.chunks(COLUMNS).zip(heights) {
        for (column, panel) in row.iter().enumerate() {
            let _ = write!(svg, "<g transform=\"translate({} {top})\">", column as f64 * PANEL);
            draw(&mut svg, metric, panel, &axis, &colours);
            svg.push_str("</g>");
        }
        top += height;
    }
    svg.push_str("</svg>");
    svg
}

fn draw(svg: &mut String, metric: &str, panel: &Panel<'_>, axis: &Axis, colours: &Colours<'_>) {
    let layout = panel.layout();
    let bottom = panel.height() - BOTTOM;
    let _ = write!(
        svg,
        "<text x=\"8\" y=\"18\" font-size=\"13\" font-weight=\"600\" fill=\"var(--ink, #1b2430)\">{metric} relative to {}</text>",
        escape(panel.base)
    );
    for value in axis.ticks() {
        let x = axis.position(value);
        let colour = if value == 1.0 { "var(--quiet, #5b6878)" } else { "var(--line, #dde3ea)" };
        let _ = write!(
            svg,
            "<path d=\"M{x:.1} {TOP}V{bottom}\" stroke=\"{colour}\"/><text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\" \
             fill=\"var(--quiet, #5b6878)\">{value}</text>",
            bottom + 16.0
        );
    }
    legend(svg, &layout, colours);
    for (at, row) in layout.rows.iter().enumerate() {
        let top = TOP + at as f64 * layout.row_height();
        let name: String = match row.char_indices().nth(LETTERS) {
            Some((end, _)) => format!("{}...", &row[..end]),
            None => (*row).to_owned(),
        };
        let _ = write!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"var(--ink, #1b2430)\">{}</text>",
            LEFT - 10.0,
            top + layout.row_height() / 2.0 + 4.0,
            escape(&name)
        );
        let mine = panel
            .ratios
            .iter()
            .filter(|one| one.log == *row || layout.policies.is_empty() && one.policy == *row);
        for one in mine {
            let line = layout.policies.iter().position(|policy| one.policy == *policy).unwrap_or(0);
            let colour = colours.of(if layout.policies.is_empty() { "" } else { &one.policy });
            dot(svg, one, axis, top + 3.0 + LINE * (line as f64 + 0.5), &colour);
        }
    }
}

/// The policies in their colours, where there are several.
fn legend(svg: &mut String, layout: &Layout<'_>, colours: &Colours<'_>) {
    let width = |policy: &&str| LEGEND.0 * policy.chars().count() as f64 + LEGEND.1;
    let all: f64 = layout.policies.iter().map(width).sum();
    let mut x = (PANEL - all).clamp(8.0, LEFT);
    for policy in &layout.policies {
        let _ = write!(
            svg,
            "<text x=\"{x:.0}\" y=\"36\" fill=\"{}\">{}</text>",
            colours.of(policy),
            escape(policy)
        );
        x += width(policy);
    }
}

fn dot(svg: &mut String, one: &Relative, axis: &Axis, y: f64, colour: &str) {
    let x = axis.position(one.ratio);
    if let Some((low, high)) = one.interval {
        let _ = write!(
            svg,
            "<path d=\"M{:.1} {y:.1}H{:.1}\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            axis.position(low),
            axis.position(high)
        );
    }
    let _ = write!(
        svg,
        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.6\" fill=\"{colour}\"><title>{}</title></circle>",
        tip(one)
    );
}

/// The policies in the order of their colours.
struct Colours<'a>(Vec<&'a str>);

impl Colours<'_> {
    fn of(&self, policy: &str) -> String {
        let at = self.0.iter().position(|one| *one == policy).unwrap_or(0) % COLOURS.len();
        format!("var(--c{at}, {})", COLOURS[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_short_numbers_whatever_the_range() {
        let check = |low: f64, high: f64, expected: &str| {
            let ticks = Axis { low: low.ln(), high: high.ln() }.ticks();
            let written = ticks.iter().map(f64::to_string).collect::<Vec<_>>().join(" ");
            assert_eq!(written, expected, "{low} to {high}");
        };
        check(0.46, 1.35, "0.5 0.6 0.8 1 1.2");
        check(0.04, 6.0, "0.05 0.1 0.2 0.5 1 2 5");
        check(0.0009, 600.0, "0.001 0.01 0.1 1 10 100");
    }
}
