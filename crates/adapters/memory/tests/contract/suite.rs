//! The in-memory reference passes the whole suite (CORE-18).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_contract::{Capabilities, Control, Fault, Subject, cases, contract_trials, factory};
use clinch_core::{OpId, Sealed};
use clinch_memory::{ManualClock, Memory, MemoryBus};
use libtest_mimic::Trial;

struct Hands {
    clock: Arc<ManualClock>,
    memory: Memory,
}

fn subject(clock: Arc<ManualClock>, memory: Memory) -> Subject {
    let (port, bus) = (
        Arc::new(memory.clone()),
        Arc::new(MemoryBus::new(clock.clone())),
    );
    Subject::of_store(&port, Some(bus), Arc::new(Hands { clock, memory }))
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
        subject(self.clock.clone(), self.memory.crash())
    }
}

pub(crate) fn trials() -> Vec<Trial> {
    let factory = factory(|| async {
        let clock = Arc::new(ManualClock::default());
        let memory = Memory::new(clock.clone());
        Ok(subject(clock, memory))
    });
    contract_trials("memory", cases(Capabilities::ALL), &factory)
}
