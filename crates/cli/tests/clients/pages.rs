//! The pages about the clients quote programs, and the programs run.

use std::path::Path;

use crate::language::{Language, Project, succeed};
use crate::server::Server;
use crate::suites::ROUTES;

/// Lines of a file that do something: neither empty nor a comment in the language of the file.
pub(crate) fn code_lines(file: &str, text: &str) -> usize {
    let comments: &[&str] = match file.rsplit('.').next() {
        Some("py") => &["#", "\"\"\""],
        Some("toml") => &["#"],
        // `#[…]` is code, and so is `*value = 1`.
        Some("rs" | "ts") => &["//", "/*", "* ", "*/"],
        _ => panic!("{file}: an unknown language"),
    };
    let is_code = |line: &&str| {
        let line = line.trim();
        !line.is_empty() && !comments.iter().any(|mark| line.starts_with(mark))
    };
    text.lines().filter(is_code).count()
}

pub(crate) fn comments_are_no_code() {
    let rust = "// a\n#[tokio::main]\nfn main() {\n    *value = 1; // b\n\n}\n/* c\n * d\n */\n";
    assert_eq!(code_lines("src/main.rs", rust), 4);
    let python = "\"\"\"A page.\"\"\"\n\n# a\n@handle\ndef charge():  # b\n    pass\n";
    assert_eq!(code_lines("first_call.py", python), 3);
    assert_eq!(
        code_lines("clinch.toml", "# a\n[[route]]\nname = \"a\" # b\n"),
        2
    );
}

pub(crate) fn first_call(language: Language) {
    let file = language.example("first_call");
    let lines = code_lines(&file, &language.read(&format!("examples/{file}")));
    assert!((5..=25).contains(&lines), "{lines} lines");
    let server = Server::start(ROUTES);
    let project = Project::new(language);
    let mut example = project.example("first_call");
    let said = succeed(example.env("CLINCH_URL", server.url()));
    assert!(said.contains("5000"), "{said}");
    assert_eq!(server.count("COMPLETED"), 1);
}

/// The code blocks of a page in a language.
pub(crate) fn blocks<'a>(page: &'a str, tag: &str) -> Vec<&'a str> {
    let opening = format!("```{tag}\n");
    let parts = page.split(opening.as_str()).skip(1);
    parts
        .filter_map(|part| part.split_once("```"))
        .map(|(code, _)| code)
        .collect()
}

/// Every code block of the pages is an example file, whole or a piece of it.
pub(crate) fn quote(language: Language) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = |name: &str| {
        let page = root.join("docs/guide").join(name);
        std::fs::read_to_string(page).expect("the page")
    };
    let (clients, migrating) = (page("clients.md"), page("migrating.md"));
    let readme = language.read("README.md");
    let names: &[&str] = match language {
        Language::Python => &["first_call", "remote_worker", "client", "async_client"],
        Language::TypeScript => &["first_call", "remote_worker", "client"],
    };
    let example = |name: &&str| language.read(&format!("examples/{}", language.example(name)));
    let examples: Vec<String> = names.iter().map(example).collect();
    let mut quoted = 0;
    for page in [&clients, &migrating, &readme] {
        for block in blocks(page, language.name()) {
            let is_known = examples.iter().any(|example| example.contains(block));
            assert!(is_known, "no example holds this:\n{block}");
            quoted += 1;
        }
    }
    assert!(quoted >= 4, "{quoted} code blocks");
    let server = Server::start(ROUTES);
    let project = Project::new(language);
    let run = |name: &str| {
        let mut example = project.example(name);
        succeed(example.env("CLINCH_URL", server.url()))
    };
    let said = run("client");
    assert!(
        said.contains("not settled") && said.contains("canceled"),
        "{said}"
    );
    if language == Language::Python {
        assert!(run("async_client").contains("PENDING"));
    }
}
