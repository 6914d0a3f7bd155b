//! Pages of records that lack something: each says what is missing and stays whole, in every form.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::process::Stdio;

use crate::home::Home;
use crate::import::{FIXTURES, fixture};

/// The page in each form; none has a number that is none.
#[track_caller]
fn forms(home: &Home, what: &str) -> [String; 3] {
    ["--html -", "--mail", "--markdown"].map(|form| {
        let ended = home.run(&format!("report {form} {what}"));
        assert_eq!(ended.status.code(), Some(0), "report {form}: {}", ended.stderr);
        let text = ended.stdout.split("<script>").next().unwrap_or_default().to_string();
        for word in ["NaN", "inf%", "0 CPUs", "panicked"] {
            assert!(!text.contains(word), "'{word}' in\n{text}");
        }
        text
    })
}

#[test]
fn pages_of_imported_results_promise_no_more_than_their_format() {
    for name in FIXTURES {
        let home = Home::new();
        home.run(&format!("record import {}", fixture(name)));
        for page in forms(&home, "last") {
            assert!(page.contains("imported"), "{name}: {page}");
        }
    }
}

#[test]
fn one_point_is_no_curve_and_failed_runs_are_said() {
    let home = Home::new();
    home.run("run getppid --cpus 1 --blocks 1 --seconds 0.02");
    for page in forms(&home, "last") {
        assert!(page.contains("Measured at one CPU count: there is no curve"), "{page}");
    }
    let home = Home::new();
    home.run(
        "run getppid --cpus 1 --blocks 1 --operations 1000000000 --timeout 0.1 --stop-grace 0.1",
    );
    for page in forms(&home, "last") {
        assert!(page.contains("No run finished: there is nothing to show"), "{page}");
        assert!(page.to_lowercase().contains("failed"), "{page}");
    }
}

#[test]
fn a_partial_record_has_a_page_that_says_so() {
    let home = Home::new();
    let mut knee = home.knee("run getppid --cpus 1 --blocks 1000 --seconds 0.02 --json");
    let mut running = home.start(&mut knee);
    running.wait_for_runs(3);
    running.signal(libc::SIGINT);
    running.end();
    for page in forms(&home, "last") {
        assert!(page.contains("partial"), "{page}");
    }
}

#[test]
fn names_of_4_kb_in_any_script_stay_where_they_belong() {
    for word in ["<b>", "\u{202e}עברית", "漢字", "👩‍👩‍👧", "&amp;\"'`"] {
        let home = Home::new();
        let note: String =
            word.chars().cycle().take(4096 / word.len() * word.chars().count()).collect();
        let mut knee = home.knee("run getppid --cpus 1 --blocks 1 --seconds 0.02 --note");
        let ended = home.start(knee.arg(&note)).end();
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        let [html, mail, _] = forms(&home, "last");
        assert!(!html.contains("<b><b>") && !html.contains('\u{202e}'));
        let longest = mail.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(72), "{longest:?}");
    }
}

#[test]
fn a_page_is_written_whole_where_the_reader_is() {
    let home = Home::new();
    home.run("run getppid --cpus 1 --blocks 1 --seconds 0.02");
    let folder = home.path("pages");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("page.tmp"), "theirs").unwrap();
    for flags in ["", " --no-scripts"] {
        let mut knee = home.knee(&format!("report last --html page.html{flags}"));
        let ended = home.start(knee.current_dir(&folder)).end();
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        let html = std::fs::read_to_string(folder.join("page.html")).unwrap();
        assert!(html.ends_with("</html>"), "{}", &html[html.len() - 20..]);
        assert!(flags.is_empty() || !html.contains("<script"));
    }
    assert_eq!(std::fs::read_to_string(folder.join("page.tmp")).unwrap(), "theirs");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2);
}

#[test]
fn a_port_in_use_is_passed_over_and_the_next_one_said() {
    let home = Home::new();
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut knee = home.knee(&format!("serve --port {port}"));
    let mut server = knee.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    let (address, _) = line.split_once("/?key=").expect("an address with a key");
    let found: u16 = address.rsplit(':').next().unwrap().parse().unwrap();
    assert!(found > port, "{line}");
    assert!(home.said("stderr").contains(&port.to_string()), "{}", home.said("stderr"));
}

#[test]
fn simulated_rates_stand_beside_measured_ones() {
    let home = Home::new();
    home.run("run lock_ticket --as threads --cpus 1..2 --blocks 2 --seconds 0.02");
    for page in forms(&home, "last --simulate ticket --draws 1") {
        assert!(page.contains("Measured beside simulated: ticket"), "{page}");
        assert!(page.contains("simulated, not measured"), "{page}");
    }
    let other = home.run("report last --simulate mcs --cpus 1,2 --draws 1");
    assert_eq!(other.status.code(), Some(2));
    assert!(
        other
            .stderr
            .contains("--simulate mcs: the records have no curve over CPUs of its workload"),
        "{}",
        other.stderr
    );
}

#[test]
fn a_simulation_takes_from_the_record_what_is_not_given() {
    let home = Home::new();
    home.run("run lock_ticket --set hold_ns=300,700 --set idle_ns=2000 --cpus 1..2 --blocks 2 --seconds 0.02");
    let again = |arguments: &str| -> Vec<String> {
        let ended =
            home.run(&format!("report last --markdown --simulate ticket --draws 1 {arguments}"));
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        let lines =
            ended.stdout.lines().filter_map(|line| line.trim().strip_prefix("knee simulate "));
        lines.map(|line| line.replace('\'', "")).collect()
    };
    // What the work took is measured on a host that may be busy: its length is near what was asked for.
    let ns = |line: &str, flag: &str| -> f64 {
        let value =
            line.split(&format!("--{flag} ")).nth(1).unwrap_or_else(|| panic!("{flag}: {line}"));
        value.split("ns").next().unwrap().parse().unwrap()
    };
    let commands = again("");
    assert_eq!(commands.len(), 2, "{commands:?}");
    for (line, hold) in commands.iter().zip([300.0, 700.0]) {
        assert!((0.5..2.0).contains(&(ns(line, "hold") / hold)), "{line}");
        assert!((0.5..2.0).contains(&(ns(line, "work") / 2000.0)), "{line}");
        assert!(line.contains("ns~constant --hold") && line.ends_with("--cpus 1,2"), "{line}");
    }
    let commands = again("--hold 5us --work 1us --cpus 2");
    assert_eq!(commands, ["ticket --draws 1 --hold 5us --work 1us --cpus 2 --data 0 --read 0"]);
    let late = home.run("report last --simulate ticket --mail");
    assert!(late.stderr.contains("put --mail before --simulate"), "{}", late.stderr);
}

#[test]
fn a_page_names_its_record_and_shows_the_metric_that_was_asked_for() {
    let home = Home::new();
    home.run("run getppid --cpus 1..2 --blocks 2 --seconds 0.02");
    let ended = home.run("report last --metric fairness --markdown");
    assert!(ended.stdout.contains("| fairness |"), "{}", ended.stdout);
    let again = ended.stdout.lines().find(|line| line.contains("knee report ")).unwrap();
    assert!(again.ends_with(" --metric fairness") && !again.contains("last"), "{again}");
    let again = home.run(again.trim().trim_start_matches("knee ")).stdout;
    assert!(again.starts_with("Measurement: getppid"), "{again}");
    let unknown = home.run("report last --metric no_such_metric");
    assert_eq!(unknown.status.code(), Some(2), "{}", unknown.stdout);
}

#[test]
fn doses_are_on_pages() {
    let home = Home::new();
    home.run(
        "run lock_ticket --as threads --cpus 1 --dose inside=0,10us,20us --blocks 2 --seconds 0.02",
    );
    for page in forms(&home, "last") {
        assert!(page.contains("What doses of time say"), "{page}");
        assert!(page.contains("0, 10000, 20000"), "{page}");
    }
}
