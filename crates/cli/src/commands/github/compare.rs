//! `clinch github compare`.

use serde_json::Value;

use super::collector_client::CollectorClient;
use super::follow::{number, text};
use super::summary::grouped;
use crate::client::query;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::text::plain;

const EXAMPLES: &str = "\
Examples:
  clinch github compare octocat
  clinch github compare octocat --max-time-ratio 3 --max-failed 10
  clinch github compare octocat -o json

Compares the documents of the shadow with the real ones, and the latest completed shadow run with
the latest completed real one: jobs by kind and outcome, pages, time, errors by code, statistics.
Every difference is named. Numbers of jobs and times are judged if both runs read everything: run
`clinch github run LOGIN --full` first. Ten seconds more are no difference.

Exit 0 equal or within the limits, 1 not, 3 there is no such user or run.";

/// Differences that are printed; JSON has all.
const NAMED_MAX: usize = 40;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The user
    login: String,
    /// How many times as long the shadow run may take
    #[arg(long, value_name = "RATIO", default_value_t = 2.0, value_parser = ratio)]
    max_time_ratio: f64,
    /// How many of its jobs may fail; default: as many as of the real run
    #[arg(long, value_name = "N")]
    max_failed: Option<u64>,
}

fn ratio(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ratio) if ratio.is_finite() && ratio >= 1.0 => Ok(ratio),
        _ => Err("a ratio is a number of at least 1, such as 2.0".to_owned()),
    }
}

/// Compares, and prints the result.
pub(crate) async fn run(args: &Args, client: &mut CollectorClient) -> Result<Exit, CliError> {
    let mut limits = vec![("max_time_ratio", args.max_time_ratio.to_string())];
    limits.extend(args.max_failed.map(|most| ("max_failed", most.to_string())));
    let comparison = ask(&args.login, &limits, client).await?;
    client
        .context
        .out
        .answer(&comparison, &lines(&comparison))?;
    Ok(match comparison["passed"] == true {
        true => Exit::Ok,
        false => Exit::Failed,
    })
}

async fn ask(
    login: &str,
    limits: &[(&str, String)],
    client: &mut CollectorClient,
) -> Result<Value, CliError> {
    let mut pairs = vec![("login", login.to_owned())];
    pairs.extend_from_slice(limits);
    let path = format!("/v1/github/comparison{}", query(&pairs));
    client.get(path).await
}

/// The comparison; `None`: there is nothing to compare with.
pub(crate) async fn of(
    login: &str,
    limits: &[(&str, String)],
    client: &mut CollectorClient,
) -> Result<Option<Value>, CliError> {
    match ask(login, limits, client).await {
        Ok(comparison) => Ok(Some(comparison)),
        Err(CliError::Problem(problem)) if problem.status == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// The text of a comparison.
pub(crate) fn lines(comparison: &Value) -> Vec<String> {
    let count = |name| grouped(number(comparison, name));
    let mut lines = vec![format!(
        "  shadow: {} equal, {} different, {} missing, {} extra",
        count("/equal"),
        count("/different"),
        count("/missing"),
        count("/extra")
    )];
    let examples = comparison.pointer("/examples").and_then(Value::as_array);
    let examples = examples.into_iter().flatten().filter_map(Value::as_str);
    lines.extend(examples.map(|id| format!("  not equal: {}", plain(id))));
    for name in ["main", "shadow"] {
        let of = |member: &str| format!("/runs/{name}/{member}");
        let seconds = comparison.pointer(&of("seconds")).and_then(Value::as_f64);
        lines.push(format!(
            "  {}: {} jobs, {} failed, {:.1} s",
            text(comparison, &of("run_id")),
            grouped(number(comparison, &of("jobs/total"))),
            grouped(number(comparison, &of("jobs/failed"))),
            seconds.unwrap_or(0.0)
        ));
    }
    if comparison.pointer("/runs/comparable") == Some(&Value::Bool(false)) {
        let line = "  jobs and times are not judged: the runs did not both read everything of the \
                    same streams";
        lines.push(line.to_owned());
    }
    let differences = comparison
        .pointer("/runs/differences")
        .and_then(Value::as_array);
    let differences = differences.map(Vec::as_slice).unwrap_or_default();
    let (beyond, within): (Vec<&Value>, Vec<&Value>) = differences
        .iter()
        .partition(|difference| difference["beyond"] == true);
    let named = beyond.into_iter().chain(within).map(difference);
    lines.extend(named.take(NAMED_MAX));
    if differences.len() > NAMED_MAX {
        let more = differences.len() - NAMED_MAX;
        lines.push(format!("  and {more} more differences; see -o json"));
    }
    lines
}

fn difference(one: &Value) -> String {
    let of = |name: &str| one[name].as_f64().unwrap_or(0.0);
    let number = |value: f64| match value.fract() == 0.0 {
        true => format!("{value:.0}"),
        false => format!("{value:.3}"),
    };
    let beyond = match one["beyond"] == true {
        true => "beyond the limits",
        false => "differs",
    };
    format!(
        "  {beyond}: {}: {} real, {} shadow",
        plain(text(one, "/name")),
        number(of("main")),
        number(of("shadow"))
    )
}
