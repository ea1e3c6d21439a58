//! The configuration of this program: file, environment, then `--set`.

#[cfg(test)]
mod reference;

use clinch_server::Config;
use clinch_server::config::{Section, Sources};

use crate::args::Global;
use crate::error::CliError;
use crate::settings;

/// The sections of the applications in this program.
pub(crate) fn sections() -> Result<Vec<Section>, CliError> {
    use clinch_github::Config as Github;
    let github = Section::new(Github::SECTION, Github::SECRETS, Github::problems)?;
    Ok(vec![github])
}

/// Loads the configuration and refuses contradictions.
pub(crate) fn load(global: &Global, set: &[String]) -> Result<Config, CliError> {
    let sources = sources(set)?;
    let file = settings::file(global);
    Ok(Config::load(file.as_deref(), &sources, &sections()?)?)
}

/// Reads the configuration without a check for contradictions.
pub(crate) fn read(global: &Global) -> Result<Config, CliError> {
    let sources = sources(&[])?;
    let file = settings::file(global);
    Ok(Config::read(file.as_deref(), &sources, &sections()?)?)
}

/// The environment and the pairs of `--set`.
fn sources(set: &[String]) -> Result<Sources, CliError> {
    let mut flags = Vec::with_capacity(set.len());
    for pair in set {
        let (key, value) = pair.split_once('=').ok_or_else(|| {
            CliError::usage("--set takes KEY=VALUE, such as server.listen=127.0.0.1:0")
        })?;
        flags.push((key.to_owned(), value.to_owned()));
    }
    Ok(Sources {
        environment: std::env::vars().collect(),
        flags,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, environment: &[(&str, &str)], set: &[&str]) -> Result<Config, String> {
        let set: Vec<String> = set.iter().map(|&pair| pair.to_owned()).collect();
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let sources = Sources {
            environment: environment.iter().map(own).collect(),
            ..sources(&set).expect("pairs")
        };
        let sections = sections().expect("sections");
        Config::parse(text, &sources, &sections).map_err(|error| error.to_string())
    }

    #[test]
    fn core_19_the_collector_is_configured_by_any_key_of_its_section() {
        let github = |text: &str, environment: &[(&str, &str)], set: &[&str]| {
            let config = parse(text, environment, set).expect("a configuration");
            let github = crate::github::config(&config).expect("read before");
            assert_eq!(config.print().contains("[github]"), github.is_some());
            github
        };
        assert_eq!(github("", &[], &[]), None);
        assert_eq!(github("[github]", &[], &[]), Some(Default::default()));
        let environment = [("CLINCH__GITHUB__ALLOW_PRIVATE", "true")];
        let set = github("", &environment, &[]).expect("a collector");
        assert!(set.allow_private);
        assert_eq!(set.api_url, "https://api.github.com");
        let set = github("", &[], &["github.page_size=50"]).expect("a collector");
        assert_eq!(set.page_size, 50);
    }

    #[test]
    fn core_19_errors_in_the_collectors_section_name_the_key() {
        for (text, expected) in [
            (
                "[github]\ntoken = \"hunter2\"",
                "unknown key github.token; did you mean github.tokens?",
            ),
            ("[githb]", "unknown key githb; did you mean github?"),
            ("github = 5", "github must be a table: [github]"),
            (
                "[github]\npage_size = 0",
                "github.page_size must be between 1 and 100; the API gives no more",
            ),
            (
                "[github]\ntokens = \"hunter2\"",
                "invalid type: string, expected a list: [ … ]; in `github.tokens`",
            ),
        ] {
            let error = parse(text, &[], &[]).expect_err(text);
            assert!(error.ends_with(expected), "{error}");
        }
    }

    #[test]
    fn col_17_the_printed_section_holds_no_secret_and_reads_back() {
        let text = "[github]\ntokens = [\"hunter2\"]\nsink = \"postgres://me:hunter2@db/x\"";
        let printed = parse(text, &[], &[]).expect("valid").print();
        assert!(!printed.contains("hunter2"), "{printed}");
        assert!(printed.contains("tokens = [\"***\"]"), "{printed}");
        parse(&printed, &[], &[]).expect("what is printed is a configuration");
    }
}
