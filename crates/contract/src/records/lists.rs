//! Lists by prefix.

use clinch_core::ports::{Expected, RECORDS_MAX, RecordList};

use super::{RecordsSubject, is_invalid, put};
use crate::case::Verdict;
use crate::port::PortCase;

pub(super) const CASES: &[PortCase<RecordsSubject>] = port_area!("records" {
    lists_are_in_the_order_of_bytes: [],
    a_list_has_what_begins_with_its_prefix: [],
    percent_and_underscore_are_themselves: [],
    pages_follow_each_other: [],
    a_page_goes_on_after_any_key: [],
    a_list_gives_at_most_its_limit: [],
    a_list_has_records_as_they_stand: [],
});

/// In byte order. UTF-16 would swap the last two, and most collations nearly all of them.
const ORDERED: [&str; 16] = [
    " ",
    "!",
    "0",
    "10",
    "9",
    "A",
    "B",
    "a",
    "a!",
    "aB",
    "ab",
    "a\u{308}",
    "b",
    "\u{e4}",
    "\u{ffff}",
    "\u{10000}",
];

async fn lists_are_in_the_order_of_bytes(s: RecordsSubject) -> Verdict {
    let mut shuffled = ORDERED;
    shuffled.rotate_left(7);
    shuffled.swap(1, 13);
    s.fill(shuffled).await?;
    ensure_eq!(s.keys("").await?, ORDERED, "in order");
    let mut back = s.page("", true, None, usize::MAX).await?;
    back.reverse();
    ensure_eq!(back, ORDERED, "against the order");
    Ok(())
}

async fn a_list_has_what_begins_with_its_prefix(s: RecordsSubject) -> Verdict {
    let last = char::MAX.to_string();
    let keys = [
        "r",
        "r/",
        "r/1",
        "r/\u{e4}",
        "r0",
        "R/1",
        "rr/1",
        "\u{d7ff}1",
        "\u{e000}",
    ];
    let tops = [last.clone(), last.repeat(63)];
    s.fill(keys.into_iter().chain(tops.iter().map(String::as_str)))
        .await?;
    for prefix in [
        "r/", "r", "R", "x", "r/1", "r/12", "\u{d7ff}", "\u{e000}", &last, "",
    ] {
        let all = keys.into_iter().chain(tops.iter().map(String::as_str));
        let mut expected: Vec<_> = all.filter(|key| key.starts_with(prefix)).collect();
        expected.sort_unstable();
        ensure_eq!(s.keys(prefix).await?, expected, "with {prefix:?}");
        expected.reverse();
        let back = s.page(prefix, true, None, usize::MAX).await?;
        ensure_eq!(back, expected, "with {prefix:?}, against the order");
    }
    Ok(())
}

async fn percent_and_underscore_are_themselves(s: RecordsSubject) -> Verdict {
    let keys = [
        "a%b", "a_b", "axb", "a\\b", "a*b", "a?b", "a[b", "a'b", "a%", "a_",
    ];
    s.fill(keys).await?;
    for prefix in ["a%", "a_", "a\\", "a*", "a?", "a[", "a'", "%", "_"] {
        let mut expected: Vec<_> = keys
            .into_iter()
            .filter(|key| key.starts_with(prefix))
            .collect();
        expected.sort_unstable();
        ensure_eq!(s.keys(prefix).await?, expected, "with {prefix:?}");
    }
    Ok(())
}

async fn pages_follow_each_other(s: RecordsSubject) -> Verdict {
    let keys: Vec<_> = (0..25).map(|n| format!("p/{n:02}")).collect();
    let around = ["p", "p0", "q"];
    let all = keys.iter().map(String::as_str).chain(around);
    s.fill(all).await?;
    for descending in [false, true] {
        let (mut seen, mut sizes, mut after) = (Vec::new(), Vec::new(), None);
        loop {
            let page = s.page("p/", descending, after.as_deref(), 10).await?;
            sizes.push(page.len());
            seen.extend(page);
            after = seen.last().cloned();
            if sizes.last() < Some(&10) {
                break;
            }
            ensure!(sizes.len() < 5, "pages without an end");
        }
        if descending {
            seen.reverse();
        }
        ensure_eq!(seen, keys, "every key once");
        ensure_eq!(sizes, [10, 10, 5], "sizes of the pages");
    }
    Ok(())
}

async fn a_page_goes_on_after_any_key(s: RecordsSubject) -> Verdict {
    s.fill(["p/a", "p/c", "p/e"]).await?;
    for (descending, after, expected) in [
        (false, "p/b", vec!["p/c", "p/e"]),
        (false, "p/c", vec!["p/e"]),
        (false, "p/e", vec![]),
        (false, "a", vec!["p/a", "p/c", "p/e"]),
        (false, "z", vec![]),
        (false, "p/", vec!["p/a", "p/c", "p/e"]),
        (true, "p/d", vec!["p/c", "p/a"]),
        (true, "p/c", vec!["p/a"]),
        (true, "p/a", vec![]),
        (true, "z", vec!["p/e", "p/c", "p/a"]),
        (true, "a", vec![]),
        (true, "p/", vec![]),
    ] {
        let page = s.page("p/", descending, Some(after), 10).await?;
        ensure_eq!(page, expected, "after {after:?}, descending: {descending}");
    }
    let list = RecordList {
        prefix: "a\0".into(),
        descending: false,
        after: None,
        limit: 1,
    };
    let listed = s.records.list_records(&list).await;
    ensure!(is_invalid(listed), "a NUL is in no key");
    Ok(())
}

async fn a_list_gives_at_most_its_limit(s: RecordsSubject) -> Verdict {
    let keys: Vec<_> = (0..=RECORDS_MAX).map(|n| format!("n{n:05}")).collect();
    for part in keys.chunks(RECORDS_MAX) {
        s.fill(part.iter().map(String::as_str)).await?;
    }
    for descending in [false, true] {
        for (limit, expected) in [(0, 0), (1, 1), (7, 7), (usize::MAX, RECORDS_MAX)] {
            let page = s.page("n", descending, None, limit).await?;
            ensure_eq!(page.len(), expected, "with a limit of {limit}");
        }
    }
    Ok(())
}

async fn a_list_has_records_as_they_stand(s: RecordsSubject) -> Verdict {
    s.fill(["a", "b"]).await?;
    let write = put("b", Expected::Version(1), "second");
    ensure!(s.write(&[write]).await?, "it is written");
    let list = RecordList {
        prefix: String::new(),
        descending: false,
        after: None,
        limit: 10,
    };
    let listed = s.records.list_records(&list).await?;
    let read = [s.get("a").await?, s.get("b").await?];
    ensure_eq!(listed, read, "what a read has");
    Ok(())
}
