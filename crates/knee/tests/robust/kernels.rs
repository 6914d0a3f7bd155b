//! `knee kernel` with a repository that has a Makefile of the same targets as Linux and some
//! small sources, so that a build takes milliseconds. The compiler and its like are other
//! programs, since nothing is compiled.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::home::{Ended, Home, entries};
use crate::process::wait_for;

/// What a kernel's Makefile does, as far as knee asks for it. `lacks` names options that this
/// kernel does not have.
const MAKEFILE: &str = r#"
objects := $(patsubst %.c,$(O)/%.o,$(wildcard *.c))
allnoconfig:
	@cp $(KCONFIG_ALLCONFIG) $(O)/.config
olddefconfig:
	@for option in $$(cat lacks); do sed -i "/$$option[= ]/d" $(O)/.config; done
bzImage: $(O)/arch/x86/boot/bzImage
$(O)/arch/x86/boot/bzImage: $(objects)
	@mkdir -p $(@D)
	@cat $^ > $@
	@cp $@ $(O)/System.map
$(O)/%.o: %.c
	@echo "  CC      $*.o"
	@if grep -q 'not C' $<; then echo "$<:1:1: error: not C"; exit 1; fi
	@if grep -q 'slow' $<; then while ! test -e "$$HOME/go-on"; do sleep 0.1; done; fi
	@cp $< $@
	@echo "source_$*.o := $(CURDIR)/$<" > $(O)/.$*.o.cmd
kernelrelease:
	@echo 6.1.0$(LOCALVERSION)
"#;

/// Programs that are asked for their version at most.
const PROGRAMS: &[&str] = &["bc", "bison", "flex", "gcc", "ld", "pahole", "perl"];

/// A home with a repository in it.
struct Toy {
    home: Home,
}

impl Toy {
    /// With one commit, tagged v6.1.
    fn new() -> Toy {
        let toy = Toy { home: Home::new() };
        for folder in ["repository", "bin"] {
            fs::create_dir(toy.home.path(folder)).unwrap();
        }
        for program in PROGRAMS {
            symlink("/bin/echo", toy.home.path("bin").join(program)).unwrap();
        }
        toy.git(&["init", "-q", "-b", "main"]);
        let first = [("Makefile", MAKEFILE), ("Kconfig", ""), ("lacks", ""), ("a.c", "a\n")];
        toy.commit(&first);
        toy.commit(&[("b.c", "b\n")]);
        toy.git(&["tag", "v6.1"]);
        toy
    }

    fn git(&self, words: &[&str]) -> String {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@example.com"]).args(words);
        git.current_dir(self.repository()).env("HOME", self.home.path("bin"));
        let output = git.output().expect("starting git");
        assert!(output.status.success(), "git {words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_string()
    }

    fn commit(&self, files: &[(&str, &str)]) {
        for (name, text) in files {
            fs::write(self.repository().join(name), text).unwrap();
        }
        self.git(&["add", "."]);
        self.git(&["commit", "-q", "-m", files[0].0]);
    }

    fn repository(&self) -> PathBuf {
        self.home.path("repository")
    }

    fn kernels(&self) -> PathBuf {
        self.home.path("cache/knee/kernels")
    }

    fn knee(&self, arguments: &str) -> Command {
        let mut knee = self.home.knee(arguments);
        let path = std::env::var("PATH").unwrap();
        knee.env("PATH", format!("{}:{path}", self.home.path("bin").display()));
        knee
    }

    fn run(&self, arguments: &str) -> Ended {
        self.home.start(&mut self.knee(arguments)).end()
    }

    /// Builds revisions, of which some may fail, and says how each ended.
    #[track_caller]
    fn build(&self, revisions: &str, status: i32) -> Vec<Value> {
        let ended = self.run(&format!("kernel build --git repository --json {revisions}"));
        assert_eq!(ended.status.code(), Some(status), "{}", ended.stderr);
        self.check_nothing_is_left();
        serde_json::from_str(&ended.stdout).expect("JSON")
    }

    /// Scratch, journals and processes are gone.
    #[track_caller]
    fn check_nothing_is_left(&self) {
        self.home.check_nothing_is_left();
        let hidden: Vec<PathBuf> = self.hidden();
        assert!(hidden.is_empty(), "left behind: {hidden:?}");
    }

    fn hidden(&self) -> Vec<PathBuf> {
        let mut all = entries(&self.kernels());
        all.retain(|path| path.file_name().unwrap().as_bytes().starts_with(b"."));
        all
    }

    /// Runs a build that succeeds and prints JSON.
    #[track_caller]
    fn run_build(&self, arguments: &str) -> Vec<Value> {
        let ended = self.run(arguments);
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        self.check_nothing_is_left();
        serde_json::from_str(&ended.stdout).expect("JSON")
    }

    /// The folders in which kernels were built.
    fn trees(&self) -> Vec<PathBuf> {
        let mut trees = entries(&self.kernels().join("trees"));
        trees.retain(|path| path.is_dir());
        trees
    }

    /// The only such folder.
    #[track_caller]
    fn tree(&self) -> PathBuf {
        let trees = self.trees();
        assert_eq!(trees.len(), 1, "{trees:?}");
        trees[0].clone()
    }

    /// Lets a slow step end.
    fn end_slow_step(&self) {
        fs::write(self.home.path("go-on"), "").unwrap();
    }

    /// Waits until make is at a step that takes long.
    fn wait_for_slow_step(&self) {
        let logs = || entries(&self.kernels().join("logs"));
        let at_it = |log: &PathBuf| {
            fs::read_to_string(log).is_ok_and(|text| text.contains("CC      slow.o"))
        };
        wait_for("a compiler at work", || logs().iter().any(at_it).then_some(()));
    }
}

/// What was compiled, by the log of a build.
fn compiled(built: &Value) -> Vec<String> {
    let log = Path::new(built["folder"].as_str().unwrap()).join("build.log");
    let text = fs::read_to_string(log).unwrap();
    let mut names: Vec<String> =
        text.lines().filter_map(|line| Some(line.strip_prefix("  CC      ")?.into())).collect();
    names.sort();
    names
}

fn image(built: &Value) -> String {
    fs::read_to_string(built["image_path"].as_str().unwrap()).unwrap()
}

#[test]
fn a_kernel_is_built_once_and_found_again_by_what_is_in_it() {
    let toy = Toy::new();
    let first = &toy.build("v6.1", 0)[0];
    assert_eq!((image(first), first["cached"].as_bool()), ("a\nb\n".into(), Some(false)));
    let commit = toy.git(&["rev-parse", "v6.1"]);
    assert_eq!(first["release"], format!("6.1.0-g{}", &commit[..12]));
    assert_eq!((&first["commit"], &first["describe"]), (&commit.into(), &"v6.1".into()));
    let again = &toy.build("HEAD", 0)[0];
    assert_eq!((&again["cached"], &again["key"]), (&true.into(), &first["key"]));
    // The same files by another commit.
    toy.git(&["commit", "-q", "--allow-empty", "-m", "nothing"]);
    let other = &toy.build("HEAD", 0)[0];
    assert_eq!((&other["cached"], &other["key"]), (&true.into(), &first["key"]));
    assert_ne!(other["asked_commit"], first["commit"]);
    // Another configuration.
    fs::write(toy.home.path("mine"), "CONFIG_MINE=y\n").unwrap();
    let mine = &toy.build("HEAD --config mine", 0)[0];
    assert_eq!(mine["cached"], false);
    let config = Path::new(mine["folder"].as_str().unwrap()).join("config");
    assert!(fs::read_to_string(config).unwrap().contains("CONFIG_MINE=y\n"));
}

#[test]
fn an_image_that_is_not_what_was_built_is_built_again() {
    let toy = Toy::new();
    let first = &toy.build("v6.1", 0)[0];
    fs::write(first["image_path"].as_str().unwrap(), "other").unwrap();
    let again = &toy.build("v6.1", 0)[0];
    assert_eq!((&again["cached"], image(again)), (&false.into(), "a\nb\n".into()));
}

#[test]
fn from_one_revision_to_the_next_only_what_differs_is_compiled() {
    let toy = Toy::new();
    toy.commit(&[("a.c", "changed\n")]);
    let built = toy.build("v6.1 HEAD", 0);
    assert_eq!(compiled(&built[0]), ["a.o", "b.o"]);
    assert_eq!(compiled(&built[1]), ["a.o"]);
    assert_eq!(image(&built[1]), "changed\nb\n");
}

#[test]
fn a_revision_that_fails_says_why_and_does_not_stop_the_others() {
    let toy = Toy::new();
    toy.commit(&[("b.c", "not C\n")]);
    toy.commit(&[("b.c", "c\n")]);
    let outcomes = toy.build("v6.1 HEAD~1 v6.l HEAD", 1);
    let said = outcomes[1]["error"].as_str().unwrap();
    assert!(said.contains("HEAD~1 does not build: make bzImage ended with status 2"), "{said}");
    assert!(said.contains("b.c:1:1: error: not C"), "{said}");
    let log = said.rsplit_once("the log: ").unwrap().1;
    let log = fs::read_to_string(log).unwrap();
    // Objects of v6.1 were there, and cannot be the cause of an error in a file that was changed.
    assert!(!log.contains("$ building again"), "{log}");
    let said = outcomes[2]["error"].as_str().unwrap();
    assert!(
        said.contains("no revision 'v6.l'") && said.contains("did you mean \"v6.1\""),
        "{said}"
    );
    assert_eq!(image(&outcomes[3]), "a\nc\n");
}

#[test]
fn what_other_revisions_left_does_not_make_one_fail() {
    let toy = Toy::new();
    // As a header does that was made, and is no more.
    let picky = MAKEFILE.replace("\nbzImage: ", "\nbzImage: without-b ")
        + "without-b:\n\t@! test -e $(O)/b.o || { echo 'error: b.o'; exit 1; }\n";
    fs::remove_file(toy.repository().join("b.c")).unwrap();
    toy.commit(&[("Makefile", &picky)]);
    let built = &toy.build("v6.1 HEAD", 0)[1];
    assert_eq!(image(built), "a\n");
    let log = Path::new(built["folder"].as_str().unwrap()).join("build.log");
    let log = fs::read_to_string(log).unwrap();
    assert!(log.contains("$ building again, without the objects of other revisions"), "{log}");
}

/// All files below a folder, with their times and content.
fn snapshot(folder: &Path) -> BTreeMap<PathBuf, (i64, i64, Vec<u8>)> {
    let mut all = BTreeMap::new();
    for path in entries(folder) {
        let found = fs::symlink_metadata(&path).unwrap();
        let content = if found.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        all.insert(path.clone(), (found.mtime(), found.mtime_nsec(), content));
        if found.is_dir() {
            all.extend(snapshot(&path));
        }
    }
    all
}

#[test]
fn the_repository_stays_as_it_is_and_only_what_is_committed_is_built() {
    let toy = Toy::new();
    let repository = toy.repository();
    fs::write(repository.join("a.c"), "changed\n").unwrap();
    fs::write(repository.join("b.c"), "staged\n").unwrap();
    toy.git(&["add", "b.c"]);
    fs::write(repository.join("c.c"), "not known\n").unwrap();
    // What a user may have set for his own work tree.
    for setting in [
        ["core.splitIndex", "true"],
        ["core.sparseCheckout", "true"],
        ["core.autocrlf", "true"],
        ["core.hooksPath", "hooks"],
    ] {
        toy.git(&["config", setting[0], setting[1]]);
    }
    fs::create_dir_all(repository.join(".git/info")).unwrap();
    fs::write(repository.join(".git/info/sparse-checkout"), "/Makefile\n").unwrap();
    let before = snapshot(&repository);
    let ended = toy.run("kernel build --git repository v6.1 HEAD~1");
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(snapshot(&repository), before);
    let said = "v6.1: this kernel lacks the uncommitted changes in repository";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    assert!(!ended.stderr.contains("HEAD~1: what"), "{}", ended.stderr);
    let again = toy.build("v6.1", 0);
    assert_eq!((&again[0]["cached"], image(&again[0])), (&true.into(), "a\nb\n".into()));
}

#[test]
fn a_bare_repository_and_a_folder_below_the_root_serve_as_well() {
    let toy = Toy::new();
    fs::create_dir(toy.repository().join("below")).unwrap();
    let ended = toy.run("kernel build --git repository/below");
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    toy.git(&["clone", "-q", "--bare", ".", "../bare"]);
    let ended = toy.run("kernel build --git bare HEAD~1");
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
}

#[test]
fn an_interrupted_build_leaves_its_log_and_nothing_else() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let toy = Toy::new();
        toy.commit(&[("slow.c", "slow\n")]);
        let running = toy.home.start(&mut toy.knee("kernel build --git repository v6.1 HEAD"));
        toy.wait_for_slow_step();
        running.signal(signal);
        let ended = running.end();
        assert_eq!(ended.status.code(), Some(130), "{}", ended.stderr);
        assert!(ended.stderr.contains(": 1 of 2 done"), "{}", ended.stderr);
        assert!(ended.stdout.contains("v6.1"), "{}", ended.stdout);
        toy.check_nothing_is_left();
        assert_eq!(entries(&toy.kernels().join("logs")).len(), 1);
    }
}

#[test]
fn a_killed_build_takes_make_along_and_the_next_start_removes_its_scratch() {
    let toy = Toy::new();
    toy.commit(&[("slow.c", "slow\n")]);
    fs::create_dir(toy.home.path("scratch")).unwrap();
    let build = "kernel build --git repository --scratch scratch";
    let running = toy.home.start(&mut toy.knee(build));
    toy.wait_for_slow_step();
    running.signal(libc::SIGKILL);
    running.end();
    toy.home.wait_for_quiet();
    assert_eq!(entries(&toy.home.path("scratch")).len(), 1);
    let ended = toy.run(&format!("{build} v6.1"));
    assert!(ended.stderr.contains("left by a knee that was killed"), "{}", ended.stderr);
    toy.check_nothing_is_left();
    assert!(entries(&toy.home.path("scratch")).is_empty());
    assert!(entries(&toy.kernels().join("trees")).is_empty(), "a scratch folder is not kept");
}

#[test]
fn a_build_goes_on_after_a_kill_without_what_was_written_just_before() {
    let toy = Toy::new();
    toy.commit(&[("slow.c", "slow\n")]);
    let running = toy.home.start(&mut toy.knee("kernel build --git repository"));
    toy.wait_for_slow_step();
    let tree = toy.tree();
    running.signal(libc::SIGKILL);
    running.end();
    toy.home.wait_for_quiet();
    fs::write(tree.join("objects/b.o"), "half").unwrap();
    fs::write(tree.join("index.lock"), "of a git that was killed").unwrap();
    fs::write(toy.repository().join("slow.c"), "quick\n").unwrap();
    toy.git(&["commit", "-qam", "quick"]);
    let built = &toy.build("HEAD", 0)[0];
    assert_eq!(compiled(built), ["a.o", "b.o", "slow.o"]);
    assert_eq!(image(built), "a\nb\nquick\n");
    assert!(!tree.join("unfinished").exists());
}

#[test]
fn a_later_knee_compiles_what_differs() {
    let toy = Toy::new();
    assert_eq!(compiled(&toy.build("v6.1", 0)[0]), ["a.o", "b.o"]);
    toy.commit(&[("a.c", "changed\n")]);
    let built = &toy.build("HEAD", 0)[0];
    assert_eq!((compiled(built), image(built)), (vec!["a.o".into()], "changed\nb\n".into()));
    // Each configuration has sources and objects of its own, of which three stay.
    let first = toy.tree();
    for n in 1..=3 {
        fs::write(toy.home.path("mine"), format!("CONFIG_MINE={n}\n")).unwrap();
        let ended = toy.run("kernel build --git repository --config mine");
        assert_eq!(ended.stderr.contains("3 configurations stay"), n == 3, "{}", ended.stderr);
    }
    assert!(!first.exists());
    let trees = toy.trees();
    assert_eq!(trees.len(), 3, "{trees:?}");
    let key = trees[0].file_name().unwrap().to_str().unwrap();
    let listed = toy.run("kernel list").stdout;
    assert!(listed.contains("Sources and objects") && listed.contains(key), "{listed}");
    assert_eq!(toy.run(&format!("kernel remove {key}")).stdout, format!("removed {key}\n"));
    assert_eq!(toy.trees().len(), 2);
}

#[test]
fn two_knees_that_want_one_kernel_build_it_once() {
    let toy = Toy::new();
    toy.commit(&[("slow.c", "slow\n")]);
    let said = |name: &str| fs::read_to_string(toy.home.path(name)).unwrap();
    let start = |number: usize| {
        let file =
            |what: &str| fs::File::create(toy.home.path(&format!("{what}{number}"))).unwrap();
        let mut knee = toy.knee("kernel build --git repository --json");
        knee.stdout(file("out")).stderr(file("err")).spawn().unwrap()
    };
    let first = start(0);
    toy.wait_for_slow_step();
    let second = start(1);
    let waits = "HEAD: waiting for another knee that builds with this configuration";
    wait_for("the second one to wait", || said("err1").contains(waits).then_some(()));
    toy.end_slow_step();
    for (number, mut knee) in [first, second].into_iter().enumerate() {
        assert!(knee.wait().unwrap().success(), "{}", said(&format!("err{number}")));
        let built: Vec<Value> = serde_json::from_str(&said(&format!("out{number}"))).unwrap();
        assert_eq!(built[0]["cached"], number == 1);
    }
    toy.check_nothing_is_left();
}

#[test]
fn files_are_built_as_they_lie_in_a_folder() {
    let toy = Toy::new();
    let head = &toy.build("HEAD", 0)[0];
    // A work tree without changes is its commit.
    let same = &toy.run_build("kernel build --json repository")[0];
    assert_eq!((&same["cached"], &same["key"]), (&true.into(), &head["key"]));
    fs::write(toy.repository().join("a.c"), "changed\n").unwrap();
    fs::write(toy.repository().join("c.c"), "new\n").unwrap();
    // git may note that it saw an object again, by the object's time.
    let state = || {
        let mut state = snapshot(&toy.repository());
        let objects = toy.repository().join(".git/objects");
        for (path, (seconds, nanoseconds, _)) in &mut state {
            if path.starts_with(&objects) {
                (*seconds, *nanoseconds) = (0, 0);
            }
        }
        state
    };
    let before = state();
    let changed = &toy.run_build("kernel build --json repository")[0];
    assert_eq!(compiled(changed), ["a.o", "c.o"]);
    assert_eq!(image(changed), "changed\nb\nnew\n");
    let subject = changed["subject"].as_str().unwrap();
    assert_eq!(subject, "files that are not committed, over: b.c");
    let again = &toy.run_build("kernel build --json repository")[0];
    assert_eq!((&again["cached"], &again["key"]), (&true.into(), &changed["key"]));
    // A revision has no part of that.
    assert_eq!(toy.build("HEAD", 0)[0]["key"], head["key"]);
    assert_eq!(state(), before);
}

#[test]
fn sources_without_a_repository_are_built_with_the_files_that_git_would_ignore() {
    let toy = Toy::new();
    fs::remove_dir_all(toy.repository().join(".git")).unwrap();
    fs::write(toy.repository().join(".gitignore"), "b.c\n").unwrap();
    fs::write(toy.repository().join("left.o"), "not C\n").unwrap();
    let built = &toy.run_build("kernel build --json repository")[0];
    assert_eq!(
        (compiled(built), image(built)),
        (vec!["a.o".into(), "b.o".into()], "a\nb\n".into())
    );
    fs::write(toy.repository().join("b.c"), "changed\n").unwrap();
    let built = &toy.run_build("kernel build --json repository")[0];
    assert_eq!(compiled(built), ["b.o"]);
}

#[test]
fn sources_that_others_can_write_are_built_only_if_the_user_agrees() {
    let toy = Toy::new();
    let makefile = toy.repository().join("Makefile");
    fs::set_permissions(&makefile, fs::Permissions::from_mode(0o666)).unwrap();
    let parts = ["can be written by every user", "Makefile is not run", "add --yes"];
    check(&toy, "kernel build repository", &parts, 1);
    check(&toy, "kernel config repository", &parts, 2);
    check(&toy, "run getppid --accelerator tcg --kernel repository", &parts, 2);
    assert!(
        entries(&toy.kernels()).iter().all(|path| path.ends_with("logs")),
        "something was built"
    );
    assert_eq!(image(&toy.run_build("kernel build --json --yes repository")[0]), "a\nb\n");
}

#[test]
fn the_configuration_is_printed_before_a_build() {
    let toy = Toy::new();
    toy.commit(&[("Kconfig", "config PSI\n\tbool\n"), ("lacks", "CONFIG_BPF_JIT\n")]);
    let asked = toy.run("kernel config");
    assert!(asked.stdout.starts_with("# boot\nCONFIG_64BIT=y\n"), "{}", asked.stdout);
    assert!(!asked.stdout.contains("CONFIG_XFS_FS"), "{}", asked.stdout);
    let more = toy.run("kernel config --with file-systems --without types");
    assert!(more.stdout.contains("# file-systems\n") && !more.stdout.contains("BTF"));
    let taken = toy.run("kernel config --git repository HEAD");
    assert_eq!(taken.status.code(), Some(0), "{}", taken.stderr);
    assert!(taken.stdout.contains("CONFIG_64BIT=y\n") && !taken.stdout.contains("BPF_JIT=y"));
    toy.check_nothing_is_left();
    assert!(toy.run("kernel list --json").stdout.starts_with("[]"), "a kernel was built");
}

#[test]
fn kernels_are_named_by_file_folder_tree_or_revision() {
    let toy = Toy::new();
    let boot = toy.repository().join("arch/x86/boot");
    fs::create_dir_all(&boot).unwrap();
    fs::write(boot.join("bzImage"), "no kernel").unwrap();
    // `run` boots what is no kernel, which is how the test sees the file that was chosen.
    let run = |what: &str| {
        let git = if what.contains("--git") { "" } else { "--git repository" };
        let run = "run getppid --blocks 1 --cpus 1 --accelerator tcg";
        let ended = toy.run(&format!("{run} {git} --kernel {what}"));
        assert_eq!(ended.status.code(), Some(2), "{what}: {}", ended.stderr);
        toy.check_nothing_is_left();
        ended.stderr
    };
    let said = run("new=repository");
    assert!(said.contains("new: repository/arch/x86/boot/bzImage, built "), "{said}");
    for (what, expected) in [
        ("v6.l", "no file, folder or revision (--git repository) is called v6.l"),
        ("cache", "cache has no kernel: name a kernel file, a folder with arch/x86/boot/bzImage"),
        ("tree:cache", "cache is not a source tree of Linux"),
        ("v6.1 --git cache", "no file or folder is called v6.1, and there are no revisions"),
        ("v6.1 --plan", "v6.1 is not a built kernel, and a plan builds nothing"),
    ] {
        let said = run(what);
        assert!(said.contains(expected), "{what}: {said}");
    }
    // Sources that changed since make was run.
    let long_ago = std::time::UNIX_EPOCH;
    let image = fs::File::options().append(true).open(boot.join("bzImage")).unwrap();
    image.set_modified(long_ago).unwrap();
    let said = run("new=repository");
    let expected = "changed: run make there, or let knee build the files as they are, with --kernel new=tree:repository";
    assert!(said.contains("Kconfig and 1 more") && said.contains(expected), "{said}");
    let said = toy.run("kernel boot repository").stderr;
    assert!(said.contains("run make there"), "{said}");
    assert!(toy.run("kernel list --json").stdout.starts_with("[]"), "a kernel was built");
    let said = run("base=v6.1 --kernel new=tree:repository");
    assert!(said.contains("base: 6.1.0-g") && said.contains("new: 6.1.0-g"), "{said}");
}

#[test]
fn kernels_are_listed_and_removed() {
    let toy = Toy::new();
    assert!(toy.run("kernel list").stdout.contains("No kernels in"));
    let built = toy.build("v6.1 HEAD~1", 0);
    let listed: Vec<Value> = serde_json::from_str(&toy.run("kernel list --json").stdout).unwrap();
    let keys = |list: &[Value]| list.iter().map(|one| one["key"].clone()).collect::<Vec<_>>();
    // The newest first.
    assert_eq!(keys(&listed), [built[1]["key"].clone(), built[0]["key"].clone()]);
    let key = built[0]["key"].as_str().unwrap();
    assert_eq!(toy.run(&format!("kernel remove {key}")).stdout, format!("removed {key}\n"));
    let text = toy.run("kernel list").stdout;
    assert!(text.contains("HEAD~1") && !text.contains(key), "{text}");
    let again = toy.run(&format!("kernel remove {key}"));
    assert_eq!(again.status.code(), Some(2));
    assert!(again.stderr.contains("no cached kernel has the key"), "{}", again.stderr);
}

/// `knee` with these arguments says all these parts, ends with this status and leaves nothing.
#[track_caller]
fn check(toy: &Toy, arguments: &str, parts: &[&str], status: i32) {
    let ended = toy.run(arguments);
    assert_eq!(ended.status.code(), Some(status), "knee {arguments}: {}", ended.stderr);
    for part in parts {
        assert!(ended.stderr.contains(part), "no '{part}' in:\n{}", ended.stderr);
    }
    toy.check_nothing_is_left();
}

#[test]
fn what_cannot_be_built_is_told_with_what_to_do() {
    let toy = Toy::new();
    let all = |rest: &str| format!("kernel build --git repository {rest}");
    check(&toy, "kernel build --git nowhere", &["nowhere is not a directory"], 2);
    check(&toy, "kernel build --git cache", &["cache is not in a git repository"], 2);
    check(&toy, &all("HEAD:a.c"), &["no revision 'HEAD:a.c'"], 1);
    check(&toy, &all("--without type"), &["did you mean \"types\""], 2);
    check(&toy, &all("--jobs 0"), &["--jobs 0"], 2);
    check(&toy, &all("--config missing"), &["opening missing: No such file"], 2);
    check(&toy, &all("--config-from repository/a.c"), &["has no CONFIG_ line"], 2);
    check(&toy, &all("--scratch nowhere"), &["looking for the directory nowhere"], 1);
    check(&toy, &all("--compiler no-cc"), &["no-cc (apt install no-cc)"], 2);
    fs::remove_file(toy.home.path("bin/flex")).unwrap();
    fs::remove_file(toy.home.path("bin/bison")).unwrap();
    let mut knee = toy.home.knee("kernel build --git repository");
    // Nothing but what is here.
    knee.env("PATH", toy.home.path("bin"));
    let ended = toy.home.start(&mut knee).end();
    let said = "lacks what building a kernel needs: git, make, flex, bison (apt install git make flex bison)";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
}

#[test]
fn options_that_a_kernel_does_not_take_are_told_and_fail_it_if_it_would_not_boot() {
    let toy = Toy::new();
    let kconfig = [("Kconfig", "config PSI\n\tbool\n"), ("lacks", "CONFIG_PSI CONFIG_BPF_JIT\n")];
    toy.commit(&kconfig);
    let parts = [
        "HEAD has no CONFIG_BPF_JIT\n",
        "HEAD: CONFIG_PSI is absent, but fragment probes asks for y",
    ];
    check(&toy, "kernel build --git repository", &parts, 0);
    toy.commit(&[("lacks", "CONFIG_SMP CONFIG_DEVTMPFS\n")]);
    let parts =
        ["would not boot: CONFIG_DEVTMPFS is absent, but fragment boot asks for y; CONFIG_SMP"];
    check(&toy, "kernel build --git repository", &parts, 1);
    toy.git(&["rm", "-q", "Kconfig"]);
    toy.git(&["commit", "-q", "-m", "no kernel"]);
    check(&toy, "kernel build --git repository", &["is not a Linux kernel: it has no Kconfig"], 1);
}

/// Makes an unpacked kernel, too: what commits say beside comments, and the release.
const UNPACKED: &str = r#"
	@{ echo .data; echo ".string \"6.1.0$(LOCALVERSION)\""; \
	  sed 's/ *#.*//; s/.*/.string "&"/' a.c b.c; } > $(O)/vmlinux.s
	@as -o $(O)/vmlinux $(O)/vmlinux.s
"#;

#[test]
fn a_bisection_builds_kernels_in_one_tree_and_knows_equal_ones() {
    let toy = Toy::new();
    toy.commit(&[(
        "Makefile",
        &MAKEFILE.replace("System.map\n", &format!("System.map{UNPACKED}")),
    )]);
    let bisect = |more: &str| {
        toy.run(&format!(
            "bisect --git repository --good good --bad HEAD --kernel-build --run posix01 --cpus 1 {more}"
        ))
    };
    toy.git(&["tag", "good"]);
    toy.commit(&[("a.c", "a # the same\n")]);
    toy.commit(&[("unread.h", "unlike a.c\n")]);
    toy.commit(&[("b.c", "b # the same\n")]);
    let refused = bisect("--accelerator tcg");
    assert_eq!(refused.status.code(), Some(2), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("operations_per_s cannot tell kernels apart here"),
        "{}",
        refused.stderr
    );
    assert!(entries(&toy.kernels()).is_empty(), "a kernel was built for nothing");
    let ended = bisect("--metric time.voluntary_context_switches/op");
    assert_eq!(ended.status.code(), Some(3), "{}\n{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("both ends load equal code and data"), "{}", ended.stdout);
    let said = "2 of 3 commits touch what the builds of the ends read";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    toy.check_nothing_is_left();
    // Both ends, of which the second compiled what differs; they are those of `knee kernel build`.
    let built = toy.build("good HEAD --with file-systems,containers,typical", 0);
    assert!(built.iter().all(|kernel| kernel["cached"] == true), "{built:?}");
    assert_eq!(compiled(&built[0]), ["a.o", "b.o"]);
    assert_eq!(compiled(&built[1]), ["a.o", "b.o"]);
    // A kernel that differs is booted, which none of these can be.
    toy.commit(&[("b.c", "c\n")]);
    let ended = bisect("--metric time.voluntary_context_switches/op --accelerator tcg");
    assert_eq!(ended.status.code(), Some(2), "{}\n{}", ended.stdout, ended.stderr);
    assert!(!ended.stdout.contains("both ends load equal"), "{}", ended.stdout);
    toy.check_nothing_is_left();
}

#[test]
fn a_kernel_that_takes_too_long_to_build_is_given_up() {
    let toy = Toy::new();
    toy.commit(&[("slow.c", "slow\n")]);
    let bisect = "bisect --git repository --good v6.1 --bad HEAD --kernel-build --run posix01 --cpus 1 \
        --metric time.voluntary_context_switches/op --build-timeout 1";
    let parts = ["the bad end, ", "did not end within 1 s (--build-timeout)"];
    check(&toy, bisect, &parts, 2);
}

#[test]
fn a_series_of_kernels_tries_the_base_before_it_builds_the_others() {
    let toy = Toy::new();
    toy.commit(&[("a.c", "changed\n")]);
    let series = "bisect series --git repository v6.1..HEAD --kernel-build --run posix01 --cpus 1";
    let refused = format!("{series} --accelerator tcg");
    check(&toy, &refused, &["operations_per_s cannot tell kernels apart here"], 2);
    assert!(entries(&toy.kernels()).is_empty(), "a kernel was built for nothing");
    let counts = format!("{series} --metric time.voluntary_context_switches/op --accelerator tcg");
    check(&toy, &counts, &["is not a kernel for x86-64"], 2);
    let listed: Vec<Value> = serde_json::from_str(&toy.run("kernel list --json").stdout).unwrap();
    assert_eq!(listed.len(), 1, "only the base was built");
    check(&toy, "bisect series v6.1..HEAD --git repository", &["--command LINE is missing"], 2);
}
