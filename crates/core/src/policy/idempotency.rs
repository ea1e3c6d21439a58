//! Which key the provider sees.

use crate::{Keys, OutboundKey};

/// The idempotency policy of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Idempotency {
    /// Send the caller's idem_key as it is. By default a key derived from all four keys is sent, so
    /// that two business objects with the same idem_key never share a key.
    pub raw_idem_key: bool,
}

impl Idempotency {
    /// The key to send: the same for every attempt, hedge and redrive.
    pub fn outbound_key(self, keys: &Keys) -> OutboundKey {
        if self.raw_idem_key {
            OutboundKey::raw(&keys.idem_key)
        } else {
            keys.outbound_key()
        }
    }
}
