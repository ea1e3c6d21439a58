//! A progress bar on standard error during long work; nothing if that is not a terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

/// Width of the bar in cells, without the numbers beside it.
const CELLS: usize = 24;

/// The progress of a piece of work.
#[derive(Debug)]
pub(crate) struct Progress {
    label: &'static str,
    done: usize,
    total: usize,
    is_shown: bool,
}

impl Progress {
    /// Work of `total` steps. A single step shows no bar.
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

    /// Counts one finished step.
    pub(crate) fn step(&mut self) {
        self.done += 1;
        self.draw();
    }

    /// Removes the bar, so that a line can be printed in its place.
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

/// Whether lines are drawn: standard error is a terminal.
pub(crate) fn is_shown() -> bool {
    io::stderr().is_terminal()
}

/// Whether [`line`] has drawn a line that still stands.
static IS_DRAWN: AtomicBool = AtomicBool::new(false);

/// Draws one live line over the last one; nothing if there is no terminal.
pub(crate) fn line(text: &str) {
    let mut err = io::stderr();
    if err.is_terminal() {
        let drawn = format!("\r\x1b[2K{text}");
        IS_DRAWN.store(true, Ordering::SeqCst);
        let _ = err.write_all(drawn.as_bytes()).and_then(|()| err.flush());
    }
}

/// Removes the live line, so that other text does not run into it.
pub(crate) fn erase() {
    if IS_DRAWN.swap(false, Ordering::SeqCst) {
        let mut err = io::stderr();
        let _ = err.write_all(b"\r\x1b[2K").and_then(|()| err.flush());
    }
}
