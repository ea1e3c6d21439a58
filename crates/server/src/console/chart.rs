//! Charts as SVG, with axes, and with the same figures as a table for people who do not see them.

use std::fmt::Write;

use maud::{Markup, PreEscaped, html};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 190.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 24.0;
/// Lines across the chart.
const STEPS: u32 = 4;

/// One minute: its label, and how many operations ended how.
pub(super) struct Ended {
    pub(super) label: String,
    pub(super) completed: u64,
    pub(super) failed: u64,
}

/// One minute: its label, and how long operations took, in milliseconds.
pub(super) struct Took {
    pub(super) label: String,
    pub(super) percentiles: Option<[f64; 3]>,
}

fn plot_width() -> f64 {
    WIDTH - LEFT - RIGHT
}

fn plot_height() -> f64 {
    HEIGHT - TOP - BOTTOM
}

/// The next round number above the largest value: 1, 2 or 5 times a power of ten.
fn ceiling(largest: f64) -> f64 {
    if largest <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(largest.log10().floor());
    let steps = [1.0, 2.0, 4.0, 5.0, 8.0, 10.0];
    let found = steps
        .iter()
        .map(|step| step * power)
        .find(|top| *top >= largest);
    found.unwrap_or(10.0 * power)
}

/// `1.2k`, `850`, `0.5`
fn short(value: f64) -> String {
    match value {
        v if v >= 1_000_000.0 => format!("{}M", trim(v / 1_000_000.0)),
        v if v >= 1_000.0 => format!("{}k", trim(v / 1_000.0)),
        v => trim(v),
    }
}

fn trim(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Milliseconds with their unit.
fn millis(value: f64) -> String {
    match value {
        v if v >= 60_000.0 => format!("{} min", trim((v / 6_000.0).round() / 10.0)),
        v if v >= 1_000.0 => format!("{} s", trim((v / 100.0).round() / 10.0)),
        v if v >= 10.0 => format!("{} ms", v.round()),
        v => format!("{} ms", trim(v)),
    }
}

/// Grid, axes and labels.
fn frame(top: f64, labels: &[&str], unit: impl Fn(f64) -> String) -> String {
    let mut svg = String::new();
    for step in 0..=STEPS {
        let share = f64::from(step) / f64::from(STEPS);
        let y = TOP + plot_height() * (1.0 - share);
        let class = if step == 0 { "axis" } else { "grid" };
        let _ = write!(
            svg,
            "<line class=\"{class}\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0,
            unit(top * share)
        );
    }
    let last = labels.len().saturating_sub(1);
    for (i, label) in labels.iter().enumerate() {
        if i != last && (i % 15 != 0 || last - i < 8) {
            continue;
        }
        let x = LEFT + plot_width() * (i as f64 + 0.5) / labels.len() as f64;
        let anchor = if i == last { "end" } else { "middle" };
        let x = if i == last { WIDTH - RIGHT } else { x };
        let _ = write!(
            svg,
            "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{label}</text>",
            HEIGHT - 6.0
        );
    }
    svg
}

fn drawing(name: &str, inner: &str) -> Markup {
    html! {
        svg class="chart" viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(name) {
            (PreEscaped(inner.to_owned()))
        }
    }
}

/// Operations that ended in each minute, completed below and failed on top.
pub(super) fn ended(minutes: &[Ended]) -> Markup {
    let largest = minutes.iter().map(|one| one.completed + one.failed).max();
    let top = ceiling(largest.unwrap_or(0) as f64).max(4.0);
    let labels: Vec<&str> = minutes.iter().map(|one| one.label.as_str()).collect();
    let mut inner = frame(top, &labels, short);
    let slot = plot_width() / minutes.len().max(1) as f64;
    let high = |count: u64| plot_height() * count as f64 / top;
    for (i, one) in minutes.iter().enumerate() {
        let x = LEFT + slot * i as f64 + slot * 0.12;
        let mut y = TOP + plot_height();
        for (class, count) in [("ok", one.completed), ("bad", one.failed)] {
            if count == 0 {
                continue;
            }
            // A single operation must be visible beside thousands.
            let height = high(count).max(1.5);
            y -= height;
            let _ = write!(
                inner,
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\"/>",
                slot * 0.76
            );
        }
    }
    let completed: u64 = minutes.iter().map(|one| one.completed).sum();
    let failed: u64 = minutes.iter().map(|one| one.failed).sum();
    let name = format!(
        "Operations that ended in each of the last {} minutes: {completed} completed, {failed} failed",
        minutes.len()
    );
    html! {
        (drawing(&name, &inner))
        ul class="legend" {
            li { (swatch("ok")) "completed" }
            li { (swatch("bad")) "failed" }
            li { "per minute" }
        }
        (figures("Figures", &["Minute", "Completed", "Failed"], minutes.iter().rev().map(|one| {
            vec![one.label.clone(), one.completed.to_string(), one.failed.to_string()]
        })))
    }
}

/// How long operations took, by percentile.
pub(super) fn took(minutes: &[Took]) -> Markup {
    let all = minutes.iter().filter_map(|one| one.percentiles);
    let largest = all.flatten().fold(0.0_f64, f64::max);
    let top = ceiling(largest);
    let labels: Vec<&str> = minutes.iter().map(|one| one.label.as_str()).collect();
    let mut inner = frame(top, &labels, millis);
    let slot = plot_width() / minutes.len().max(1) as f64;
    for (at, class) in ["p50", "p95", "p99"].into_iter().enumerate() {
        let mut path = String::new();
        let mut is_drawing = false;
        for (i, one) in minutes.iter().enumerate() {
            let value = one.percentiles.and_then(|all| all.get(at).copied());
            let Some(value) = value else {
                is_drawing = false;
                continue;
            };
            let x = LEFT + slot * (i as f64 + 0.5);
            let y = TOP + plot_height() * (1.0 - (value / top).min(1.0));
            let command = if is_drawing { 'L' } else { 'M' };
            let _ = write!(path, "{command}{x:.1} {y:.1}");
            if !is_drawing {
                // A minute without neighbours is still visible.
                let _ = write!(path, "h0.1");
                let _ = write!(
                    inner,
                    "<circle class=\"series dot {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"1.6\"/>"
                );
            }
            is_drawing = true;
        }
        let _ = write!(
            inner,
            "<path class=\"series {class}\" stroke-linecap=\"round\" d=\"{path}\"/>"
        );
    }
    let name = format!(
        "Time from acceptance to the end in each of the last {} minutes: at most {}",
        minutes.len(),
        millis(largest)
    );
    html! {
        (drawing(&name, &inner))
        ul class="legend" {
            li { (stroke("p50")) "half of them within" }
            li { (stroke("p95")) "95 %" }
            li { (stroke("p99")) "99 %" }
        }
        (figures("Figures", &["Minute", "p50", "p95", "p99"], minutes.iter().rev().filter_map(|one| {
            let all = one.percentiles?;
            let cells = all.into_iter().map(millis);
            Some(std::iter::once(one.label.clone()).chain(cells).collect())
        })))
    }
}

fn swatch(class: &str) -> Markup {
    html! { svg class="chart" viewBox="0 0 18 8" aria-hidden="true" { rect class=(class) width="18" height="8" rx="2" {} } }
}

fn stroke(class: &str) -> Markup {
    html! { svg class="chart" viewBox="0 0 18 8" aria-hidden="true" { path class={ "series " (class) } d="M0 4H18" {} } }
}

fn figures(title: &str, heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Markup {
    html! {
        details {
            summary { (title) }
            div class="scroll" tabindex="0" role="region" aria-label=(title) {
                table {
                    thead { tr { @for head in heads { th scope="col" { (head) } } } }
                    tbody { @for row in rows { tr { @for cell in row { td { (cell) } } } } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        for (largest, top) in [
            (0.0, 1.0),
            (1.0, 1.0),
            (3.0, 4.0),
            (7.0, 8.0),
            (11.0, 20.0),
            (950.0, 1_000.0),
        ] {
            assert!((ceiling(largest) - top).abs() < 1e-9, "{largest}");
        }
        assert_eq!(short(1_500.0), "1.5k");
        assert_eq!(millis(2_500.0), "2.5 s");
        assert_eq!(millis(0.5), "0.5 ms");
    }

    #[test]
    fn a_chart_names_its_figures() {
        let minutes = [Ended {
            label: "08:00".into(),
            completed: 3,
            failed: 1,
        }];
        let page = ended(&minutes).into_string();
        assert!(page.contains("3 completed, 1 failed"), "{page}");
        assert!(page.contains("<rect class=\"bad\""), "{page}");
        let empty = took(&[Took {
            label: "08:00".into(),
            percentiles: None,
        }])
        .into_string();
        assert!(!empty.contains("NaN"), "{empty}");
    }
}
