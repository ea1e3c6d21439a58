//! `clinch doctor`: what is wrong, one line each.
//!
//! An area is a module with a `look` function and a line in [`CHECKS`]; it says what it found
//! and what to do. No check changes anything, and none sends a request to a provider.

mod bus;
mod configuration;
mod files;
mod github;
mod keys;
mod routes;
mod secrets;
mod server;
mod store;
mod time;

use clinch_server::Config;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::args::Global;
use crate::commands::serve;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::output::text::{self, Style};

const EXAMPLES: &str = "\
Examples:
  clinch doctor
  clinch doctor --config /etc/clinch/clinch.toml -o json

Changes nothing and calls no provider. Run it as the user that the server runs as, with the same
environment and in the same folder. Exit 1 if anything failed; a warning is no failure.";

/// Nothing to say: it checks everything.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

/// One area.
struct Check {
    area: &'static str,
    look: fn(&Subject) -> Vec<Finding>,
}

/// Every area, in the order in which they are shown.
const CHECKS: &[Check] = &[
    Check {
        area: "configuration",
        look: configuration::look,
    },
    Check {
        area: "store",
        look: store::look,
    },
    Check {
        area: "bus",
        look: bus::look,
    },
    Check {
        area: "keys",
        look: keys::look,
    },
    Check {
        area: "secrets",
        look: secrets::look,
    },
    Check {
        area: "routes",
        look: routes::look,
    },
    Check {
        area: "github",
        look: github::look,
    },
    Check {
        area: "files",
        look: files::look,
    },
    Check {
        area: "server",
        look: server::look,
    },
    Check {
        area: "clock",
        look: time::look,
    },
];

/// What is looked at.
struct Subject<'a> {
    global: &'a Global,
    config: Config,
    runtime: Runtime,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Ok,
    Warn,
    Fail,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    level: Level,
    what: String,
    /// What to do about it; empty where there is nothing to do.
    to_do: String,
}

impl Finding {
    fn ok(what: impl Into<String>) -> Self {
        Self {
            level: Level::Ok,
            what: what.into(),
            to_do: String::new(),
        }
    }

    fn warn(what: impl Into<String>, to_do: impl Into<String>) -> Self {
        Self {
            level: Level::Warn,
            what: what.into(),
            to_do: to_do.into(),
        }
    }

    fn fail(what: impl Into<String>, to_do: impl Into<String>) -> Self {
        Self {
            level: Level::Fail,
            what: what.into(),
            to_do: to_do.into(),
        }
    }

    /// An error of ours, which says in its second half what to do.
    fn error(error: &dyn std::fmt::Display) -> Self {
        let text = error.to_string();
        match text.split_once("; ") {
            Some((what, to_do)) => Self::fail(what, to_do),
            None => Self::fail(text, ""),
        }
    }
}

impl Level {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }

    fn style(self) -> Style {
        match self {
            Self::Ok => Style::Good,
            Self::Warn => Style::Warn,
            Self::Fail => Style::Bad,
        }
    }
}

/// Looks at everything.
pub(crate) fn run(_args: &Args, global: &Global) -> Result<Exit, CliError> {
    let mut found: Vec<(&str, Finding)> = Vec::new();
    let (file, sources) = serve::sources(global, &[])?;
    match Config::read(file.as_deref(), &sources) {
        // What cannot be read names nothing to look at.
        Err(error) => found.push(("configuration", Finding::error(&error))),
        Ok(config) => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            let subject = Subject {
                global,
                config,
                runtime,
            };
            for check in CHECKS {
                let findings = (check.look)(&subject);
                found.extend(findings.into_iter().map(|one| (check.area, one)));
            }
            // A name server that does not answer must not keep the command from ending.
            subject.runtime.shutdown_background();
        }
    }
    let mut out = Output::stdout(global.output, !global.no_color);
    let is_well = found.iter().all(|(_, one)| one.level != Level::Fail);
    let checks: Vec<_> = found
        .iter()
        .map(|(area, one)| {
            json!({
                "level": one.level.as_str(),
                "area": area,
                "what": one.what,
                "to_do": one.to_do,
            })
        })
        .collect();
    let document = json!({"ok": is_well, "checks": checks});
    let line = |(_, one): &(&str, Finding)| {
        let level = format!("{:<4}", one.level.as_str());
        let level = out.painted(&level, one.level.style());
        let what = text::plain(&one.what);
        match one.to_do.as_str() {
            "" => format!("{level}  {what}"),
            to_do => format!("{level}  {what} — {}", text::plain(to_do)),
        }
    };
    let lines: Vec<String> = found.iter().map(line).collect();
    out.answer(&document, &lines)?;
    Ok(if is_well { Exit::Ok } else { Exit::Failed })
}
