//! Planted bugs: one-line defects that the simulation must find.
//!
//! Compiled in with the feature `mutants` only, and then off until one is chosen for the
//! current thread. Without the feature [`planted!`] is `false`, and the compiler removes it.

#[cfg(feature = "mutants")]
use std::cell::Cell;

macro_rules! mutants {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// A planted bug.
        #[cfg(feature = "mutants")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Mutant {
            $($(#[$doc])* $name,)+
        }

        #[cfg(feature = "mutants")]
        impl Mutant {
            /// Every planted bug.
            pub const ALL: &[Self] = &[$(Self::$name),+];
        }
    };
}

mutants! {
    /// The fingerprint does not depend on the payload.
    FingerprintOfNothing,
    /// An accepted operation is called whether or not its begin was granted.
    CallsWithoutBegin,
    /// A caller is not told 202 when its budget ends.
    WaitsPastTheBudget,
    /// Nobody looks at the lease before the first byte.
    NoLeaseCheck,
    /// A panic is taken for a call that was not made.
    PanicMeansNotCalled,
    /// A begin whose commit is ambiguous is taken for ours without reading back whose it is.
    AmbiguousBeginIsOurs,
    /// A hint for a row that is live runs it once more.
    RunsWhatIsLive,
    /// Each attempt sends a key of its own.
    FreshOutboundKey,
    /// A call that may have been applied is reported as not applied.
    UnknownMeansNotApplied,
    /// A call that may have been applied is reported as refused.
    UnknownMeansFailed,
    /// An answer that the store does not take is dropped.
    AnswerDropped,
    /// What an answer spawns is forgotten.
    SpawnForgotten,
    /// The Finalizer does nothing.
    FinalizerSleeps,
    /// The Reaper does nothing.
    ReaperSleeps,
    /// The Reaper takes a lost attempt for one that was not applied.
    LostMeansNotApplied,
    /// The prober does nothing.
    ProberSleeps,
    /// Nobody ends what is overdue.
    DeadlinesForgotten,
    /// A probe counts as asked later than it was.
    ProbeAskedLater,
    /// A call that the provider does not know counts as refused.
    NotFoundMeansFailed,
    /// A probe without a verdict counts as a success.
    DoubtMeansSucceeded,
    /// The spill file is not read.
    SpillUnread,
    /// A spilled answer is forgotten before the store took it.
    SpillForgottenFirst,
    /// Silent rows are not announced again.
    SweeperSleeps,
}

#[cfg(feature = "mutants")]
thread_local! {
    static CHOSEN: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// Plants one bug, or none, in everything that this thread runs from now on.
#[cfg(feature = "mutants")]
pub fn plant(mutant: Option<Mutant>) {
    CHOSEN.set(mutant);
}

#[cfg(feature = "mutants")]
pub(crate) fn is_planted(mutant: Mutant) -> bool {
    CHOSEN.get() == Some(mutant)
}

/// True if this bug is planted; always false in a build without the feature.
#[cfg(feature = "mutants")]
macro_rules! planted {
    ($name:ident) => {
        $crate::mutants::is_planted($crate::mutants::Mutant::$name)
    };
}

/// True if this bug is planted; always false in a build without the feature.
#[cfg(not(feature = "mutants"))]
macro_rules! planted {
    ($name:ident) => {
        false
    };
}
