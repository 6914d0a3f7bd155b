//! The log of `git bisect`, written and read: `git bisect replay` takes what knee writes, and knee what
//! `git bisect log` prints.

use anyhow::{Context, Result, bail, ensure};
use bisection::Search;

use crate::range::Range;

/// How probable a side must be for a commit to be called good or bad.
const SURE: f64 = 0.95;

/// A search as `git bisect log` prints one.
pub fn git_log(range: &Range, search: Option<&Search>, skipped: &[usize]) -> String {
    let (good, bad) = (&range.commits[0], &range.commits[range.changes()]);
    let mut text = format!(
        "# bad: [{}] {}\n# good: [{}] {}\ngit bisect start '{}' '{}'\n",
        bad.id, bad.subject, good.id, good.subject, bad.id, good.id
    );
    for &commit in skipped {
        let commit = &range.commits[commit];
        text +=
            &format!("# skip: [{}] {}\ngit bisect skip {}\n", commit.id, commit.subject, commit.id);
    }
    let Some(search) = search.filter(|search| search.are_ends_apart()) else { return text };
    let probabilities = search.probabilities(&search.posterior());
    for build in search.builds().iter().skip(2).filter(|build| build.layout == 0) {
        let commit = &range.commits[build.commit];
        let contains = |change: &usize| search.commits().contains(build.commit, *change);
        let p: f64 = probabilities.iter().filter(|(c, _)| contains(c)).map(|(_, p)| p).sum();
        let runs = host::counted(build.runs as usize, "run");
        let side = match p {
            p if p >= SURE => "bad",
            p if p <= 1.0 - SURE => "good",
            _ => {
                let percent = 100.0 * p;
                text += &format!(
                    "# undecided after {runs}, bad with {percent:.0} %: [{}] {}\n",
                    commit.id, commit.subject
                );
                continue;
            }
        };
        text += &format!(
            "# {side} after {runs}: [{}] {}\ngit bisect {side} {}\n",
            commit.id, commit.subject, commit.id
        );
    }
    text
}

/// What a log of `git bisect` says, as names of commits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GitLog {
    pub good: Vec<String>,
    pub bad: Vec<String>,
    pub skip: Vec<String>,
}

impl GitLog {
    /// Parses a log. The last `git bisect start` counts.
    pub fn parse(text: &str) -> Result<GitLog> {
        let mut log = GitLog::default();
        let (mut old, mut new) = ("good".to_string(), "bad".to_string());
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            let Some(rest) = line.strip_prefix("git bisect ") else {
                ensure!(
                    line.is_empty() || line.starts_with('#'),
                    "line {} is not of a log of git bisect: '{}'",
                    number + 1,
                    line.escape_debug()
                );
                continue;
            };
            let words = records::parse::words(rest)
                .with_context(|| format!("line {} of the log", number + 1))?;
            let Some((verb, words)) = words.split_first() else { continue };
            match verb.as_str() {
                "start" => {
                    log = GitLog::default();
                    log.start(words, &mut old, &mut new);
                }
                "terms" => (),
                "skip" => log.skip.extend_from_slice(words),
                verb if verb == new || verb == "bad" => log.bad.extend_from_slice(words),
                verb if verb == old || verb == "good" => log.good.extend_from_slice(words),
                verb => bail!("line {}: git bisect has no '{verb}' in a log", number + 1),
            }
        }
        ensure!(
            !log.good.is_empty() && !log.bad.is_empty(),
            "the log names no {} commit: is it the output of `git bisect log`?",
            if log.bad.is_empty() { "bad" } else { "good" }
        );
        Ok(log)
    }

    fn start(&mut self, words: &[String], old: &mut String, new: &mut String) {
        let mut commits = Vec::new();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            // Git takes `--term-old=slow` and `--term-old slow`.
            let (option, name) = word.split_once('=').unwrap_or((word, ""));
            let term = match option {
                "--term-old" | "--term-good" => Some(&mut *old),
                "--term-new" | "--term-bad" => Some(&mut *new),
                _ => None,
            };
            if let Some(term) = term {
                *term = match name {
                    "" => words.next().cloned().unwrap_or_default(),
                    name => name.to_string(),
                };
                continue;
            }
            match (option, name) {
                // Paths follow, by which git leaves commits out: more candidates are no error.
                ("--", _) => break,
                (option, _) if option.starts_with("--") => (),
                _ => commits.push(word.clone()),
            }
        }
        let mut commits = commits.into_iter();
        self.bad.extend(commits.next());
        self.good.extend(commits);
    }
}

#[cfg(test)]
mod tests {
    use super::GitLog;

    #[test]
    fn a_log_of_git_is_read() {
        let log = GitLog::parse(
            "# bad: [f00] subject\n# good: [ba5] other\ngit bisect start '--first-parent' 'f00' 'ba5'\n\
             # good: [c1] x\ngit bisect good c1\ngit bisect skip c2\ngit bisect bad c3\n\
             # first bad commit: [c3] y\n",
        )
        .unwrap();
        assert_eq!(log.bad, ["f00", "c3"]);
        assert_eq!(log.good, ["ba5", "c1"]);
        assert_eq!(log.skip, ["c2"]);
        for start in ["--term-new=slow --term-old=fast", "--term-new slow --term-old fast"] {
            let log = format!("git bisect start {start}\ngit bisect slow a\ngit bisect fast b\n");
            let named = GitLog::parse(&log).unwrap();
            assert_eq!((named.bad, named.good), (vec!["a".to_string()], vec!["b".to_string()]));
        }
    }

    #[test]
    fn what_is_no_log_is_refused() {
        for (text, why) in [
            ("", "the log names no bad commit"),
            ("hello\n", "line 1 is not of a log of git bisect: 'hello'"),
            ("git bisect start 'a\n", "line 1 of the log"),
            ("git bisect start a\n", "the log names no good commit"),
            ("git bisect start a b\ngit bisect dance c\n", "line 2: git bisect has no 'dance'"),
        ] {
            let found = GitLog::parse(text).unwrap_err().to_string();
            assert!(found.starts_with(why), "{found}");
        }
    }
}
