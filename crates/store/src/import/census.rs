//! A net below all formats: the numbers of a file are counted against those of what was read from it, so that no reader drops
//! much of a file in silence.

use std::collections::HashSet;

use super::Foreign;

/// Fewer numbers are settings around a result or two.
const FEWEST: usize = 8;
/// A longer file is a log of one kind of line.
const LONGEST: usize = 4 << 20;
/// Characters of a line that are shown.
const SHOWN: usize = 60;

/// What was read of a file, if more than a third of its numbers were not and the reader does not say so itself.
pub fn unread(text: &str, foreign: &Foreign) -> Option<String> {
    if text.len() > LONGEST {
        return None;
    }
    let known = Known::of(foreign);
    let (mut all, mut read, mut unread_line) = (0, 0, None);
    let lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
    for (index, line) in lines {
        // What is one number with separators may also be columns.
        let (mut of_line, mut found) = (0, 0);
        for number in numbers(line) {
            if known.has(number) {
                (of_line, found) = (of_line + 1, found + 1);
            } else {
                of_line += number.split(',').count();
                found += number.split(',').filter(|part| known.has(part)).count();
            }
        }
        if found == 0 && of_line > 1 && unread_line.is_none() {
            unread_line = Some((index + 1, line.trim()));
        }
        all += of_line;
        read += found;
    }
    let named: usize = foreign.unread.values().sum();
    let silent = (all - read).saturating_sub(named);
    if all < FEWEST || 3 * silent <= all {
        return None;
    }
    let shown = unread_line.map(|(number, line)| {
        let line: String = line.chars().take(SHOWN).collect();
        format!(", for example none of line {number}: {line}")
    });
    Some(format!("{read} of its {all} numbers{}", shown.unwrap_or_default()))
}

/// The numbers of a line that stand alone: no part of a word, a version, a date or a time.
fn numbers(line: &str) -> Vec<&str> {
    let mut numbers = Vec::new();
    let mut from = 0;
    while let Some(start) = line[from..].find(|c: char| c.is_ascii_digit()).map(|at| from + at) {
        let end = start + length_of_number(&line[start..]);
        let mut next = line[end..].chars();
        let goes_on = next.next().is_some_and(|c| "-:./_".contains(c))
            && next.next().is_some_and(|c| c.is_ascii_digit());
        if !goes_on && !is_inside(&line[..start]) {
            numbers.push(&line[start..end]);
        }
        from = end;
    }
    numbers
}

/// Whether what comes after this text is part of a word, a version, a date or a time that it begins.
fn is_inside(text: &str) -> bool {
    let mut backwards = text.chars().rev();
    let (last, before) = (backwards.next().unwrap_or(' '), backwards.next().unwrap_or(' '));
    match last {
        '-' | '.' => before.is_alphanumeric(),
        ':' | '/' => before.is_ascii_digit(),
        _ => last.is_alphanumeric() || last == '_',
    }
}

/// The bytes of the number that a text begins with: digits, maybe in groups of three, a fraction, an exponent.
fn length_of_number(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut end = digits(0);
    while bytes.get(end) == Some(&b',') && digits(end + 1) == 3 {
        end += 4;
    }
    if bytes.get(end) == Some(&b'.') && digits(end + 1) > 0 {
        end += 1 + digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = if end + 1 + sign < bytes.len() { digits(end + 1 + sign) } else { 0 };
        end += if exponent > 0 { 1 + sign + exponent } else { 0 };
    }
    end
}

/// The numbers of what was read, without their scale: units are converted.
struct Known {
    digits: HashSet<u64>,
}

impl Known {
    fn of(foreign: &Foreign) -> Known {
        let mut known = Known { digits: HashSet::new() };
        for run in &foreign.runs {
            for value in
                run.samples.iter().flat_map(|sample| sample.values()).chain(run.values.values())
            {
                known.add(*value);
            }
            for words in run.options.iter().chain(&run.cell.parameters) {
                known.add_words(words.0);
                known.add_words(words.1);
            }
            known.add_words(run.variant.as_deref().unwrap_or_default());
            known.add_words(&run.cell.workload);
            [run.cell.cpus, run.cell.tasks].into_iter().for_each(|count| known.add(count.into()));
        }
        foreign.metrics.keys().for_each(|name| known.add_words(name));
        known.add_words(&format!("{:?}", foreign.host));
        known
    }

    fn has(&self, number: &str) -> bool {
        let value: f64 = number.replace(',', "").parse().unwrap_or(f64::NAN);
        value == 0.0 || self.digits.contains(&digits(value))
    }

    /// Adds a number in the units that a file may have had it in: with any power of ten, of 1024, bits for bytes, minutes,
    /// and a rate for a time.
    fn add(&mut self, value: f64) {
        const FACTORS: [f64; 7] =
            [1.0, 1024.0, 1024.0 * 1024.0, 1024.0 * 1024.0 * 1024.0, 8.0, 60.0, 3600.0];
        for factor in FACTORS {
            self.digits.insert(digits(value * factor));
            self.digits.insert(digits(value / factor));
        }
        self.digits.insert(digits(1.0 / value));
    }

    fn add_words(&mut self, words: &str) {
        // Numbers in names stand in words: p99, 4k.
        let is_part = |c: char| !(c.is_ascii_digit() || c == '.');
        words.split(is_part).filter_map(|word| word.parse().ok()).for_each(|value| self.add(value));
    }
}

/// The first nine digits of a number.
fn digits(value: f64) -> u64 {
    if value == 0.0 || !value.is_finite() {
        return 0;
    }
    let exponent = value.abs().log10().floor() as i32;
    let digits = (value.abs() * 10_f64.powi(8 - exponent)).round() as u64;
    if digits >= 1_000_000_000 { digits / 10 } else { digits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_line_are_no_parts_of_words_dates_or_versions() {
        let check = |line: &str, expected: &[&str]| assert_eq!(numbers(line), expected, "{line}");
        check("Requests/sec:  48,231.18", &["48,231.18"]);
        check("p99 of x86_64 on 2024-01-02 12:30:01, v1.2.3", &[]);
        check("12.5ms ( 40%) -3 [7,8]", &["12.5", "40", "3", "7", "8"]);
        check("tps:12.5 4.0/s n=1.5", &["12.5", "4.0", "1.5"]);
        check("a,1234,5.5e-3", &["1234", "5.5e-3"]);
    }

    #[test]
    fn digits_do_not_depend_on_the_unit() {
        for (a, b) in [(12.5, 0.0125), (999.999_999_99, 1.0), (0.1 + 0.2, 300.0), (-7.0, 70.0)] {
            assert_eq!(digits(a), digits(b), "{a} {b}");
        }
        assert_ne!(digits(12.5), digits(12.6));
    }
}
