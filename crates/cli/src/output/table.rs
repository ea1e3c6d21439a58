//! Rows and columns that fit the terminal.

use serde_json::Value;

use super::Output;
use super::text::{self, Cell, Style};
use crate::error::CliError;

/// Spaces between two columns.
const GAP: usize = 2;
/// A column is not made narrower than this while other columns can shrink.
const NARROW: usize = 8;

/// One column of a table of documents.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    /// Its heading.
    title: &'static str,
    /// Extracts the value from a document.
    cell: fn(&Value) -> Cell,
    /// Shrinks last: an id is copied, and half an id is useless.
    is_id: bool,
    /// Minimum width, for wider rows that may come later.
    least: usize,
}

impl Column {
    /// A column that may be cut.
    pub(crate) const fn new(title: &'static str, cell: fn(&Value) -> Cell) -> Self {
        Self {
            title,
            cell,
            is_id: false,
            least: title.len(),
        }
    }

    /// A column of ids, which shrinks last.
    pub(crate) const fn id(title: &'static str, cell: fn(&Value) -> Cell) -> Self {
        Self {
            is_id: true,
            ..Self::new(title, cell)
        }
    }

    /// A column with a minimum width for all its possible values.
    pub(crate) const fn at_least(self, least: usize) -> Self {
        Self { least, ..self }
    }
}

/// The value of the first of these JSON pointers that exists.
pub(crate) fn at(document: &Value, pointers: &[&str]) -> Cell {
    let found = pointers
        .iter()
        .filter_map(|pointer| document.pointer(pointer))
        .find(|value| !value.is_null());
    found.map_or_else(|| Cell::new(""), Cell::of)
}

/// A table that grows page by page: the first page determines the column widths.
#[derive(Debug)]
pub(crate) struct Table {
    columns: &'static [Column],
    widths: Vec<usize>,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(columns: &'static [Column]) -> Self {
        Self {
            columns,
            widths: Vec::new(),
        }
    }

    /// Prints more rows; the heading comes before the first.
    pub(crate) fn print(&mut self, documents: &[Value], out: &mut Output) -> Result<(), CliError> {
        let row = |document: &Value| -> Vec<Cell> {
            let columns = self.columns.iter();
            columns.map(|column| (column.cell)(document)).collect()
        };
        let rows: Vec<Vec<Cell>> = documents.iter().map(row).collect();
        if self.widths.is_empty() {
            self.widths = self.fit(&rows, out.width());
            let titles = self.columns.iter();
            let titles = titles.map(|column| Cell::new(column.title).styled(Style::Bold));
            out.line(&self.line(&titles.collect::<Vec<_>>(), out))?;
        }
        rows.iter()
            .try_for_each(|row| out.line(&self.line(row, out)))
    }

    fn fit(&self, rows: &[Vec<Cell>], most: Option<usize>) -> Vec<usize> {
        let natural = |(i, column): (usize, &Column)| {
            let cells = rows.iter().filter_map(|row| row.get(i));
            let widest = cells.map(|cell| text::width(&cell.text)).max().unwrap_or(0);
            widest.max(column.least)
        };
        let mut widths: Vec<usize> = self.columns.iter().enumerate().map(natural).collect();
        if let Some(most) = most {
            self.leave_out(&mut widths, most);
            let room = most.saturating_sub(GAP * widths.len().saturating_sub(1));
            let ids = self.columns.iter().map(|column| column.is_id);
            let ids: Vec<bool> = ids.collect();
            shrink(&mut widths, room, |i| {
                !ids.get(i).is_some_and(|is_id| *is_id)
            });
            shrink(&mut widths, room, |_| true);
        }
        widths
    }

    /// If not all columns fit at a readable width, the rightmost are left out: the most important
    /// columns come first.
    fn leave_out(&self, widths: &mut Vec<usize>, most: usize) {
        let least = |(column, width): (&Column, &usize)| match column.is_id {
            true => *width,
            false => (*width).min(NARROW),
        };
        let fits = |widths: &[usize]| {
            let needed: usize = self.columns.iter().zip(widths).map(least).sum();
            needed + GAP * widths.len().saturating_sub(1) <= most
        };
        while widths.len() > 1 && !fits(widths) {
            widths.pop();
        }
    }

    /// The last cell is not padded, so that no line ends in spaces.
    fn line(&self, cells: &[Cell], out: &Output) -> String {
        let mut line = String::new();
        // Pending padding: written only if another cell follows.
        let mut owed = 0;
        for (i, (cell, width)) in cells.iter().zip(&self.widths).enumerate() {
            let is_last = i + 1 == self.widths.len();
            let shown = match out.width() {
                Some(_) => text::cut(&cell.text, *width),
                // Later pages may be wider than the first; a pipe gets uncut text.
                None => text::cut(&cell.text, usize::MAX),
            };
            if !shown.is_empty() {
                line.extend(std::iter::repeat_n(' ', owed));
                owed = 0;
                line.push_str(&out.painted(&shown, cell.style));
            }
            if !is_last {
                owed += width.saturating_sub(text::width(&shown)) + GAP;
            }
        }
        line
    }
}

/// Shrinks the widest of the columns that may shrink, until all fit or none can shrink further.
fn shrink(widths: &mut [usize], room: usize, may_give: impl Fn(usize) -> bool) {
    while widths.iter().sum::<usize>() > room {
        let givers = widths.iter_mut().enumerate();
        let givers = givers.filter(|(i, width)| may_give(*i) && **width > NARROW);
        let Some((_, widest)) = givers.max_by_key(|(_, width)| **width) else {
            return;
        };
        *widest -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_gives_first_and_ids_last() {
        let mut widths = [36, 30, 12];
        shrink(&mut widths, 60, |i| i > 0);
        assert_eq!(widths, [36, 12, 12]);
        shrink(&mut widths, 40, |i| i > 0);
        assert_eq!(widths, [36, 8, 8]);
        shrink(&mut widths, 40, |_| true);
        assert_eq!(widths, [24, 8, 8]);
        shrink(&mut widths, 3, |_| true);
        assert_eq!(widths, [8, 8, 8]);
    }
}
