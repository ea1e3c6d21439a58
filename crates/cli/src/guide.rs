//! The guide against this program: every `clinch …` command of a page parses, every configuration
//! is one that the reader takes, and every JSON document is JSON.
//!
//! Blocks in other languages are checked elsewhere; `xtask/src/tidy/snippets.rs` lists where. The
//! requests of curl are compared with `/openapi.json` in `tests/api`.

mod codes;
mod commands;
mod documents;
mod names;
mod page;
mod shell;

use std::fs;

use page::{Page, pages, root};

/// Lines without their indentation.
fn flat(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.join("\n")
}

#[test]
fn adapter_md_quotes_the_in_memory_store() {
    let pages = pages();
    let page = pages.iter().find(|page| page.name.ends_with("/adapter.md"));
    let blocks = page.expect("the page").blocks();
    let quoted: Vec<String> = blocks
        .iter()
        .filter(|block| block.language == "rust,ignore")
        .map(|block| flat(&block.text))
        .collect();
    let store = root().join("crates/adapters/memory/src/store.rs");
    let store = flat(&fs::read_to_string(store).expect("the in-memory store"));
    assert_eq!(quoted.len(), 1);
    assert!(store.contains(&quoted[0]), "{}", quoted[0]);
}

#[test]
fn pages_and_their_blocks_are_found() {
    let pages = pages();
    let has = |name: &str| pages.iter().any(|page| page.name == name);
    assert!(has("README.md") && has("docs/guide/outbox.md") && has("docs/adr/index.md"));
    let page = Page {
        name: "x.md".to_owned(),
        text: "a `b` c `d \\| e`\n```sh\nclinch serve\n```\n  ```json\n  {}\n  ```\n".to_owned(),
    };
    let blocks: Vec<(&str, usize, String)> = page
        .blocks()
        .into_iter()
        .map(|block| (block.language, block.line, block.text))
        .collect();
    assert_eq!(
        blocks,
        [
            ("sh", 2, "clinch serve\n".to_owned()),
            ("json", 5, "  {}\n".to_owned())
        ]
    );
    assert_eq!(
        page.inline(),
        [(1, "b".to_owned()), (1, "d | e".to_owned())]
    );
}
