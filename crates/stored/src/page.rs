//! Pages of a list, bounded by items and by bytes.

use clinch_core::ports::{PAGE_BYTES_MAX, PAGE_MAX, Page};

/// A page that is being filled from rows in their order.
#[derive(Debug)]
pub struct Filling<T> {
    items: Vec<T>,
    limit: usize,
    bytes: usize,
    more: bool,
}

impl<T> Filling<T> {
    /// A page of at most `limit` items, at least one and at most [`PAGE_MAX`].
    pub fn new(limit: usize) -> Self {
        Self {
            items: Vec::new(),
            limit: limit.clamp(1, PAGE_MAX),
            bytes: 0,
            more: false,
        }
    }

    /// How many rows to read: one more than the page shows, to know whether there is another page.
    pub fn rows(&self) -> usize {
        self.limit + 1
    }

    /// Adds the next item, whose payloads have `bytes` bytes. False: the page is full, and the item
    /// belongs to the next page. The item that reaches
    /// [`PAGE_BYTES_MAX`](clinch_core::ports::PAGE_BYTES_MAX) is the last.
    pub fn push(&mut self, item: T, bytes: usize) -> bool {
        if self.items.len() >= self.limit || self.bytes >= PAGE_BYTES_MAX {
            self.more = true;
            return false;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.items.push(item);
        true
    }

    /// The items so far.
    pub fn items(&self) -> &[T] {
        &self.items
    }

    /// Takes the items out, to replace them with others: see [`Self::with`].
    pub fn take(&mut self) -> Vec<T> {
        std::mem::take(&mut self.items)
    }

    /// The finished page. `cursor` gives the cursor of its last item.
    pub fn page(self, cursor: impl Fn(&T) -> String) -> Page<T> {
        let next_cursor = self.items.last().map(cursor).filter(|_| self.more);
        Page {
            items: self.items,
            next_cursor,
        }
    }

    /// The same of a search that ended before all rows were looked at; `rest` is where it continues
    /// if the page is not full.
    pub fn page_of_search(self, cursor: impl Fn(&T) -> String, rest: Option<String>) -> Page<T> {
        let is_full = self.more;
        let mut page = self.page(cursor);
        if !is_full {
            page.next_cursor = rest;
        }
        page
    }

    /// The same page with other items, one for each and in order.
    pub fn with<U>(self, items: Vec<U>) -> Filling<U> {
        Filling {
            items,
            limit: self.limit,
            bytes: self.bytes,
            more: self.more,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(limit: usize, sizes: &[usize]) -> Page<usize> {
        let mut filling = Filling::new(limit);
        let read = sizes.iter().take(filling.rows()).enumerate();
        for (number, bytes) in read {
            if !filling.push(number, *bytes) {
                break;
            }
        }
        filling.page(ToString::to_string)
    }

    #[test]
    fn a_page_ends_at_its_items_or_at_its_bytes() {
        let shown = |limit, sizes: &[usize]| {
            let page = page(limit, sizes);
            (page.items.len(), page.next_cursor)
        };
        assert_eq!(shown(3, &[]), (0, None));
        assert_eq!(shown(3, &[1, 1, 1]), (3, None));
        assert_eq!(shown(3, &[1, 1, 1, 1]), (3, Some("2".to_owned())));
        assert_eq!(shown(0, &[1, 1]), (1, Some("0".to_owned())));
        let most = PAGE_BYTES_MAX;
        // One that is longer than a page has a page of its own.
        assert_eq!(shown(9, &[most * 2, 1]), (1, Some("0".to_owned())));
        assert_eq!(shown(9, &[most - 1, most, 1]), (2, Some("1".to_owned())));
        assert_eq!(shown(9, &[most - 1, most]), (2, None));
        assert_eq!(shown(5_000, &[1; 2_000]).0, PAGE_MAX);
    }
}
