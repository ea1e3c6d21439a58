//! `clinch bench`.

use crate::support::{Folder, clinch, document, refused, run, text};

#[test]
fn run_8_every_figure_is_measured_and_nothing_is_left_behind() {
    let folder = Folder::new("bench");
    let ran = run(
        &folder.0,
        &["bench", "--seconds", "2", "--folder", ".", "-o", "json"],
    );
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let report = document(&ran);
    let measures = report["measures"].as_array().expect("measures");
    let names = [
        "accept, 16 callers",
        "accept, 64 callers",
        "accept in bulk of 1,000, 4 callers",
        "drain",
        "submit to completed, inline, p50",
        "submit to completed, queued, p99",
        "added to a bare call, p50",
        "fdatasync of 4 KiB",
        "bare call on loopback, p50",
    ];
    for name in names {
        let found = measures.iter().find(|one| one["name"] == name);
        let value = found.and_then(|one| one["value"].as_f64());
        assert!(
            value.is_some_and(|value| value > 0.0),
            "{name}: {measures:?}"
        );
    }
    assert_eq!(std::fs::read_dir(&folder.0).expect("a folder").count(), 0);
}

#[test]
fn run_8_the_configured_store_is_never_measured() {
    let folder = Folder::new("bench-refused");
    for url in ["sqlite://clinch.db", "sqlite://./clinch.db"] {
        let (code, said) = refused(&run(&folder.0, &["bench", "--store", url]));
        assert_eq!(code, Some(2));
        assert!(said.contains("configured"), "{said}");
    }
    assert!(!folder.0.join("clinch.db").exists());
    for wrong in [
        &["--seconds", "0"][..],
        &["--store", "oracle://db"],
        &["--folder", "no/such"],
    ] {
        let mut command = clinch(&folder.0);
        let ran = command.arg("bench").args(wrong).output().expect("it runs");
        assert_ne!(ran.status.code(), Some(0), "{wrong:?}");
    }
    let other = ["bench", "--seconds", "2", "--store", "sqlite://other.db"];
    assert_eq!(run(&folder.0, &other).status.code(), Some(0));
    assert!(
        folder.0.join("other.db").exists(),
        "a store that was named stays"
    );
}
