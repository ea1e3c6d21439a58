//! How operations are treated: repeats, retries, probes, the guards of a destination, and the
//! parameters of the engine.
//!
//! A [`Route`](crate::Route) carries its [`Rules`], which the protocol reads at every transition. The
//! methods of a route set the usual ones; [`Route::rules`](crate::Route::rules) sets all at once.
//!
//! ```
//! use std::time::Duration;
//! use clinch::policy::{
//!     Backoff, Config, EventTypes, Order, ProbeRules, ReaperStrategy, RetryRules, Routes, Rules, Safety,
//! };
//! use clinch::types::{Domain, EventType, WorkerId};
//! use clinch::{Backend, Call, Clinch, Fail, Route};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> clinch::Result<()> {
//! let rules = Rules {
//!     // The provider remembers our key for a day.
//!     safety: Safety::Keyed { ttl: Duration::from_secs(86_400), remembers_refusals: false },
//!     retry: RetryRules {
//!         max_attempts: 8,
//!         backoff: Backoff::new(Duration::from_secs(2), Duration::from_secs(60)),
//!         ..RetryRules::WORKER
//!     },
//!     // Ten minutes after a call, a provider that does not know it never got it.
//!     probe: Some(ProbeRules {
//!         not_found_final_after: Some(Duration::from_secs(600)),
//!         ..ProbeRules::default()
//!     }),
//!     reaper: ReaperStrategy::Probe,
//!     order: Order::Key,
//!     ..Rules::default()
//! };
//! let charge: Route<u64, ()> = Route::new("payments", "charge").rules(rules.clone());
//! let clinch = Clinch::builder()
//!     .backend(Backend::memory())
//!     .config(Config { concurrency: 8, ..Config::new(WorkerId::new("till-1")?) })
//!     .handle(&charge, |_: Call<u64>| async { Ok::<_, Fail>(()) })
//!     .build()?;
//!
//! // All routes of a process, by domain and event type.
//! let routes: &Routes = clinch.routes();
//! let declared = routes.iter().find(|(domain, ..)| domain.as_str() == "payments").map(|(_, types, _)| types);
//! assert_eq!(declared, Some(EventTypes::One(EventType::new("charge")?)));
//! let found = routes.find(&Domain::new("payments")?, &EventType::new("charge")?).map(|found| &found.retry);
//! assert_eq!(found, Some(&rules.retry));
//! # Ok(())
//! # }
//! ```
//!
//! Routes to one destination share its guards. Their state is there for operators.
//!
//! ```
//! use std::time::Duration;
//! use clinch::policy::{
//!     BulkheadConfig, CallFailure, CircuitConfig, Destination, DestinationConfig, DestinationLimits,
//!     DestinationStatus, Opener, QueueAge, RateConfig, RatioConfig, RecentCalls, Window,
//! };
//! use clinch::ports::CircuitState;
//! use clinch::types::Told;
//! use clinch::{Backend, Call, Clinch, Fail, Route};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> clinch::Result<()> {
//! let guards = DestinationConfig {
//!     breaker: Some(CircuitConfig { window: Window::Count(50), ..CircuitConfig::default() }),
//!     concurrency: Some(BulkheadConfig { max_concurrent: 4, ..BulkheadConfig::default() }),
//!     rate: Some(RateConfig::new(100, Duration::from_secs(60))),
//!     budget: Some(RatioConfig { ratio: 0.1, ..RatioConfig::default() }),
//! };
//! let charge: Route<u64, ()> = Route::new("payments", "charge").destination("psp");
//! let clinch = Clinch::builder()
//!     .backend(Backend::memory())
//!     .destination("psp", guards)
//!     // New work is turned away while due work waits longer than a minute.
//!     .shed(QueueAge { limit: Duration::from_secs(60) })
//!     .handle(&charge, |_: Call<u64>| async { Ok::<_, Fail>(()) })
//!     .build()?;
//!
//! let opener = Opener { by: Some("anna".to_owned()), reason: "they are down".to_owned() };
//! let told = clinch.open_destination("psp", None, opener).await?;
//! assert_eq!(told, Told::EveryProcess);
//! let status: &DestinationStatus = &clinch.destinations()[0];
//! assert_eq!(status.breaker, CircuitState::Open);
//! let limits: &DestinationLimits = &status.limits;
//! assert_eq!(limits.max_concurrent, Some(4));
//! let failure: Option<&CallFailure> = status.last_failure.as_ref();
//! assert!(failure.is_none() && status.recent == RecentCalls::default(), "nothing was called yet");
//! clinch.reset_destination("psp").await?;
//!
//! // Guards of your own making: `Builder::guarded_by` takes a whole destination.
//! # use std::sync::Arc;
//! # use clinch::testing::ManualClock;
//! let clock = Arc::new(ManualClock::default());
//! let strict = Destination::new("sms", clock, DestinationConfig::NONE)?;
//! let builder = Clinch::builder().guarded_by(Arc::new(strict));
//! # let _ = builder;
//! # Ok(())
//! # }
//! ```
//!
//! A provider's budget of calls is shared by everything that spends it: see
//! [`Opened::quota`](crate::backend::Opened::quota).
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use clinch::backend::{BusUrl, Opened, Options, StoreUrl};
//! use clinch::policy::{QuotaReading, QuotaRules, Reservation};
//! use clinch::ports::{Clock, Quota};
//! use clinch::testing::ManualClock;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> clinch::Result<()> {
//! let opened = Opened::open(&StoreUrl::Memory, &BusUrl::Store, &Options::default()).await?;
//! let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
//! let quota: Arc<dyn Quota> = opened.quota(QuotaRules::default(), &clock);
//! // Nothing is known yet: one caller asks, and tells the others what the provider said.
//! assert_eq!(quota.reserve("token-1", 1).await?, Reservation::Granted);
//! let reading = QuotaReading { retry_after: Some(Duration::from_secs(60)), ..QuotaReading::default() };
//! quota.update("token-1", &reading).await?;
//! assert!(matches!(quota.reserve("token-1", 1).await?, Reservation::WaitFor(_)));
//! # Ok(())
//! # }
//! ```

pub use clinch_core::policy::{
    Backoff, EventTypes, Order, ProbeRules, QuotaReading, QuotaRules, ReaperStrategy, Reservation,
    RetryRules, Routes, Rules, Safety,
};
pub use clinch_engine::Config;
pub use clinch_protect::{
    BulkheadConfig, CallFailure, CircuitConfig, Destination, DestinationConfig, DestinationLimits,
    DestinationStatus, Opener, QueueAge, RateConfig, RatioConfig, RecentCalls, Window,
};
