//! `docs/protocol.md` against the code.
//!
//! The tables between `<!-- code: NAME -->` and `<!-- end -->` are printed from
//! [`State::apply`](clinch_core::protocol::State::apply) over every row, event and route of this
//! test. The tables that explain names are written by hand; their first columns must name exactly
//! what the code has.

mod blocks;
mod names;
mod table;
mod words;

use std::fs;
use std::path::PathBuf;

const UPDATE: &str = "UPDATE_DOCS=1 cargo test -p clinch-core --test protocol page";

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol.md")
}

fn read() -> String {
    fs::read_to_string(path()).expect("docs/protocol.md")
}

/// The first line on which two texts differ, with the line of each.
fn difference(page: &str, code: &str) -> String {
    let (mut ours, mut theirs) = (page.lines(), code.lines());
    let mut number = 0;
    loop {
        number += 1;
        match (ours.next(), theirs.next()) {
            (None, None) => return "only the ends of lines differ".to_owned(),
            (ours, theirs) if ours == theirs => {}
            (ours, theirs) => {
                let [ours, theirs] = [ours, theirs].map(|line| line.unwrap_or("(no line)"));
                return format!("line {number}\n  page: {ours}\n  code: {theirs}");
            }
        }
    }
}

#[test]
fn core_5_the_page_shows_what_the_code_does() {
    let page = read();
    let printed = blocks::replace(&page, &table::blocks());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(path(), printed).expect("docs/protocol.md can be written");
        return;
    }
    assert!(
        page == printed,
        "docs/protocol.md differs from the code: {}\nto print it again: {UPDATE}",
        difference(&page, &printed)
    );
}
