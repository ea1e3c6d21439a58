//! `clinch submit`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::filter::{Label, label};
use super::follow::{Follow, Outage, WAIT_MAX};
use super::operation::{self, Brief};
use super::payload;
use crate::client::{Answer, Request};
use crate::clock::{self, Budget};
use crate::context::Context;
use crate::duration::{self, Moment};
use crate::error::{CliError, note};
use crate::exit::Exit;

const EXAMPLES: &str = "\
Examples:
  clinch submit payments charge order-123 --payload '{\"amount\":5000}' --wait 3s
  clinch submit payments charge order-123 --payload @charge.json --idem-key c0ffee
  make-charge | clinch submit payments charge order-123 --payload - --delay 5m --label team=shop

The same four keys always name the same operation: repeat a submission whose answer was lost
under the same --idem-key. Without --wait the command ends once the operation is accepted.
With it: exit 0 COMPLETED, 1 FAILED, 5 not settled in time (the work goes on).";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Business area
    domain: String,
    /// The kind of work
    event_type: String,
    /// The business object
    biz_key: String,
    /// JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-")]
    payload: String,
    /// The idempotency key; by default a new one is created and printed
    #[arg(long, value_name = "KEY")]
    idem_key: Option<String>,
    /// Wait this long for the operation to settle (3s); rounded up to whole seconds
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    wait: Option<Duration>,
    /// No attempt before this delay has passed (5m), by this machine's clock
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    delay: Option<Duration>,
    /// No attempt begins after this: RFC 3339, or a time from now (1h)
    #[arg(long, value_name = "WHEN", value_parser = Moment::parse)]
    deadline: Option<Moment>,
    /// From -10 to 10; among due operations a higher priority is claimed first
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true,
          value_parser = clap::value_parser!(i8).range(-10..=10))]
    priority: i8,
    /// A label for people; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = label)]
    label: Vec<Label>,
}

#[derive(Serialize)]
struct Body<'a> {
    domain: &'a str,
    event_type: &'a str,
    biz_key: &'a str,
    idem_key: &'a str,
    payload: &'a RawValue,
    run_at: Option<String>,
    deadline: Option<String>,
    priority: i8,
    labels: BTreeMap<&'a str, &'a str>,
}

/// Submits the operation and prints it.
pub(crate) async fn run(args: Args, context: &mut Context) -> Result<Exit, CliError> {
    let payload = payload::read(&args.payload)?;
    let idem_key = match &args.idem_key {
        Some(key) => key.clone(),
        None => {
            let key = Uuid::now_v7().to_string();
            // Printed before the request is sent: a caller that loses the answer needs the key to
            // repeat the request.
            note(&format!("idem_key {key}"));
            key
        }
    };
    let budget = Budget::start(args.wait);
    let submission = Submission {
        body: body(&args, &idem_key, &payload)?,
        idem_key,
        budget: args.wait.map(|_| budget),
    };
    let (answer, is_repeated) = submission.send(context).await?;
    let brief =
        Brief::read(&answer.document).ok_or_else(|| operation::expected(&context.client))?;
    if answer.is_replay && !is_repeated {
        note("these keys were accepted before; this is the existing operation");
    }
    let (mut document, mut exit) = (answer.document, brief.exit());
    if exit == Exit::Unsettled && args.wait.is_some() && !budget.left(WAIT_MAX).is_zero() {
        let follow = Follow {
            op_id: &brief.op_id,
            known: Some(document),
            budget,
            slice: WAIT_MAX,
        };
        let waited = follow.settle(context, |_, _| Ok(())).await;
        let followed = waited.inspect_err(|_| note(&format!("op_id {}", brief.op_id)))?;
        (document, exit) = (followed.document, followed.exit);
    }
    context.out.document(&document, operation::FIRST)?;
    Ok(if args.wait.is_some() { exit } else { Exit::Ok })
}

/// One submission, which may be sent several times: the same keys are accepted once.
struct Submission {
    body: Vec<u8>,
    idem_key: String,
    /// The time of `--wait`, if there is one.
    budget: Option<Budget>,
}

impl Submission {
    /// Sends it. With `--wait` a lost server is waited for, and the request is sent again; returns
    /// whether that happened.
    async fn send(&self, context: &mut Context) -> Result<(Answer, bool), CliError> {
        let mut outage = Outage::default();
        let mut is_repeated = false;
        loop {
            let request = Request::post("/v1/operations", self.body.clone());
            let request = match self.budget {
                Some(budget) => request.wait(budget.left(WAIT_MAX)),
                None => request.at_once(),
            };
            let error = match context.client.send(request).await {
                Ok(answer) => return Ok((answer, is_repeated)),
                Err(error) if error.is_transient() => error,
                Err(error) => return Err(error),
            };
            let source = Box::new(error);
            let Some(budget) = self.budget.filter(|_| is_repeated || source.is_lost()) else {
                let idem_key = self.idem_key.clone();
                return Err(CliError::LostSubmission { source, idem_key });
            };
            if budget.left(WAIT_MAX).is_zero() {
                let advice = format!(
                    "the operation may have been accepted; repeat the command with `--idem-key {}`: it is accepted only once",
                    self.idem_key
                );
                return Err(CliError::OutOfTime { source, advice });
            }
            is_repeated = true;
            let pause = outage.pause_as(
                "the server was lost; sending the same keys again, which are accepted only once",
            );
            clock::pause(budget.left(pause)).await;
        }
    }
}

fn body(args: &Args, idem_key: &str, payload: &RawValue) -> Result<Vec<u8>, CliError> {
    let labels = args.label.iter();
    let body = Body {
        domain: &args.domain,
        event_type: &args.event_type,
        biz_key: &args.biz_key,
        idem_key,
        payload,
        run_at: args.delay.map(|delay| clock::after(delay).to_string()),
        deadline: args.deadline.map(|moment| moment.ahead().to_string()),
        priority: args.priority,
        labels: labels
            .map(|label| (label.name.as_str(), label.value.as_str()))
            .collect(),
    };
    serde_json::to_vec(&body).map_err(|_| CliError::usage("the payload cannot be sent"))
}
