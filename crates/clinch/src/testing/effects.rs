//! A provider's book: what was asked of it, and what it did.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::fail;

/// Counts calls and effects by the key that the provider sees ([`Call::key`](crate::Call::key)). A
/// made-up provider writes into it, and the test asserts that nothing happened twice. Clones share
/// one book.
///
/// ```
/// use std::time::Duration;
/// use clinch::testing::{self, Effects};
/// use clinch::{Call, Clinch, Refusal, Retry, Route};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> clinch::Result<()> {
/// let day = Duration::from_secs(86_400);
/// let charge: Route<u64, u64> = Route::new("payments", "charge").keyed(day);
/// let book = Effects::default();
/// let provider = book.clone();
/// let handler = move |call: Call<u64>| {
///     // This provider remembers keys. Its first answer is lost on the way back.
///     provider.apply_once(call.key());
///     let is_lost = provider.calls(call.key()) == 1;
///     async move {
///         match is_lost {
///             true => Err(Refusal::from(Retry::unknown("the connection broke"))),
///             false => Ok(call.input),
///         }
///     }
/// };
/// let test = testing::start(Clinch::builder().handle(&charge, handler))?;
/// let request = charge.request("order-1", "pay", &5_000);
/// let handle = test.clinch.start(request, Duration::ZERO).await?;
/// test.assert_completed(&charge, handle.op_id()).await;
/// test.assert_one_effect(handle.op_id(), &book).await;
/// assert_eq!(book.calls(&test.key(handle.op_id()).await), 2, "and it took two calls");
/// assert_eq!(book.all_calls(), 2, "nothing else was called");
/// # Ok(())
/// # }
/// ```
///
/// Every kind of provider writes into the same book:
///
/// ```
/// use clinch::testing::Effects;
///
/// let book = Effects::default();
/// book.apply("order-1"); // remembers no keys: each call is an effect
/// assert!(book.apply_once("order-2"), "remembers keys: the first call is applied");
/// assert!(!book.apply_once("order-2"), "and the second one is recognized");
/// book.call("order-3"); // refuses
/// assert_eq!((book.calls("order-2"), book.effects("order-2"), book.effects("order-3")), (2, 1, 0));
/// book.assert_one_effect_each(2);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Effects(Arc<Mutex<BTreeMap<String, Counts>>>);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    calls: u32,
    effects: u32,
}

impl Effects {
    fn change<T>(&self, key: &str, change: impl FnOnce(&mut Counts) -> T) -> T {
        let mut book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(book.entry(key.to_owned()).or_default())
    }

    /// A call arrived that had no effect: the provider refused it, or was busy. Returns the number
    /// of calls under this key.
    pub fn call(&self, key: &str) -> u32 {
        self.change(key, |counts| {
            counts.calls += 1;
            counts.calls
        })
    }

    /// A call arrived and was applied, as often as it arrives: a provider without a memory for
    /// keys. Returns the number of effects under this key.
    pub fn apply(&self, key: &str) -> u32 {
        self.change(key, |counts| {
            counts.calls += 1;
            counts.effects += 1;
            counts.effects
        })
    }

    /// A call arrived at a provider that remembers keys. True: it was applied now. False: it had
    /// been applied before.
    pub fn apply_once(&self, key: &str) -> bool {
        self.change(key, |counts| {
            counts.calls += 1;
            let is_first = counts.effects == 0;
            counts.effects += u32::from(is_first);
            is_first
        })
    }

    /// Calls under this key.
    pub fn calls(&self, key: &str) -> u32 {
        self.counts(key).calls
    }

    /// Effects under this key. A probe of a made-up provider may ask for it.
    pub fn effects(&self, key: &str) -> u32 {
        self.counts(key).effects
    }

    /// Calls under all keys.
    pub fn all_calls(&self) -> u32 {
        let book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        book.values().map(|counts| counts.calls).sum()
    }

    fn counts(&self, key: &str) -> Counts {
        let book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        book.get(key).copied().unwrap_or_default()
    }

    /// Exactly one effect happened under this key, with however many calls.
    ///
    /// # Panics
    ///
    /// If none or several happened.
    #[track_caller]
    pub fn assert_one_effect(&self, key: &str) {
        let Counts { calls, effects } = self.counts(key);
        if effects != 1 {
            fail(&format!(
                "{effects} effects instead of one, by {calls} calls under the key {key}"
            ));
        }
    }

    /// Exactly so many keys had an effect, and each of them one: every operation of a test was
    /// applied, and none twice.
    ///
    /// # Panics
    ///
    /// If the number is another, or a key had several effects.
    #[track_caller]
    pub fn assert_one_effect_each(&self, operations: usize) {
        let book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let applied = book.values().filter(|counts| counts.effects > 0);
        let applied = applied.count();
        let mut book = book.iter();
        if let Some((key, counts)) = book.find(|(_, counts)| counts.effects > 1) {
            let Counts { calls, effects } = counts;
            fail(&format!(
                "{effects} effects by {calls} calls under the key {key}"
            ));
        }
        if applied != operations {
            fail(&format!(
                "{applied} operations had an effect instead of {operations}"
            ));
        }
    }
}
