//! A database, a provider, and servers.

use std::process::Output;

use clinch_core::WorkerId;
use clinch_core::ports::{Claim, Outbox};
use clinch_testbed::{Kind, sql};
use serde_json::Value;

use crate::provider::Provider;
use crate::support::{Folder, Server, clinch, document, run, text};

/// The resources of one test.
pub(crate) struct World {
    pub(crate) kind: Kind,
    pub(crate) database: String,
    pub(crate) provider: Provider,
    pub(crate) folder: Folder,
}

impl World {
    /// On a database of the shared server.
    pub(crate) fn new(kind: Kind, name: &str) -> Self {
        let database = clinch_testbed::database(kind).expect("a database of its own");
        Self::on(kind, database, name)
    }

    /// On this database.
    pub(crate) fn on(kind: Kind, database: String, name: &str) -> Self {
        let world = Self {
            kind,
            database,
            provider: Provider::start(),
            folder: Folder::new(name),
        };
        world.configure("");
        world
    }

    /// Writes the configuration: one route to the gate, one for each tested status, and `extra`.
    pub(crate) fn configure(&self, extra: &str) {
        let Self {
            database, provider, ..
        } = self;
        let mut config = format!("[store]\nurl = \"{database}\"\n{extra}\n");
        for (domain, path, safety, attempts) in [
            ("payments", "gate", "natural", 5),
            ("sent", "200", "unsafe", 2),
            ("broken", "500", "natural", 2),
        ] {
            let url = provider.url();
            config += &format!(
                "[[route]]\nname = \"{domain}\"\ndomain = \"{domain}\"\nevent_type = \"charge\"\n\
                 url = \"{url}/{path}/{{biz_key}}\"\ndestination = \"{domain}\"\n\
                 safety = \"{safety}\"\ntimeout = \"50s\"\ntxn_id = \"json:/id\"\n\
                 retry = {{ max_attempts = {attempts}, base = \"50ms\", jitter = 0.0 }}\n"
            );
        }
        std::fs::write(self.folder.0.join("clinch.toml"), config).expect("a file");
    }

    /// A server with these roles.
    pub(crate) fn serve(&self, roles: &str) -> Server {
        self.serve_with(roles, &[])
    }

    /// A server that runs beside others, with its own files.
    pub(crate) fn serve_beside(&self, roles: &str, number: usize) -> Server {
        let files = [
            format!("worker.spill_file=spill-{number}.log"),
            format!("dead_letter.file=dlq-{number}.log"),
        ];
        self.serve_with(roles, &files)
    }

    fn serve_with(&self, roles: &str, set: &[String]) -> Server {
        let mut command = clinch(&self.folder.0);
        command.args(["serve", "--roles", roles]);
        command.args(["--set", "server.listen=127.0.0.1:0"]);
        for pair in set {
            command.args(["--set", pair]);
        }
        Server::of(&mut command)
    }

    /// Runs the command line against a server.
    pub(crate) fn ask(&self, server: &Server, arguments: &[&str]) -> Output {
        let url = server.url();
        let whole = [arguments, &["-o", "json", "--url", &url]].concat();
        run(&self.folder.0, &whole)
    }

    /// Submits an operation without waiting; returns its id.
    pub(crate) fn submit(&self, server: &Server, domain: &str, key: &str) -> String {
        let output = self.hand_in(server, domain, key, &[]);
        let id = document(&output)["op_id"].as_str().map(str::to_owned);
        id.unwrap_or_else(|| panic!("{}", text(&output.stderr)))
    }

    /// Submits the same keys until the operation has ended; returns its document.
    pub(crate) fn settled(&self, server: &Server, domain: &str, key: &str) -> Value {
        let output = self.hand_in(server, domain, key, &["--wait", "120s"]);
        assert_ne!(output.status.code(), Some(5), "{}", text(&output.stderr));
        document(&output)
    }

    fn hand_in(&self, server: &Server, domain: &str, key: &str, more: &[&str]) -> Output {
        let submit = ["submit", domain, "charge", key, "--idem-key", "a"];
        let payload = ["--payload", "{\"amount\":5000}"];
        self.ask(server, &[&submit[..], &payload, more].concat())
    }

    /// Operation, attempts and ledger.
    pub(crate) fn path(&self, server: &Server, op_id: &str) -> Value {
        document(&self.ask(server, &["ops", "get", op_id, "--path"]))
    }

    /// The listed dead letters.
    pub(crate) fn letters(&self, server: &Server) -> Vec<Value> {
        let listed = document(&self.ask(server, &["dlq", "ls"]));
        listed["dead_letters"].as_array().cloned().expect("a list")
    }

    /// Runs SQL as a person with a client does.
    pub(crate) fn sql(&self, text: &str) -> String {
        sql(self.kind, &self.database, text).expect("the server obeys")
    }

    /// The outbox of the store, opened like another process would.
    pub(crate) async fn outbox(&self) -> Box<dyn Outbox> {
        let clock = std::sync::Arc::new(clinch_system::SystemClock::new());
        let url = &self.database;
        match self.kind {
            Kind::Postgres => {
                let store = clinch_postgres::Postgres::connect(url, Default::default(), clock);
                Box::new(store.await.expect("the store opens"))
            }
            _ => {
                let store = clinch_mysql::Mysql::connect(url, Default::default(), clock);
                Box::new(store.await.expect("the store opens"))
            }
        }
    }
}

/// A claim by this relay.
pub(crate) fn claim(by: &str, lasting: std::time::Duration, max: usize) -> Claim {
    Claim {
        by: WorkerId::new(by).expect("a name"),
        lasting,
        max,
        among: clinch_core::ports::Among::All,
    }
}

/// Runs on a runtime of its own.
pub(crate) fn on_a_runtime<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(work)
}

/// A test for each database, named by requirement.
macro_rules! on_both {
    ($($name:ident => $postgres:ident, $mariadb:ident;)+) => {
        $(
            #[test]
            fn $postgres() {
                $name(clinch_testbed::Kind::Postgres);
            }

            #[test]
            fn $mariadb() {
                $name(clinch_testbed::Kind::MariaDb);
            }
        )+
    };
}
pub(crate) use on_both;
