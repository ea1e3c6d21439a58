//! What is gone at GitHub, what is forgotten, and streams, on the embedded store.

use crate::hub::Hub;
use crate::support::{Folder, document, ends, said};

#[test]
fn col_9_what_is_gone_is_told_and_can_be_exported() {
    let hub = Hub::calm();
    let folder = Folder::with(&hub.section(&["fake-ann-1"]));
    ends(&folder.run(&["github", "run", "octocat"]), 0);
    let names = hub.fake.with_world(|world| world.full_names());
    let own = names.iter().filter(|name| name.starts_with("octocat/"));
    let deleted = own.filter(|name| hub.fake.with_world(|world| world.delete_issue(name, 1)));
    let deleted = deleted.count();
    assert!(deleted > 0);
    let second = ends(&folder.run(&["github", "run", "octocat"]), 0);
    assert!(!second.contains("gone at GitHub"), "{second}");
    let third = ends(&folder.run(&["github", "run", "octocat", "--full"]), 0);
    let told = format!("gone at GitHub: {deleted} documents, put aside");
    assert!(third.contains(&told), "{third}");
    let removed = ends(&folder.run(&["github", "export", "--removed"]), 0);
    assert_eq!(removed.lines().count(), deleted, "{removed}");
    assert!(removed.contains(r#""number":1,"#), "{removed}");
    let there = ends(&folder.run(&["github", "export", "--kind", "issue"]), 0);
    assert!(!there.contains(r#""number":1,"#), "{there}");
}

#[test]
fn col_17_a_user_is_forgotten_after_a_question() {
    let hub = Hub::calm();
    let folder = Folder::with(&hub.section(&["fake-ann-1"]));
    for user in ["octocat", "hubot"] {
        ends(&folder.run(&["github", "run", user]), 0);
    }
    let asked = folder.run(&["github", "forget", "octocat"]);
    ends(&asked, 2);
    assert!(said(&asked).contains("no terminal to ask on"));
    ends(
        &folder.run(&["github", "forget", "octocat", "--dry-run"]),
        0,
    );
    let before = ends(&folder.run(&["github", "export"]), 0);
    let of = |text: &str, user: &str| {
        let user = format!(r#""user":"{user}""#);
        text.lines().filter(|line| line.contains(&user)).count()
    };
    assert!(of(&before, "octocat") > 0);
    let forgotten = ["github", "forget", "octocat", "-y", "-o", "json"];
    let forgotten = document(&folder.run(&forgotten), 0);
    assert_eq!(forgotten["documents"], of(&before, "octocat"));
    let after = ends(&folder.run(&["github", "export"]), 0);
    assert_eq!(of(&after, "octocat"), 0);
    assert_eq!(of(&after, "hubot"), of(&before, "hubot"));
    ends(&folder.run(&["github", "forget", "nobody", "-y"]), 3);
    ends(&folder.run(&["github", "run", "octocat"]), 0);
    let again = ends(&folder.run(&["github", "export"]), 0);
    assert_eq!(again, before);
}

#[test]
fn col_3_all_streams_of_a_made_up_github_are_collected() {
    let folder = Folder::with("");
    let run = ["github", "run", "octocat", "--fake", "--streams", "all"];
    let first = ends(&folder.run(&run), 0);
    assert!(first.contains("documents equal the world's"), "{first}");
    let wrong = folder.run(&["github", "run", "octocat", "--streams", "reviews"]);
    ends(&wrong, 2);
    assert!(
        said(&wrong).contains("there is no stream \"reviews\""),
        "{}",
        said(&wrong)
    );
}
