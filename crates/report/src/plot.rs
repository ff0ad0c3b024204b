//! A figure of measurements as an SVG file of its own: curves over an axis of numbers, as `docs/img/` shows them.
//!
//! What an axis cannot show is left out: numbers that are not finite, and on a logarithmic axis those that are not above
//! zero. A linear axis begins at 0, a logarithmic one at the power of ten below the least number.

use std::fmt::Write as _;

use crate::html::tick;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
/// The approximate number of labelled powers of ten.
const DECADES_NAMED: i32 = 8;
/// Colours that remain distinguishable with red-green colour blindness.
const COLOURS: [&str; 6] = ["#0a6ebd", "#c4500c", "#1b7f5c", "#8a3ab0", "#b08900", "#5a5a5a"];

/// A figure.
#[derive(Clone, PartialEq, Debug)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// The axis to the right.
    pub x: Axis,
    /// The axis upwards.
    pub y: Axis,
    /// What is drawn, the first one lowest.
    pub curves: Vec<Curve>,
}

/// An axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Axis {
    /// The quantity, with its unit.
    pub label: String,
    /// How far apart numbers are on it.
    pub scale: Scale,
}

/// How far apart numbers are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// As far as they differ.
    Linear,
    /// As far as their logarithms differ.
    Logarithmic,
}

/// Points of one kind.
#[derive(Clone, PartialEq, Debug)]
pub struct Curve {
    /// Its name in the legend; none is shown if there is one curve only.
    pub name: String,
    /// Its points.
    pub points: Vec<(f64, f64)>,
    /// Whether they are connected, in their order.
    pub is_line: bool,
}

impl Plot {
    /// The file.
    pub fn svg(&self) -> String {
        let shown: Vec<Vec<(f64, f64)>> = self.curves.iter().map(|curve| self.shown(curve)).collect();
        let all = || shown.iter().flatten();
        let x = Range::of(self.x.scale, all().map(|point| point.0));
        let y = Range::of(self.y.scale, all().map(|point| point.1));
        let across = |value: f64| LEFT + (WIDTH - LEFT - RIGHT) * x.share(value);
        let up = |value: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y.share(value);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
             <text x=\"{LEFT}\" y=\"22\" font-size=\"14\">{}</text>\n",
            escape(&self.title)
        );
        for (value, name) in x.ticks() {
            let (at, end) = (across(value), HEIGHT - BOTTOM);
            let _ = writeln!(
                svg,
                "<path d=\"M{at:.1} {TOP}V{end}\" stroke=\"#ddd\"/><text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{name}</text>",
                end + 16.0
            );
        }
        for (value, name) in y.ticks() {
            let at = up(value);
            let _ = writeln!(
                svg,
                "<path d=\"M{LEFT} {at:.1}H{}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>",
                WIDTH - RIGHT,
                LEFT - 8.0,
                at + 4.0
            );
        }
        let (middle, centre) = ((LEFT + WIDTH - RIGHT) / 2.0, (TOP + HEIGHT - BOTTOM) / 2.0);
        let _ = writeln!(
            svg,
            "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n\
             <text transform=\"translate(16 {centre}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            HEIGHT - 12.0,
            escape(&self.x.label),
            escape(&self.y.label)
        );
        for (at, (curve, points)) in self.curves.iter().zip(&shown).enumerate() {
            let points: Vec<(f64, f64)> = points.iter().map(|(x, y)| (across(*x), up(*y))).collect();
            draw(&mut svg, COLOURS[at % COLOURS.len()], curve.is_line, &points);
        }
        if self.curves.len() > 1 {
            self.legend(&mut svg);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn shown(&self, curve: &Curve) -> Vec<(f64, f64)> {
        let points = curve.points.iter().copied();
        points.filter(|(x, y)| self.x.scale.shows(*x) && self.y.scale.shows(*y)).collect()
    }

    /// The names of the curves, from the upper right corner to the left.
    fn legend(&self, svg: &mut String) {
        let mut right = WIDTH - RIGHT;
        for (at, curve) in self.curves.iter().enumerate().rev() {
            let colour = COLOURS[at % COLOURS.len()];
            let _ = writeln!(
                svg,
                "<text x=\"{right:.0}\" y=\"34\" text-anchor=\"end\" fill=\"{colour}\">{}</text>",
                escape(&curve.name)
            );
            right -= 7.0 * curve.name.chars().count() as f64 + 14.0;
        }
    }
}

fn draw(svg: &mut String, colour: &str, is_line: bool, points: &[(f64, f64)]) {
    if is_line {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let points = points.join(" ");
        let _ = writeln!(
            svg,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"/>"
        );
        return;
    }
    for (x, y) in points {
        let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.4\" fill=\"{colour}\"/>");
    }
}

impl Scale {
    fn shows(self, value: f64) -> bool {
        value.is_finite() && (self == Scale::Linear || value > 0.0)
    }
}

/// What an axis reaches over, in numbers or in powers of ten.
struct Range {
    scale: Scale,
    low: f64,
    high: f64,
    step: f64,
}

impl Range {
    fn of(scale: Scale, values: impl Iterator<Item = f64> + Clone) -> Range {
        match scale {
            Scale::Linear => {
                let most = values.fold(0.0, f64::max);
                let most = if most > 0.0 { most } else { 1.0 };
                let step = tick(most);
                Range { scale, low: 0.0, high: (most / step).ceil().max(1.0) * step, step }
            }
            Scale::Logarithmic => {
                let powers = values.map(f64::log10);
                let least = powers.clone().fold(f64::INFINITY, f64::min);
                let low = if least.is_finite() { (least + 1e-9).floor() } else { 0.0 };
                let high = (powers.fold(low, f64::max) - 1e-9).ceil().max(low + 1.0);
                let step = f64::from(((high - low) as i32 - 1) / DECADES_NAMED + 1);
                Range { scale, low, high, step }
            }
        }
    }

    /// Where a number is, from 0 to 1.
    fn share(&self, value: f64) -> f64 {
        let at = if self.scale == Scale::Linear { value } else { value.log10() };
        (at - self.low) / (self.high - self.low)
    }

    /// The lines of the grid: numbers, and how they are written.
    fn ticks(&self) -> Vec<(f64, String)> {
        let count = ((self.high - self.low) / self.step + 1e-9).floor() as usize;
        let ticks = (0..=count).map(|at| self.low + at as f64 * self.step);
        let decimals = (-self.step.log10().floor()).max(0.0) as usize;
        let written = |at: f64| match self.scale {
            Scale::Linear => (at, format!("{at:.decimals$}")),
            Scale::Logarithmic => (10_f64.powf(at), power(at as i32)),
        };
        ticks.map(written).collect()
    }
}

/// A power of ten, written out where that is short.
fn power(exponent: i32) -> String {
    match exponent {
        -3..0 => format!("{:.*}", exponent.unsigned_abs() as usize, 10_f64.powi(exponent)),
        0..=4 => format!("{:.0}", 10_f64.powi(exponent)),
        _ => format!("1e{exponent}"),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(scale: Scale, points: &[(f64, f64)]) -> Plot {
        let axis = |label: &str| Axis { label: label.to_owned(), scale };
        let curve = Curve { name: "one".to_owned(), points: points.to_vec(), is_line: false };
        Plot { title: "a < b".to_owned(), x: axis("x"), y: axis("y"), curves: vec![curve] }
    }

    fn ticks(scale: Scale, values: &[f64]) -> String {
        let ticks = Range::of(scale, values.iter().copied()).ticks();
        ticks.into_iter().map(|(_, name)| name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn axes_begin_and_end_at_round_numbers() {
        assert_eq!(ticks(Scale::Linear, &[3.0, 7.2]), "0 2 4 6 8");
        assert_eq!(ticks(Scale::Linear, &[]), "0.0 0.2 0.4 0.6 0.8 1.0");
        assert_eq!(ticks(Scale::Logarithmic, &[0.002, 30.0]), "0.001 0.01 0.1 1 10 100");
        assert_eq!(ticks(Scale::Logarithmic, &[1e-16, 1.0]), "1e-16 1e-14 1e-12 1e-10 1e-8 1e-6 1e-4 0.01 1");
        assert_eq!(ticks(Scale::Logarithmic, &[]), "1 10");
    }

    #[test]
    fn corners_are_where_the_axes_say() {
        let svg = plot(Scale::Logarithmic, &[(1.0, 1.0), (100.0, 10.0), (10.0, 1.0)]).svg();
        for corner in ["cx=\"70.0\" cy=\"310.0\"", "cx=\"620.0\" cy=\"40.0\"", "cx=\"345.0\" cy=\"310.0\""] {
            assert!(svg.contains(corner), "{corner}: {svg}");
        }
        assert!(svg.contains("a &lt; b") && !svg.contains(">one<"), "{svg}");
    }

    #[test]
    fn what_an_axis_cannot_show_is_left_out() {
        let points = [(1.0, 2.0), (0.0, 1.0), (1.0, f64::NAN), (f64::INFINITY, 1.0), (1.0, -1.0)];
        let svg = plot(Scale::Logarithmic, &points).svg();
        assert!(svg.matches("<circle").count() == 1 && !svg.contains("NaN"), "{svg}");
        let svg = plot(Scale::Linear, &points[..2]).svg();
        assert_eq!(svg.matches("<circle").count(), 2, "{svg}");
    }
}
