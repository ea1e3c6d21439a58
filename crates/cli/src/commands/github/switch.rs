//! `clinch github switch`.

use std::time::Duration;

use serde_json::{Value, json};

use super::collector_client::CollectorClient;
use super::follow::text;
use crate::duration;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::text::plain;
use crate::prompt::Consent;

const EXAMPLES: &str = "\
Examples:
  clinch github switch                      # which documents are live
  clinch github switch --to shadow          # after `clinch github compare`
  clinch github switch --to shadow --max-failed-percent 2 --max-time-ratio 1.5
  clinch github switch --to main

After a switch to the shadow, runs store into the shadow's sink and readers get its documents. The
collector goes back by itself if more jobs of a run fail than the limit allows, a run takes longer
than the ratio allows, or the sink refuses documents for too long. It raises the alert
github_switched_back and collects the users again whose documents went to the shadow.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Make these documents live
    #[arg(long, value_name = "main|shadow", value_parser = ["main", "shadow"])]
    to: Option<String>,
    /// Go back if more jobs of a run fail, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, requires = "to")]
    max_failed_percent: f64,
    /// Go back if a run takes this many times as long as before the switch
    #[arg(long, value_name = "RATIO", default_value_t = 2.0, requires = "to")]
    max_time_ratio: f64,
    /// Go back if the sink refuses documents for this long
    #[arg(long, value_name = "DURATION", default_value = "10m", requires = "to",
          value_parser = duration::parse)]
    max_sink_outage: Duration,
    #[command(flatten)]
    consent: Consent,
}

impl Args {
    /// Fails if a question is needed and cannot be asked.
    pub(crate) fn check(&self) -> Result<(), CliError> {
        match self.to {
            Some(_) => self.consent.check(),
            None => Ok(()),
        }
    }
}

/// Shows or changes which documents are live.
pub(crate) async fn run(args: &Args, client: &mut CollectorClient) -> Result<Exit, CliError> {
    let switch = match &args.to {
        None => client.get("/v1/github/switch").await?,
        Some(to) if args.consent.dry_run => {
            let before = client.get("/v1/github/switch").await?;
            let line = format!("live: {}; would be {to}", text(&before, "/live"));
            client.context.out.answer(&before, &[line])?;
            return Ok(Exit::Ok);
        }
        Some(to) => {
            args.consent
                .ask(&format!("make the {to} documents live?"))?;
            let body = json!({
                "live": to,
                "max_failed_percent": args.max_failed_percent,
                "max_time_ratio": args.max_time_ratio,
                "max_sink_outage_seconds": duration::whole_seconds(args.max_sink_outage),
            });
            client.post("/v1/github/switch".to_owned(), &body).await?
        }
    };
    client.context.out.answer(&switch, &lines(&switch))?;
    Ok(Exit::Ok)
}

/// The state as text.
fn lines(switch: &Value) -> Vec<String> {
    let mut lines = vec![match (text(switch, "/live"), text(switch, "/since")) {
        (live, "") => format!("live: {live}"),
        (live, since) => format!("live: {live}, since {since}"),
    }];
    if switch["live"] == "shadow" {
        lines.push(format!(
            "goes back if more than {} % of a run's jobs fail, a run takes {} times as long, or the \
             sink is away for {} s",
            switch["max_failed_percent"],
            switch["max_time_ratio"],
            switch["max_sink_outage_seconds"]
        ));
    }
    lines.extend(way_back(switch));
    lines
}

fn way_back(switch: &Value) -> Option<String> {
    let back = switch.get("way_back").filter(|back| back.is_object())?;
    let (at, reason) = (text(back, "/at"), plain(text(back, "/reason")).into_owned());
    let run = match text(back, "/run_id") {
        "" => String::new(),
        run => format!(" ({run})"),
    };
    Some(format!(
        "the collector went back by itself at {at}{run}: {reason}"
    ))
}

/// What `status` says of it: nothing before the first switch.
pub(crate) async fn notice(client: &mut CollectorClient) -> Result<Option<String>, CliError> {
    let switch = match client.get("/v1/github/switch").await {
        Ok(switch) => switch,
        // An earlier release.
        Err(CliError::Problem(problem)) if problem.status == 404 => return Ok(None),
        Err(error) => return Err(error),
    };
    let is_switched = switch["live"] == "shadow";
    let switched = || {
        let since = text(&switch, "/since");
        format!("the shadow is live since {since}; `clinch github switch` shows it")
    };
    Ok(way_back(&switch).or_else(|| is_switched.then(switched)))
}
