//! JSON in a column.

use clinch_core::Result;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error;

/// The value as bytes for a column.
pub fn to_bytes(value: &(impl Serialize + ?Sized)) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|e| error::corrupt("json").caused_by(e))
}

/// The value as text for a column.
pub fn to_text(value: &(impl Serialize + ?Sized)) -> Result<String> {
    serde_json::to_string(value).map_err(|e| error::corrupt("json").caused_by(e))
}

/// Parses a stored value.
pub fn read<T: DeserializeOwned>(stored: &[u8]) -> Result<T> {
    serde_json::from_slice(stored).map_err(|e| error::corrupt("json").caused_by(e))
}
