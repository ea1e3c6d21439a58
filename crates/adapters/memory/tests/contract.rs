//! The in-memory reference passes the whole suite (CORE-18).
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_contract::{Capabilities, Control, Fault, LockPorts, StorePorts, Subject};
use clinch_core::{OpId, Sealed};
use clinch_memory::{ManualClock, Memory, MemoryBus};

struct Hands {
    clock: Arc<ManualClock>,
    memory: Memory,
}

fn subject(clock: Arc<ManualClock>, memory: Memory) -> Subject {
    let port = Arc::new(memory.clone());
    Subject {
        store: Some(StorePorts {
            store: port.clone(),
            outbox: port.clone(),
            recovery: port.clone(),
            batches: port.clone(),
            domains: port.clone(),
            inspect: port.clone(),
            notices: port.clone(),
        }),
        bus: Some(Arc::new(MemoryBus::new(clock.clone()))),
        queue: Some(port.clone()),
        locks: Some(LockPorts {
            locks: port.clone(),
            leader: port,
        }),
        control: Arc::new(Hands { clock, memory }),
    }
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
        self.memory.fail_next(match fault {
            Fault::BeforeCommit => clinch_memory::Fault::BeforeCommit,
            Fault::MidCommit => clinch_memory::Fault::MidCommit,
            Fault::AfterCommit => clinch_memory::Fault::AfterCommit,
        });
    }

    async fn crash(&self) -> Subject {
        subject(self.clock.clone(), self.memory.crash())
    }
}

fn main() -> ExitCode {
    let capabilities = Capabilities {
        store: true,
        bus: true,
        queue: true,
        locks: true,
        faults: true,
    };
    let open = || async {
        let clock = Arc::new(ManualClock::default());
        let memory = Memory::new(clock.clone());
        Ok(subject(clock, memory))
    };
    let factory = clinch_contract::factory(open);
    clinch_contract::run("memory", capabilities, factory)
}
