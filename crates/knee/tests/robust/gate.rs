//! Nothing that a stranger wrote runs before the question, in whatever verb and whatever file. Each line below is
//! refused as it is; with --yes it does run what the stranger planted, or the test would prove nothing.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::home::{Ended, Home, entries};
use crate::process::wait_for;
use crate::pty::Pty;
use crate::skip::{is_root, skip};

/// A user that nobody is.
const STRANGER: &str = "64321:64321";

/// A home, and a folder S of a stranger's in which everything leaves a mark that runs.
struct Setting {
    home: Home,
    strange: TempDir,
}

/// What a stranger's experiments decide, as TOML; S is the stranger's folder.
const EXPERIMENTS: &[(&str, &str)] = &[
    ("flags", "[[load]]\nsource = { file = 'S/plain.c', flags = ['-wrapper', 'S/evil.sh'] }"),
    ("source", "[[load]]\nsource = { file = 'S/load.c' }"),
    ("command", "[[load]]\ncommand = { run = 'S/evil.sh' }"),
    ("shell", "[[load]]\ncommand = { run = ': | S/evil.sh', shell = true }"),
    ("prepare", "[[load]]\ncommand = { run = 'true', prepare = ['S/evil.sh'] }"),
    ("cleanup", "[[load]]\ncommand = { run = 'true', cleanup = ['S/evil.sh'] }"),
    ("version", "[[load]]\ncommand = { run = 'true', version = 'S/evil.sh' }"),
    ("under", "[[load]]\nworkload = 'getppid'\n[[variant]]\nname = 'a'\nunder = ['S/evil.sh']"),
    ("binary", "[[load]]\nworkload = 'getppid'\n[[variant]]\nname = 'a'\nbinary = 'S/evil.sh'"),
];

/// Asked about, each for every experiment; EXP is its file.
const OF_EXPERIMENTS: &[&str] = &["run EXP", "run EXP --json", "explain EXP"];

/// Asked about: S is the stranger's folder, the other files are the user's own.
const ASKED: &[&str] = &[
    "bisect screen S/command.toml --option env.A=1,2",
    "bisect screen S/load.c --option env.A=1,2 --cpus 1 --blocks 1 --seconds 0.01",
    "run S/load.c --cpus 1 --blocks 1 --seconds 0.01",
    "run plain.c --cflags S/other.c --cpus 1 --blocks 1 --seconds 0.01",
    "run includes.c --cpus 1 --blocks 1 --seconds 0.01",
    "explain S/load.c S/plain.c --cpus 1 --blocks 1 --seconds 0.01",
    "run own.toml",
    "run --against S/one --variant x=env.A=1 --blocks 3",
    "run --against last --records S/records --variant x=env.A=1 --blocks 3",
    "run S/one --against own-record --variant x=env.A=1 --blocks 3",
    "compare fragile S/two --cpus 1 --blocks 3 --seconds 0.01",
    "compare fragile last --records S/records-of-two --cpus 1 --blocks 3 --seconds 0.01",
    "fleet chunk S/fleet",
    "bisect --resume --records S/records",
    "check S/lock.c --threads 2",
    "check lock.c S/lock2.c --threads 2",
    "check includes_lock.c --threads 2",
    "simulate folder_lock.c --cflags -IS/. --cpus 1,2 --length 100us",
    "simulate S/lock.c --cpus 1,2 --length 100us",
    "simulate replay S/publication.toml --draws 0",
    "simulate replay publication.toml --draws 0",
    "report --replay S/publication.toml",
    "report --simulate S/lock.c --cpus 1,2 --length 100us",
];

/// Answered without a question: nothing is compiled or started.
const LOOKED_AT: &[&str] = &[
    "show S/load.c",
    "list loads S/.",
    "run S/load.c --plan",
    "run own.toml --plan",
    "run plain.c --plan",
    "run includes.c --plan",
    "explain plain.c --plan",
    "bisect screen S/command.toml --option env.A=1,2 --plan",
    "run --against S/one --variant x=env.A=1 --blocks 3 --plan",
    "fleet chunk S/fleet --check",
    "fleet status S/fleet",
    "show S/one",
    "compare S/two",
    "report S/two",
    "report last --records S/records",
    "bisect log --records S/records",
];

/// A load in C whose constructor leaves a mark.
const LOAD: &str = "#include <fcntl.h>\n#include <unistd.h>\n\
    char *testcase_description = \"t\";\n\
    __attribute__((constructor)) static void begin(void) { close(open(\"MARK\", O_CREAT | O_WRONLY, 0666)); }\n\
    void testcase(unsigned long long *iterations, unsigned long nr) { while (1) ++*iterations; }\n";

const LOCK: &str = "#include <knee_lock.h>\ntypedef int own;\n\
    KNEE_LOCK(own, while (__atomic_exchange_n(lock, 1, 2));, __atomic_store_n(lock, 0, 3))\n";

const PUBLICATION: &str = "title = \"t\"\nlimitations = [\"l\"]\n[sources]\ns = \"s\"\n[load]\nhost = \"icelake-4\"\n\
    lock = \"ticket\"\ndata = 1\nlength_ms = 1\n[[target]]\nwhat = \"w\"\nreported = 0.5\nof = { cpus = 2 }\n\
    over = { lock = \"LOCK\", cpus = 2 }\n";

impl Setting {
    /// Everything is made by knee itself, as its user, and then given away.
    fn new() -> Setting {
        let setting = Setting { home: Home::new(), strange: tempfile::tempdir().unwrap() };
        for folder in ["", "steps/a", "steps/b"] {
            fs::create_dir_all(setting.strange.path().join(folder)).unwrap();
        }
        setting.program("evil.sh", "#!/bin/sh\n: > MARK\n[ $# = 0 ] || exec \"$@\"\n");
        setting.write("S/load.c", LOAD);
        for file in ["S/plain.c", "plain.c"] {
            setting
                .write(file, &LOAD.replace("close(open(\"MARK\", O_CREAT | O_WRONLY, 0666));", ""));
        }
        setting.write("S/other.c", "int other;\n");
        setting.write("includes.c", "#include \"near.h\"\n");
        setting.write("near.h", "#include \"S/load.c\"\n");
        setting.write("includes_lock.c", "#include \"S/lock.c\"\n");
        setting.write("folder_lock.c", "#include <lock.c>\n");
        for file in ["S/lock.c", "S/lock2.c", "lock.c"] {
            setting.write(file, LOCK);
        }
        setting.write("S/publication.toml", &PUBLICATION.replace("LOCK", "lock.c"));
        setting.write("publication.toml", &PUBLICATION.replace("LOCK", "S/lock.c"));
        for (name, decided) in EXPERIMENTS {
            let text = format!("blocks = 1\naxes = {{ cpus = 1, seconds = 0.01 }}\n{decided}\n");
            let text = if *name == "version" || decided.contains("command") {
                text.replace(", seconds = 0.01", "")
            } else {
                text
            };
            setting.write(&format!("S/{name}.toml"), &text);
        }
        setting.write(
            "own.toml",
            "blocks = 1\naxes = { cpus = 1, seconds = 0.01 }\n[[load]]\nsource = { file = 'S/load.c' }\n",
        );
        setting.records();
        setting.fleet();
        setting.bisection();
        setting.give_away();
        setting.forget_marks();
        setting
    }

    /// A line or a text with the stranger's folder in place of S.
    fn placed(&self, text: &str) -> String {
        let strange = self.strange.path().display().to_string();
        let mark = self.home.path("mark").display().to_string();
        text.replace("S/", &format!("{strange}/")).replace("MARK", &mark)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.home.path(&self.placed(name));
        fs::write(path, self.placed(text)).unwrap();
    }

    fn program(&self, name: &str, text: &str) {
        self.write(&format!("S/{name}"), text);
        let path = self.strange.path().join(name);
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }

    /// Records of one variant and of two, which run the stranger's program; and one of the user's own.
    fn records(&self) {
        let made = "--blocks 3 --cpus 1 --records";
        self.done(&format!("run --command S/evil.sh {made} S/records"));
        let under = "--variant a=under=S/evil.sh --variant b=env.B=2 --seconds 0.01";
        self.done(&format!("run getppid {under} {made} S/records-of-two"));
        self.done("run --command S/evil.sh --blocks 3 --cpus 1 --label own-record");
        for (store, name) in [("records", "one"), ("records-of-two", "two")] {
            let store = self.strange.path().join(store);
            let record = entries(&entries(&store)[0]).remove(0);
            let copied = Command::new("cp")
                .arg("-r")
                .arg(record)
                .arg(self.strange.path().join(name))
                .status();
            assert!(copied.unwrap().success());
        }
    }

    fn fleet(&self) {
        let line = "fleet plan --command S/evil.sh --cpus 1 --blocks 1 S/fleet";
        self.done(line);
    }

    /// A bisection that was killed once it had begun.
    fn bisection(&self) {
        let line = "bisect --steps S/steps --build true --command true --max-runs 8 --ends-runs 8 --no-confirm";
        self.run(&format!("{line} --records S/records"));
        let folder = entries(&self.strange.path().join("records/bisections")).remove(0);
        let log = fs::read_to_string(folder.join("log.ndjson")).unwrap();
        let begun = log.lines().next().unwrap();
        let evil = self.placed("\"build\":\"S/evil.sh\"");
        assert!(begun.contains("\"build\":\"true\""), "{begun}");
        fs::write(folder.join("log.ndjson"), begun.replace("\"build\":\"true\"", &evil) + "\n")
            .unwrap();
    }

    /// Makes the folder that of another user, or, as only root can do that, one where all may write.
    fn give_away(&self) {
        let (program, to) = if is_root() { ("chown", STRANGER) } else { ("chmod", "a+rwX") };
        let given = Command::new(program).args(["-R", to]).arg(self.strange.path()).status();
        assert!(given.unwrap().success());
    }

    fn run(&self, line: &str) -> Ended {
        self.home.start(&mut self.command(line)).end()
    }

    /// knee whose compiler leaves a mark, too, and which has compiled nothing yet.
    fn command(&self, line: &str) -> Command {
        let cc = self.home.path("cc");
        if !cc.exists() {
            let compiled = self.home.path("compiled");
            let text = format!("#!/bin/sh\n: > {}\nexec cc \"$@\"\n", compiled.display());
            fs::write(&cc, text).unwrap();
            fs::set_permissions(&cc, Permissions::from_mode(0o755)).unwrap();
        }
        let mut command = self.home.knee(&self.placed(line));
        command.env("CC", cc);
        command
    }

    fn done(&self, line: &str) {
        let ended = self.run(line);
        assert_eq!(ended.status.code(), Some(0), "{line}: {}", ended.stderr);
    }

    /// What left a mark since it was last forgotten.
    fn marks(&self) -> Vec<PathBuf> {
        let marks = ["mark", "compiled"].map(|name| self.home.path(name));
        marks.into_iter().filter(|path| path.exists()).collect()
    }

    fn forget_marks(&self) {
        self.marks().iter().for_each(|path| fs::remove_file(path).unwrap());
        let _ = fs::remove_dir_all(self.home.path("cache/knee"));
    }

    /// What is wrong if a line is not refused without --yes, with a sentence that says why, or runs nothing with it.
    fn wrong_of_asked(&self, line: &str) -> Option<String> {
        let ended = self.run(line);
        let marks = self.marks();
        self.forget_marks();
        let parts = ["no terminal to ask on", "--yes", "can be written by"];
        let says_why = parts.iter().all(|part| ended.stderr.contains(part));
        if !marks.is_empty() || ended.status.code() != Some(2) || !says_why {
            return Some(format!("{line}: {marks:?}, {}: {}", ended.status, ended.stderr));
        }
        // The option stands behind the verb, which has one word or two.
        let two = ["bisect screen ", "compare fragile ", "fleet chunk ", "simulate replay "];
        let verb = two.into_iter().find(|verb| line.starts_with(verb));
        let verb = verb.unwrap_or(line.split_inclusive(' ').next().unwrap());
        let rest = &line[verb.len()..];
        let mut running = self.home.start(&mut self.command(&format!("{verb}--yes {rest}")));
        let mut seen = || !self.marks().is_empty() || running.has_ended();
        wait_for("a mark", || seen().then_some(()));
        // Once it has left its mark, nothing more is to be learnt.
        running.signal(libc::SIGINT);
        let ended = running.end();
        let runs = !self.marks().is_empty();
        self.forget_marks();
        (!runs).then(|| format!("{line} --yes ran nothing: {}", ended.stderr))
    }

    /// What is wrong if a line is not answered, or starts something.
    fn wrong_of_looked_at(&self, line: &str) -> Option<String> {
        let ended = self.run(line);
        let marks = self.marks();
        self.forget_marks();
        let is_wrong = !marks.is_empty() || ended.status.code() != Some(0);
        is_wrong.then(|| format!("{line}: {marks:?}, {}: {}", ended.status, ended.stderr))
    }
}

fn has_compiler(test: &str) -> bool {
    let has = Command::new("cc").arg("--version").output().is_ok();
    if !has {
        skip(test, "no C compiler (cc)");
    }
    has
}

#[test]
fn no_verb_runs_what_a_stranger_wrote_before_the_question() {
    if !has_compiler("strangers' files") {
        return;
    }
    let setting = Setting::new();
    let of_experiments = of_each_experiment(OF_EXPERIMENTS).into_iter();
    let lines = of_experiments.chain(ASKED.iter().map(ToString::to_string));
    let wrong: Vec<String> = lines.filter_map(|line| setting.wrong_of_asked(&line)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// The lines with the file of each experiment.
fn of_each_experiment(lines: &[&str]) -> Vec<String> {
    let of = |name: &str| {
        let file = format!("S/{name}.toml");
        lines.iter().map(move |line| line.replace("EXP", &file))
    };
    EXPERIMENTS.iter().flat_map(|(name, _)| of(name).collect::<Vec<_>>()).collect()
}

#[test]
fn what_was_collected_from_a_strangers_fleet_is_still_asked_about() {
    if !has_compiler("a stranger's fleet") {
        return;
    }
    let setting = Setting::new();
    setting.done("fleet chunk --yes S/fleet");
    setting.forget_marks();
    setting.done("fleet collect S/fleet");
    let ended = setting.run("run --against last --variant x=env.A=1 --blocks 3");
    assert!(ended.stderr.contains("was collected where others may write"), "{}", ended.stderr);
    assert_eq!((setting.marks(), ended.status.code()), (Vec::new(), Some(2)));
}

#[test]
fn looking_at_what_a_stranger_wrote_starts_nothing() {
    if !has_compiler("looking at strangers' files") {
        return;
    }
    let setting = Setting::new();
    let of_experiments = of_each_experiment(&["show EXP", "run EXP --plan", "explain EXP --plan"]);
    let lines = of_experiments.into_iter().chain(LOOKED_AT.iter().map(ToString::to_string));
    let wrong: Vec<String> = lines.filter_map(|line| setting.wrong_of_looked_at(&line)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    // The plan of a fleet would be the user's own file, which nobody is asked about.
    let planned = setting.run("fleet plan S/command.toml fleet");
    assert_eq!(planned.status.code(), Some(2), "{}", planned.stderr);
    setting.done("fleet plan --yes S/command.toml fleet");
    assert_eq!(setting.marks(), [] as [PathBuf; 0]);
    setting.done("fleet chunk fleet");
    assert!(!setting.marks().is_empty());
}

/// What knee says on a terminal on which a person answers no.
fn said_to_who_answers_no(setting: &Setting, line: &str) -> String {
    said_to(setting, line, "n\nn\nn\n")
}

/// What knee says on a terminal on which a person gives these answers, before it fails.
fn said_to(setting: &Setting, line: &str, answers: &str) -> String {
    let Pty { mut person, terminal: knee } = Pty::open((80, 24));
    person.write_all(answers.as_bytes()).unwrap();
    let mut command = setting.command(line);
    command.stdin(knee.try_clone().unwrap()).stderr(knee);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut said = Vec::new();
    // Ends with an error once knee has closed its end.
    let _ = person.read_to_end(&mut said);
    assert_eq!(child.wait().unwrap().code(), Some(2), "{line}");
    String::from_utf8_lossy(&said).into_owned()
}

#[test]
fn a_person_is_asked_once_about_all_files() {
    if !has_compiler("the question on a terminal") {
        return;
    }
    let setting = Setting::new();
    for line in [
        "run S/command.toml",
        "explain S/load.c S/plain.c --cpus 1 --blocks 1 --seconds 0.01",
        "check S/lock.c S/lock2.c",
        "compare fragile S/two --cpus 1 --blocks 3 --seconds 0.01",
    ] {
        let said = said_to_who_answers_no(&setting, line);
        assert_eq!(said.matches("[y/N]").count(), 1, "{line}: {said}");
        assert_eq!(setting.marks(), [] as [PathBuf; 0], "{line}");
    }
    if is_root() {
        // Nothing boots: that is no kernel.
        let line = "run S/binary.toml --on metal --boot-script --kernel S/evil.sh";
        for answer in ["y\ny\n", "n\n"] {
            let said = said_to(&setting, line, answer);
            assert_eq!(said.matches("[y/N]").count(), 1, "{said}");
            assert_eq!(setting.marks(), [] as [PathBuf; 0], "{said}");
        }
    }
    let listed = said_to_who_answers_no(&setting, "explain S/load.c S/plain.c --cpus 1");
    for file in ["load.c", "plain.c"] {
        let why = format!("{file} can be written by");
        assert!(listed.contains(&why) && listed.contains("compile"), "no '{why}' in: {listed}");
    }
}

#[test]
fn records_in_the_users_own_store_are_measured_again_without_a_question() {
    let home = Home::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let store = elsewhere.path().display().to_string();
    let made = format!("run --command true --cpus 1 --blocks 3 --records {store}");
    assert!(home.run(&made).status.success());
    let record = entries(&entries(Path::new(&store))[0]).remove(0);
    let again = format!("run --against last --variant x=env.A=1 --blocks 3 --records {store}");
    let ended = home.run(&again);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    // The same folder is not the user's own under another store.
    let strange = format!("run --against {} --variant x=env.A=1 --blocks 3", record.display());
    let ended = home.run(&strange);
    assert!(ended.stderr.contains("does not lie below a folder of yours"), "{}", ended.stderr);
}
