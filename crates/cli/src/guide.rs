//! The guide against this program: every `clinch …` command of a page parses, every configuration
//! is one that the reader takes, and every JSON document is JSON.
//!
//! Blocks in other languages are checked elsewhere; `xtask/src/tidy/snippets.rs` lists where.

mod commands;
mod documents;
mod names;
mod shell;

use std::fs;
use std::path::{Path, PathBuf};

/// A page of the repository that people read.
struct Page {
    /// From the root of the repository.
    name: String,
    text: String,
}

/// A fenced block of a page.
struct Block<'a> {
    /// What follows the opening fence.
    language: &'a str,
    /// The line of the opening fence.
    line: usize,
    text: String,
}

impl Block<'_> {
    /// What a shell would run, if the block is for one.
    fn commands(&self) -> Option<String> {
        match self.language {
            "sh" => Some(self.text.clone()),
            "console" => Some(shell::typed(&self.text)),
            _ => None,
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every page of `docs/`, the README, and the pages of the clients.
fn pages() -> Vec<Page> {
    let mut names = [
        "README.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "crates/cli/README.md",
    ]
    .map(str::to_owned)
    .to_vec();
    names.extend(["python", "typescript"].map(|client| format!("clients/{client}/README.md")));
    let mut folders = vec!["docs".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).expect("a folder") {
            let entry = entry.expect("an entry");
            let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
            match entry.path().is_dir() {
                true => folders.push(name),
                false if name.ends_with(".md") => names.push(name),
                false => {}
            }
        }
    }
    names.sort();
    let page = |name: String| {
        let text = fs::read_to_string(root().join(&name)).expect("a page");
        Page { name, text }
    };
    names.into_iter().map(page).collect()
}

impl Page {
    fn blocks(&self) -> Vec<Block<'_>> {
        let (mut blocks, mut open) = (Vec::new(), None::<Block<'_>>);
        for (number, line) in (1..).zip(self.text.lines()) {
            match (line.trim_start().strip_prefix("```"), open.take()) {
                (Some(_), Some(block)) => blocks.push(block),
                (Some(language), None) => {
                    open = Some(Block {
                        language,
                        line: number,
                        text: String::new(),
                    });
                }
                (None, Some(mut block)) => {
                    block.text.push_str(line);
                    block.text.push('\n');
                    open = Some(block);
                }
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{}: a block is not closed", self.name);
        blocks
    }

    /// The texts between single backticks outside of blocks, with their lines.
    fn inline(&self) -> Vec<(usize, String)> {
        let (mut found, mut is_block) = (Vec::new(), false);
        for (number, line) in (1..).zip(self.text.lines()) {
            if line.trim_start().starts_with("```") {
                is_block = !is_block;
            } else if !is_block {
                let codes = line.split('`').skip(1).step_by(2);
                // In a table, `|` is written `\|`.
                found.extend(codes.map(|code| (number, code.replace("\\|", "|"))));
            }
        }
        found
    }
}

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
