//! Suggests the known name that a mistyped name may mean.

/// The known name with the fewest edits.
pub(crate) fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let best = known.iter().min_by_key(|one| edits(name, one));
    best.copied()
}

/// Number of insertions, deletions and replacements from one text to the other.
fn edits(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (j, b) in to.chars().enumerate() {
            let up = row.get(j + 1).copied().unwrap_or_default();
            let best = (diagonal + usize::from(a != b)).min(up + 1).min(left + 1);
            diagonal = up;
            if let Some(slot) = row.get_mut(j) {
                *slot = left;
            }
            left = best;
        }
        if let Some(slot) = row.last_mut() {
            *slot = left;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        let pairs = [
            ("", "", 0),
            ("abc", "", 3),
            ("", "ab", 2),
            ("kitten", "sitting", 3),
            ("biz_kye", "biz_key", 2),
        ];
        for (from, to, count) in pairs {
            assert_eq!(edits(from, to), count, "{from} {to}");
        }
        assert_eq!(nearest("bizkey", &["op_id", "biz_key"]), Some("biz_key"));
    }
}
