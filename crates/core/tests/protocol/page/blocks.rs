//! Finds and replaces the printed parts of a page.

const END: &str = "<!-- end -->";

/// The page with the text of every named block replaced.
pub(super) fn replace(page: &str, blocks: &[(&str, String)]) -> String {
    blocks.iter().fold(page.to_owned(), |page, (name, text)| {
        let start = format!("<!-- code: {name} -->\n");
        let missing = || panic!("docs/protocol.md has no block {name:?}");
        let (before, rest) = page.split_once(&start).unwrap_or_else(missing);
        let (_, after) = rest.split_once(END).unwrap_or_else(missing);
        format!("{before}{start}{text}{END}{after}")
    })
}

/// The names in backticks of a table's first column, below a heading.
pub(super) fn first_column(page: &str, heading: &str) -> Vec<String> {
    let start = format!("\n{heading}\n");
    let Some((_, below)) = page.split_once(&start) else {
        panic!("docs/protocol.md has no heading {heading:?}");
    };
    let end = below.find("\n## ").unwrap_or(below.len());
    let end = below.find("\n### ").map_or(end, |other| other.min(end));
    let cells = below[..end].lines().filter_map(|line| {
        let cell = line.strip_prefix("| `")?;
        cell.split('`').next()
    });
    cells.map(str::to_owned).collect()
}
