//! Requests of the collector over HTTP.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch::core::ports::Clock;
use clinch_github::{ApiAnswer, ApiRequest, Broken, Transport};
use clinch_http::{Getter, HttpClient, Unanswered};

/// The API answers within ten seconds or not at all.
pub(super) const TIMEOUT: Duration = Duration::from_secs(15);
/// A page of a hundred items is far smaller.
const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Asks GitHub, or whoever `github.api_url` names.
pub(crate) struct Http(Getter);

impl Http {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> clinch::Result<Self> {
        let client = HttpClient::builder(clock).build()?;
        Ok(Self(Getter::new(&client, TIMEOUT, ANSWER_BYTES_MAX)))
    }
}

#[async_trait]
impl Transport for Http {
    async fn get(&self, request: &ApiRequest) -> Result<ApiAnswer, Broken> {
        let bearer = request.token.as_ref();
        let bearer = bearer.map(|token| format!("Bearer {}", token.secret()));
        let mut headers = vec![
            ("accept", "application/vnd.github+json"),
            ("x-github-api-version", "2022-11-28"),
            ("user-agent", "clinch"),
        ];
        headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
        let known = request.if_none_match.as_deref();
        headers.extend(known.map(|etag| ("if-none-match", etag)));
        let got = self.0.get(&request.url, &headers).await;
        let got = got.map_err(|unanswered| match unanswered {
            Unanswered::NotSent(why) => Broken::NotSent(why),
            Unanswered::Exhausted(what) => Broken::Exhausted(what),
            Unanswered::Lost(why) => Broken::Lost(why),
        })?;
        Ok(ApiAnswer {
            status: got.status,
            headers: got.headers.into_iter().collect(),
            body: got.body,
        })
    }
}
