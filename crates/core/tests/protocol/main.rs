//! The protocol's table, line by line, and its laws under random events.
//!
//! `transitions.txt` says what becomes of every row under every event, in the order of
//! the protocol page; `table` compares the code with it and proves that no combination was
//! forgotten. `attempts`, `answers` and `holds` look at the values that the table leaves out:
//! counters, times, reasons. `page` compares `docs/protocol.md` with the code. `property` runs
//! random histories against the laws of `laws`.

#[cfg(test)]
mod answers;
#[cfg(test)]
mod attempts;
#[cfg(test)]
mod cases;
#[cfg(test)]
mod history;
#[cfg(test)]
mod holds;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod page;
#[cfg(test)]
mod property;
#[cfg(test)]
mod restore;
#[cfg(test)]
mod rows;
#[cfg(test)]
mod seen;
#[cfg(test)]
mod table;
