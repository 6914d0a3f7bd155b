//! Every verb that has an answer prints it in each form of `--view`: within 72 columns as a mail, as one document in
//! HTML, as JSON that a parser reads.

use std::path::Path;

use serde_json::{Deserializer, Value};

use crate::home::Home;
use crate::kernel_line;
use crate::simulate_operation::STEPS;
use crate::terminal::{all_verbs, copy};

/// Commands for each verb with `--view`. FILE is a curve.
const COMMANDS: &[(&str, &str)] = &[
    ("check", "check ticket mcs --threads 2"),
    ("check", "check ticket --mutants"),
    ("compare", "compare 20261120-165542"),
    ("compare fragile", "compare fragile fragile"),
    ("doctor", "doctor"),
    ("explain", "explain 20261120-115530"),
    ("fleet status", "fleet status fleet"),
    ("kernel list", "kernel list"),
    ("list", "list"),
    ("list", "list workloads"),
    ("report", "report 20261120-165542"),
    ("run", "run getppid --cpus 1 --seconds 0.01 --blocks 1"),
    ("scale", "scale 20261120-115530"),
    ("scale forecast", "scale forecast FILE --to 8"),
    ("selfcheck", "selfcheck --trials 20"),
    ("show", "show 20261120-115530 --time --counters"),
    ("show", "show getppid"),
    ("show", "show queued"),
    ("simulate", "simulate ticket mcs --cpus 1,2 --draws 1 --length 100us --baseline mcs"),
    (
        "simulate operation",
        "simulate operation steps.json --host uma-2 --cpus 1,2 --draws 1 --length 100us",
    ),
    ("simulate replay", "simulate replay I4 I1 --draws 1"),
    ("watch", "watch line.toml"),
    ("watch show", "watch show line.toml"),
    ("watch show", "watch show kernels.toml"),
];

/// Verbs that take minutes, or a kernel's sources. Tests of bisections, series and screenings print their forms.
const NOT_RUN: [&str; 9] = [
    "bisect",
    "bisect replay",
    "bisect screen",
    "bisect series",
    "conflicts",
    "doctor verdicts",
    "gate",
    "kernel build",
    "watch bisect",
];

/// What has no value beside its page.
const WITHOUT_JSON: &[&str] = &["report"];

/// The file of a line and its points, of which the second is suspected and was not confirmed.
const LINE: [&str; 2] = [
    "git = \"/nowhere\"\nanchor = \"aaaa\"\ncommand = \"true\"\nsmallest_effect = 0.02\n",
    r#"{"event":"begun","version":2,"knee":"1","at":"2026-11-29T17:00:00Z","experiment":{"anchor":"aaaa","build":"","command":"true","cpus":"all","higher_is_better":"false","metric":"","product":"","value":""},"anchor_key":"k"}
{"event":"point","commit":"aaaaaaaaaaaaaa","subject":"one","date":"2026-11-28","after":null,"at":"2026-11-29T17:00:01Z","key":"a","records":["r"],"values":{"wall_s":{"anchor":[1.0,1.01,0.99],"ratios":[0.0,0.01,-0.01]}},"disturbed":0,"host":null}
{"event":"point","commit":"bbbbbbbbbbbbbb","subject":"two","date":"2026-11-29","after":"aaaaaaaaaaaaaa","at":"2026-11-29T17:00:02Z","key":"b","records":["s"],"values":{"wall_s":{"anchor":[1.0,1.01,0.99],"ratios":[0.05,0.06,0.04]}},"disturbed":0,"host":null}
{"event":"compared","series":"wall_s","before":"aaaaaaaaaaaaaa","after":"bbbbbbbbbbbbbb","at":"2026-11-29T17:00:03Z","step":0.05,"probability":0.3,"followed":1,"at_once":true,"pairs":[{"layout":0,"values":{"wall_s":[1.0,1.01]}},{"layout":0,"values":{"wall_s":[1.01,1.0]}}],"records":["t"]}
"#,
];

const CURVE: &str = "cpus,rate\n1,100\n1,101\n2,180\n2,181\n4,300\n4,302\n8,450\n8,455\n";

#[test]
fn every_verb_with_an_answer_prints_each_form() {
    let home = Home::new();
    measure_around_a_verdict(&home);
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/tests/golden");
    for record in ["v1/20261120-115530-7f3a9c", "v2/20261120-165542-d10222"] {
        let id = &record["v1/".len()..];
        copy(&golden.join(record), &home.path("records").join(&id[16..18]).join(id));
    }
    std::fs::write(home.path("curve.csv"), CURVE).unwrap();
    std::fs::write(home.path("steps.json"), STEPS).unwrap();
    std::fs::write(home.path("line.toml"), LINE[0]).unwrap();
    std::fs::write(home.path("line.points.ndjson"), LINE[1]).unwrap();
    std::fs::write(home.path("kernels.toml"), kernel_line::FILE).unwrap();
    let counts = kernel_line::points(&kernel_line::KERNELS);
    std::fs::write(home.path("kernels.points.ndjson"), counts).unwrap();
    let curve = home.path("curve.csv").display().to_string();
    let planned = home.run("fleet plan getppid --cpus 1 --blocks 4 --seconds 0.01 fleet");
    assert!(planned.status.success(), "{}", planned.stderr);
    let mut wrong = Vec::new();
    for verb in all_verbs(&home) {
        let help = home.run(&format!("{verb} --help")).stdout;
        if !help.contains("--view <FORM>") || NOT_RUN.contains(&verb.as_str()) {
            continue;
        }
        let commands: Vec<_> = COMMANDS.iter().filter(|(name, _)| *name == verb).collect();
        if commands.is_empty() {
            wrong.push(format!("{verb} has --view, and COMMANDS has no command for it"));
        }
        for (_, command) in commands {
            let command = command.replace("FILE", &curve);
            let what = |form: &&str| what_is_wrong(&home, &verb, &command, form);
            wrong.extend(FORMS.iter().filter_map(what));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const FORMS: [&str; 5] = ["terminal", "mail", "markdown", "html", "json"];

fn what_is_wrong(home: &Home, verb: &str, command: &str, form: &str) -> Option<String> {
    let ended = home.run(&format!("{command} --view {form}"));
    let text = ended.stdout;
    let says = |what: String| Some(format!("knee {command} --view {form}: {what}"));
    if form == "json" && WITHOUT_JSON.contains(&verb) {
        return (ended.status.code() != Some(2)).then(|| format!("{command} refuses no JSON"));
    }
    if text.trim().is_empty() {
        return says(format!("prints nothing: {}", ended.stderr));
    }
    match form {
        "mail" => {
            // A word that is longer than a line stays whole.
            let wide = |line: &&str| line.chars().count() > 72 && line.trim().contains(' ');
            says(format!("wider than 72 columns: {}", text.lines().find(wide)?))
        }
        "markdown" => (!text.starts_with("## ")).then(|| format!("{command}: no heading: {text}")),
        "html" => {
            let is_one = text.starts_with("<!doctype html>")
                && text.matches("<html").count() == 1
                && text.trim_end().ends_with("</html>");
            if is_one { None } else { says("is not one document".to_string()) }
        }
        "json" => {
            let values: Result<Vec<Value>, _> =
                Deserializer::from_str(&text).into_iter::<Value>().collect();
            says(format!("no JSON: {}", values.err()?))
        }
        _ => None,
    }
}

/// A record of small changes of a load, which is named `fragile`.
fn measure_around_a_verdict(home: &Home) {
    let run = "run posix_lock_shared --cpus 1 --seconds 0.01 --blocks 3 --variant a=idle_ns=0 \
               --variant b=idle_ns=100 --label verdict";
    assert!(home.run(run).status.success());
    let around = home.run("compare fragile verdict --blocks 3 --seconds 0.01");
    assert_eq!(around.status.code(), Some(0), "{}", around.stderr);
    assert!(home.run("record note last --label fragile").status.success());
}
