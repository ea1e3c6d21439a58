//! The parts of Markdown that the checks need: links and the anchors of headings.

use std::collections::BTreeMap;

/// The lines outside fenced code, with their numbers and without inline code.
pub(crate) fn prose(text: &str) -> impl Iterator<Item = (usize, String)> {
    outside_fences(text).map(|(number, line)| (number, without_code(line)))
}

fn outside_fences(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence: Option<&str> = None;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let line = line.trim_start();
        let mark = ["```", "~~~"]
            .into_iter()
            .find(|mark| line.starts_with(mark));
        match (fence, mark) {
            (None, None) => true,
            (None, opened) => {
                fence = opened;
                false
            }
            (Some(open), closing) => {
                if closing == Some(open) {
                    fence = None;
                }
                false
            }
        }
    })
}

/// Removes the text between backticks, if the backticks come in pairs.
fn without_code(line: &str) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return line.to_owned();
    }
    let outside: Vec<&str> = parts.into_iter().step_by(2).collect();
    outside.join("``")
}

/// The targets of `[text](target)`, `[name]: target`, `href="target"` and `src="target"`.
pub(crate) fn links(line: &str) -> impl Iterator<Item = &str> {
    let inline = line.split("](").skip(1).filter_map(|rest| {
        let end = rest.find([')', ' ', '"'])?;
        Some(rest[..end].trim_matches(['<', '>']))
    });
    let defined = line
        .trim_start()
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]: "))
        .and_then(|(_, target)| target.split_whitespace().next());
    let html = ["href=\"", "src=\""]
        .into_iter()
        .flat_map(move |opening| line.split(opening).skip(1))
        .filter_map(|rest| rest.split('"').next());
    inline.chain(defined).chain(html)
}

/// The anchors of a page: headings by the rules of GitHub, and explicit `id` and `name`.
pub(crate) fn anchors(text: &str) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = Vec::new();
    for (_, line) in outside_fences(text) {
        for opening in ["id=\"", "name=\""] {
            let explicit = line.split(opening).skip(1);
            anchors.extend(
                explicit
                    .filter_map(|rest| rest.split('"').next())
                    .map(str::to_owned),
            );
        }
        let Some(heading) = heading(line) else {
            continue;
        };
        let slug = slug(heading);
        let count = seen.entry(slug.clone()).or_default();
        anchors.push(match *count {
            0 => slug,
            count => format!("{slug}-{count}"),
        });
        *count += 1;
    }
    anchors
}

fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    let is_heading = (1..=6).contains(&level) && text.starts_with(' ');
    is_heading.then(|| text.trim().trim_end_matches('#').trim_end())
}

/// Lower case, spaces to hyphens, punctuation removed; only the text of a link counts.
fn slug(heading: &str) -> String {
    let mut text = String::new();
    for part in heading.split_inclusive("](") {
        let after_target = match text.ends_with("](") {
            true => part.split_once(')').map_or("", |(_, rest)| rest),
            false => part,
        };
        text.push_str(after_target);
    }
    text.to_lowercase()
        .chars()
        .filter_map(|letter| match letter {
            ' ' => Some('-'),
            '-' | '_' => Some(letter),
            _ => letter.is_alphanumeric().then_some(letter),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_in_every_form() {
        let line = "[a](b.md) ![c](<d.png> \"title\") <a href=\"e.md#f\"> <img src=\"g.png\">";
        let found: Vec<&str> = links(line).collect();
        assert_eq!(found, ["b.md", "d.png", "e.md#f", "g.png"]);
        assert_eq!(links("[a]: b.md \"title\"").collect::<Vec<_>>(), ["b.md"]);
    }

    #[test]
    fn code_is_no_prose() {
        let text = "a\n```\n[x](y)\n~~~\n```\n`[x](y)` b";
        let found: Vec<_> = prose(text).collect();
        assert_eq!(found, [(1, "a".to_owned()), (6, "`` b".to_owned())]);
    }

    #[test]
    fn headings_become_anchors_as_on_github() {
        let text = "# What's `a_b`, really?\n## Same\n## Same\n### [Link](x.md) here — now\n\
                    #not\n```\n# not\n```\n<a id=\"own\"></a>";
        let expected = [
            "whats-a_b-really",
            "same",
            "same-1",
            "link-here--now",
            "own",
        ];
        assert_eq!(anchors(text), expected);
    }
}
