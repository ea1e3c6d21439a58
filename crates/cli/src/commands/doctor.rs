//! `clinch doctor`: finds problems, one line each.
//!
//! An area is a module with a `check` function and a row in [`CHECKS`]; a finding says what is
//! wrong and what to do. No check changes anything, and none sends a request to a provider.

mod alerts;
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
use crate::config;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::output::text::{self, Style};

const EXAMPLES: &str = "\
Examples:
  clinch doctor
  clinch doctor --config /etc/clinch/clinch.toml -o json
  clinch doctor --test-alert

Changes nothing and calls no provider; only --test-alert sends a request. Run it as the user that
the server runs as, with the same environment and in the same folder. Exit 1 if anything failed; a
warning is no failure.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Also send a test alert to dead_letter.alert_url
    #[arg(long)]
    test_alert: bool,
}

/// One area.
struct Check {
    area: &'static str,
    check: fn(&Subject) -> Vec<Finding>,
}

/// Every area, in the order in which they are shown.
const CHECKS: &[Check] = &[
    Check {
        area: "configuration",
        check: configuration::check,
    },
    Check {
        area: "store",
        check: store::check,
    },
    Check {
        area: "bus",
        check: bus::check,
    },
    Check {
        area: "keys",
        check: keys::check,
    },
    Check {
        area: "secrets",
        check: secrets::check,
    },
    Check {
        area: "routes",
        check: routes::check,
    },
    Check {
        area: "github",
        check: github::check,
    },
    Check {
        area: "files",
        check: files::check,
    },
    Check {
        area: "server",
        check: server::check,
    },
    Check {
        area: "clock",
        check: time::check,
    },
];

/// What the checks examine.
struct Subject<'a> {
    global: &'a Global,
    config: Config,
    runtime: Runtime,
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Ok,
    Warn,
    Fail,
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    level: Level,
    what: String,
    /// What to do about it; empty if there is nothing to do.
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

    /// A finding from an error, whose second half says what to do.
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

/// Runs all checks.
pub(crate) fn run(args: &Args, global: &Global) -> Result<Exit, CliError> {
    let mut found: Vec<(&str, Finding)> = Vec::new();
    match config::read(global) {
        // Without a readable configuration there is nothing else to check.
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
                let findings = (check.check)(&subject);
                found.extend(findings.into_iter().map(|one| (check.area, one)));
            }
            if args.test_alert {
                found.push(("alerts", alerts::send_test(&subject)));
            }
            // A name server that does not answer must not delay the end of the command.
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
