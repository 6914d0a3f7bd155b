//! What each verb prints at 72, 80 and 120 columns, and in a terminal that is dumb: the texts in the folder
//! `snapshots`, a file for each verb. UPDATE_EXPECT=1 writes them anew.

use std::os::unix::process::CommandExt;

use expect_test::expect_file;

use crate::home::Home;
use crate::terminal::{all_verbs, home_with_a_record};

/// Verbs whose output does not depend on the host.
const REPEATABLE: &[&str] = &[
    "list",
    "list workloads",
    "list algorithms",
    "list experiments",
    "list commands",
    "list metrics",
    "show getppid",
    "show queued",
    "show operations_per_s",
    "show",
    "show --counters",
    "show --time",
    "compare last --layout curves",
    "selfcheck --trials 20",
    "simulate ticket --cpus 1,2 --draws 0 --length 100us",
];

/// The output at each width, and in a dumb terminal of unknown width.
fn at_all_widths(home: &Home, arguments: &str) -> String {
    let said = |more: &str, terminal: &str| {
        let arguments = format!("{arguments}{more}");
        let mut command = home.knee(&arguments);
        // Reports name the program as it was called.
        command.arg0("knee");
        let ended = home.start(command.env("TERM", terminal).env("TZ", "UTC")).end();
        let text = ended.stdout.replace(&home.path("").display().to_string(), "HOME/");
        let term = if terminal == "dumb" { "TERM=dumb " } else { "" };
        format!("$ {term}knee {arguments}\n{text}\n")
    };
    let widths = [72, 80, 120].map(|width| said(&format!(" --width {width}"), "xterm"));
    widths.concat() + &said("", "dumb")
}

#[test]
fn verbs_print_what_they_printed() {
    let home = home_with_a_record();
    let verbs = all_verbs(&home);
    let help = verbs.iter().map(|verb| format!("{verb} -h").trim().to_string());
    for arguments in REPEATABLE.iter().map(|verb| verb.to_string()).chain(help) {
        let name = arguments.replace([' ', ',', '/'], "_");
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/robust/snapshots");
        expect_file![format!("{folder}/{name}.txt")].assert_eq(&at_all_widths(&home, &arguments));
    }
}
