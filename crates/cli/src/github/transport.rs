//! Sends the collector's requests over HTTP.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::ports::Clock;
use clinch_github::{ApiAnswer, ApiRequest, Broken, Transport};
use clinch_http::{Getter, HttpClient, Unanswered};

use crate::error::CliError;

/// The API answers within ten seconds or not at all.
pub(super) const TIMEOUT: Duration = Duration::from_secs(15);
/// A page of a hundred items is far smaller.
const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Sends requests to GitHub, or to the API that `github.api_url` names.
pub(crate) struct Http(Getter);

impl Http {
    /// Sends only to the origin of this address.
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        api_url: &str,
        allow_private: bool,
    ) -> Result<Self, CliError> {
        let client = HttpClient::builder(clock).build()?;
        let getter = Getter::new(&client, api_url, allow_private, TIMEOUT, ANSWER_BYTES_MAX);
        let wrong = |invalid| CliError::usage(format!("github.api_url: {invalid}"));
        Ok(Self(getter.map_err(wrong)?))
    }
}

impl Http {
    async fn send(&self, request: &ApiRequest, is_post: bool) -> Result<ApiAnswer, Broken> {
        let bearer = request.token.as_ref();
        let bearer = bearer.map(|token| format!("Bearer {}", token.secret()));
        let mut headers = vec![
            (
                "accept",
                request.accept.unwrap_or("application/vnd.github+json"),
            ),
            ("x-github-api-version", "2022-11-28"),
            ("user-agent", "clinch"),
        ];
        headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
        let known = request.if_none_match.as_deref();
        headers.extend(known.map(|etag| ("if-none-match", etag)));
        let got = match is_post {
            true => self.0.post(&request.url, &headers).await,
            false => self.0.get(&request.url, &headers).await,
        };
        let got = got.map_err(|unanswered| match unanswered {
            Unanswered::NotSent(why) => Broken::NotSent(why),
            Unanswered::Exhausted(what) => Broken::Exhausted(what),
            Unanswered::Lost(why) => Broken::Lost(why),
        })?;
        Ok(ApiAnswer::received(got.status, got.headers, got.body))
    }
}

#[async_trait]
impl Transport for Http {
    async fn get(&self, request: &ApiRequest) -> Result<ApiAnswer, Broken> {
        self.send(request, false).await
    }

    async fn post(&self, request: &ApiRequest) -> Result<ApiAnswer, Broken> {
        self.send(request, true).await
    }
}
