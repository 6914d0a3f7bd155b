//! Caches and the structures that they hold have similar names.

/// Whether a structure is called like a cache: each word of the cache's name abbreviates the
/// corresponding word of the structure's (`file_lock_ctx`, `file_lock_context`; `sighand_cache`,
/// `sighand_struct`).
pub fn is_called_like(cache: &str, structure: &str) -> bool {
    let words =
        cache.split(['_', '-']).filter(|word| !matches!(*word, "cache" | "struct" | "jar" | ""));
    let words: Vec<&str> = words.collect();
    let structure_words: Vec<&str> = structure.split('_').collect();
    !words.is_empty()
        && words.len() <= structure_words.len()
        && words.iter().zip(&structure_words).all(|(short, long)| abbreviates(short, long))
}

/// Whether `long` has the letters of `short` in this order, beginning with the same one.
fn abbreviates(short: &str, long: &str) -> bool {
    let mut letters = long.chars();
    short.chars().next() == long.chars().next()
        && short.chars().all(|letter| letters.any(|l| l == letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_called_like_their_caches() {
        for (cache, structure) in [
            ("file_lock_ctx", "file_lock_context"),
            ("task_struct", "task_struct"),
            ("sighand_cache", "sighand_struct"),
            ("ext4_inode_cache", "ext4_inode_info"),
            ("mm_struct", "mm_struct"),
        ] {
            assert!(is_called_like(cache, structure), "{cache} {structure}");
        }
        assert!(!is_called_like("ftrace_event_field", "file_lock_context"));
        assert!(!is_called_like("ext4_inode_cache", "ext4_group_info"));
    }
}
