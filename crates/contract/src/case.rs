//! One case: a named behaviour, its requirements, and the check.

use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;

use clinch_core::ports::Refused;
use clinch_core::{Error, Invalid};

use crate::{Capabilities, Subject};

/// A future of a case.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// How a case ends.
pub(crate) type Verdict<T = ()> = Result<T, Failure>;

/// One behaviour that a port promises.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// `area::behaviour`.
    pub name: &'static str,
    /// Ids of the requirements that it proves.
    pub proves: &'static [&'static str],
    /// The capabilities that an adapter must have for it.
    pub needs: Need,
    /// Checks it on a fresh subject.
    pub run: fn(Subject) -> BoxFuture<Result<(), Failure>>,
}

/// The capabilities that an adapter must have for a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The ports of a store.
    Store,
    /// The ports of a store, and faults on demand.
    Faults,
    /// A bus that carries hints.
    Bus,
    /// Both.
    StoreAndBus,
    /// A store that is its own bus.
    Queue,
    /// The same, and faults on demand.
    QueueFaults,
    /// Locks and leadership.
    Locks,
}

impl Need {
    /// Whether an adapter with these capabilities must pass the case.
    pub fn is_met_by(self, capabilities: Capabilities) -> bool {
        let Capabilities {
            store,
            bus,
            queue,
            locks,
            faults,
        } = capabilities;
        match self {
            Self::Store => store,
            Self::Faults => store && faults,
            Self::Bus => bus,
            Self::StoreAndBus => store && bus,
            Self::Queue => store && queue,
            Self::QueueFaults => store && queue && faults,
            Self::Locks => locks,
        }
    }
}

/// A broken promise, and where the suite noticed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(String);

impl Failure {
    /// A failure noticed at the caller.
    #[track_caller]
    pub fn new(text: impl fmt::Display) -> Self {
        let at = Location::caller();
        Self(format!("{text} [{}:{}]", at.file(), at.line()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Error> for Failure {
    #[track_caller]
    fn from(error: Error) -> Self {
        Self::new(format!("a call failed: {:?}: {error}", error.kind()))
    }
}

impl From<Refused> for Failure {
    #[track_caller]
    fn from(refused: Refused) -> Self {
        Self::new(format!("a change was refused: {refused}"))
    }
}

impl From<Invalid> for Failure {
    #[track_caller]
    fn from(invalid: Invalid) -> Self {
        Self::new(format!("the suite built something invalid: {invalid}"))
    }
}

/// What a case works on: a view of the subject with the ports that the case needs.
pub(crate) trait Stage: Sized {
    /// Takes the ports. A missing port is a failure, since the capabilities claimed it.
    fn open(subject: Subject) -> Verdict<Self>;
}

/// Fails the case unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::case::Failure::new(format!($($text)+)));
        }
    };
}

/// Fails the case unless both are equal.
macro_rules! ensure_eq {
    ($left:expr, $right:expr, $($text:tt)+) => {
        match (&$left, &$right) {
            (left, right) => {
                if left != right {
                    let said = format!($($text)+);
                    let differs = format!("{said}: got {left:?}, expected {right:?}");
                    return Err($crate::case::Failure::new(differs));
                }
            }
        }
    };
}

/// Lists the cases of one area: `area, need { function: [ids] … }`.
macro_rules! area {
    ($area:literal, $need:ident { $($run:ident: [$($id:literal),*],)+ }) => {
        &[$($crate::case::Case {
            name: concat!($area, "::", stringify!($run)),
            proves: &[$($id),*],
            needs: $crate::case::Need::$need,
            run: |subject| {
                Box::pin(async move { $run($crate::case::Stage::open(subject)?).await })
            },
        }),+]
    };
}

/// Lists every scenario of a file twice: with the store as its own bus, and with a bus of hints.
macro_rules! scenarios {
    ($queue:literal, $hints:literal, $($run:ident: [$($id:literal),*],)+) => {
        pub(super) const BY_QUEUE: &[$crate::case::Case] =
            area!($queue, Queue { $($run: [$($id),*],)+ });

        mod by_hints {
            use $crate::case::{Case, Verdict};
            use $crate::engine::OverHints;
            $(async fn $run(e: OverHints) -> Verdict {
                super::$run(e.0).await
            })+
            pub(in crate::cases) const CASES: &[Case] =
                area!($hints, StoreAndBus { $($run: [$($id),*],)+ });
        }
        pub(super) use by_hints::CASES as BY_HINTS;
    };
}
