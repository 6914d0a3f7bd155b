//! What an experiment starts and changes, as a list for a reader who decides whether to run it.

use host::terminal::one_line;
use records::Effect;
use text::Style;
use text::prose::wrapped;

use crate::header::quoted;

/// The room that the kinds have on the left.
const KIND: usize = 14;

/// What stands in place of an empty list of effects.
pub const NO_EFFECTS: &str = "it runs only knee's own workloads";

/// The programs that an experiment starts, ready for a shell, and its changes of the host.
pub fn effects(effects: &[Effect], style: &Style) -> String {
    if effects.is_empty() {
        return format!("{NO_EFFECTS}\n");
    }
    let line = |effect| wrapped(&format!("  {}", effect_line(effect)), style.width, KIND + 4);
    let lines: String = effects.iter().map(line).collect();
    format!("{EFFECTS}:\n{lines}")
}

/// What a list of effects is.
pub const EFFECTS: &str = "what it runs and changes, for the first run of each point";

/// "prepare       cp 'a b' c": what it is, and its words, ready for a shell.
pub fn effect_line(effect: &Effect) -> String {
    let words: Vec<String> = effect.words.iter().map(|word| quoted(word)).collect();
    let words = one_line(&words.join(" "));
    let note = match effect.note.as_str() {
        "" => String::new(),
        note => format!("   # {note}"),
    };
    format!("{:<KIND$}{words}{note}", effect.kind.name())
}

#[cfg(test)]
mod tests {
    use host::terminal::shown;
    use records::EffectKind;

    use super::*;

    #[test]
    fn lines_are_ready_for_a_shell_and_hide_nothing() {
        let effect = |kind, words: &[&str], note: &str| Effect {
            kind,
            words: words.iter().map(|word| word.to_string()).collect(),
            note: note.to_string(),
        };
        let all = [
            effect(EffectKind::Prepare, &["cp", "a b", "c"], ""),
            effect(EffectKind::Command, &["sh", "-c", "true\x1b[2K;\nfalse"], "in /tmp"),
        ];
        expect_test::expect![[r#"
            what it runs and changes, for the first run of each point:
              prepare       cp 'a b' c
              command       sh -c 'true\u001b[2K;\u000afalse'   # in /tmp
        "#]]
        .assert_eq(&shown(&effects(&all, &Style::PLAIN)));
        assert_eq!(effects(&[], &Style::PLAIN), "it runs only knee's own workloads\n");
    }
}
