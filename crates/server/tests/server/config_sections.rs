//! Sections of `clinch.toml` that an application declares.

use clinch_server::Config;
use clinch_server::config::Section;
use serde::{Deserialize, Serialize};

use crate::config::sources;

/// `[reports]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Reports {
    url: String,
    pages: u32,
    secrets: Vec<String>,
}

impl Default for Reports {
    fn default() -> Self {
        Self {
            url: "https://reports.example".to_owned(),
            pages: 5,
            secrets: Vec::new(),
        }
    }
}

impl Reports {
    fn problems(&self) -> Vec<String> {
        let is_empty = self.pages == 0;
        let problem = || "reports.pages must be more than 0".to_owned();
        is_empty.then(problem).into_iter().collect()
    }
}

fn section() -> Section {
    Section::new("reports", &["secrets"], Reports::problems).expect("a section")
}

fn load(
    text: &str,
    environment: &[(&str, &str)],
    flags: &[(&str, &str)],
) -> Result<Config, String> {
    let sources = sources(environment, flags);
    Config::parse(text, &sources, &[section()]).map_err(|error| error.to_string())
}

#[test]
fn core_19_a_section_is_present_if_any_source_has_it() {
    let read = |text: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]| {
        let config = load(text, environment, flags).expect("a configuration");
        let reports: Option<Reports> = config.section("reports").expect("read before");
        assert_eq!(config.print().contains("[reports]"), reports.is_some());
        reports
    };
    assert_eq!(read("", &[], &[]), None);
    assert_eq!(read("[reports]", &[], &[]), Some(Reports::default()));
    let environment = [
        ("CLINCH__REPORTS__URL", "7"),
        ("CLINCH__REPORTS__PAGES", "7"),
    ];
    let flags = [("reports.pages", "8"), ("reports.secrets", "[\"x\"]")];
    let all = Reports {
        url: "7".to_owned(),
        pages: 8,
        secrets: vec!["x".to_owned()],
    };
    assert_eq!(
        read("[reports]\npages = 6", &environment, &flags),
        Some(all)
    );
}

#[test]
fn core_19_errors_of_a_section_name_its_keys() {
    for (text, expected) in [
        (
            "[reports]\npage = 1",
            "unknown key reports.page; did you mean reports.pages?",
        ),
        (
            "[report]\npages = 1",
            "unknown key report; did you mean reports?",
        ),
        ("reports = 1", "reports must be a table: [reports]"),
        ("[reports]\npages = 0", "reports.pages must be more than 0"),
    ] {
        let error = load(text, &[], &[]).expect_err(text);
        assert!(error.ends_with(expected), "{error}");
    }
    let error = load("[reports]\npages = \"hunter2\"", &[], &[]).expect_err("a number");
    assert!(
        error.contains("reports.pages") && !error.contains("hunter2"),
        "{error}"
    );
    let error = load("", &[("CLINCH__REPORTS__PAGE", "1")], &[]).expect_err("unknown");
    assert!(error.starts_with("CLINCH__REPORTS__PAGE: "), "{error}");
}

#[test]
fn core_19_contradictions_of_a_section_are_listed_with_the_others() {
    let path = std::env::temp_dir().join(format!("clinch-section-{}.toml", std::process::id()));
    std::fs::write(&path, "[worker]\nbatch = 0\n[reports]\npages = 0").expect("written");
    let read = Config::read(Some(&path), &sources(&[], &[]), &[section()]);
    std::fs::remove_file(&path).expect("removed");
    let problems = read.expect("readable").problems();
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[1].ends_with("reports.pages must be more than 0"));
}

#[test]
fn core_16_secrets_of_a_section_are_masked() {
    let text = "[reports]\nurl = \"postgres://me:hunter2@db/x\"\nsecrets = [\"hunter2\"]";
    let printed = load(text, &[], &[]).expect("valid").print();
    assert!(!printed.contains("hunter2"), "{printed}");
    assert!(
        printed.contains("postgres://me:***@db/x") && printed.contains("pages = 5"),
        "{printed}"
    );
    load(&printed, &[], &[]).expect("what is printed is a configuration");
}

#[test]
fn core_19_the_keys_of_sections_are_listed() {
    let own = Config::keys(&[]);
    assert!(own.contains(&"route.retry.base".to_owned()) && own.contains(&"store.url".to_owned()));
    let all = Config::keys(&[section()]);
    let more = ["reports.pages", "reports.secrets", "reports.url"];
    assert_eq!(all[own.len()..], more);
}
