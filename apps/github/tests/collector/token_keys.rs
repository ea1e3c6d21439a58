//! Tokens of users whose key is missing, or is replaced (COL-17).

use std::time::Duration;

use clinch::testing::advance;
use clinch_github::Start;

use crate::lab::assert_whole;
use crate::tenants::{OWN, add, lab, repository_of, sent, settings, world};

/// A bot's token sees less than the user's own one: what it does not see is not gone.
#[tokio::test]
async fn col_17_a_run_waits_for_every_token_of_its_user() {
    let mut private = world();
    let name = repository_of(&private, "octocat");
    private.make_private(&name);
    let lab = lab(private).await;
    let own = add(&lab, "octocat", OWN).await;
    assert_whole(&lab.run("octocat").await);
    lab.assert_equal(&["octocat"]).await;
    // The key of the user's own token is lost.
    let lab = lab.restarted_with(settings("2")).await;
    let bot = add(&lab, "octocat", "fake-bot-1").await;
    let run = lab.collector.start_with("octocat", &Start::default()).await;
    let run = run.expect("it begins").run_id;
    advance(&lab.clock, Duration::from_secs(600)).await;
    let reason = lab.waits_for(&run).await;
    assert!(reason.contains("github.token_keys"), "{reason}");
    lab.assert_equal(&["octocat"]).await;
    assert_eq!(sent(&lab).get("bot"), None);

    // The key is found again: the run goes on, and nothing was put aside.
    let lab = lab.restarted_with(settings("21")).await;
    let removed = lab.collector.remove_token("octocat", &bot).await;
    removed.expect("removed");
    let run = lab.end(&run).await;
    assert_whole(&run);
    assert_eq!(run.pages.removed, 0, "{run:?}");
    lab.assert_equal(&["octocat"]).await;
    let listed = lab.collector.user_tokens("octocat").await.expect("listed");
    assert_eq!(listed[0].token, own);
}
