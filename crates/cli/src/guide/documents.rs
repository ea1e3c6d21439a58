//! Configurations and JSON documents of the pages.

use clinch_server::Config;
use clinch_server::config::Sources;

use super::{pages, shell};
use crate::config::sections;

/// Sections of `toml` blocks that belong to Cargo, not to Clinch.
const CARGO: &[&str] = &["dependencies", "dev-dependencies", "env", "package", "test"];

/// Why a `toml` block is no configuration; `None` if it is one, or a file of Cargo.
fn problem(text: &str) -> Option<String> {
    let table: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(error) => return Some(error.to_string()),
    };
    if table.keys().all(|key| CARGO.contains(&key.as_str())) {
        return None;
    }
    let sections = sections().expect("sections");
    let read = Config::parse(text, &Sources::default(), &sections);
    read.err().map(|error| error.to_string())
}

#[test]
fn core_18_every_configuration_of_the_guide_is_one() {
    let (mut wrong, mut read) = (Vec::new(), 0);
    for page in pages() {
        for block in page
            .blocks()
            .iter()
            .filter(|block| block.language == "toml")
        {
            read += 1;
            if let Some(problem) = problem(&block.text) {
                wrong.push(format!("{}:{}: {problem}", page.name, block.line));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(read > 10, "{read} configurations");
    assert!(problem("[server]\nlissten = \"127.0.0.1:0\"").is_some());
    assert!(problem("[server]\nlisten = ").is_some());
}

/// The bodies that curl sends: what follows `-d`, unless it names a file.
fn bodies(text: &str) -> Vec<String> {
    let commands = shell::commands(text).into_iter();
    let sends = commands.filter(|words| words.first().is_some_and(|word| word == "curl"));
    let body = |words: Vec<String>| {
        let option = words.iter().position(|word| word == "-d")?;
        words
            .get(option + 1)
            .filter(|body| !body.starts_with('@'))
            .cloned()
    };
    sends.filter_map(body).collect()
}

#[test]
fn core_18_every_json_document_of_the_guide_is_json() {
    let (mut wrong, mut read) = (Vec::new(), 0);
    for page in pages() {
        for block in page.blocks() {
            let documents = match block.commands() {
                Some(text) => bodies(&text),
                None if block.language == "json" => vec![block.text.clone()],
                None => continue,
            };
            for document in documents {
                read += 1;
                if let Err(error) = serde_json::from_str::<serde_json::Value>(&document) {
                    wrong.push(format!("{}:{}: {error}", page.name, block.line));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(read > 5, "{read} documents");
    assert_eq!(bodies("curl -i x -d '{\"a\":1}'\necho -d x"), ["{\"a\":1}"]);
}
