//! The command line of this process.

/// The words of the command line, for records and reports. What is not UTF-8 is shown by replacement
/// characters.
pub fn command_line() -> Vec<String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect()
}
