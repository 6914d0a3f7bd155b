//! Counting programs under QEMU's user mode: counts are those of the source, and the same each time.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use guests::counted::{CountedProgram, count};
use tempfile::TempDir;

/// A loop of ITERATIONS, in which each has the same instructions; then CALLS of sched_get_priority_max and REPEATED repetitions of an
/// instruction; ends with STATUS. With a path behind these, it executes that in a child, and in its own place.
const SOURCE: &str = r#"
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) static void iterate(long n) { while (n--) __asm__ volatile("" ::: "memory"); }
int main(int n, char **words)
{
	static char from[1 << 16], to[1 << 16];
	long calls = atol(words[2]), repeated = atol(words[3]);

	iterate(atol(words[1]));
	while (calls--)
		syscall(SYS_sched_get_priority_max, 0);
#ifdef __x86_64__
	char *source = from, *target = to;
	__asm__ volatile("rep movsb" : "+S"(source), "+D"(target), "+c"(repeated) :: "memory");
#endif
	if (n > 5) {
		if (!fork())
			execv(words[5], words + 5);
		wait(NULL);
		execv(words[5], words + 5);
	}
	return atoi(words[4]);
}
"#;

/// A folder with the program, or none where this host cannot count.
fn folder(test: &str) -> Option<TempDir> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("program.c"), SOURCE).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-o", "program", "program.c"]).current_dir(folder.path());
    let qemu = format!("qemu-{}", std::env::consts::ARCH);
    let is_installed = Command::new(&qemu).arg("--version").output().is_ok();
    let help = Command::new(&qemu).arg("-help").output().map(|output| output.stdout);
    let has_plugins = String::from_utf8_lossy(&help.unwrap_or_default()).contains("-plugin");
    let is_built = cc.output().is_ok_and(|output| output.status.success());
    let why = match (is_installed, has_plugins, is_built) {
        (false, ..) => format!("no {qemu} (qemu-user)"),
        (_, false, _) => format!("{qemu} has no plugins"),
        (.., false) => "no cc".to_string(),
        _ => return Some(folder),
    };
    skip(test, &why);
    None
}

fn skip(test: &str, why: &str) {
    println!("skipped: {test}: {why}");
    let Some(path) = std::env::var_os("KNEE_SKIPS") else { return };
    let mut file = File::options().create(true).append(true).open(path).unwrap();
    writeln!(file, "guests: {test}: {why}").unwrap();
}

fn counted(folder: &Path, line: &str) -> CountedProgram {
    let words: Vec<String> = line.split(' ').map(ToString::to_string).collect();
    let environment = [("PATH".to_string(), std::env::var("PATH").unwrap_or_default())];
    let counted = count(&words, folder, &environment, Duration::from_secs(300)).unwrap();
    assert_eq!(counted.lost, 0);
    counted
}

#[test]
fn iterations_and_system_calls_are_counted_exactly() {
    let Some(folder) = folder("iterations_and_system_calls_are_counted_exactly") else { return };
    let instructions = |line: &str| counted(folder.path(), line).instructions();
    let of_loop = instructions("./program 200000 0 0 0") - instructions("./program 100000 0 0 0");
    assert_eq!(of_loop % 100_000, 0, "{of_loop} instructions");
    assert!((100_000..=400_000).contains(&of_loop), "{of_loop} instructions");
    // Repetitions of an instruction count as one.
    assert_eq!(instructions("./program 100000 0 10 0"), instructions("./program 100000 0 50 0"));
    let call = libc::SYS_sched_get_priority_max as u64;
    let calls = |line: &str| counted(folder.path(), line).system_calls.get(&call).copied();
    assert_eq!(calls("./program 1 0 0 0"), None);
    assert_eq!(calls("./program 1 1234 0 0"), Some(1234));
}

#[test]
fn two_runs_are_equal_and_tell_how_they_ended() {
    let Some(folder) = folder("two_runs_are_equal_and_tell_how_they_ended") else { return };
    let [first, second] = [(); 2].map(|()| counted(folder.path(), "./program 1000 10 10 3"));
    assert_eq!((first.status.code(), second.status.code()), (Some(3), Some(3)));
    assert_eq!(first.objects, second.objects);
    assert_eq!(first.blocks, second.blocks);
    assert_eq!(first.system_calls, second.system_calls);
}

#[test]
fn children_and_the_programs_that_they_start_are_counted() {
    let Some(folder) = folder("children_and_the_programs_that_they_start_are_counted") else {
        return;
    };
    let alone = counted(folder.path(), "./program 100000 5 0 0");
    let both = counted(folder.path(), "./program 10 1 0 0 ./program 100000 5 0 7");
    let call = libc::SYS_sched_get_priority_max as u64;
    assert_eq!(both.system_calls[&call], 11);
    assert!(both.instructions() > 2 * alone.instructions());
    assert_eq!((both.status.code(), both.uncounted), (Some(7), 0));
    // A script, as the program and from it.
    let script = folder.path().join("script");
    fs::write(&script, "#!/bin/sh -e\n./program 100000 5 0 \"$1\"\n").unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for (line, expected) in [("./script 0", 5), ("./program 1 1 0 0 ./script 0", 11)] {
        let counted = counted(folder.path(), line);
        assert_eq!(counted.system_calls[&call], expected, "{line}");
        assert!(counted.status.success(), "{}", String::from_utf8_lossy(&counted.output));
    }
}

#[test]
fn programs_that_are_not_counted_are_told() {
    let Some(folder) = folder("programs_that_are_not_counted_are_told") else { return };
    fs::copy(folder.path().join("program"), folder.path().join("other")).unwrap();
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o4755);
    fs::set_permissions(folder.path().join("other"), permissions).unwrap();
    let counted = counted(folder.path(), "./program 1 1 0 0 ./other 1 1 0 0");
    assert_eq!((counted.uncounted, &counted.uncounted_paths[0][..]), (2, "./other"));
    let missing =
        [("./missing", "there is no program ./missing"), ("program.c", "there is no program")];
    for (word, expected) in missing {
        let words = [word.to_string()];
        let why = count(&words, folder.path(), &[], Duration::from_secs(300)).unwrap_err();
        assert!(why.to_string().contains(expected), "{why:#}");
    }
}

#[test]
fn a_program_that_does_not_end_is_killed() {
    let Some(folder) = folder("a_program_that_does_not_end_is_killed") else { return };
    let words = ["./program", "1000000000000", "0", "0", "0"].map(ToString::to_string);
    let why = count(&words, folder.path(), &[], Duration::from_millis(1)).unwrap_err();
    assert!(format!("{why:#}").contains("did not end within"), "{why:#}");
}
