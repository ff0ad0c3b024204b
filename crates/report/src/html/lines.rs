//! A line chart as SVG: points at equal distances, one line per series, values from 0.

use std::fmt::Write as _;

use super::LineFigure;
use super::page::escape;

const WIDTH: f64 = 560.0;
/// How many times its size a figure is drawn at most where it has a whole page's width: its letters grow with it.
const LARGEST: f64 = 1.3;
const HEIGHT: f64 = 270.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 44.0;
/// Lines of the grid, about.
const TICKS: f64 = 5.0;
/// The width of a digit, about.
const LETTER: f64 = 7.0;

/// The colour of a series.
pub(super) fn colour(series: usize) -> String {
    format!("var(--c{})", series % 12)
}

/// A value with the decimals that its size deserves.
pub(super) fn number(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 100.0 || size == 0.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 0.1 => 2,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

/// Where values are on the axis.
enum Axis {
    /// From 0 to the second, with lines at each multiple of the first.
    Linear(f64, f64),
    /// From one power of ten to another.
    Logarithmic(i32, i32),
}

impl Axis {
    fn of(figure: &LineFigure) -> Axis {
        let values = figure.series.iter().flat_map(|series| series.values.iter().flatten().copied());
        let values = values.filter(|value| value.is_finite());
        let most = values.clone().fold(0.0, f64::max);
        let least = values.filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        if figure.logarithmic && least.is_finite() {
            let first = least.log10().floor() as i32;
            return Axis::Logarithmic(first, (most.log10().ceil() as i32).max(first + 1));
        }
        let step = tick(if most > 0.0 { most } else { 1.0 });
        Axis::Linear(step, (most / step).ceil().max(1.0) * step)
    }

    /// 0 is the bottom and 1 the top; not finite for what is not on it.
    fn position(&self, value: f64) -> f64 {
        match *self {
            Axis::Linear(_, top) => value / top,
            Axis::Logarithmic(first, last) => (value.log10() - f64::from(first)) / f64::from(last - first),
        }
    }

    fn ticks(&self) -> Vec<f64> {
        match *self {
            Axis::Linear(step, top) => {
                (0..=(top / step).round() as usize).map(|at| at as f64 * step).collect()
            }
            Axis::Logarithmic(first, last) => (first..=last).map(|power| 10_f64.powi(power)).collect(),
        }
    }
}

/// The chart.
pub(super) fn svg(figure: &LineFigure) -> String {
    let axis = Axis::of(figure);
    let y = |value: f64| TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - axis.position(value));
    let gap = (WIDTH - LEFT - RIGHT) / figure.points.len().max(1) as f64;
    let x = |at: usize| LEFT + gap * (at as f64 + 0.5);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\" style=\"width:100%;max-width:{}px;height:auto;font-size:12px\">",
        escape(&figure.title),
        WIDTH * LARGEST
    );
    for value in axis.ticks() {
        let _ = write!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"var(--grid)\"/><text x=\"{}\" y=\"{:.1}\" \
             text-anchor=\"end\" fill=\"var(--quiet)\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 7.0,
            y(value) + 4.0,
            number(value),
            y = y(value),
        );
    }
    let longest = figure.points.iter().map(|point| point.chars().count()).max().unwrap_or(0);
    let every = ((longest as f64 * LETTER + LETTER) / gap).ceil().max(1.0) as usize;
    for (at, point) in figure.points.iter().enumerate().step_by(every) {
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\" fill=\"var(--quiet)\">{}</text>",
            x(at),
            HEIGHT - BOTTOM + 17.0,
            escape(point)
        );
    }
    let middle = LEFT + (WIDTH - LEFT - RIGHT) / 2.0;
    let _ = write!(
        svg,
        "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\" fill=\"var(--ink)\">{}</text>\
         <text transform=\"rotate(-90)\" x=\"{}\" y=\"13\" text-anchor=\"middle\" fill=\"var(--ink)\">{}</text>",
        HEIGHT - 7.0,
        escape(&figure.x),
        -(TOP + (HEIGHT - TOP - BOTTOM) / 2.0),
        escape(&figure.y)
    );
    for (at, series) in figure.series.iter().enumerate() {
        line(&mut svg, &colour(at), series, x, y);
    }
    svg.push_str("</svg>");
    svg
}

/// A series: a line that is broken where there is no value, and a dot for each value.
fn line(
    svg: &mut String,
    colour: &str,
    series: &super::Series,
    x: impl Fn(usize) -> f64,
    y: impl Fn(f64) -> f64,
) {
    let mut path = String::new();
    let mut dots = String::new();
    let mut pen_is_up = true;
    for (at, value) in series.values.iter().enumerate() {
        let Some(value) = value.filter(|value| value.is_finite() && y(*value).is_finite()) else {
            pen_is_up = true;
            continue;
        };
        let letter = if std::mem::replace(&mut pen_is_up, false) { 'M' } else { 'L' };
        let (x, y) = (x(at), y(value));
        let _ = write!(path, "{letter}{x:.1} {y:.1}");
        let _ = write!(
            dots,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.4\" fill=\"{colour}\"><title>{}: {}</title></circle>",
            escape(&series.name),
            number(value)
        );
    }
    let _ = write!(svg, "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>{dots}");
}

/// A round distance between lines of the grid: 1, 2 or 5 times a power of ten.
pub(crate) fn tick(most: f64) -> f64 {
    let rough = most / TICKS;
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= rough * 0.999);
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::Series;

    #[test]
    fn ticks_are_round() {
        let check = |most: f64, expected: f64| {
            let found = tick(most);
            assert!((found - expected).abs() < 1e-9 * expected, "{most}: {found}");
        };
        check(1.0, 0.2);
        check(10.0, 2.0);
        check(37.0, 10.0);
        check(0.049, 0.01);
        check(2400.0, 500.0);
    }

    #[test]
    fn a_chart_has_a_dot_for_every_value_and_a_gap_where_there_is_none() {
        let values = vec![Some(1.0), None, Some(3.0), Some(0.0)];
        let figure = LineFigure {
            title: "a < b".to_owned(),
            points: ["8", "16", "32", "64"].map(str::to_owned).to_vec(),
            series: vec![Series { name: "WASE".to_owned(), values }, Series::default()],
            ..LineFigure::default()
        };
        let svg = svg(&figure);
        assert_eq!(svg.matches("<circle").count(), 3);
        assert_eq!(svg.matches('M').count(), 2, "{svg}");
        assert!(svg.contains("a &lt; b") && !svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn powers_of_ten_are_equally_far_from_each_other() {
        let series =
            Series { name: "a".to_owned(), values: vec![Some(0.2), Some(0.0), Some(2.0), Some(90.0)] };
        let figure = LineFigure { logarithmic: true, series: vec![series], ..LineFigure::default() };
        let axis = Axis::of(&figure);
        assert_eq!(axis.ticks(), [0.1, 1.0, 10.0, 100.0]);
        let positions = [0.1, 1.0, 10.0, 100.0].map(|value| (axis.position(value) * 3.0).round() as i32);
        assert_eq!(positions, [0, 1, 2, 3]);
        let points = ["1", "2", "3", "4"].map(str::to_owned).to_vec();
        let drawn = svg(&LineFigure { points, ..figure });
        assert!(drawn.matches("<circle").count() == 3 && !drawn.contains("inf"), "0 is not on it: {drawn}");
    }

    #[test]
    fn points_that_are_close_together_are_named_now_and_then() {
        let points = (1..=40).map(|point| (point * 1_000).to_string()).collect();
        let named = svg(&LineFigure { points, ..LineFigure::default() });
        let names = (1..=40).filter(|point| named.contains(&format!(">{}000<", point))).count();
        assert!((5..=14).contains(&names), "{names}");
    }
}
