//! `--accept-race FILE:LINE`: races that the author of a file in C calls harmless.

use anyhow::{Result, bail, ensure};
use studies::Subject;
use studies::checks::accepted::{AcceptedLine, AcceptedRace};

use super::Checkable;

/// A line as on the command line: the file, and the number.
fn parse(text: &str) -> Result<(&str, u32)> {
    let parts = text.rsplit_once(':').filter(|(file, _)| !file.is_empty());
    let parsed = parts.and_then(|(file, line)| Some((file, line.parse().ok()?)));
    let Some((file, line)) = parsed.filter(|(_, line)| *line > 0) else {
        bail!("--accept-race {text}: write FILE:LINE, as in queue.c:41");
    };
    Ok((file, line))
}

/// Fails unless each line is one of a file in C that is checked.
pub fn refuse_unknown(given: &[String], subjects: &[Checkable]) -> Result<()> {
    let subjects = subjects.iter().flatten();
    let programs: Vec<_> = subjects
        .filter_map(|subject| match subject {
            Subject::InC(program) => Some(program),
            _ => None,
        })
        .collect();
    for text in given {
        let (file, line) = parse(text)?;
        let lines: Vec<_> = programs.iter().map(|program| program.count_lines(file)).collect();
        let most = lines.iter().flatten().max();
        let Some(&most) = most else {
            let names: Vec<&str> = lines.into_iter().filter_map(Result::err).flatten().collect();
            ensure!(
                !names.is_empty(),
                "--accept-race is for locks in C, and none is checked: leave it out"
            );
            bail!("--accept-race {text}: no {file} is compiled here, only {}", names.join(" and "));
        };
        ensure!(line as usize <= most, "--accept-race {text}: {file} has {most} lines");
    }
    Ok(())
}

/// The lines that are accepted in a subject.
pub fn lines_of(subject: &Subject, given: &[String]) -> Result<Vec<AcceptedLine>> {
    let Subject::InC(program) = subject else { return Ok(Vec::new()) };
    let mut accepted = Vec::new();
    for text in given {
        let (file, line) = parse(text)?;
        if program.count_lines(file).is_ok() {
            let lines = program.lines_at(file, line);
            accepted.push(AcceptedLine { text: text.clone(), lines });
        }
    }
    Ok(accepted)
}

/// An accepted race as data.
pub fn race(race: &AcceptedRace) -> answers::AcceptedRace {
    let AcceptedRace { access, other } = race;
    answers::AcceptedRace {
        at: access.site.to_string(),
        access: access.to_string(),
        beside: other.map(|other| other.site.to_string()),
        other: other.map(|other| other.to_string()),
    }
}
