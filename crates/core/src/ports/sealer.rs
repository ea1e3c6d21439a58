//! Seals payloads, so that adapters cannot read them.

use crate::{OpId, Payload, Result, Sealed};

/// Payloads, results, checkpoints, spilled answers and dead letters pass through it before any
/// adapter sees them.
///
/// - `open(op, seal(op, x))` is `x`.
/// - If sealing is on, bytes sealed for one operation do not open for another.
pub trait Sealer: Send + Sync {
    /// Bytes as an adapter stores them.
    fn seal(&self, op: OpId, plain: &[u8]) -> Result<Sealed>;

    /// The bytes that were sealed.
    fn open(&self, op: OpId, sealed: &Sealed) -> Result<Vec<u8>>;

    /// The key of request fingerprints while sealing is on. Without a key, the payload behind a
    /// hash could be guessed if it is short.
    fn fingerprint_key(&self) -> Option<&[u8]> {
        None
    }

    /// The payload that was sealed.
    fn open_payload(&self, op: OpId, sealed: &Sealed) -> Result<Payload> {
        let bytes = self.open(op, sealed)?;
        let damaged = |problem: String| {
            crate::Error::new(crate::ErrorKind::Corrupt, problem).with("op_id", op)
        };
        let text = String::from_utf8(bytes)
            .map_err(|_| damaged("the stored payload is not UTF-8".into()))?;
        Payload::parse(&text, usize::MAX).map_err(|invalid| damaged(invalid.to_string()))
    }
}

/// No sealing: bytes are stored as they are.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlainText;

impl Sealer for PlainText {
    fn seal(&self, _op: OpId, plain: &[u8]) -> Result<Sealed> {
        Ok(Sealed::new(plain.to_vec()))
    }

    fn open(&self, _op: OpId, sealed: &Sealed) -> Result<Vec<u8>> {
        Ok(sealed.as_bytes().to_vec())
    }
}
