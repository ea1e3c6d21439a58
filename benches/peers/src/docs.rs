//! Writes the figures into the documentation.

use std::path::Path;

use clinch_peers_load::Result;

use crate::plot;
use crate::report::Report;

const BEGIN: &str = "<!-- written by `cargo xtask bench peers --write` -->";
const END: &str = "<!-- end -->";

/// Replaces the part between the two comments of docs/benchmarks.md, and the plot beside it.
pub(crate) fn write(root: &Path, report: &Report) -> Result<()> {
    let page = root.join("docs/benchmarks.md");
    let text = std::fs::read_to_string(&page)?;
    let (before, rest) = text.split_once(BEGIN).ok_or("the page has no begin")?;
    let (_, after) = rest.split_once(END).ok_or("the page has no end")?;
    let (table, settings) = (report.table(), report.settings());
    let written =
        format!("{before}{BEGIN}\n\n{table}\n\n### Settings\n\n{settings}\n\n{END}{after}");
    std::fs::write(page, written)?;
    std::fs::write(root.join("docs/benchmarks.svg"), plot::svg(report))?;
    Ok(())
}
