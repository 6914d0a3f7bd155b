//! Placeholders: `{NAME}` in the lines of a command. A line is split into words first and
//! filled afterwards, so that a value with blanks stays one word. `{NAME...}`, alone in its word,
//! becomes as many words as its value has. `{NAME:regex}` is a regular expression that matches the value alone, and
//! `{NAME:regexes}` one for each part between slashes. `{{NAME}}` means `{NAME}` itself, `${NAME}` is left to a shell, and so
//! are braces around anything but a name.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use host::{nearest, unknown_of};
use records::{Command, CommandLine, OutputSource, Readiness, Server, parse};

/// The placeholders that every command has, and what they stand for.
pub const ALWAYS: [(&str, &str); 8] = [
    ("cpus", "number of CPUs"),
    ("tasks", "number of tasks; by default one for each CPU"),
    ("cpu_list", "the CPUs: 0,2,4"),
    ("dir", "the directory under test"),
    ("scratch", "an empty directory in it, new for each run"),
    ("block", "number of the block, from 0"),
    ("run", "number of the run, from 0"),
    ("seed", "a number below 2^31, the same for all runs of a block"),
];

/// The placeholders that a command with a server has besides.
pub const OF_CLIENTS: [(&str, &str); 3] = [
    ("client_cpus", "number of the client's CPUs"),
    ("client_cpu_list", "the client's CPUs: 1,3,5"),
    (
        "address",
        "where the client finds the server: 127.0.0.1, or an address that --client-on uses",
    ),
];

/// The placeholders that a command with a server that knee starts has besides.
pub const OF_SERVERS: [(&str, &str); 3] = [
    ("port", "a free TCP port of {address}, chosen for each run"),
    ("data", "the server's data directory, new for each run"),
    ("client_address", "where the client connects from: 127.0.0.1, or an address of --client-on"),
];

/// Stands for a run's copy of the experiment's image, if it has an image.
pub const IMAGE: &str = "image";

/// Values by name.
pub type Values = BTreeMap<String, String>;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Part<'a> {
    Text(&'a str),
    /// The name of a value, and what becomes of the value.
    Name(&'a str, Form),
}

/// What becomes of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    /// A part of a word.
    Plain,
    /// Several words.
    Words,
    /// A regular expression that matches it.
    Pattern,
    /// One for each of its parts between slashes.
    Patterns,
}

/// The parts of a text in their order.
fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let (mut plain, mut position) = (0, 0);
    while let Some(brace) = text[position..].find('{').map(|offset| position + offset) {
        let after_dollar = text[..brace].ends_with('$');
        let (part, end) = match (after_dollar, literal(&text[brace..]), name(&text[brace..])) {
            (false, Some(length), _) => {
                (Some(Part::Text(&text[brace + 1..brace + length - 1])), brace + length)
            }
            (false, None, Some((part, length))) => (Some(part), brace + length),
            _ => (None, brace + 1),
        };
        if let Some(part) = part {
            parts.extend((plain < brace).then(|| Part::Text(&text[plain..brace])));
            parts.push(part);
            plain = end;
        }
        position = end;
    }
    parts.extend((plain < text.len()).then(|| Part::Text(&text[plain..])));
    parts
}

/// Length of `{{NAME}}` at the start of a text.
fn literal(text: &str) -> Option<usize> {
    let (_, length) = name(text.strip_prefix('{')?)?;
    text[1 + length..].starts_with('}').then_some(length + 2)
}

/// `{NAME}` or `{NAME...}` at the start of a text, and its length.
fn name(text: &str) -> Option<(Part<'_>, usize)> {
    let inside = text.strip_prefix('{')?.split_once('}')?.0;
    let forms = [("...", Form::Words), (":regex", Form::Pattern), (":regexes", Form::Patterns)];
    let (name, form) = forms
        .into_iter()
        .find_map(|(end, form)| Some((inside.strip_suffix(end)?, form)))
        .unwrap_or((inside, Form::Plain));
    is_name(name).then_some((Part::Name(name, form), inside.len() + 2))
}

/// Whether this can be the name of a parameter.
fn is_name(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A text with its values put in.
pub fn fill(text: &str, values: &Values) -> Result<String> {
    let value = |part: Part| match part {
        Part::Text(text) => Ok(text.to_string()),
        Part::Name(name, Form::Words) => {
            bail!("'{text}': {{{name}...}} means several words and must stand alone in its word")
        }
        Part::Name(name, form) => {
            let value =
                values.get(name).with_context(|| format!("unknown placeholder {{{name}}}"))?;
            Ok(match form {
                Form::Pattern => pattern(value),
                Form::Patterns => pattern(value).replace('/', "$/^"),
                Form::Words | Form::Plain => value.clone(),
            })
        }
    };
    parts(text).into_iter().map(value).collect()
}

/// A regular expression that matches a text, for all dialects: what is no metacharacter stands as it is.
fn pattern(text: &str) -> String {
    let escaped = |c: char| if r".^$*+?()[]{}|\".contains(c) { vec!['\\', c] } else { vec![c] };
    text.chars().flat_map(escaped).collect()
}

/// A line in words, before values are put in.
pub fn split(line: &CommandLine) -> Result<Vec<String>> {
    match line {
        CommandLine::Words(words) => Ok(words.clone()),
        CommandLine::Text(text) => parse::words(text),
    }
}

/// A line as a program and its arguments, with the values put in. A shell gets a text as it is.
pub fn words(line: &CommandLine, shell: bool, values: &Values) -> Result<Vec<String>> {
    if let (CommandLine::Text(text), true) = (line, shell) {
        return Ok(vec!["sh".to_string(), "-c".to_string(), fill(text, values)?]);
    }
    let mut words = Vec::new();
    for word in split(line)? {
        match parts(&word)[..] {
            [Part::Name(name, Form::Words)] => {
                let value = values.get(name);
                let value = value.with_context(|| format!("unknown placeholder {{{name}}}"))?;
                words.extend(parse::words(value)?);
            }
            _ => words.push(fill(&word, values)?),
        }
    }
    ensure!(words.first().is_some_and(|w| !w.is_empty()), "'{}' names no program", line.text());
    Ok(words)
}

/// The names that a definition uses anywhere.
pub fn uses(command: &Command) -> BTreeSet<String> {
    let lines = command.prepare.iter().chain(&command.cleanup).chain(&command.version);
    let mut texts: Vec<&str> = lines.chain([&command.run]).flat_map(texts_of).collect();
    texts.extend(command.server.iter().flat_map(texts_of_server));
    texts.extend(command.directory.as_deref());
    texts.extend(command.operations.as_ref().map(|text| text.0.as_str()));
    texts.extend(command.environment.values().map(|word| word.0.as_str()));
    texts.extend(command.metrics.iter().filter_map(|extract| match &extract.from {
        OutputSource::File(path) => Some(path.as_str()),
        OutputSource::Stdout | OutputSource::Stderr => None,
    }));
    texts.into_iter().flat_map(names_in).collect()
}

/// The names that the programs of a command use, without those of its server and of its version.
pub fn uses_of_client(command: &Command) -> BTreeSet<String> {
    let lines = command.prepare.iter().chain(&command.cleanup).chain([&command.run]);
    let texts = lines.flat_map(texts_of);
    texts
        .chain(command.environment.values().map(|word| word.0.as_str()))
        .flat_map(names_in)
        .collect()
}

fn names_in(text: &str) -> Vec<String> {
    let name = |part| match part {
        Part::Name(name, _) => Some(name.to_string()),
        Part::Text(_) => None,
    };
    parts(text).into_iter().filter_map(name).collect()
}

fn texts_of(line: &CommandLine) -> Vec<&str> {
    match line {
        CommandLine::Text(text) => vec![text],
        CommandLine::Words(words) => words.iter().map(String::as_str).collect(),
    }
}

fn texts_of_server(server: &Server) -> Vec<&str> {
    let lines = server.setup.iter().chain([&server.run, &server.stop]);
    let mut texts: Vec<&str> = lines.flat_map(texts_of).collect();
    texts.extend(server.template.as_deref());
    texts.extend(server.environment.values().map(|word| word.0.as_str()));
    match &server.ready {
        Some(Readiness::Port(port)) => texts.push(&port.0),
        Some(Readiness::File(path)) => texts.push(path),
        Some(Readiness::Command(line)) => texts.extend(texts_of(line)),
        // A regular expression has braces of its own.
        Some(Readiness::Line(_) | Readiness::AliveMs(_)) | None => (),
    }
    texts
}

/// Refuses unknown placeholders, and parameters that are used nowhere. `image` says whether the
/// experiment has one.
pub fn check<'a>(
    command: &Command,
    parameters: impl Iterator<Item = &'a String> + Clone,
    image: bool,
) -> Result<()> {
    let uses = uses(command);
    let image = image.then_some(IMAGE);
    let started = command.server.as_ref().filter(|server| server.pid.is_none());
    let of_client = command.server.as_ref().map_or(&[][..], |_| &OF_CLIENTS[..]);
    let of_server = started.map_or(&[][..], |_| &OF_SERVERS[..]);
    let always =
        || ALWAYS.iter().chain(of_client).chain(of_server).map(|(name, _)| *name).chain(image);
    for name in parameters.clone() {
        ensure!(
            is_name(name),
            "'{name}' cannot be the name of a parameter: use letters, digits and _"
        );
        ensure!(
            !always().any(|known| known == name),
            "the parameter {name} has the name of a placeholder that every command has"
        );
        ensure!(
            uses.contains(name),
            "no {{{name}}} is in '{}'{}, so no parameter of {} is called \"{name}\"{}",
            command.run.text(),
            started.map(|server| format!(" or '{}'", server.run.text())).unwrap_or_default(),
            command.name,
            nearest(name, uses.iter().map(String::as_str))
        );
    }
    for name in &uses {
        let known: Vec<&str> = parameters.clone().map(String::as_str).chain(always()).collect();
        ensure!(
            known.contains(&name.as_str()),
            "{}; --axis {name}=a,b or a \
             parameter gives it values, {{{{{name}}}}} means the braces themselves",
            unknown_of(&format!("placeholder of {}", command.name), name, &known)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Values {
        let pairs = [
            ("cpus", "4"),
            ("options", "-a  'b c'"),
            ("none", ""),
            ("x", "{cpus}"),
            ("regex", "a/b[1].c"),
        ];
        pairs.map(|(name, value)| (name.to_string(), value.to_string())).into()
    }

    fn check_words(text: &str, shell: bool, expected: &str) {
        let shown = match words(&CommandLine::Text(text.to_string()), shell, &values()) {
            Ok(words) => format!("{words:?}"),
            Err(error) => format!("{error:#}"),
        };
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn a_line_is_split_as_a_shell_does_and_filled_afterwards() {
        check_words("make -j{cpus}", false, r#"["make", "-j4"]"#);
        check_words("x ^{regex:regexes}$", false, r#"["x", "^a$/^b\\[1\\]\\.c$"]"#);
        check_words("grep ^{regex:regex}$", false, r#"["grep", "^a/b\\[1\\]\\.c$"]"#);
        check_words("a 'b c' \"d e\" f\\ g", false, r#"["a", "b c", "d e", "f g"]"#);
        check_words("a {options} z", false, r#"["a", "-a  'b c'", "z"]"#);
        check_words("a {options...} z", false, r#"["a", "-a", "b c", "z"]"#);
        check_words("a {none} {none...} z", false, r#"["a", "", "z"]"#);
        check_words("a {x}", false, r#"["a", "{cpus}"]"#);
        check_words("echo {cpus} | wc", true, r#"["sh", "-c", "echo 4 | wc"]"#);
    }

    #[test]
    fn braces_around_anything_but_a_name_are_left_alone() {
        check_words("awk '{print $1}' {}", false, r#"["awk", "{print $1}", "{}"]"#);
        check_words(
            "echo {{cpus}} ${cpus} {1} {a b}",
            true,
            r#"["sh", "-c", "echo {cpus} ${cpus} {1} {a b}"]"#,
        );
        check_words("'{\"a\": {cpus}}'", false, r#"["{\"a\": 4}"]"#);
        check_words("a {cpus", false, r#"["a", "{cpus"]"#);
        check_words("ä{cpus}ö{{x}}ü", false, r#"["ä4ö{x}ü"]"#);
    }

    #[test]
    fn what_cannot_be_filled_is_refused() {
        check_words("a 'b", false, "'a 'b' has an unclosed quote or ends with a backslash");
        check_words("a {what}", false, "unknown placeholder {what}");
        check_words(
            "a -o{options...}",
            false,
            "'-o{options...}': {options...} means several words and must stand alone in its word",
        );
        check_words("{none} a", false, "'{none} a' names no program");
        check_words("", false, "'' names no program");
    }

    fn check_names(run: &str, parameters: &[&str], expected: &str) {
        let command = Command {
            name: "it".to_string(),
            run: CommandLine::Text(run.to_string()),
            ..Command::default()
        };
        let parameters: Vec<String> = parameters.iter().map(|name| name.to_string()).collect();
        let error = check(&command, parameters.iter(), false).err().map(|e| e.to_string());
        let error = error.unwrap_or_default();
        assert!(error.contains(expected) && error.is_empty() == expected.is_empty(), "{error}");
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        check_names("a {scratch} {options}", &["options"], "");
        check_names(
            "a {opions}",
            &["options"],
            "no parameter of it is called \"options\"; did you mean \"opions\"?",
        );
        check_names(
            "a {scrath}",
            &[],
            "no placeholder of it is called \"scrath\"; did you mean \"scratch\"? There are cpus, tasks,",
        );
        check_names("a", &["cpus"], "has the name of a placeholder");
        check_names("a", &["a b"], "cannot be the name of a parameter");
    }
}
