//! What a tap sends: from its flags, and from the files that Meltano passes.

use std::io;
use std::path::{Path, PathBuf};

use clinch_github::schema::{STREAMS, Stream};
use serde::Deserialize;
use serde_json::Value;

use super::Args;
use super::catalog::{self, Selection};
use super::state::State;
use crate::args::Global;
use crate::error::CliError;

/// The variable that names Clinch's own configuration if `--config` is Singer's.
const CONFIG: &str = "CLINCH_CONFIG";

/// What is sent.
pub(super) struct Settings {
    pub(super) login: Option<String>,
    pub(super) shadow: bool,
    pub(super) selections: Vec<Selection>,
    pub(super) state: State,
}

/// The settings in a Singer configuration. Flags win. Meltano adds settings of its own.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SingerConfig {
    login: Option<String>,
    kinds: Option<Vec<String>>,
    document: Option<bool>,
    shadow: Option<bool>,
}

impl Settings {
    /// Reads the files. Takes a Singer configuration out of the global flags, so that what is left
    /// there is Clinch's own.
    pub(super) fn read(args: &Args, global: &mut Global) -> Result<Self, CliError> {
        let config = singer_config(global)?;
        let with_document = args.document || config.document.unwrap_or(false);
        let mut selections = match &args.catalog {
            Some(path) => {
                let catalog: Option<Value> = serde_json::from_str(&text(path)?).ok();
                let selections = catalog.and_then(|one| catalog::selected(&one, with_document));
                selections.ok_or_else(|| wrong(path, "not a catalog of --discover"))?
            }
            None => {
                let all = STREAMS.iter();
                all.map(|stream| Selection::whole(stream, with_document))
                    .collect()
            }
        };
        let kinds = match args.kinds.is_empty() {
            true => config.kinds.unwrap_or_default(),
            false => args.kinds.clone(),
        };
        if let Some(unknown) = kinds.iter().find(|kind| Stream::of(kind).is_none()) {
            let message = format!("there is no kind {unknown:?}; `--discover` lists them");
            return Err(CliError::usage(message));
        }
        let is_wanted = |one: &Selection| kinds.iter().any(|kind| kind == one.stream.kind);
        selections.retain(|one| kinds.is_empty() || is_wanted(one));
        let state = match &args.state {
            Some(path) => State::read(&text(path)?)
                .ok_or_else(|| wrong(path, "not the state of an earlier tap"))?,
            None => State::default(),
        };
        Ok(Self {
            login: args.login.clone().or(config.login),
            shadow: args.shadow || config.shadow.unwrap_or(false),
            selections,
            state,
        })
    }
}

/// A configuration that is JSON is Singer's: TOML never begins with a brace.
fn singer_config(global: &mut Global) -> Result<SingerConfig, CliError> {
    let Some(path) = global.config.clone() else {
        return Ok(SingerConfig::default());
    };
    // Clinch's own configuration is read, and its errors are explained, elsewhere.
    let Ok(text) = std::fs::read_to_string(&path) else {
        return Ok(SingerConfig::default());
    };
    if !text.trim_start().starts_with('{') {
        return Ok(SingerConfig::default());
    }
    let own = std::env::var_os(CONFIG).map(PathBuf::from);
    global.config = own.filter(|own| !own.as_os_str().is_empty() && *own != path);
    let shape = "not {\"login\":\"…\",\"kinds\":[\"…\"],\"document\":false,\"shadow\":false}";
    serde_json::from_str(&text).map_err(|_| wrong(&path, shape))
}

fn text(path: &Path) -> Result<String, CliError> {
    let failed = |error: io::Error| wrong(path, &error.to_string());
    std::fs::read_to_string(path).map_err(failed)
}

fn wrong(path: &Path, why: &str) -> CliError {
    CliError::usage(format!("{}: {why}", path.display()))
}
