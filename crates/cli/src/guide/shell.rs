//! As much of the shell's grammar as the commands of the pages use.

/// The simple commands of a text: lines that end with a backslash are joined, comments left out,
/// and commands split at `|`, `&`, `;` and line ends. Redirections and what they name are left out.
pub(super) fn commands(text: &str) -> Vec<Vec<String>> {
    let mut reader = Reader::default();
    for letter in text.replace("\\\n", " ").chars() {
        reader.take(letter);
    }
    reader.end_command();
    reader.commands
}

/// What a person typed in a `console` block, after the prompts; the rest is output.
pub(super) fn typed(text: &str) -> String {
    let (mut all, mut is_typed) = (String::new(), false);
    for line in text.lines() {
        let prompted = line.strip_prefix("$ ");
        if !is_typed && prompted.is_none() {
            continue;
        }
        all.push_str(prompted.unwrap_or(line));
        all.push('\n');
        is_typed = line.ends_with('\\') || all.matches('\'').count() % 2 == 1;
    }
    all
}

#[derive(Default)]
struct Reader {
    commands: Vec<Vec<String>>,
    words: Vec<String>,
    word: Option<String>,
    quote: Option<char>,
    /// The next word names a file of `<` or `>`.
    is_redirected: bool,
    is_comment: bool,
}

impl Reader {
    fn take(&mut self, letter: char) {
        match (self.quote, letter) {
            (Some(quote), _) if letter == quote => self.quote = None,
            (Some(_), _) => self.push(letter),
            (None, '\n') => {
                self.end_command();
                self.is_comment = false;
            }
            (None, _) if self.is_comment => {}
            (None, '\'' | '"') => {
                self.quote = Some(letter);
                self.word.get_or_insert_default();
            }
            (None, '#') if self.word.is_none() => self.is_comment = true,
            (None, '|' | '&' | ';') => self.end_command(),
            (None, '<' | '>') => {
                self.end_word();
                self.is_redirected = true;
            }
            (None, _) if letter.is_whitespace() => self.end_word(),
            (None, _) => self.push(letter),
        }
    }

    fn push(&mut self, letter: char) {
        self.word.get_or_insert_default().push(letter);
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        if std::mem::take(&mut self.is_redirected) {
            return;
        }
        self.words.push(word);
    }

    fn end_command(&mut self) {
        self.end_word();
        let words = std::mem::take(&mut self.words);
        if !words.is_empty() {
            self.commands.push(words);
        }
    }
}

#[test]
fn commands_are_split_as_a_shell_does() {
    let text = "clinch a --b 'c  d' \\\n  \"e\" # no\nclinch f | g -x && clinch h; i > j &\nk <l m '' a#b\n";
    assert_eq!(
        commands(text),
        [
            vec!["clinch", "a", "--b", "c  d", "e"],
            vec!["clinch", "f"],
            vec!["g", "-x"],
            vec!["clinch", "h"],
            vec!["i"],
            vec!["k", "m", "", "a#b"],
        ]
    );
}

#[test]
fn output_is_no_command() {
    let text = "$ curl -d 'a\n b' \\\n  c\nit's output\n$ clinch ops ls\nclinch x\n";
    assert_eq!(
        commands(&typed(text)),
        [
            vec!["curl", "-d", "a\n b", "c"],
            vec!["clinch", "ops", "ls"]
        ]
    );
}
