//! A bar on standard error while long work goes on; nothing where that is no terminal.

use std::io::{self, IsTerminal as _, Write as _};

/// Cells of the bar itself; the numbers beside it say the rest.
const CELLS: usize = 24;

/// How far a piece of work is.
#[derive(Debug)]
pub(crate) struct Progress {
    label: &'static str,
    done: usize,
    total: usize,
    is_shown: bool,
}

impl Progress {
    /// Work of `total` steps. A single step is no long work.
    pub(crate) fn new(label: &'static str, total: usize) -> Self {
        let progress = Self {
            label,
            done: 0,
            total,
            is_shown: total > 1 && io::stderr().is_terminal(),
        };
        progress.draw();
        progress
    }

    /// One more is done.
    pub(crate) fn step(&mut self) {
        self.done += 1;
        self.draw();
    }

    /// Takes the bar away, so that a line can be printed in its place.
    pub(crate) fn hide(&self) {
        self.write("\r\x1b[2K");
    }

    fn draw(&self) {
        let filled = (self.done * CELLS)
            .checked_div(self.total)
            .unwrap_or(CELLS)
            .min(CELLS);
        let bar = "#".repeat(filled) + &"-".repeat(CELLS - filled);
        self.write(&format!(
            "\r\x1b[2K{} {}/{} [{bar}]",
            self.label, self.done, self.total
        ));
    }

    fn write(&self, text: &str) {
        if self.is_shown {
            let mut err = io::stderr();
            let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.hide();
    }
}
