//! Read-your-writes, and compare-and-set.

use clinch_core::ErrorKind;
use clinch_core::ports::{
    Expected, RECORD_BYTES_MAX, RECORD_KEY_BYTES_MAX, RECORDS_MAX, Record, RecordWrite,
};

use super::{RecordsSubject, is_invalid, put, remove};
use crate::Fault;
use crate::case::Verdict;
use crate::concurrent::together;
use crate::port::PortCase;

pub(super) const CASES: &[PortCase<RecordsSubject>] = port_area!("records" {
    what_is_written_is_read_in_order: [],
    bodies_are_kept_to_the_byte: [],
    a_read_sees_every_commit_that_returned: [],
    a_read_of_too_many_keys_is_refused: [],
    a_new_record_begins_at_one: [],
    versions_grow_with_every_write: [],
    an_unexpected_record_stays_as_it_is: [],
    one_unexpected_record_stops_the_whole_call: [],
    several_records_change_in_one_call: [],
    of_concurrent_writers_one_succeeds: [],
    concurrent_writers_of_several_records_do_not_mix: [],
    no_increment_is_lost: [],
    a_removed_record_is_gone: [],
    a_record_that_was_removed_begins_anew: [],
    keys_are_told_apart_by_their_bytes: [],
    bad_writes_are_refused: [],
    the_largest_write_is_taken: [],
    a_call_without_writes_succeeds: [],
    a_commit_that_fails_changes_nothing: [],
    a_commit_whose_end_is_unknown_is_ambiguous: [],
});

async fn what_is_written_is_read_in_order(s: RecordsSubject) -> Verdict {
    s.fill(["a", "b", "c"]).await?;
    let keys = ["c", "nobody", "a", "c"].map(str::to_owned);
    let read = s.records.read_records(&keys).await?;
    let record = |key: &str| {
        Some(Record {
            key: key.into(),
            version: 1,
            body: key.into(),
        })
    };
    ensure_eq!(
        read,
        [record("c"), None, record("a"), record("c")],
        "in the order of the keys"
    );
    let none = s.records.read_records(&[]).await?;
    ensure_eq!(none.len(), 0, "answers to no keys");
    Ok(())
}

async fn bodies_are_kept_to_the_byte(s: RecordsSubject) -> Verdict {
    let long = "\u{1f600}".repeat(10_000);
    let bodies = [
        "",
        " ",
        "{ \"b\" : 1.0, \"a\" : 1e400 }\r\n",
        "it's \\ \"q\" ; -- %_ {x} $1 ?",
        "e\u{301}\u{e9}\u{feff}\u{10ffff}\u{1}",
        &long,
    ];
    for body in bodies {
        let write = put("k", Expected::Anything, body);
        ensure!(s.write(&[write]).await?, "it is written");
        let read = s.get("k").await?.body;
        ensure!(read == body, "a body of {} bytes changed", body.len());
    }
    Ok(())
}

async fn a_read_sees_every_commit_that_returned(s: RecordsSubject) -> Verdict {
    let seen = together(8, |caller| {
        let s = s.clone();
        async move {
            let key = format!("k{caller}");
            for round in 1..=20_u64 {
                let write = put(&key, Expected::Anything, &round.to_string());
                ensure!(s.write(&[write]).await?, "it is written");
                let read = s.get(&key).await?;
                ensure_eq!(read.body, round.to_string(), "what is read");
                let listed = s.keys(&key).await?;
                ensure_eq!(listed, [key.as_str()], "what is listed");
            }
            Ok(())
        }
    });
    seen.await.map(|_| ())
}

async fn a_read_of_too_many_keys_is_refused(s: RecordsSubject) -> Verdict {
    let keys: Vec<_> = (0..=RECORDS_MAX).map(|n| format!("k{n}")).collect();
    let read = s.records.read_records(&keys).await;
    ensure!(is_invalid(read), "{} keys", keys.len());
    let read = s.records.read_records(&keys[..RECORDS_MAX]).await?;
    ensure_eq!(read.len(), RECORDS_MAX, "answers");
    Ok(())
}

async fn a_new_record_begins_at_one(s: RecordsSubject) -> Verdict {
    for (key, expected) in [("a", Expected::Absent), ("b", Expected::Anything)] {
        ensure!(s.write(&[put(key, expected, "x")]).await?, "it is new");
        ensure_eq!(s.get(key).await?.version, 1, "the version of a new record");
    }
    Ok(())
}

async fn versions_grow_with_every_write(s: RecordsSubject) -> Verdict {
    s.fill(["k"]).await?;
    let mut version = s.get("k").await?.version;
    for round in 0..6 {
        let expected = match round % 2 {
            0 => Expected::Version(version),
            _ => Expected::Anything,
        };
        // Writing the same body is a write as well.
        ensure!(s.write(&[put("k", expected, "same")]).await?, "as expected");
        let now = s.get("k").await?.version;
        ensure!(now > version, "version {now} after {version}");
        version = now;
    }
    Ok(())
}

async fn an_unexpected_record_stays_as_it_is(s: RecordsSubject) -> Verdict {
    s.fill(["k"]).await?;
    ensure!(
        s.write(&[put("k", Expected::Version(1), "two")]).await?,
        "as expected"
    );
    let before = s.get("k").await?;
    for expected in [
        Expected::Absent,
        Expected::Version(1),
        Expected::Version(before.version + 1),
        Expected::Version(u64::MAX),
        Expected::Version(0),
    ] {
        for write in [put("k", expected, "new"), remove("k", expected)] {
            ensure!(!s.write(&[write]).await?, "{expected:?} is not so");
        }
        ensure_eq!(s.get("k").await?, before, "nothing is changed");
    }
    let absent = put("nobody", Expected::Version(1), "new");
    ensure!(!s.write(&[absent]).await?, "there is no such record");
    ensure_eq!(s.read("nobody").await?, None, "nothing is made");
    Ok(())
}

async fn one_unexpected_record_stops_the_whole_call(s: RecordsSubject) -> Verdict {
    s.fill(["b", "d", "f"]).await?;
    let good = [
        put("a", Expected::Absent, "new"),
        put("b", Expected::Version(1), "new"),
        remove("d", Expected::Version(1)),
        put("e", Expected::Anything, "new"),
    ];
    for (place, bad) in [
        (0, put("c", Expected::Version(1), "new")),
        (2, put("f", Expected::Absent, "new")),
        (4, remove("f", Expected::Version(7))),
    ] {
        let mut writes = good.to_vec();
        writes.insert(place, bad);
        ensure!(!s.write(&writes).await?, "one is not as expected");
        ensure_eq!(s.keys("").await?, ["b", "d", "f"], "what is there");
        for key in ["b", "d", "f"] {
            let record = s.get(key).await?;
            ensure_eq!((record.version, record.body.as_str()), (1, key), "of {key}");
        }
    }
    Ok(())
}

async fn several_records_change_in_one_call(s: RecordsSubject) -> Verdict {
    s.fill(["b", "d", "e"]).await?;
    let writes = [
        remove("e", Expected::Version(1)),
        put("b", Expected::Version(1), "two"),
        put("a", Expected::Absent, "one"),
        put("d", Expected::Anything, "two"),
        remove("z", Expected::Absent),
    ];
    ensure!(s.write(&writes).await?, "all are as expected");
    ensure_eq!(s.keys("").await?, ["a", "b", "d"], "what is there");
    for (key, version, body) in [("a", 1, "one"), ("b", 2, "two"), ("d", 2, "two")] {
        let record = s.get(key).await?;
        ensure!(record.version >= version, "{key} has a new version");
        ensure_eq!(record.body, body, "of {key}");
    }
    Ok(())
}

async fn of_concurrent_writers_one_succeeds(s: RecordsSubject) -> Verdict {
    s.fill(["old"]).await?;
    for round in 0..5 {
        let version = s.get("old").await?.version;
        let new = format!("new{round}");
        for (key, expected) in [
            ("old", Expected::Version(version)),
            (new.as_str(), Expected::Absent),
        ] {
            let won = together(16, |writer| {
                let (s, write) = (s.clone(), put(key, expected, &writer.to_string()));
                async move { Ok(s.write(&[write]).await?.then_some(writer)) }
            });
            let won: Vec<_> = won.await?.into_iter().flatten().collect();
            ensure_eq!(won.len(), 1, "writers that succeed");
            let body = s.get(key).await?.body;
            ensure_eq!(body, won[0].to_string(), "whose body it is");
        }
    }
    Ok(())
}

async fn concurrent_writers_of_several_records_do_not_mix(s: RecordsSubject) -> Verdict {
    let keys = ["a", "b", "c", "d", "e"];
    for _ in 0..4 {
        let written = together(16, |writer| {
            let (s, body) = (s.clone(), writer.to_string());
            let write = |key: &&str| put(key, Expected::Anything, &body);
            let mut writes: Vec<_> = keys.iter().map(write).collect();
            if writer % 2 == 0 {
                writes.reverse();
            }
            async move { s.write(&writes).await }
        });
        ensure!(written.await?.iter().all(|done| *done), "all are written");
        let first = s.get("a").await?;
        for key in keys {
            let record = s.get(key).await?;
            ensure_eq!(record.body, first.body, "one writer's records");
        }
    }
    Ok(())
}

async fn no_increment_is_lost(s: RecordsSubject) -> Verdict {
    const WRITERS: usize = 8;
    const EACH: u64 = 10;
    let add = together(WRITERS, |_| {
        let s = s.clone();
        async move {
            let mut done = 0;
            while done < EACH {
                let found = s.read("count").await?;
                let (expected, count) = match found {
                    Some(record) => (Expected::Version(record.version), record.body),
                    None => (Expected::Absent, "0".into()),
                };
                let next = count.parse::<u64>().unwrap_or(0) + 1;
                let write = put("count", expected, &next.to_string());
                done += u64::from(s.write(&[write]).await?);
            }
            Ok(())
        }
    });
    add.await?;
    let all = WRITERS as u64 * EACH;
    ensure_eq!(s.get("count").await?.body, all.to_string(), "increments");
    Ok(())
}

async fn a_removed_record_is_gone(s: RecordsSubject) -> Verdict {
    s.fill(["a", "b"]).await?;
    for (key, expected) in [("a", Expected::Version(1)), ("b", Expected::Anything)] {
        ensure!(s.write(&[remove(key, expected)]).await?, "it goes");
        ensure_eq!(s.read(key).await?, None, "it is gone");
        let again = s.write(&[remove(key, Expected::Version(1))]).await?;
        ensure!(!again, "it has no version any more");
        for expected in [Expected::Anything, Expected::Absent] {
            let again = s.write(&[remove(key, expected)]).await?;
            ensure!(again, "removing what is gone is no mistake");
        }
    }
    ensure_eq!(s.keys("").await?, Vec::<String>::new(), "nothing is listed");
    Ok(())
}

async fn a_record_that_was_removed_begins_anew(s: RecordsSubject) -> Verdict {
    s.fill(["k"]).await?;
    ensure!(
        s.write(&[remove("k", Expected::Anything)]).await?,
        "it goes"
    );
    s.fill(["k"]).await?;
    let version = s.get("k").await?.version;
    ensure!(version >= 1, "version {version}");
    let write = put("k", Expected::Version(version), "new");
    ensure!(s.write(&[write]).await?, "it can be written as any other");
    Ok(())
}

async fn keys_are_told_apart_by_their_bytes(s: RecordsSubject) -> Verdict {
    let keys = [
        "a",
        "A",
        "a ",
        " a",
        "\u{e4}",
        "a\u{308}",
        "ae",
        "\u{e6}",
        "ss",
        "\u{df}",
        "\u{1f600}",
    ];
    s.fill(keys).await?;
    for key in keys {
        ensure_eq!(s.get(key).await?.body, key, "each is its own");
    }
    Ok(())
}

async fn bad_writes_are_refused(s: RecordsSubject) -> Verdict {
    s.fill(["k"]).await?;
    let good = put("good", Expected::Absent, "x");
    let any = Expected::Anything;
    let long_key = "k".repeat(RECORD_KEY_BYTES_MAX + 1);
    let wide_key = "\u{e4}".repeat(RECORD_KEY_BYTES_MAX / 2 + 1);
    let long_body = "x".repeat(RECORD_BYTES_MAX + 1);
    let bad: [(&str, Vec<RecordWrite>); 8] = [
        ("an empty key", vec![put("", any, "x")]),
        ("a long key", vec![put(&long_key, any, "x")]),
        ("a key of too many bytes", vec![put(&wide_key, any, "x")]),
        ("a long body", vec![put("k", any, &long_body)]),
        ("a NUL in a key", vec![put("a\0b", any, "x")]),
        ("a NUL in a body", vec![put("k", any, "a\0b")]),
        ("a key twice", vec![put("k", any, "x"), remove("k", any)]),
        (
            "too many",
            (0..RECORDS_MAX)
                .map(|n| put(&format!("n{n}"), any, "x"))
                .collect(),
        ),
    ];
    for (what, mut writes) in bad {
        writes.insert(0, good.clone());
        let written = s.records.write_records(&writes).await;
        ensure!(is_invalid(written), "{what} is refused");
        ensure_eq!(s.keys("").await?, ["k"], "nothing of it is written");
    }
    ensure_eq!(s.get("k").await?.version, 1, "the version of another");
    Ok(())
}

async fn the_largest_write_is_taken(s: RecordsSubject) -> Verdict {
    let key = format!("{}x", "\u{e4}".repeat(RECORD_KEY_BYTES_MAX / 2));
    ensure_eq!(key.len(), RECORD_KEY_BYTES_MAX, "bytes of the longest key");
    let body = "\u{e4}".repeat(RECORD_BYTES_MAX / 2);
    let writes = [put(&key, Expected::Absent, &body)];
    ensure!(s.write(&writes).await?, "the longest record is new");
    ensure!(s.get(&key).await?.body == body, "the longest body");
    let many: Vec<_> = (0..RECORDS_MAX)
        .map(|n| put(&format!("n{n:04}"), Expected::Absent, "x"))
        .collect();
    ensure!(s.write(&many).await?, "as many as one call takes");
    ensure_eq!(s.keys("n").await?.len(), RECORDS_MAX, "records");
    Ok(())
}

async fn a_call_without_writes_succeeds(s: RecordsSubject) -> Verdict {
    ensure!(s.write(&[]).await?, "nothing was unexpected");
    Ok(())
}

async fn a_commit_that_fails_changes_nothing(s: RecordsSubject) -> Verdict {
    s.fill(["a", "b"]).await?;
    let writes = [
        put("a", Expected::Version(1), "new"),
        remove("b", Expected::Version(1)),
        put("c", Expected::Absent, "new"),
    ];
    for fault in [Fault::BeforeCommit, Fault::MidCommit] {
        (s.fail_next)(fault);
        let written = s.records.write_records(&writes).await;
        let is_clear = written.is_err_and(|error| error.kind() != ErrorKind::Ambiguous);
        ensure!(is_clear, "{fault:?} is told");
        ensure_eq!(s.keys("").await?, ["a", "b"], "after {fault:?}");
        ensure_eq!(s.get("a").await?.body, "a", "after {fault:?}");
    }
    ensure!(s.write(&writes).await?, "the next one succeeds");
    Ok(())
}

async fn a_commit_whose_end_is_unknown_is_ambiguous(s: RecordsSubject) -> Verdict {
    (s.fail_next)(Fault::AfterCommit);
    let write = [put("k", Expected::Absent, "new")];
    let written = s.records.write_records(&write).await;
    let is_unclear = written.is_err_and(|error| error.kind() == ErrorKind::Ambiguous);
    ensure!(is_unclear, "nobody knows");
    ensure_eq!(s.get("k").await?.body, "new", "it happened");
    Ok(())
}
