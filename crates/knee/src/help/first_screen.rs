//! What `knee` alone prints: whom it is for, three questions with their commands, and where to begin. It fits a terminal of
//! 80 columns and 24 lines.

use text::prose::wrapped;

const FOR: &str = "knee finds where Linux code stops scaling with CPUs, says what stops it, and says whether a change \
    moved it. It is for those who write kernel patches, hunt regressions, build storage or databases, or design locks.";

/// Questions, and the commands that answer them.
const QUESTIONS: [(&str, &[&str]); 3] = [
    (
        "Where does it stop scaling, and why?",
        &["knee run posix_lock_shared --cpus 1..all", "knee explain posix_lock_shared --grow"],
    ),
    (
        "Does this change make it slower?",
        &["knee gate --base origin/main --build make --command ./bench"],
    ),
    ("What holds this server back right now?", &["knee top --name postgres"]),
];

const BEGIN: [(&str, &str); 4] = [
    ("knee doctor", "is this host fit to measure?"),
    ("knee run first-look", "how it scales, in two minutes"),
    ("knee help --tour", "six commands, run and explained"),
    ("knee --help", "all verbs; guides: knee help guides"),
];

/// The screen, for lines of `width` columns.
pub fn text(width: usize) -> String {
    let mut screen = wrapped(FOR, width, 0);
    for (question, commands) in QUESTIONS {
        screen += &format!("\n{question}\n");
        for command in commands {
            screen += &wrapped(&format!("    {command}"), width, 8);
        }
    }
    screen += "\nBegin with\n";
    for (command, about) in BEGIN {
        screen += &wrapped(&format!("    {command:21}{about}"), width, 25);
    }
    screen
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::command_line::Cli;

    #[test]
    fn the_screen_fits_24_lines_of_80_columns_and_its_commands_can_be_parsed() {
        for width in [40, 72, 80, 200] {
            let screen = text(width);
            assert!(screen.lines().all(|line| line.chars().count() <= width), "{screen}");
            assert!(width < 80 || screen.lines().count() <= 24, "{screen}");
        }
        let commands = QUESTIONS.iter().flat_map(|(_, commands)| *commands);
        for command in commands.chain(BEGIN.iter().map(|(command, _)| command)) {
            let words = shlex::split(command).expect("it is a line for a shell");
            let parsed = Cli::command().try_get_matches_from(words);
            let is_help = |error: &clap::Error| error.kind() == clap::error::ErrorKind::DisplayHelp;
            assert!(parsed.as_ref().err().is_none_or(is_help), "{command}: {parsed:?}");
        }
    }
}
