//! Forms of `Link` headers.

use clinch_github::fake::{Links, Setup};

use crate::support::{TOKEN, link, small, start};

const TARGET: &str = "/users/octocat/repos?per_page=5";

#[tokio::test]
async fn every_form_leads_to_the_same_pages() {
    let plain = start(small(), Setup::default()).walk(TARGET).await;
    assert_eq!((plain.0.len(), plain.1), (12, 3));
    for (links, origin) in [
        (Links::Plain, "http://fake.invalid/"),
        (Links::UpperCase, "HTTP://FAKE.INVALID/"),
        (Links::DefaultPort, "http://fake.invalid:80/"),
        (Links::TwoLines, "http://fake.invalid/"),
    ] {
        let setup = Setup {
            links,
            ..Setup::default()
        };
        let test = start(small(), setup);
        let first = test.get(TARGET).await;
        let next = link(&first, "next").expect("a next page");
        assert!(next.starts_with(origin), "{next}");
        assert!(link(&first, "last").is_some());
        assert_eq!(test.walk(TARGET).await, plain, "{links:?}");
    }
}

#[tokio::test]
async fn a_304_may_have_no_links() {
    for hides_links_on_304 in [false, true] {
        let setup = Setup {
            hides_links_on_304,
            ..Setup::default()
        };
        let test = start(small(), setup);
        let first = test.get(TARGET).await;
        assert!(first.header("link").is_some());
        let etag = first.header("etag").expect("an ETag");
        let known = test.get_known(Some(TOKEN), TARGET, etag).await;
        assert_eq!(known.status, 304);
        assert_eq!(known.header("link").is_none(), hides_links_on_304);
    }
}
