//! Draws the weekly figures as a chart: one file without scripts or references to others, readable
//! on a light and on a dark page.

use serde_json::Value;

use super::super::follow::{number, text};
use super::super::summary::grouped;
use super::duration;

const WIDTH: f64 = 720.0;
/// Left of the bars: the largest value.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
/// Above the first panel: the title.
const TOP: f64 = 40.0;
/// A panel with its heading, its bars and a gap.
const PANEL: f64 = 118.0;
const HEADING: f64 = 22.0;
const BARS: f64 = 72.0;
/// Below the last panel: the dates.
const BOTTOM: f64 = 22.0;
/// Dates that fit below the bars.
const DATES_MAX: usize = 6;

const STYLE: &str = "\
text{font:12px system-ui,sans-serif;fill:#1f2328}\
.title{font-size:15px;font-weight:600}\
.dim{fill:#57606a}\
.page{fill:#ffffff}\
.axis{stroke:#d0d7de}\
.one{fill:#0969da}\
.two{fill:#bc4c00}\
@media (prefers-color-scheme:dark){\
text{fill:#e6edf3}\
.dim{fill:#9198a1}\
.page{fill:#0d1117}\
.axis{stroke:#3d444d}\
.one{fill:#58a6ff}\
.two{fill:#f0883e}}";

/// Two figures of each week, side by side.
struct Panel {
    title: &'static str,
    /// Names and JSON pointers.
    figures: [(&'static str, &'static str); 2],
    show: fn(u64) -> String,
}

const PANELS: [Panel; 4] = [
    Panel {
        title: "Commits",
        figures: [("all", "/commits"), ("own", "/own_commits")],
        show: grouped,
    },
    Panel {
        title: "Issues",
        figures: [("opened", "/issues_opened"), ("closed", "/issues_closed")],
        show: grouped,
    },
    Panel {
        title: "Pull requests",
        figures: [
            ("opened", "/pull_requests_opened"),
            ("merged", "/pull_requests_merged"),
        ],
        show: grouped,
    },
    Panel {
        title: "Median time of pull requests",
        figures: [
            ("to the merge", "/lead_time/median_minutes"),
            ("to the first review", "/review_time/median_minutes"),
        ],
        show: duration,
    },
];

/// The chart of a user or repository of this name.
pub(super) fn chart(name: &str, statistics: &Value) -> String {
    let weeks = statistics
        .pointer("/weekly/weeks")
        .and_then(Value::as_array);
    let weeks = weeks.map(Vec::as_slice).unwrap_or_default();
    let height = TOP + PANEL * PANELS.len() as f64 + BOTTOM;
    let title = match (weeks.first(), weeks.last()) {
        (Some(first), Some(last)) => format!(
            "{}: weeks from {} to {}",
            escaped(name),
            escaped(text(first, "/week")),
            escaped(text(last, "/week"))
        ),
        _ => escaped(name),
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
         <text class=\"title\" x=\"16\" y=\"26\">{title}</text>\n"
    );
    for (place, panel) in PANELS.iter().enumerate() {
        draw(panel, TOP + PANEL * place as f64, weeks, &mut svg);
    }
    dates(weeks, height - 10.0, &mut svg);
    svg.push_str("</svg>\n");
    svg
}

fn draw(panel: &Panel, top: f64, weeks: &[Value], svg: &mut String) {
    let [(one, first), (two, second)] = panel.figures;
    let base = top + HEADING + BARS;
    let line = top + 12.0;
    svg.push_str(&format!(
        "<text x=\"{LEFT}\" y=\"{line}\">{}</text>\n",
        panel.title
    ));
    for (class, label, x) in [("one", one, 330.0), ("two", two, 480.0)] {
        svg.push_str(&format!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{}\" width=\"10\" height=\"10\"/>\
             <text class=\"dim\" x=\"{}\" y=\"{line}\">{label}</text>\n",
            line - 9.0,
            x + 16.0
        ));
    }
    let values = weeks
        .iter()
        .flat_map(|week| [number(week, first), number(week, second)]);
    let largest = values.max().unwrap_or(0);
    let (label, x, y) = ((panel.show)(largest), LEFT - 8.0, top + HEADING + 10.0);
    if largest > 0 {
        svg.push_str(&format!(
            "<text class=\"dim\" x=\"{x}\" y=\"{y}\" text-anchor=\"end\">{label}</text>\n"
        ));
    }
    let slot = slot(weeks.len());
    let bar = slot * 0.4;
    for (place, week) in weeks.iter().enumerate() {
        let (a, b) = (number(week, first), number(week, second));
        if a + b == 0 {
            continue;
        }
        let x = LEFT + slot * place as f64 + slot * 0.1;
        let rect = |class: &str, x: f64, value: u64| {
            let height = value as f64 / largest.max(1) as f64 * BARS;
            format!(
                "<rect class=\"{class}\" x=\"{x:.2}\" y=\"{:.2}\" width=\"{bar:.2}\" height=\"{height:.2}\"/>",
                base - height
            )
        };
        svg.push_str(&format!(
            "<g><title>{}: {} {one}, {} {two}</title>{}{}</g>\n",
            escaped(text(week, "/week")),
            (panel.show)(a),
            (panel.show)(b),
            rect("one", x, a),
            rect("two", x + bar, b)
        ));
    }
    svg.push_str(&format!(
        "<line class=\"axis\" x1=\"{LEFT}\" y1=\"{base}\" x2=\"{}\" y2=\"{base}\"/>\n",
        WIDTH - RIGHT
    ));
}

/// The width that a week has.
fn slot(weeks: usize) -> f64 {
    (WIDTH - LEFT - RIGHT) / weeks.max(1) as f64
}

fn dates(weeks: &[Value], y: f64, svg: &mut String) {
    let every = weeks.len().div_ceil(DATES_MAX).max(1);
    for (place, week) in weeks.iter().enumerate().step_by(every) {
        let x = LEFT + slot(weeks.len()) * place as f64;
        let week = escaped(text(week, "/week"));
        svg.push_str(&format!(
            "<text class=\"dim\" x=\"{x:.2}\" y=\"{y}\">{week}</text>\n"
        ));
    }
}

/// Text of any origin, safe in XML: without control characters, which XML does not allow.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            c if c.is_control() => {}
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn statistics(weeks: usize) -> Value {
        let week = |n: usize| {
            json!({
                "week": format!("2026-01-{n:02}"), "commits": n, "own_commits": 1,
                "issues_opened": 0, "issues_closed": 0,
                "lead_time": {"median_minutes": 90},
            })
        };
        json!({"weekly": {"weeks": (1..=weeks).map(week).collect::<Vec<_>>()}})
    }

    /// Asserts that every element is closed in order; returns the names of the elements.
    fn elements(svg: &str) -> Vec<String> {
        let (mut open, mut all) = (Vec::new(), Vec::new());
        for part in svg.split('<').skip(1) {
            let (tag, _) = part.split_once('>').expect("a tag ends");
            let name = tag.trim_start_matches('/').split([' ', '/']).next();
            let name = name.unwrap_or_default().to_owned();
            match (tag.starts_with('/'), tag.ends_with('/')) {
                (true, _) => assert_eq!(open.pop(), Some(name)),
                (false, is_closed) => {
                    all.push(name.clone());
                    open.extend((!is_closed).then_some(name));
                }
            }
        }
        assert!(open.is_empty(), "{open:?}");
        all
    }

    #[test]
    fn a_chart_has_a_group_of_bars_for_each_week_with_figures() {
        let svg = chart("octocat", &statistics(12));
        let elements = elements(&svg);
        let count = |name: &str| elements.iter().filter(|one| *one == name).count();
        // Commits and lead times, in each of twelve weeks.
        assert_eq!(count("g"), 24);
        assert!(svg.contains("2026-01-12: 12 all, 1 own"), "{svg}");
        assert!(svg.contains(">1.5h</text>"), "the largest lead time: {svg}");
        assert!(svg.contains("prefers-color-scheme:dark"));
        for forbidden in ["script", "foreignObject", "image", "use", "a"] {
            assert_eq!(count(forbidden), 0, "{forbidden}");
        }
        assert!(!svg.contains("href"));
    }

    #[test]
    fn a_chart_is_well_formed_whatever_the_figures_are() {
        for statistics in [json!({}), statistics(0), statistics(1), statistics(520)] {
            let svg = chart("a<b>&\"c\"\u{1b}", &statistics);
            elements(&svg);
            assert!(svg.contains("a&lt;b&gt;&amp;&quot;c&quot;"), "{svg:.300}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg:.300}");
        }
    }

    #[test]
    fn bars_stay_inside_the_chart() {
        let svg = chart("octocat", &statistics(520));
        let xs = svg.split(" x=\"").skip(1);
        for x in xs.map(|rest| rest.split('"').next().unwrap_or_default()) {
            let x: f64 = x.parse().expect("a number");
            assert!((0.0..WIDTH - RIGHT).contains(&x), "{x}");
        }
    }
}
