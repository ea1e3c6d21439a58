//! `clinch status`: what is wrong, since when, and the next command.

mod screen;
mod watch;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::client::Request;
use crate::clock;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Format, Output};

const EXAMPLES: &str = "\
Examples:
  clinch status
  clinch status --watch
  clinch status -o json | jq '.warnings[].command'

The first line says whether all is well. Exit code 1: a warning is critical, or no server answers.
Times are UTC.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Update the output until Ctrl-C
    #[arg(long)]
    watch: bool,
}

/// Shows the overview once, or until it is interrupted.
pub(crate) async fn run(args: Args, context: &mut Context) -> Result<Exit, CliError> {
    if args.watch {
        return watch::run(context).await;
    }
    let overview = Overview::get(context).await?;
    overview.print(&mut context.out)?;
    Ok(overview.exit())
}

/// The answer of `GET /v1/overview`.
struct Overview {
    document: Box<RawValue>,
    value: Value,
}

impl Overview {
    async fn get(context: &mut Context) -> Result<Self, CliError> {
        let answer = context.client.send(Request::get("/v1/overview")).await?;
        let value: Value = serde_json::from_str(answer.document.get()).unwrap_or_default();
        if !value["warnings"].is_array() {
            return Err(context.client.not_clinch("the answer is not an overview"));
        }
        Ok(Self {
            document: answer.document,
            value,
        })
    }

    /// 1 if a warning is critical.
    fn exit(&self) -> Exit {
        let mut warnings = self.value["warnings"].as_array().into_iter().flatten();
        match warnings.any(|warning| warning["severity"] == "critical") {
            true => Exit::Failed,
            false => Exit::Ok,
        }
    }

    fn print(&self, out: &mut Output) -> Result<(), CliError> {
        if out.format != Format::Table {
            return out.document(&self.document, &[]);
        }
        screen::draw(&self.value, clock::now(), out)
    }
}
