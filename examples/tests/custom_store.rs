//! A store of one's own: the store in memory with a switch for maintenance, and the suite that it
//! must pass.
//!
//! While the switch is on, the store takes no writes and says so in the way that the engine
//! understands: `Unavailable`, nothing was changed. Callers get 503 or wait, attempts that are
//! running offer their answers again, and nothing is lost. The suite checks that the decorated
//! store still keeps every promise of a store, and the last tests that the suite would notice if it
//! did not.
//!
//! `docs/guide/adapter.md` walks through this file.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use clinch::testing::{self, Effects, ManualClock};
use clinch::{Backend, Call, Clinch, Retry, Route};
use clinch_contract::{
    Capabilities, Control, Fault, StorePorts, Subject, cases, check, contract_trials, factory,
    run_trials,
};
use clinch_core::policy::Routes;
use clinch_core::ports::{Accepted, Store, Write, Written};
use clinch_core::{Error, ErrorKind, OpId, Result, Sealed};
use clinch_memory::{Memory, MemoryBus};
use libtest_mimic::{Failed, Trial};

// 1. The store.

/// A store that takes no writes while its switch is on.
struct Maintained {
    store: Arc<dyn Store>,
    is_closed: Arc<AtomicBool>,
}

#[async_trait]
impl Store for Maintained {
    async fn commit(&self, writes: &[Write], routes: &Routes) -> Result<Vec<Written>> {
        if self.is_closed.load(Ordering::SeqCst) {
            let message = "the store is closed for maintenance";
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        self.store.commit(writes, routes).await
    }
}

// 2. The suite's control of an instance: its clock, its faults, its crashes.

struct Hands {
    clock: Arc<ManualClock>,
    memory: Memory,
    decorate: fn(Arc<dyn Store>) -> Arc<dyn Store>,
}

fn subject(
    clock: Arc<ManualClock>,
    memory: Memory,
    decorate: fn(Arc<dyn Store>) -> Arc<dyn Store>,
) -> Subject {
    let ports = Arc::new(memory.clone());
    let bus = Arc::new(MemoryBus::new(clock.clone()));
    let hands = Hands {
        clock,
        memory,
        decorate,
    };
    let mut subject = Subject::of_store(&ports, Some(bus), Arc::new(hands));
    subject.store = Some(StorePorts {
        store: decorate(ports.clone()),
        ..StorePorts::of(&ports)
    });
    subject
}

#[async_trait]
impl Control for Hands {
    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn corrupt(&self, op: OpId) {
        self.memory.edit(|tables| {
            if let Some(mut row) = tables.rows.get(&op).cloned() {
                let mut bytes = row.operation.payload.as_bytes().to_vec();
                bytes[0] ^= 1;
                row.operation.payload = Sealed::new(bytes);
                tables.put(row);
            }
        });
    }

    async fn arm(&self, fault: Fault) {
        self.memory.fail_next(fault);
    }

    async fn crash(&self) -> Subject {
        subject(self.clock.clone(), self.memory.crash(), self.decorate)
    }
}

fn suite(name: &str, decorate: fn(Arc<dyn Store>) -> Arc<dyn Store>) -> Vec<Trial> {
    let factory = factory(move || async move {
        let clock = Arc::new(ManualClock::default());
        let memory = Memory::new(clock.clone());
        Ok(subject(clock, memory, decorate))
    });
    contract_trials(name, cases(Capabilities::ALL), &factory)
}

fn maintained(store: Arc<dyn Store>) -> Arc<dyn Store> {
    let is_closed = Arc::default();
    Arc::new(Maintained { store, is_closed })
}

// 3. What is special about this store has tests of its own.

async fn nothing_is_lost_while_it_is_closed() {
    let pay: Route<u64, u64> = Route::new("payments", "pay").natural();
    let (is_closed, book) = (Arc::new(AtomicBool::new(false)), Effects::default());
    let (switch, provider) = (is_closed.clone(), book.clone());
    // The store closes in the middle of the first call: its answer cannot be written.
    let handler = move |call: Call<u64>| {
        provider.apply(call.key());
        switch.store(true, Ordering::SeqCst);
        async move { Ok::<_, Retry>(call.input) }
    };
    let clock = Arc::new(ManualClock::default());
    let of_switch = is_closed.clone();
    let backend = Backend::new(Memory::new(clock.clone())).with_store(|store| {
        let is_closed = of_switch;
        Arc::new(Maintained { store, is_closed })
    });
    let builder = Clinch::builder().backend(backend).clock(clock.clone());
    let clinch = builder.handle(&pay, handler).build().expect("built");
    let running = clinch.clone();
    let running = tokio::spawn(async move { running.run().await });
    let handle = clinch
        .start(pay.request("order-1", "pay", &5), Duration::ZERO)
        .await;
    let op_id = handle.expect("accepted").op_id();
    testing::advance(&clock, Duration::from_secs(5)).await;

    let refused = clinch
        .start(pay.request("order-2", "pay", &5), Duration::ZERO)
        .await;
    let error = refused.expect_err("closed");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    is_closed.store(false, Ordering::SeqCst);
    testing::advance(&clock, Duration::from_secs(60)).await;
    let done = clinch.look(&pay, op_id).await.expect("there");
    assert!(done.settled().is_some(), "the answer was offered again");
    assert_eq!(book.all_calls(), 1, "and the call was not repeated");
    clinch.stop();
    running.await.expect("it ends");
}

// 4. A store that is wrong, to see the suite notice.

/// The case that must notice.
const PROMISE: &str = "keys::another_payload_is_a_mismatch_that_names_the_operation";

/// Says "known" to everybody who comes with known keys, also to one with another payload.
struct Hasty {
    store: Arc<dyn Store>,
}

#[async_trait]
impl Store for Hasty {
    async fn commit(&self, writes: &[Write], routes: &Routes) -> Result<Vec<Written>> {
        let written = self.store.commit(writes, routes).await?;
        let hasty = |one| match one {
            Written::Accepted(Accepted::Mismatch(known)) => {
                Written::Accepted(Accepted::Known(known))
            }
            other => other,
        };
        Ok(written.into_iter().map(hasty).collect())
    }
}

fn hasty(store: Arc<dyn Store>) -> Arc<dyn Store> {
    Arc::new(Hasty { store })
}

fn the_suite_names_the_broken_promise() -> Result<(), Failed> {
    let broken = factory(|| async {
        let clock = Arc::new(ManualClock::default());
        Ok(subject(clock.clone(), Memory::new(clock), hasty))
    });
    let all = cases(Capabilities::ALL).into_iter();
    let of_keys = all.filter(|case| case.name.starts_with("keys::"));
    let noticed = of_keys.filter(|case| check(case, &broken).is_err());
    let noticed: Vec<&str> = noticed.map(|case| case.name).collect();
    match noticed.contains(&PROMISE) {
        true => Ok(()),
        false => Err(format!("only {noticed:?} noticed").into()),
    }
}

// 5. The guide shows this file.

fn every_line_of_the_guide_stands_here() -> Result<(), Failed> {
    let (page, this) = (
        include_str!("../../docs/guide/adapter.md"),
        include_str!("custom_store.rs"),
    );
    let mut shown = 0;
    for block in page.split("```rust\n").skip(1) {
        let block = block.split("```").next().unwrap_or_default();
        if !this.contains(block) {
            return Err(format!("the guide shows what is not here:\n{block}").into());
        }
        shown += 1;
    }
    match shown >= 5 {
        true => Ok(()),
        false => Err(format!("only {shown} blocks were found").into()),
    }
}

fn main() -> ExitCode {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
    };
    let own = [
        Trial::test("nothing_is_lost_while_it_is_closed", move || {
            runtime()?.block_on(nothing_is_lost_while_it_is_closed());
            Ok(())
        }),
        Trial::test(
            "the_suite_names_the_broken_promise",
            the_suite_names_the_broken_promise,
        ),
        Trial::test(
            "every_line_of_the_guide_stands_here",
            every_line_of_the_guide_stands_here,
        ),
    ];
    let mut trials = suite("maintained", maintained);
    trials.extend(own);
    run_trials(trials)
}
