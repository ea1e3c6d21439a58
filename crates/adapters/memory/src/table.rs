//! A table that can forget what was not committed.

use std::collections::BTreeMap;
use std::ops::RangeBounds;

/// Rows by key, with the old values of an open transaction: rolling back costs as much as
/// was written, committing costs nothing.
#[derive(Debug, Clone)]
pub struct Table<K, V> {
    rows: BTreeMap<K, V>,
    undo: Vec<(K, Option<V>)>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self {
            rows: BTreeMap::new(),
            undo: Vec::new(),
        }
    }
}

impl<K: Ord + Clone, V> Table<K, V> {
    /// The row of `key`.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.rows.get(key)
    }

    /// There is a row of `key`.
    pub fn contains(&self, key: &K) -> bool {
        self.rows.contains_key(key)
    }

    /// Every row in order of keys.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.rows.iter()
    }

    /// Rows within `keys`, in order.
    pub fn range(&self, keys: impl RangeBounds<K>) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.rows.range(keys)
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Writes a row.
    pub fn insert(&mut self, key: K, value: V) {
        let old = self.rows.insert(key.clone(), value);
        self.undo.push((key, old));
    }

    /// Deletes a row.
    pub fn remove(&mut self, key: &K) {
        if let Some(old) = self.rows.remove(key) {
            self.undo.push((key.clone(), Some(old)));
        }
    }

    pub(crate) fn commit(&mut self) {
        self.undo.clear();
    }

    pub(crate) fn roll_back(&mut self) {
        while let Some((key, old)) = self.undo.pop() {
            match old {
                Some(value) => self.rows.insert(key, value),
                None => self.rows.remove(&key),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_committed_is_gone() {
        let mut table = Table::default();
        table.insert(1, "a");
        table.insert(2, "b");
        table.commit();
        table.insert(1, "c");
        table.remove(&2);
        table.insert(2, "d");
        table.insert(3, "e");
        table.roll_back();
        let rows: Vec<_> = table.iter().map(|(k, v)| (*k, *v)).collect();
        assert_eq!(rows, [(1, "a"), (2, "b")]);
    }
}
