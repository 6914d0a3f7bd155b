use c_locks::{compile, judge, with_tasks};
use engines::checker::{Memory, Options, search};
use std::path::Path;
use studies::checks::CheckSize;
use studies::checks::mutants::Fate;
#[test]
fn tmp() {
    let Ok(file) = std::env::var("C_LOCK") else { return };
    let flags: Vec<String> =
        std::env::var("C_FLAGS").unwrap_or_default().split_whitespace().map(String::from).collect();
    let program = compile(Path::new(&file), &flags).unwrap_or_else(|e| panic!("{e:#}"));
    let program = Box::leak(Box::new(program));
    for (threads, acquires, locks) in [(1, 1, 1), (2, 1, 1), (2, 2, 1), (3, 1, 1), (2, 2, 2)] {
        for memory in [Memory::SequentiallyConsistent, Memory::TotalStoreOrder] {
            let size = CheckSize { threads, acquires, locks };
            let options = Options { memory, states_max: 3_000_000, ..Options::default() };
            let t = std::time::Instant::now();
            let found =
                with_tasks(program, size, |setup| search(setup, &options)).unwrap().unwrap();
            println!(
                "{size:?} {memory:?}: {} states, {} s, gave up {}",
                found.states,
                t.elapsed().as_secs_f64(),
                found.gave_up
            );
            if let Some(f) = found.failure {
                println!("{}\n{}", f.fault, f.steps.join("\n"));
                return;
            }
        }
    }
    if std::env::var("JUDGE").is_ok() {
        let t = std::time::Instant::now();
        match judge(program) {
            Err(e) => println!("{e:#}"),
            Ok(judged) => {
                for one in judged {
                    let fate = match &one.fate {
                        Fate::Caught(c) => format!(
                            "caught {} {}x{}",
                            c.fault.word(),
                            c.size.threads,
                            c.size.acquires
                        ),
                        Fate::Equivalent(_) => "eq".into(),
                        Fate::Survived => "SURVIVED".into(),
                    };
                    println!(
                        "{}:{} {}: {fate}   {}",
                        one.mutant.site.line, one.mutant.site.column, one.mutant.change, one.line
                    );
                }
            }
        }
        println!("{} s", t.elapsed().as_secs_f64());
    }
}
