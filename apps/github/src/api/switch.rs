//! Which documents are live.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use clinch::types::ErrorKind;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::documents::time;
use super::problem::{Problem, ProblemDocument};
use super::read::{Answer, Api, body, json};
use crate::model::Space;
use crate::{Collector, Switch, SwitchLimits};

/// Which documents become live, and when the collector goes back by itself.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SwitchRequest {
    /// shadow or main.
    live: String,
    /// Failed jobs of a run, in percent; default 5.
    #[serde(default)]
    max_failed_percent: Option<f64>,
    /// How many times as long a run may take as before the switch; default 2.
    #[serde(default)]
    max_time_ratio: Option<f64>,
    /// How long the sink may refuse all documents; default 600.
    #[serde(default)]
    max_sink_outage_seconds: Option<u64>,
}

/// A way back that the collector took by itself.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WayBackDocument {
    /// When the collector went back.
    at: String,
    /// Which limit was passed, and by how much.
    reason: String,
    /// The run that was the reason.
    run_id: Option<String>,
}

/// Which documents are live.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SwitchDocument {
    /// main or shadow: the documents that runs store and readers get, unless they ask for others.
    live: String,
    /// Since when; null: from the beginning.
    since: Option<String>,
    /// The collector goes back if more than this share of a run's jobs fails, in percent.
    max_failed_percent: f64,
    /// The collector goes back if a run takes more than this many times as long as before the
    /// switch.
    max_time_ratio: f64,
    /// The collector goes back if the sink refuses all documents for longer than this.
    max_sink_outage_seconds: u64,
    /// Set: the collector went back by itself.
    way_back: Option<WayBackDocument>,
}

impl From<Switch> for SwitchDocument {
    fn from(switch: Switch) -> Self {
        let way_back = switch.way_back.map(|back| WayBackDocument {
            at: time(back.at),
            reason: back.reason,
            run_id: back.run.map(|run| run.to_string()),
        });
        Self {
            live: match switch.live {
                Space::Main => "main".to_owned(),
                Space::Shadow => "shadow".to_owned(),
            },
            since: switch.since.map(time),
            max_failed_percent: switch.limits.max_failed_percent,
            max_time_ratio: switch.limits.max_time_ratio,
            max_sink_outage_seconds: switch.limits.max_sink_outage_secs,
            way_back,
        }
    }
}

impl SwitchRequest {
    fn parsed(self) -> Result<(Space, SwitchLimits), Problem> {
        let live = match self.live.as_str() {
            "main" => Space::Main,
            "shadow" => Space::Shadow,
            _ => return Err(Problem::field("live", "must be main or shadow")),
        };
        let default = SwitchLimits::default();
        let limits = SwitchLimits {
            max_failed_percent: self
                .max_failed_percent
                .unwrap_or(default.max_failed_percent),
            max_time_ratio: self.max_time_ratio.unwrap_or(default.max_time_ratio),
            max_sink_outage_secs: self
                .max_sink_outage_seconds
                .unwrap_or(default.max_sink_outage_secs),
        };
        if !(0.0..=100.0).contains(&limits.max_failed_percent) {
            let message = "must be between 0 and 100";
            return Err(Problem::field("max_failed_percent", message));
        }
        if !(1.0..=1e6).contains(&limits.max_time_ratio) {
            return Err(Problem::field("max_time_ratio", "must be at least 1"));
        }
        Ok((live, limits))
    }
}

/// Read which documents are live.
///
/// The documents of the real collection or of the shadow, and whether the collector went back by
/// itself.
#[utoipa::path(get, path = "/v1/github/switch", tag = "github", operation_id = "get_switch",
    responses((status = 200, body = SwitchDocument, description = "Which documents are live, and whether the collector went back by itself")))]
pub(crate) async fn get(State(collector): State<Collector>) -> Answer {
    let switch = collector.switch().await?;
    json(StatusCode::OK, &SwitchDocument::from(switch))
}

/// Choose which documents are live.
///
/// From now on runs store these documents and readers get them. Active runs continue where they
/// began.
#[utoipa::path(post, path = "/v1/github/switch", tag = "github", operation_id = "set_switch",
    request_body = SwitchRequest,
    responses(
        (status = 200, body = SwitchDocument, description = "These documents are live now; active runs continue where they began"),
        (status = "4XX", body = ProblemDocument, description = "invalid_request"),
    ))]
pub(crate) async fn post(State(api): State<Api>, request: Request) -> Answer {
    let shape =
        "{\"live\":\"shadow\"} or {\"live\":\"main\"}, with limits such as \"max_time_ratio\":2";
    let asked: SwitchRequest = body(&api, request, shape, false).await?;
    let (live, limits) = asked.parsed()?;
    let switched = api.collector.switch_to(live, limits).await;
    let switch = switched.map_err(|error| match error.kind() {
        ErrorKind::Conflict => Problem::unavailable(error.message()),
        _ => error.into(),
    })?;
    json(StatusCode::OK, &SwitchDocument::from(switch))
}
