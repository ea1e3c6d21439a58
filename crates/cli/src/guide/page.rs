//! The pages, their blocks of code, and the code within their sentences. The guide's tests use this,
//! here and in `tests/api`.

use std::fs;
use std::path::{Path, PathBuf};

use super::shell;

/// A page of the repository that people read.
pub(super) struct Page {
    /// From the root of the repository.
    pub(super) name: String,
    pub(super) text: String,
}

/// A fenced block of a page.
pub(super) struct Block<'a> {
    /// What follows the opening fence.
    pub(super) language: &'a str,
    /// The line of the opening fence.
    pub(super) line: usize,
    pub(super) text: String,
}

impl Block<'_> {
    /// What a shell would run, if the block is for one.
    pub(super) fn commands(&self) -> Option<String> {
        match self.language {
            "sh" => Some(self.text.clone()),
            "console" => Some(shell::typed(&self.text)),
            _ => None,
        }
    }
}

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every page of `docs/`, the README, and the pages of the clients.
pub(super) fn pages() -> Vec<Page> {
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
    pub(super) fn blocks(&self) -> Vec<Block<'_>> {
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
    pub(super) fn inline(&self) -> Vec<(usize, String)> {
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
