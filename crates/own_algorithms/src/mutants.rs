//! Prints what became of the mutants of an algorithm.

use anyhow::{Result, ensure};
use studies::checks::mutants::{Fate, JudgedMutant};

/// Prints the fate of each mutant of `NAME.rs`; `turn` is what its tasks repeat. Returns whether none survived.
pub(crate) fn print(name: &str, turn: &str, judged: &[JudgedMutant]) -> Result<bool> {
    ensure!(
        !judged.is_empty(),
        "no access of {name}.rs can be mutated: is the algorithm in a file of this name?"
    );
    for one in judged {
        println!("{}", line(name, turn, one));
    }
    let survived = judged.iter().filter(|one| matches!(one.fate, Fate::Survived)).count();
    let equivalent = judged.iter().filter(|one| matches!(one.fate, Fate::Equivalent(_))).count();
    let caught = judged.len() - survived - equivalent;
    println!(
        "{} mutants: {caught} caught, {equivalent} equivalent, {survived} survived",
        judged.len()
    );
    if survived > 0 {
        println!(
            "a mutant that survives is an access that does more than it must, or a fault of the search; one that"
        );
        println!("breaks nothing is listed in EQUIVALENT, with the reason");
    }
    Ok(survived == 0)
}

fn line(name: &str, turn: &str, one: &JudgedMutant) -> String {
    let fate = match &one.fate {
        Fate::Caught(caught) => {
            let (word, size) = (caught.fault.word(), caught.size);
            let (tasks, turns) =
                (host::counted(size.threads, "task"), host::counted(size.acquires as usize, turn));
            format!("caught ({word}, {tasks} × {turns})")
        }
        Fate::Equivalent(why) => format!("equivalent: {why}"),
        Fate::Survived => "SURVIVED".to_string(),
    };
    let (at, change) = (one.mutant.site.line, one.mutant.change);
    format!("{name}.rs:{at}: {change}: {fate}\n    {}", one.line)
}
