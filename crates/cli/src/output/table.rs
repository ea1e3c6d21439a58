//! Rows and columns that fit the terminal.
//!
//! A pipe gets every value whole. On a terminal, ids are cut to the shortest prefix that is unique
//! in the listing, and times are shown as clock times. If the columns still do not fit, those with
//! the least importance are left out and the others are cut; a column that says why an operation
//! waits or failed is left out last.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Output;
use super::text::{self, Cell, Style};
use super::times;
use crate::clock;
use crate::error::CliError;

/// Spaces between two columns.
const GAP: usize = 2;
/// A column is not made narrower than this while other columns can shrink.
const NARROW: usize = 8;
/// A column that is kept is not made narrower than this while other columns can be left out.
const KEPT: usize = 30;
/// Nor narrower than this while even ids and states can be left out.
const KEPT_MIN: usize = 16;
/// The shortest id: of a UUID version 7 these are its time and 12 random bits.
const ID_CHARS_MIN: usize = 18;
/// Ids that are compared to keep prefixes unique; later ids of a longer listing are shown whole.
const IDS_MAX: usize = 10_000;

/// One column of a table of documents.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    /// Its heading.
    title: &'static str,
    /// Extracts the value from a document.
    cell: fn(&Value) -> Cell,
    /// On a terminal, cut to a prefix that is unique in the listing.
    is_id: bool,
    /// Shrinks last: half of an id or a time is useless.
    is_whole: bool,
    /// Is left out only if the columns that say why would become too narrow to be read.
    is_fixed: bool,
    /// Holds times, which a terminal shows as clock times.
    has_time: bool,
    /// Is left out after every other column, and cut after them.
    is_kept: bool,
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
            is_whole: false,
            is_fixed: false,
            has_time: false,
            is_kept: false,
            least: title.len(),
        }
    }

    /// A column of ids, which shrinks last.
    pub(crate) const fn id(title: &'static str, cell: fn(&Value) -> Cell) -> Self {
        Self {
            is_id: true,
            is_whole: true,
            is_fixed: true,
            ..Self::new(title, cell)
        }
    }

    /// A column with times.
    pub(crate) const fn time(title: &'static str, cell: fn(&Value) -> Cell) -> Self {
        Self {
            has_time: true,
            is_whole: true,
            ..Self::new(title, cell)
        }
    }

    /// The column says why: other columns are left out and cut before it. May hold times.
    pub(crate) const fn kept(self) -> Self {
        Self {
            is_kept: true,
            has_time: true,
            ..self
        }
    }

    /// The column is cut and left out last: a part of its values says nothing.
    pub(crate) const fn whole(self) -> Self {
        Self {
            is_whole: true,
            is_fixed: true,
            ..self
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

/// A table that grows page by page: the first page determines the columns and their widths.
#[derive(Debug)]
pub(crate) struct Table {
    columns: &'static [Column],
    /// Which columns are shown, and how wide.
    shown: Vec<(usize, usize)>,
    ids: BTreeSet<String>,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(columns: &'static [Column]) -> Self {
        Self {
            columns,
            shown: Vec::new(),
            ids: BTreeSet::new(),
        }
    }

    /// Prints more rows; the heading comes before the first.
    pub(crate) fn print(&mut self, documents: &[Value], out: &mut Output) -> Result<(), CliError> {
        let row = |document: &Value| -> Vec<Cell> {
            let columns = self.columns.iter();
            columns.map(|column| (column.cell)(document)).collect()
        };
        let mut rows: Vec<Vec<Cell>> = documents.iter().map(row).collect();
        if out.is_terminal() {
            self.shorten(&mut rows);
        }
        if self.shown.is_empty() {
            self.shown = fit(self.columns, &rows, out.width());
            let titles = self.columns.iter();
            let titles = titles.map(|column| Cell::new(column.title).styled(Style::Bold));
            out.line(&self.line(&titles.collect::<Vec<_>>(), out))?;
        }
        rows.iter()
            .try_for_each(|row| out.line(&self.line(row, out)))
    }

    /// Cuts ids to unique prefixes, and shows times as clock times.
    fn shorten(&mut self, rows: &mut [Vec<Cell>]) {
        let now = clock::now();
        for (i, column) in self.columns.iter().enumerate() {
            let cells = rows.iter_mut().filter_map(|row| row.get_mut(i));
            if column.has_time {
                cells.for_each(|cell| cell.text = times::short(&cell.text, now));
            } else if column.is_id {
                let mut cells: Vec<&mut Cell> = cells.collect();
                let is_full = self.ids.len() + cells.len() > IDS_MAX;
                if !is_full {
                    self.ids.extend(cells.iter().map(|cell| cell.text.clone()));
                    cells.iter_mut().for_each(|cell| {
                        let length = unique_chars(&self.ids, &cell.text);
                        cell.text = cell.text.chars().take(length).collect();
                    });
                }
            }
        }
    }

    /// The last cell is not padded, so that no line ends in spaces.
    fn line(&self, cells: &[Cell], out: &Output) -> String {
        let mut line = String::new();
        // Pending padding: written only if another cell follows.
        let mut owed = 0;
        for (place, (i, width)) in self.shown.iter().enumerate() {
            let Some(cell) = cells.get(*i) else { continue };
            let is_last = place + 1 == self.shown.len();
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

/// The length of the shortest prefix that no other id begins with, at least [`ID_CHARS_MIN`]. Of
/// sorted ids, a neighbour has the longest prefix in common.
fn unique_chars(ids: &BTreeSet<String>, id: &str) -> usize {
    use std::ops::Bound::{Excluded, Unbounded};
    let common = |other: &String| {
        let pairs = id.chars().zip(other.chars());
        pairs.take_while(|(one, other)| one == other).count()
    };
    let before = ids.range::<str, _>((Unbounded, Excluded(id))).next_back();
    let after = ids.range::<str, _>((Excluded(id), Unbounded)).next();
    let common = before.into_iter().chain(after).map(common).max();
    common.map_or(0, |common| common + 1).max(ID_CHARS_MIN)
}

/// The columns that are shown, and their widths.
fn fit(columns: &[Column], rows: &[Vec<Cell>], most: Option<usize>) -> Vec<(usize, usize)> {
    let natural = |(i, column): (usize, &Column)| {
        let cells = rows.iter().filter_map(|row| row.get(i));
        let widest = cells.map(|cell| text::width(&cell.text)).max().unwrap_or(0);
        (i, widest.max(column.least))
    };
    let mut shown: Vec<(usize, usize)> = columns.iter().enumerate().map(natural).collect();
    let Some(most) = most else { return shown };
    // On a narrow terminal a column without any value says nothing.
    let is_empty = |i: usize| {
        let cells = rows.iter().filter_map(|row| row.get(i));
        !rows.is_empty() && cells.map(|cell| &cell.text).all(String::is_empty)
    };
    let total = |shown: &[(usize, usize)]| {
        let widths: usize = shown.iter().map(|(_, width)| width).sum();
        widths + GAP * shown.len().saturating_sub(1)
    };
    if total(&shown) > most {
        shown.retain(|(i, _)| !is_empty(*i));
    }
    leave_out(columns, &mut shown, most);
    let room = most.saturating_sub(GAP * shown.len().saturating_sub(1));
    let kind = |shown: &[(usize, usize)], pick: Test| -> Vec<bool> {
        let columns = shown.iter().map(|(i, _)| columns.get(*i).is_some_and(pick));
        columns.collect()
    };
    let others = kind(&shown, |column| !column.is_whole && !column.is_kept);
    let kept = kind(&shown, |column| !column.is_whole);
    let mut widths: Vec<usize> = shown.iter().map(|(_, width)| *width).collect();
    for may_give in [others, kept, vec![true; shown.len()]] {
        shrink(&mut widths, room, |i| may_give.get(i) == Some(&true));
    }
    shown.iter().map(|(i, _)| *i).zip(widths).collect()
}

/// Selects columns.
type Test = fn(&Column) -> bool;

/// If not all columns fit at a readable width, the rightmost are left out: the most important
/// columns come first. Columns that say why are left out last.
fn leave_out(columns: &[Column], shown: &mut Vec<(usize, usize)>, most: usize) {
    let fits = |shown: &[(usize, usize)], kept: usize| {
        let least = |(i, width): &(usize, usize)| match columns.get(*i) {
            Some(column) if column.is_whole => *width,
            Some(column) if column.is_kept => (*width).min(kept),
            _ => (*width).min(NARROW),
        };
        let needed: usize = shown.iter().map(least).sum();
        needed + GAP * shown.len().saturating_sub(1) <= most
    };
    let steps: [(usize, Test); 3] = [
        (KEPT, |column| !column.is_fixed && !column.is_kept),
        (KEPT_MIN, |column| !column.is_id && !column.is_kept),
        (KEPT_MIN, |_| true),
    ];
    for (kept, may_go) in steps {
        let may_go = |(i, _): &(usize, usize)| columns.get(*i).is_some_and(may_go);
        while shown.len() > 1 && !fits(shown, kept) {
            match shown.iter().rposition(may_go) {
                Some(last) => drop(shown.remove(last)),
                None => break,
            }
        }
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

    fn cells(texts: &[&str]) -> Vec<Cell> {
        texts.iter().map(|text| Cell::new(text)).collect()
    }

    #[test]
    fn the_column_that_says_why_stays_when_others_go() {
        fn none(_: &Value) -> Cell {
            Cell::new("")
        }
        let columns = [
            Column::id("ID", none),
            Column::new("STATE", none),
            Column::new("DOMAIN", none),
            Column::new("WHY", none).kept(),
            Column::new("ACCEPTED_AT", none),
        ];
        let row = [
            "0".repeat(18),
            "x".repeat(20),
            "y".repeat(30),
            "w".repeat(40),
            "z".repeat(24),
        ];
        let row: Vec<&str> = row.iter().map(String::as_str).collect();
        let shown = fit(&columns, &[cells(&row)], Some(80));
        assert_eq!(shown, [(0, 18), (1, 8), (2, 8), (3, 30), (4, 8)]);
        let shown = fit(&columns, &[cells(&row)], Some(40));
        assert_eq!(shown, [(0, 18), (3, 20)]);
        let shown = fit(&columns, &[cells(&row)], Some(20));
        assert_eq!(shown, [(0, 18)]);
    }

    #[test]
    fn an_id_is_as_long_as_it_must_be_to_be_unique() {
        let ids = [
            "01917f5e-0000-7000-8000-000000000001",
            "01917f5e-0000-7000-8000-000000000002",
        ];
        let one: BTreeSet<String> = [ids[0].to_owned()].into();
        assert_eq!(unique_chars(&one, ids[0]), 18);
        let both: BTreeSet<String> = ids.map(str::to_owned).into();
        assert_eq!(unique_chars(&both, ids[0]), 36);
        let far: BTreeSet<String> = [ids[0].to_owned(), "01917f5e-0000-7abc".to_owned()].into();
        assert_eq!(unique_chars(&far, ids[0]), 18);
    }
}
