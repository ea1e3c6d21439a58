//! A fake with a test clock, and a client that follows links.

use std::sync::Arc;

use clinch::testing::ManualClock;
use clinch_github::fake::{BASE, Fake, Setup, Size, World};
use clinch_github::{ApiAnswer, ApiRequest, Broken, Token, Transport};
use serde_json::Value;

pub(crate) const TOKEN: &str = "fake-octocat-1";

pub(crate) struct Test {
    pub(crate) fake: Fake,
    pub(crate) clock: Arc<ManualClock>,
}

pub(crate) fn size(users: usize, repositories: usize, documents: usize) -> Size {
    Size {
        users,
        repositories,
        documents,
    }
}

/// One user, twelve repositories, two thousand documents.
pub(crate) fn small() -> World {
    World::generate(7, &size(1, 12, 2_000))
}

pub(crate) fn start(world: World, setup: Setup) -> Test {
    let clock = Arc::new(ManualClock::default());
    Test {
        fake: Fake::new(world, setup, clock.clone()),
        clock,
    }
}

pub(crate) fn request(target: &str, token: Option<&str>) -> ApiRequest {
    let url = match target.starts_with('/') {
        true => format!("{BASE}{target}"),
        false => target.to_owned(),
    };
    ApiRequest {
        url,
        token: token.map(Token::new),
        if_none_match: None,
        accept: None,
    }
}

impl Test {
    pub(crate) async fn send(&self, target: &str) -> Result<ApiAnswer, Broken> {
        self.fake.get(&request(target, Some(TOKEN))).await
    }

    pub(crate) async fn get(&self, target: &str) -> ApiAnswer {
        self.send(target).await.expect("an answer")
    }

    pub(crate) async fn get_as(&self, token: Option<&str>, target: &str) -> ApiAnswer {
        let answer = self.fake.get(&request(target, token)).await;
        answer.expect("an answer")
    }

    pub(crate) async fn get_known(
        &self,
        token: Option<&str>,
        target: &str,
        etag: &str,
    ) -> ApiAnswer {
        let request = ApiRequest {
            if_none_match: Some(etag.to_owned()),
            ..request(target, token)
        };
        self.fake.get(&request).await.expect("an answer")
    }

    /// All documents of a list, by its `next` links, and how many pages there were.
    pub(crate) async fn walk(&self, target: &str) -> (Vec<Value>, usize) {
        let mut all = Vec::new();
        let mut pages = 0;
        let mut next = Some(target.to_owned());
        while let Some(target) = next {
            let answer = self.get(&target).await;
            assert_eq!(answer.status, 200, "{target}");
            pages += 1;
            next = link(&answer, "next");
            match json(&answer) {
                Value::Array(some) => all.extend(some),
                other => panic!("not a list: {other}"),
            }
        }
        (all, pages)
    }
}

pub(crate) fn json(answer: &ApiAnswer) -> Value {
    serde_json::from_slice(&answer.body).expect("JSON")
}

pub(crate) fn message(answer: &ApiAnswer) -> String {
    json(answer)["message"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

pub(crate) fn link(answer: &ApiAnswer, relation: &str) -> Option<String> {
    let wanted = format!("; rel=\"{relation}\"");
    let links = answer.header("link")?.split(", ");
    let found = links.filter_map(|link| link.strip_suffix(&wanted)).next()?;
    Some(found.trim_matches(['<', '>']).to_owned())
}

pub(crate) fn number(answer: &ApiAnswer, header: &str) -> i64 {
    let value = answer.header(header);
    value
        .and_then(|value| value.parse().ok())
        .expect("a number")
}
