//! A made-up GitHub, served by the test.

use std::collections::BTreeMap;
use std::sync::Arc;

use clinch_github::fake::{Fake, Faults, Limits, Served, Setup, Size, Tally, World, serve};
use clinch_system::SystemClock;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// Ends with the test.
pub(crate) struct Hub {
    pub(crate) fake: Fake,
    served: Served,
    _runtime: Runtime,
}

/// A small world.
pub(crate) fn small() -> Size {
    Size {
        users: 2,
        repositories: 6,
        documents: 400,
    }
}

impl Hub {
    pub(crate) fn start(size: &Size, setup: Setup) -> Self {
        Self::serving(World::generate(7, size), setup)
    }

    /// A world with documents of every kind.
    pub(crate) fn with_streams(setup: Setup) -> Self {
        let size = Size {
            users: 3,
            repositories: 6,
            documents: 300,
        };
        let mut world = World::generate(7, &size).with_streams();
        for name in world.full_names() {
            world.branch(&name, &[1_700_000_000, 1_700_000_100]);
        }
        Self::serving(world, setup)
    }

    fn serving(world: World, setup: Setup) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("threads");
        let fake = Fake::new(world, setup, Arc::new(SystemClock::new()));
        let served = runtime.block_on(async {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
            serve(listener, fake.clone()).expect("served")
        });
        Self {
            fake,
            served,
            _runtime: runtime,
        }
    }

    /// Without faults, and with large budgets.
    pub(crate) fn calm() -> Self {
        Self::start(&small(), Setup::default())
    }

    /// With these faults.
    pub(crate) fn with(faults: Faults) -> Self {
        let setup = Setup {
            faults,
            ..Setup::default()
        };
        Self::start(&small(), setup)
    }

    pub(crate) fn with_limits(size: &Size, limits: Limits) -> Self {
        let setup = Setup {
            limits,
            ..Setup::default()
        };
        Self::start(size, setup)
    }

    /// The configuration section with this fake's address.
    pub(crate) fn section(&self, tokens: &[&str]) -> String {
        let base = &self.served.base;
        format!("[github]\napi_url = \"{base}\"\ntokens = {tokens:?}\n")
    }

    pub(crate) fn tally(&self) -> Tally {
        self.fake.tally()
    }

    /// Every document of a complete collection of the user, by kind, resource and id.
    pub(crate) fn documents(&self, login: &str) -> BTreeMap<[String; 3], Value> {
        self.fake.with_world(|world| {
            let of_user = world.items().filter(|item| item.user == login);
            let named = of_user.map(|item| {
                let kind = item.kind.as_str().to_owned();
                ([kind, item.resource, id(&item.body)], item.body)
            });
            named.collect()
        })
    }
}

fn id(body: &Value) -> String {
    let id = body.get("sha").or_else(|| body.get("id"));
    id.map(Value::to_string).expect("an id")
}

/// Exported lines in the same form.
pub(crate) fn exported(lines: &str) -> BTreeMap<[String; 3], Value> {
    let mut documents = BTreeMap::new();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).expect("a JSON line");
        let text = |name: &str| line[name].as_str().expect("text").to_owned();
        let names: Vec<&str> = line
            .as_object()
            .expect("an object")
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(names.len(), 5, "{names:?}");
        let body = line["document"].clone();
        let name = [text("kind"), text("resource"), id(&body)];
        assert!(
            documents.insert(name, body).is_none(),
            "{line} is there twice"
        );
    }
    documents
}
