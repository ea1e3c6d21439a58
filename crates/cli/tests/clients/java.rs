//! The Java of `docs/guide/outbox.md` compiles with the JDK alone: JDBC is a part of it. The tests of
//! `clinch-postgres` run its SQL.

use std::process::Command;

use libtest_mimic::Trial;

use crate::language::succeed;
use crate::pages::blocks;
use crate::server::Folder;

const PAGE: &str = include_str!("../../../../docs/guide/outbox.md");

/// Also where `CI` is set, the trial is ignored without a compiler: a JDK for one block is too much.
pub(crate) fn trial() -> Trial {
    let name = "core_9_the_jdbc_of_the_page_compiles";
    // `var` needs Java 10; the compilers of Java 8 do not know this option.
    let version = Command::new("javac").arg("--version").output();
    if version.is_ok_and(|output| output.status.success()) {
        return Trial::test(name, || {
            compiles();
            Ok(())
        });
    }
    Trial::test(name, || Ok(()))
        .with_kind("javac is not on the PATH")
        .with_ignored_flag(true)
}

fn compiles() {
    let [block] = blocks(PAGE, "java")[..] else {
        panic!("one block");
    };
    let folder = Folder::new();
    let class = format!(
        "import java.sql.*;\nimport java.util.UUID;\n\nclass Page {{\n    \
         static void give(Connection connection) throws SQLException {{\n{block}    }}\n}}\n"
    );
    folder.write("Page.java", &class);
    let mut javac = Command::new("javac");
    javac.args(["-Xlint:all", "-Werror", "-proc:none", "Page.java"]);
    succeed(javac.current_dir(&folder.0));
}
