//! `clinch.toml`: its keys, where values come from, and what they mean.
//!
//! A value comes from the file, the environment or a flag; a flag overrides the environment, which
//! overrides the file. An unknown key is an error that names the nearest known key. An application
//! declares its section as a [`Section`].

mod application;
mod destinations;
mod effective;
mod known;
mod layers;
mod print;
mod route;
mod sections;
mod units;

use std::path::Path;

use clinch::{Error, Result};
use clinch_core::ErrorKind;
use serde::de::DeserializeOwned;

pub use application::Section;
pub use route::{
    BreakerConfig, HedgeConfig, OrderConfig, ProbeConfig, RateLimit, RetryConfig, RouteConfig,
    SafetyConfig,
};
pub use sections::{
    Bus, Config, DeadLetter, Finalizer, Reaper, ReaperStrategyConfig, Retention, ServerConfig,
    Store, Sweeper, TelemetryConfig, Worker,
};
pub use units::{Size, Span};

/// Sources of values besides the file.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The environment; only names that begin with `CLINCH__` are read.
    pub environment: Vec<(String, String)>,
    /// Flags as dotted keys: `("server.listen", "127.0.0.1:0")`, `("route.charge.url", "…")`.
    pub flags: Vec<(String, String)>,
}

impl Config {
    /// Reads the file if one is named, then the environment, then the flags, and refuses
    /// contradictions. `sections` are those of applications. An error is one line that says what to
    /// do.
    pub fn load(file: Option<&Path>, sources: &Sources, sections: &[Section]) -> Result<Self> {
        let config = Self::read(file, sources, sections)?;
        config.validate()?;
        Ok(config)
    }

    /// [`Config::load`] without the check for contradictions, which [`Config::problems`] lists.
    pub fn read(file: Option<&Path>, sources: &Sources, sections: &[Section]) -> Result<Self> {
        let text = match file {
            Some(path) => std::fs::read_to_string(path).map_err(|error| {
                let kind = match error.kind() {
                    std::io::ErrorKind::NotFound => ErrorKind::NotFound,
                    _ => ErrorKind::Invalid,
                };
                let path = path.display();
                let message =
                    format!("cannot read {path}: {error}; name another file with --config");
                Error::new(kind, message)
            })?,
            None => String::new(),
        };
        Self::read_text(&text, sources, sections)
    }

    /// [`Config::load`] from text.
    pub fn parse(text: &str, sources: &Sources, sections: &[Section]) -> Result<Self> {
        let config = Self::read_text(text, sources, sections)?;
        config.validate()?;
        Ok(config)
    }

    fn read_text(text: &str, sources: &Sources, sections: &[Section]) -> Result<Self> {
        let mut table: toml::Table =
            toml::from_str(text).map_err(|error| wrong(one_line(&error, text)))?;
        known::with_keys(sections, |keys| {
            layers::environment(&mut table, keys, &sources.environment)?;
            layers::flags(&mut table, keys, &sources.flags)?;
            known::check(&table, keys, "")
        })?;
        let applications = application::take(&mut table, sections)?;
        let config: Self = table.try_into().map_err(|error| not_valid(&error))?;
        Ok(Self {
            applications,
            ..config
        })
    }

    /// The values of an application's section; `None`: no source has the section.
    pub fn section<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let values = self.applications.get(name);
        values.map(|values| values.get()).transpose()
    }

    /// Every key that is accepted, such as `store.url` and `route.retry.base`.
    pub fn keys(sections: &[Section]) -> Vec<String> {
        known::with_keys(sections, |keys| known::list(keys, ""))
    }

    /// Every effective value as TOML, with secrets masked: `clinch serve --print-config`.
    pub fn print(&self) -> String {
        toml::to_string(&print::masked(self)).unwrap_or_default()
    }

    /// [`Config::print`] as a JSON document.
    pub fn print_json(&self) -> serde_json::Value {
        serde_json::to_value(print::masked(self)).unwrap_or_default()
    }
}

/// The parser's message and line, without the text, which may hold a secret.
fn one_line(error: &toml::de::Error, text: &str) -> String {
    let line = error.span().map_or(1, |span| {
        let before = text.get(..span.start).unwrap_or_default();
        before.matches('\n').count() + 1
    });
    format!("line {line} is not TOML: {}", short(error.message()))
}

fn not_valid(error: &toml::de::Error) -> Error {
    let message = plain(&unquoted(&short(&error.to_string())));
    wrong(format!("the configuration is not valid: {message}"))
}

/// A value of the wrong type may be a secret and is not shown.
fn unquoted(message: &str) -> String {
    match message.split_once("invalid type: string \"") {
        Some((before, rest)) => {
            let after = rest
                .rsplit_once("\", expected")
                .map_or("", |(_, after)| after);
            format!("{before}invalid type: string, expected{after}")
        }
        None => message.to_owned(),
    }
}

/// The parser names types of Rust; a reader of TOML knows numbers and lists.
fn plain(message: &str) -> String {
    const WORDS: [(&str, &str); 9] = [
        ("u8", "a whole number from 0 to 255"),
        ("u16", "a whole number from 0 to 65535"),
        ("u32", "a whole number from 0 to 4294967295"),
        ("u64", "a whole number, 0 or more"),
        ("usize", "a whole number, 0 or more"),
        ("i32", "a whole number"),
        ("i64", "a whole number"),
        ("f64", "a number"),
        ("a sequence", "a list: [ … ]"),
    ];
    let found = WORDS.iter().find_map(|(word, plain)| {
        let (before, after) = message.rsplit_once(&format!("expected {word}"))?;
        let ends = after.is_empty() || after.starts_with(';');
        ends.then(|| format!("{before}expected {plain}{after}"))
    });
    found.unwrap_or_else(|| message.to_owned())
}

fn short(message: &str) -> String {
    message.lines().collect::<Vec<_>>().join("; ")
}

fn wrong(message: String) -> Error {
    Error::new(ErrorKind::Invalid, message)
}
