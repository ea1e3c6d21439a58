//! The plot: by how much Clinch is better than each peer, on a logarithmic axis.

use std::fmt::Write;

use crate::report::{Compared, Report, number};
use crate::rows::Goal;

const WIDTH: f64 = 970.0;
/// Room for long names, left of everything else.
const MARGIN: f64 = 70.0;
/// Where the axis begins and ends.
const LEFT: f64 = 430.0;
const RIGHT: f64 = 840.0;
const TOP: f64 = 84.0;
const LINE: f64 = 22.0;

/// Blue and orange of Okabe and Ito, which people tell apart who do not see red or green; the
/// marks differ in shape too. The colours follow the reader's light or dark mode.
const STYLE: &str = "\
<style>\
svg{font:13px system-ui,sans-serif}\
.back{fill:#fff}text{fill:#1f2328}.soft{fill:#59636e}.grid{stroke:#d1d9e0}.even{stroke:#59636e}\
.goal{stroke:#1f2328;stroke-width:2}\
.yes{fill:#0072b2;stroke:#0072b2}.no{fill:#d55e00;stroke:#d55e00}.open{fill:#8c959f;stroke:#8c959f}\
@media(prefers-color-scheme:dark){\
.back{fill:#0d1117}text{fill:#f0f6fc}.soft{fill:#9198a1}.grid{stroke:#3d444d}.even{stroke:#9198a1}\
.goal{stroke:#f0f6fc}\
.yes{fill:#56b4e9;stroke:#56b4e9}.no{fill:#e69f00;stroke:#e69f00}}\
</style>";

/// How many times as good as the peer: lowest, median, highest, and the goal.
struct Point {
    low: f64,
    median: f64,
    high: f64,
    goal: Option<f64>,
}

impl Point {
    fn of(one: &Compared) -> Self {
        let (ours, theirs) = (one.ours, one.theirs);
        // A rate should be high; a time or a size should be low.
        if one.row.unit == "/s" {
            return Self {
                low: ours.low / theirs.high,
                median: ours.median / theirs.median,
                high: ours.high / theirs.low,
                goal: match one.row.goal {
                    Goal::AtLeast(goal) | Goal::AtMost(goal) => Some(goal),
                    Goal::None => None,
                },
            };
        }
        Self {
            low: theirs.low / ours.high,
            median: theirs.median / ours.median,
            high: theirs.high / ours.low,
            goal: match one.row.goal {
                Goal::AtLeast(goal) | Goal::AtMost(goal) => Some(1.0 / goal),
                Goal::None => None,
            },
        }
    }
}

/// The axis: powers of two around all points.
struct Axis {
    first: f64,
    last: f64,
}

impl Axis {
    fn of(points: &[Point]) -> Self {
        let all = points.iter().flat_map(|point| {
            let goal = point.goal.unwrap_or(1.0);
            [point.low, point.high, goal]
        });
        let (mut first, mut last) = (0.0_f64, 1.0_f64);
        for value in all.filter(|value| *value > 0.0 && value.is_finite()) {
            first = first.min(value.log2().floor());
            last = last.max(value.log2().ceil());
        }
        Self { first, last }
    }

    fn x(&self, value: f64) -> f64 {
        let share = (value.log2() - self.first) / (self.last - self.first);
        LEFT + share.clamp(0.0, 1.0) * (RIGHT - LEFT)
    }
}

/// The whole plot as SVG.
pub(crate) fn svg(report: &Report) -> String {
    let points: Vec<Point> = report.compared.iter().map(Point::of).collect();
    let axis = Axis::of(&points);
    let bottom = TOP + LINE * points.len() as f64;
    let height = bottom + 62.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-{MARGIN} 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"Clinch beside other systems: how many times as good as the peer\">{STYLE}\n\
         <rect class=\"back\" x=\"-{MARGIN}\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
         <text x=\"16\" y=\"26\" font-size=\"16\" font-weight=\"600\">Clinch beside other durable \
         systems, the same job on the same machine</text>\n"
    );
    legend(&mut text);
    grid(&mut text, &axis, bottom);
    for (at, (one, point)) in report.compared.iter().zip(&points).enumerate() {
        let y = TOP + LINE * (at as f64 + 0.5);
        line(&mut text, &axis, one, point, y);
    }
    let end = RIGHT + 50.0;
    let _ = write!(
        text,
        "<text class=\"soft\" x=\"{end}\" y=\"{}\" text-anchor=\"end\">times as good as the peer \
         (rate: Clinch / peer; time and memory: peer / Clinch), logarithmic</text>\n</svg>\n",
        bottom + 44.0
    );
    text
}

fn legend(text: &mut String) {
    let entries = [
        ("yes", "goal reached"),
        ("no", "goal missed"),
        ("open", "no goal"),
    ];
    for (at, (class, name)) in (0_u8..).zip(entries) {
        let x = 22.0 + 120.0 * f64::from(at);
        mark(text, class, x, 50.0);
        let _ = writeln!(text, "<text x=\"{}\" y=\"54.5\">{name}</text>", x + 11.0);
    }
    let _ = writeln!(
        text,
        "<line class=\"goal\" x1=\"370\" x2=\"370\" y1=\"43\" y2=\"57\"/>\
         <text x=\"378\" y=\"54.5\">goal</text>\
         <text class=\"soft\" x=\"430\" y=\"54.5\">mark: medians; line: range over the rounds</text>"
    );
}

fn grid(text: &mut String, axis: &Axis, bottom: f64) {
    let mut power = axis.first;
    while power <= axis.last {
        let value = power.exp2();
        let x = axis.x(value);
        let class = if value == 1.0 { "even" } else { "grid" };
        let label = if value < 1.0 {
            format!("1/{}", 1.0 / value)
        } else {
            format!("{value}")
        };
        let _ = writeln!(
            text,
            "<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{bottom}\"/>\
             <text class=\"soft\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{label}×</text>",
            TOP - 4.0,
            bottom + 18.0
        );
        power += 1.0;
    }
}

fn line(text: &mut String, axis: &Axis, one: &Compared, point: &Point, y: f64) {
    let class = match one.row.goal.is_reached(one.ratio()) {
        Some(true) => "yes",
        Some(false) => "no",
        None => "open",
    };
    let (low, x, high) = (axis.x(point.low), axis.x(point.median), axis.x(point.high));
    let _ = write!(
        text,
        "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}: {} <tspan class=\"soft\">/ {}</tspan></text>\
         <line class=\"{class}\" stroke-width=\"2\" x1=\"{low:.1}\" x2=\"{high:.1}\" y1=\"{y}\" y2=\"{y}\"/>",
        LEFT - 10.0,
        y + 4.5,
        one.part,
        one.row.title,
        one.against()
    );
    if let Some(goal) = point.goal {
        let goal = axis.x(goal);
        let _ = write!(
            text,
            "<line class=\"goal\" x1=\"{goal:.1}\" x2=\"{goal:.1}\" y1=\"{}\" y2=\"{}\"/>",
            y - 7.0,
            y + 7.0
        );
    }
    mark(text, class, x, y);
    let _ = writeln!(
        text,
        "<text class=\"soft\" x=\"{}\" y=\"{:.1}\">{}</text>",
        RIGHT + 8.0,
        y + 4.5,
        number(point.median)
    );
}

/// A circle, a diamond or a square.
fn mark(text: &mut String, class: &str, x: f64, y: f64) {
    let _ = match class {
        "yes" => write!(
            text,
            "<circle class=\"yes\" cx=\"{x:.1}\" cy=\"{y}\" r=\"5\"/>"
        ),
        "no" => write!(
            text,
            "<path class=\"no\" d=\"M{x:.1} {:.1}l6 6l-6 6l-6 -6z\"/>",
            y - 6.0
        ),
        _ => write!(
            text,
            "<rect class=\"open\" x=\"{:.1}\" y=\"{:.1}\" width=\"8\" height=\"8\"/>",
            x - 4.0,
            y - 4.0
        ),
    };
}
