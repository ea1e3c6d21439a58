//! Converts a command into a new operation, and a row into the envelope that an executor sees.

use clinch_core::ports::{NewOperation, Operation, is_traceparent};
use clinch_core::protocol::{Inherited, State};
use clinch_core::{
    Command, ContentHash, Domain, Envelope, Error, ErrorKind, EventType, Fingerprint, Keys, OpId,
    Options, OutboundKey, Payload, Result,
};

use crate::base::Base;

/// The parts of an envelope, taken from a new operation or from a row.
pub(crate) struct Facts<'a> {
    op_id: OpId,
    keys: &'a Keys,
    options: &'a Options,
    outbound_key: &'a OutboundKey,
    trace: Option<&'a str>,
    seq: u64,
    state: &'a State,
}

impl<'a> Facts<'a> {
    /// From an operation that was just accepted.
    pub(crate) fn of_new(new: &'a NewOperation, seq: u64, state: &'a State) -> Self {
        Self {
            op_id: new.op_id,
            keys: &new.keys,
            options: &new.options,
            outbound_key: &new.outbound_key,
            trace: new.trace.as_deref(),
            seq,
            state,
        }
    }

    /// From a row.
    fn of_row(row: &'a Operation) -> Self {
        Self {
            op_id: row.op_id,
            keys: &row.keys,
            options: &row.options,
            // From the row, so that every attempt sends the same key.
            outbound_key: &row.outbound_key,
            trace: row.trace.as_deref(),
            seq: row.seq,
            state: &row.state,
        }
    }

    /// The envelope for an executor or a probe.
    pub(crate) fn envelope(&self, payload: Payload, checkpoint: Option<Vec<u8>>) -> Envelope {
        Envelope {
            op_id: self.op_id,
            command: Command {
                keys: self.keys.clone(),
                payload,
                options: self.options.clone(),
            },
            seq: self.seq,
            attempt: self.state.attempts,
            fence: self.state.fence,
            outbound_key: self.outbound_key.clone(),
            deadline: self.state.deadline,
            checkpoint,
            trace: self.trace.map(str::to_owned),
        }
    }
}

impl Base {
    /// The new operation of a command, ready to be accepted.
    pub(crate) fn prepare(&self, command: Command, trace: Option<String>) -> Result<NewOperation> {
        let Command {
            keys,
            payload,
            mut options,
        } = command;
        options.validate()?;
        let trace = options.trace.take().or(trace);
        let trace = trace.filter(|trace| is_traceparent(trace));
        let handler = self.handlers.find(&keys.domain, &keys.event_type);
        let handler = handler.ok_or_else(|| unknown_route(&keys.domain, &keys.event_type))?;
        let op_id = self.ports.ids.op_id();
        let stored = self.ports.sealer.seal(op_id, payload.as_bytes())?;
        let mut fingerprints = vec![Fingerprint::plain(&payload)];
        if let Some(key) = self.ports.sealer.fingerprint_key() {
            fingerprints.insert(0, Fingerprint::keyed(key, &payload));
        }
        Ok(NewOperation {
            op_id,
            fingerprints,
            content_hash: ContentHash::of(&op_id, &keys.event_type, stored.as_bytes()),
            outbound_key: handler.idempotency.outbound_key(&keys),
            payload: stored,
            keys,
            options,
            batch_id: None,
            redrive_of: None,
            inherited: Inherited::default(),
            trace,
            begin: None,
        })
    }

    /// The envelope of a row, for an executor or a probe.
    pub(crate) fn envelope(&self, row: &Operation) -> Result<Envelope> {
        let sealer = &self.ports.sealer;
        let checkpoint = row.checkpoint.as_ref();
        let checkpoint = checkpoint.map(|sealed| sealer.open(row.op_id, sealed));
        let payload = sealer.open_payload(row.op_id, &row.payload)?;
        Ok(Facts::of_row(row).envelope(payload, checkpoint.transpose()?))
    }
}

pub(crate) fn unknown_route(domain: &Domain, event_type: &EventType) -> Error {
    let message = "no route is declared for this domain and event type";
    Error::new(ErrorKind::Invalid, message)
        .with("code", "unknown_route")
        .with("domain", domain)
        .with("event_type", event_type)
}
