//! `[[route]]`: how one kind of call is made.

use std::collections::BTreeMap;
use std::time::Duration;

use clinch::{Result, Route};
use clinch_core::policy::{Order, ProbeRules, RetryRules, Rules, Safety};
use clinch_core::{Domain, EventType};
use clinch_protect::{
    BulkheadConfig, CircuitConfig, DestinationConfig, RateConfig, RatioConfig, Window,
};
use serde::{Deserialize, Serialize};

use super::destinations::host_and_port;
use super::units::optional_span;
use super::{Config, Span, wrong};

/// One route: every key of `[[route]]`, with its default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RouteConfig {
    /// Names the route for people and for the environment.
    pub name: String,
    /// The domain.
    pub domain: String,
    /// The event type; `*` for all. The most specific route wins.
    pub event_type: String,
    /// The destination; by default the host of `url`, with its port unless that is the port of the
    /// scheme.
    pub destination: String,
    /// The address to call; `{biz_key}`, `{op_id}`, `{outbound_key}` and `{payload.field}` are
    /// filled in.
    pub url: String,
    /// Remote workers make the calls.
    pub remote: bool,
    /// HTTP method.
    pub method: String,
    /// HTTP headers. Values are secrets.
    pub headers: BTreeMap<String, String>,
    /// The header that carries the outbound key.
    pub idempotency_header: String,
    /// Send the caller's idem_key as it is, instead of a key derived from all four keys.
    pub raw_idem_key: bool,
    /// Whether the call may be repeated.
    pub safety: SafetyConfig,
    /// With keyed safety: how long the provider remembers our key.
    pub key_ttl: Span,
    /// With keyed safety: the provider also repeats a refusal for a repeated key.
    pub remembers_refusals: bool,
    /// Statuses that mean "already done".
    pub duplicate_status: Vec<u16>,
    /// A 503 means that nothing was done.
    pub unavailable_is_clean: bool,
    /// How to ask the provider what became of a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<ProbeConfig>,
    /// Where the answer holds the provider's id: `json:/id` or `header:X-Txn-Id`.
    pub txn_id: String,
    /// The timeout of one call, by default 3 s. For a remote route: the longest lease, by default
    /// unlimited.
    #[serde(with = "optional_span")]
    pub timeout: Option<Span>,
    /// How often and when to retry.
    pub retry: RetryConfig,
    /// The time from accept to the last attempt; empty: no deadline.
    #[serde(with = "optional_span")]
    pub deadline: Option<Span>,
    /// The circuit breaker: stops calling while the destination keeps failing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker: Option<BreakerConfig>,
    /// Concurrent calls, by default 16. For a remote route: concurrent leases, by default
    /// unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// The rate limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateLimit>,
    /// Sends a second copy of a slow call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hedge: Option<HedgeConfig>,
    /// A result that stands in for the provider's answer, as JSON text; natural safety only.
    pub fallback: String,
    /// Whether operations of one biz_key run one at a time.
    pub order: OrderConfig,
    /// Allows calls to private and loopback addresses.
    pub allow_private: bool,
}

impl Default for RouteConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            domain: String::new(),
            event_type: "*".to_owned(),
            destination: String::new(),
            url: String::new(),
            remote: false,
            method: "POST".to_owned(),
            headers: BTreeMap::new(),
            idempotency_header: "Idempotency-Key".to_owned(),
            raw_idem_key: false,
            safety: SafetyConfig::Unsafe,
            key_ttl: Span::secs(86_400),
            remembers_refusals: false,
            duplicate_status: Vec::new(),
            unavailable_is_clean: false,
            probe: None,
            txn_id: String::new(),
            timeout: None,
            retry: RetryConfig::default(),
            deadline: Some(Span::secs(86_400)),
            breaker: None,
            concurrency: None,
            rate: None,
            hedge: None,
            fallback: String::new(),
            order: OrderConfig::None,
            allow_private: false,
        }
    }
}

/// Whether a call may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SafetyConfig {
    /// The provider remembers our key.
    Keyed,
    /// Repeating the call is harmless.
    Natural,
    /// The call must not be repeated.
    Unsafe,
}

/// Whether operations of one biz_key run one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderConfig {
    /// In any order.
    None,
    /// One at a time, in seq order.
    Key,
}

/// `probe = { … }`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProbeConfig {
    /// The address to ask.
    pub url: String,
    /// Where the answer names the call, such as `json:/key`.
    pub r#match: String,
    /// Statuses that mean that the call was applied.
    pub succeeded: Vec<u16>,
    /// Statuses that mean that the call was refused.
    pub failed: Vec<u16>,
    /// Statuses that mean that the provider does not know the call.
    pub not_found: Vec<u16>,
    /// How long after the call a "not found" is final; empty: never.
    #[serde(with = "optional_span")]
    pub not_found_final_after: Option<Span>,
    /// Inconclusive answers before probing ends.
    pub inconclusive_max: u32,
}

impl Default for ProbeConfig {
    fn default() -> Self {
        Self {
            url: String::new(),
            r#match: String::new(),
            succeeded: vec![200],
            failed: Vec::new(),
            not_found: vec![404],
            not_found_final_after: None,
            inconclusive_max: 10,
        }
    }
}

/// `retry = { … }`: a preset, and its overrides.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryConfig {
    /// `worker`, `outbox` or `sdk`; empty is `worker`.
    pub preset: String,
    /// All calls, including the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// The delay before the second call; doubles with each call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<Span>,
    /// The longest delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<Span>,
    /// Share of the delay that is randomly added or subtracted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<f64>,
    /// The longest `Retry-After` that is respected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_max: Option<Span>,
    /// The retry budget of the destination: retries for each first call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<f64>,
}

/// `breaker = { … }`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BreakerConfig {
    /// The failure rate that opens the breaker.
    pub failure_rate: f64,
    /// The rate of slow calls that opens the breaker.
    pub slow_rate: f64,
    /// The duration from which a call is slow.
    pub slow: Span,
    /// The number of last calls that count.
    pub window: u32,
    /// The fewest calls that can open the breaker.
    pub min_calls: u32,
    /// How long the breaker stays open.
    pub open: Span,
    /// Trial calls while half-open.
    pub half_open: u32,
}

impl Default for BreakerConfig {
    fn default() -> Self {
        Self {
            failure_rate: 0.5,
            slow_rate: 1.0,
            slow: Span::secs(3),
            window: 20,
            min_calls: 10,
            open: Span::secs(30),
            half_open: 3,
        }
    }
}

/// `rate = { permits = 50, per = "1s" }`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimit {
    /// The number of calls …
    pub permits: u32,
    /// … in this time.
    pub per: Span,
}

/// `hedge = { after = "300ms" }`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HedgeConfig {
    /// The time without an answer after which the second copy is sent.
    pub after: Span,
}

/// A route whose payloads and results are any JSON.
pub(crate) type AnyRoute = Route<serde_json::Value, serde_json::Value>;

impl RouteConfig {
    /// The route's name in error messages.
    pub fn label(&self) -> String {
        match self.name.as_str() {
            "" => format!("{}/{}", self.domain, self.event_type),
            name => name.to_owned(),
        }
    }

    /// The destination's name: routes with the same destination share its guards.
    pub fn destination_name(&self) -> String {
        if !self.destination.is_empty() {
            return self.destination.clone();
        }
        host_and_port(&self.url).unwrap_or_else(|| self.label())
    }

    /// The timeout of one call that this server makes.
    pub fn call_timeout(&self) -> Duration {
        /// The value that the requirements recommend.
        const DEFAULT: Duration = Duration::from_secs(3);
        self.timeout.map_or(DEFAULT, |timeout| timeout.0)
    }

    pub(super) fn problem(&self, problem: impl std::fmt::Display) -> clinch::Error {
        wrong(format!("route {:?}: {problem}", self.label()))
    }

    pub(super) fn retry_rules(&self) -> Result<RetryRules> {
        let retry = &self.retry;
        let mut rules = match retry.preset.as_str() {
            "" | "worker" => RetryRules::WORKER,
            "outbox" => RetryRules::OUTBOX,
            "sdk" => RetryRules::SDK,
            other => {
                let problem = format!("retry.preset = {other:?} is none of worker, outbox, sdk");
                return Err(self.problem(problem));
            }
        };
        rules.max_attempts = retry.max_attempts.unwrap_or(rules.max_attempts);
        rules.backoff.base = retry.base.map_or(rules.backoff.base, |base| base.0);
        rules.backoff.cap = retry.cap.map_or(rules.backoff.cap, |cap| cap.0);
        rules.backoff.jitter = retry.jitter.unwrap_or(rules.backoff.jitter);
        rules.retry_after_max = retry
            .retry_after_max
            .map_or(rules.retry_after_max, |max| max.0);
        Ok(rules)
    }

    /// The rules of the protocol for this route.
    pub fn rules(&self, config: &Config) -> Result<Rules> {
        let mut rules = Rules {
            safety: match self.safety {
                SafetyConfig::Keyed => Safety::Keyed {
                    ttl: self.key_ttl.0,
                    remembers_refusals: self.remembers_refusals,
                },
                SafetyConfig::Natural => Safety::Natural,
                SafetyConfig::Unsafe => Safety::Unsafe,
            },
            lease: config.worker.lease.0,
            retry: self.retry_rules()?,
            deliveries_max: config.worker.deliveries_max,
            deadline: self.deadline.map(|deadline| deadline.0),
            reaper: config.reaper.strategy.into(),
            order: match self.order {
                OrderConfig::None => Order::None,
                OrderConfig::Key => Order::Key,
            },
            ..Rules::default()
        };
        rules.probe = self.probe.as_ref().map(|probe| ProbeRules {
            not_found_final_after: probe.not_found_final_after.map(|after| after.0),
            inconclusive_max: probe.inconclusive_max,
            ..ProbeRules::default()
        });
        if self.hedge.is_some() {
            rules.copies = 2;
        }
        rules.validate().map_err(|invalid| self.problem(invalid))?;
        Ok(rules)
    }

    /// The route for the facade.
    pub(crate) fn route(&self, config: &Config) -> Result<AnyRoute> {
        let mut route = AnyRoute::new(&self.domain, &self.event_type)
            .rules(self.rules(config)?)
            .destination(self.destination_name());
        route = match (self.remote, self.timeout) {
            (true, None) => route,
            (true, Some(longest)) => route.lease_max(longest.0),
            (false, _) => route.timeout(self.call_timeout()),
        };
        if self.raw_idem_key {
            route = route.raw_idem_key();
        }
        if let Some(hedge) = &self.hedge {
            route = route.hedge(hedge.after.0);
        }
        if !self.fallback.is_empty() {
            let answer: serde_json::Value = serde_json::from_str(&self.fallback)
                .map_err(|_| self.problem("fallback is not JSON; write it as JSON text"))?;
            route = route.fallback(move |_| Some(answer.clone()));
        }
        Ok(route)
    }

    /// The guards that the route sets; `None` where it sets none.
    pub(super) fn guards(&self) -> DestinationConfig {
        DestinationConfig {
            breaker: self.breaker.as_ref().map(|breaker| CircuitConfig {
                failure_rate: breaker.failure_rate,
                slow_rate: breaker.slow_rate,
                slow: breaker.slow.0,
                window: Window::Count(breaker.window),
                min_calls: breaker.min_calls,
                open: breaker.open.0,
                half_open: breaker.half_open,
                open_max: CircuitConfig::default().open_max.max(breaker.open.0),
            }),
            concurrency: self.concurrency.map(|calls| BulkheadConfig {
                max_concurrent: calls,
                ..BulkheadConfig::default()
            }),
            rate: self
                .rate
                .as_ref()
                .map(|rate| RateConfig::new(rate.permits, rate.per.0)),
            budget: self.retry.budget.map(|ratio| RatioConfig {
                ratio,
                ..RatioConfig::default()
            }),
        }
    }

    /// Refuses keys that would be ignored: remote workers make the calls, and this server at most
    /// probes.
    fn check_remote(&self) -> Result<()> {
        if self
            .probe
            .as_ref()
            .is_some_and(|probe| probe.url.is_empty())
        {
            let problem = "probe.url is missing; without it the provider cannot be asked";
            return Err(self.problem(problem));
        }
        if !self.remote {
            return Ok(());
        }
        let unset = Self::default();
        let asks = self.probe.is_some();
        let ignored = [
            ("hedge", self.hedge.is_some()),
            ("fallback", !self.fallback.is_empty()),
            ("method", self.method != unset.method),
            ("duplicate_status", !self.duplicate_status.is_empty()),
            ("unavailable_is_clean", self.unavailable_is_clean),
            (
                "idempotency_header",
                self.idempotency_header != unset.idempotency_header,
            ),
            ("headers", !self.headers.is_empty() && !asks),
            ("txn_id", !self.txn_id.is_empty() && !asks),
            ("allow_private", self.allow_private && !asks),
        ];
        match ignored.iter().find(|(_, is_set)| *is_set) {
            Some((key, _)) => Err(self.problem(format!(
                "{key} is for calls that this server makes, and remote = true leaves them to remote workers; remove it"
            ))),
            None => Ok(()),
        }
    }

    pub(super) fn validate(&self, config: &Config) -> Result<()> {
        if self.domain.is_empty() {
            return Err(self.problem("domain is missing; name the domain that it serves"));
        }
        Domain::new(&self.domain).map_err(|invalid| self.problem(invalid))?;
        if self.event_type != "*" {
            EventType::new(&self.event_type).map_err(|invalid| self.problem(invalid))?;
        }
        if self.url.is_empty() && !self.remote {
            return Err(self.problem(
                "the route has no executor; set url, or remote = true for remote workers",
            ));
        }
        if !self.url.is_empty() && self.remote {
            return Err(self.problem("url and remote = true contradict each other; leave one out"));
        }
        if self.timeout.is_some_and(|timeout| timeout.0.is_zero()) {
            return Err(self.problem("timeout must be longer than 0"));
        }
        self.check_remote()?;
        if !self.fallback.is_empty() && self.safety != SafetyConfig::Natural {
            return Err(self.problem("fallback needs safety = \"natural\""));
        }
        self.route(config).map(drop)
    }
}
