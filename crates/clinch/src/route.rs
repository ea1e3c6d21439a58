//! A kind of call, and a request for one.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use clinch_core::policy::{
    Idempotency, Order, ProbeRules, ReaperStrategy, RetryRules, Rules, Safety,
};
use clinch_core::ports::Fallback;
use clinch_core::{
    BizKey, Command, Domain, Error, EventType, IdemKey, Keys, Labels, Options, PAYLOAD_BYTES_MAX,
    Priority, Result, Timestamp,
};
use clinch_protect::{Hedge, Timeouts, from_fn};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::{decode, encode};

/// A kind of call: its names, its input and output, and its policies. The defaults are safe: a call
/// is not repeated unless the route says that it may be.
///
/// ```
/// use std::time::Duration;
/// use clinch::Route;
///
/// // Takes an amount, returns a receipt number; the provider remembers the key for a day.
/// let charge: Route<u64, String> = Route::new("payments", "charge")
///     .keyed(Duration::from_secs(86_400))
///     .destination("psp")
///     .timeout(Duration::from_secs(3))
///     .max_attempts(5);
/// let request = charge.request("order-123", "c0ffee", &5_000).label("team", "shop");
/// # let _ = request;
/// ```
///
/// What a route says of slow, lost and unknown calls:
///
/// ```
/// use std::time::Duration;
/// use clinch::policy::{ProbeRules, ReaperStrategy, RetryRules, Safety};
/// use clinch::types::Probed;
/// use clinch::{Backend, Call, Clinch, Retry, Route};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> clinch::Result<()> {
/// // A read: a second request after half a second, and a substitute if no answer comes.
/// let rate: Route<String, u64> = Route::new("rates", "read")
///     .natural()
///     .timeout(Duration::from_secs(2))
///     .hedge(Duration::from_millis(500))
///     .total_timeout(Duration::from_secs(5)) // the waits for permits and both requests
///     .fallback(|pair: String| (pair == "EUR/USD").then_some(108));
///
/// // A payout must not be made twice. The bank is asked first, also if a worker is lost.
/// let payout: Route<u64, u64> = Route::new("bank", "payout")
///     .safety(Safety::Unsafe) // the default
///     .retry(RetryRules::OUTBOX)
///     .reaper(ReaperStrategy::Probe)
///     .probe_rules(ProbeRules {
///         not_found_final_after: Some(Duration::from_secs(600)),
///         ..ProbeRules::default()
///     })
///     .deadline(Duration::from_secs(4 * 3_600)); // no attempt begins later
///
/// // The printer knows our callers' keys. Remote workers print, five minutes a label at most.
/// let label: Route<String, ()> = Route::new("labels", "print")
///     .raw_idem_key()
///     .lease_max(Duration::from_secs(300));
///
/// // Work of this application that no caller of its server may submit.
/// let sweep: Route<(), ()> = Route::new("shop", "sweep").natural().internal();
/// assert_eq!((sweep.domain(), sweep.event_type()), ("shop", "sweep"));
///
/// let clinch = Clinch::builder()
///     .backend(Backend::memory())
///     .handle(&rate, |_: Call<String>| async { Err::<u64, _>(Retry::not_applied("closed")) })
///     .handle(&payout, |call: Call<u64>| async move { Ok::<_, Retry>(call.input) })
///     .probe(&payout, |_: Call<u64>| async { Ok::<_, Retry>(Probed::<u64>::Unknown) })
///     .leased(&label)
///     .remote(&sweep)
///     .build()?;
/// # let _ = clinch;
/// # Ok(())
/// # }
/// ```
pub struct Route<I, O> {
    pub(crate) spec: Spec,
    types: PhantomData<fn(I) -> O>,
}

impl<I, O> Clone for Route<I, O> {
    fn clone(&self) -> Self {
        Self {
            spec: self.spec.clone(),
            types: PhantomData,
        }
    }
}

/// A route without its types.
#[derive(Clone)]
pub(crate) struct Spec {
    pub domain: String,
    pub event_type: String,
    pub rules: Rules,
    pub idempotency: Idempotency,
    pub destination: Option<String>,
    pub timeouts: Timeouts,
    pub hedge: Option<Hedge>,
    pub fallback: Option<Arc<dyn Fallback>>,
    pub lease_max: Option<Duration>,
    pub internal: bool,
}

impl Spec {
    /// Whether everything that can be compared is equal.
    pub(crate) fn says_the_same_as(&self, other: &Self) -> bool {
        self.rules == other.rules
            && self.idempotency == other.idempotency
            && self.destination == other.destination
            && self.timeouts == other.timeouts
            && self.hedge == other.hedge
            && self.fallback.is_some() == other.fallback.is_some()
            && self.lease_max == other.lease_max
            && self.internal == other.internal
    }

    /// The destination's name. By default each route has its own destination.
    pub(crate) fn destination_name(&self) -> String {
        let own = || format!("{}/{}", self.domain, self.event_type);
        self.destination.clone().unwrap_or_else(own)
    }
}

impl<I, O> Route<I, O> {
    /// A route that may not be repeated, with the recommended policies.
    pub fn new(domain: impl Into<String>, event_type: impl Into<String>) -> Self {
        let spec = Spec {
            domain: domain.into(),
            event_type: event_type.into(),
            rules: Rules::default(),
            idempotency: Idempotency::default(),
            destination: None,
            timeouts: Timeouts::default(),
            hedge: None,
            fallback: None,
            lease_max: None,
            internal: false,
        };
        Self {
            spec,
            types: PhantomData,
        }
    }

    /// The domain of its operations.
    pub fn domain(&self) -> &str {
        &self.spec.domain
    }

    /// The event type of its operations.
    pub fn event_type(&self) -> &str {
        &self.spec.event_type
    }

    fn with(mut self, change: impl FnOnce(&mut Spec)) -> Self {
        change(&mut self.spec);
        self
    }

    /// Sets all rules that the protocol reads, at once.
    #[must_use]
    pub fn rules(self, rules: Rules) -> Self {
        self.with(|spec| spec.rules = rules)
    }

    /// Sets whether a call may be repeated while it is unknown if an earlier call was applied.
    #[must_use]
    pub fn safety(self, safety: Safety) -> Self {
        self.with(|spec| spec.rules.safety = safety)
    }

    /// The provider remembers the outbound key for this long after the first call.
    #[must_use]
    pub fn keyed(self, ttl: Duration) -> Self {
        self.safety(Safety::Keyed {
            ttl,
            remembers_refusals: false,
        })
    }

    /// Repeating is harmless: a read, an upsert.
    #[must_use]
    pub fn natural(self) -> Self {
        self.safety(Safety::Natural)
    }

    /// Sets how often and when to retry.
    #[must_use]
    pub fn retry(self, rules: RetryRules) -> Self {
        self.with(|spec| spec.rules.retry = rules)
    }

    /// Sets the maximum number of calls, including the first.
    #[must_use]
    pub fn max_attempts(self, calls: u32) -> Self {
        self.with(|spec| spec.rules.retry.max_attempts = calls)
    }

    /// Time from accept, or from `run_at` if that is later, to the last begin. Used if the request
    /// names no deadline.
    #[must_use]
    pub fn deadline(self, within: Duration) -> Self {
        self.with(|spec| spec.rules.deadline = Some(within))
    }

    /// Operations of one business object run one at a time, in the order of their acceptance.
    #[must_use]
    pub fn ordered(self) -> Self {
        self.with(|spec| spec.rules.order = Order::Key)
    }

    /// Sets how the probe's answers are judged.
    #[must_use]
    pub fn probe_rules(self, rules: ProbeRules) -> Self {
        self.with(|spec| spec.rules.probe = Some(rules))
    }

    /// Sets what the Reaper does with a lost attempt.
    #[must_use]
    pub fn reaper(self, strategy: ReaperStrategy) -> Self {
        self.with(|spec| spec.rules.reaper = strategy)
    }

    /// Sends the caller's idem_key to the provider as it is, instead of a key derived from all
    /// four keys.
    #[must_use]
    pub fn raw_idem_key(self) -> Self {
        self.with(|spec| spec.idempotency.raw_idem_key = true)
    }

    /// Sets the called system: routes with the same destination share breaker, bulkhead, rate limit
    /// and pauses. By default each route has its own.
    #[must_use]
    pub fn destination(self, name: impl Into<String>) -> Self {
        self.with(|spec| spec.destination = Some(name.into()))
    }

    /// The route is for this application only: a server that serves it refuses its operations
    /// from callers and from remote workers. The application submits them through this crate;
    /// operators may cancel, resolve and redrive them.
    #[must_use]
    pub fn internal(self) -> Self {
        self.with(|spec| spec.internal = true)
    }

    /// Sets the timeout of one call.
    #[must_use]
    pub fn timeout(self, per_attempt: Duration) -> Self {
        self.with(|spec| {
            spec.timeouts.per_attempt = per_attempt;
            spec.timeouts.total = spec.timeouts.total.max(per_attempt);
        })
    }

    /// Sets the longest lease of a remote worker, both at first and after a heartbeat.
    #[must_use]
    pub fn lease_max(self, longest: Duration) -> Self {
        self.with(|spec| spec.lease_max = Some(longest))
    }

    /// Sets the timeout of a whole attempt, including waits for permits and further copies.
    #[must_use]
    pub fn total_timeout(self, total: Duration) -> Self {
        self.with(|spec| spec.timeouts.total = total)
    }

    /// Sends a second copy of a call that has no answer after this time. `build` refuses this for
    /// routes that may not be repeated, and for ordered ones.
    #[must_use]
    pub fn hedge(self, after: Duration) -> Self {
        self.with(|spec| {
            let hedge = Hedge::new(after);
            spec.rules.copies = hedge.copies_max;
            spec.hedge = Some(hedge);
        })
    }

    /// Sets a substitute answer for when the provider gives none: its breaker is open, or the last
    /// attempt was used. `build` refuses this for all but natural routes.
    #[must_use]
    pub fn fallback<F>(self, answer: F) -> Self
    where
        I: DeserializeOwned,
        O: Serialize,
        F: Fn(I) -> Option<O> + Send + Sync + 'static,
    {
        let fallback = from_fn(move |command: &Command| {
            let output = answer(decode(&command.payload).ok()?)?;
            encode(&output, PAYLOAD_BYTES_MAX).ok()
        });
        self.with(|spec| spec.fallback = Some(Arc::new(fallback)))
    }

    /// A request for one call. Requests for the same business object with the same idempotency key
    /// are one operation, however often they are made.
    pub fn request(
        &self,
        biz_key: impl Into<String>,
        idem_key: impl Into<String>,
        input: &I,
    ) -> Request<O>
    where
        I: Serialize,
    {
        let keys = self.keys(biz_key.into(), idem_key.into());
        let payload = encode(input, PAYLOAD_BYTES_MAX);
        let command = keys.and_then(|keys| Ok(Command::new(keys, payload?)));
        Request {
            command,
            labels: BTreeMap::new(),
            result: PhantomData,
        }
    }

    fn keys(&self, biz_key: String, idem_key: String) -> Result<Keys> {
        Ok(Keys {
            domain: Domain::new(&self.spec.domain)?,
            event_type: EventType::new(&self.spec.event_type)?,
            biz_key: BizKey::new(biz_key)?,
            idem_key: IdemKey::new(idem_key)?,
        })
    }
}

/// A request for one call of a route whose result is an `O`. An invalid request is reported by
/// [`Clinch::start`](crate::Clinch::start) or [`Clinch::submit`](crate::Clinch::submit).
///
/// ```
/// use clinch::Route;
/// use clinch::types::Timestamp;
///
/// let send: Route<String, ()> = Route::new("sms", "send");
/// let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// let request = send
///     .request("customer-7", "welcome", &"Hello".to_owned())
///     .run_at(Timestamp::from_millis(1_800_000_000_000))
///     .deadline(Timestamp::from_millis(1_800_003_600_000)) // an hour later it is pointless
///     .priority(5)
///     .label("campaign", "spring")
///     .trace(parent); // the caller's `traceparent`
/// let command = request.into_command()?;
/// assert_eq!(command.options.trace.as_deref(), Some(parent));
/// # Ok::<(), clinch::Error>(())
/// ```
#[derive(Clone)]
pub struct Request<O> {
    command: Result<Command>,
    labels: BTreeMap<String, String>,
    result: PhantomData<fn() -> O>,
}

impl<O> Request<O> {
    fn with(mut self, change: impl FnOnce(&mut Options) -> Result<()>) -> Self {
        self.command = self.command.and_then(|mut command| {
            change(&mut command.options)?;
            Ok(command)
        });
        self
    }

    /// No attempt begins before this moment.
    #[must_use]
    pub fn run_at(self, at: Timestamp) -> Self {
        self.with(|options| {
            options.run_at = Some(at);
            Ok(())
        })
    }

    /// No attempt begins at or after this moment.
    #[must_use]
    pub fn deadline(self, at: Timestamp) -> Self {
        self.with(|options| {
            options.deadline = Some(at);
            Ok(())
        })
    }

    /// Among due operations, a higher priority is claimed first: −10 to 10.
    #[must_use]
    pub fn priority(self, priority: i8) -> Self {
        self.with(|options| {
            options.priority = Priority::new(priority)?;
            Ok(())
        })
    }

    /// Adds a label, for humans.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Sets the trace of the operation: a W3C `traceparent`. An invalid one is ignored, as the
    /// standard requires; without one a fresh trace begins.
    #[must_use]
    pub fn trace(self, parent: &str) -> Self {
        let valid = clinch_core::ports::is_traceparent(parent).then(|| parent.to_owned());
        self.with(|options| {
            options.trace = valid;
            Ok(())
        })
    }

    /// The command, untyped.
    pub fn into_command(self) -> Result<Command, Error> {
        let mut command = self.command?;
        command.options.labels = Labels::new(self.labels)?;
        Ok(command)
    }
}
