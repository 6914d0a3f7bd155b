//! The words of the region: their offsets, names and roles, from the arrays that it was made of.

use std::ops::{Range, RangeInclusive};

use machine::Region;

use super::executions::Ahead;

/// The index of no word; also the column or row of a word that has none.
const NONE: u16 = u16::MAX;

/// The words of a region, by index and by offset.
#[derive(Clone, Debug)]
pub struct Layout {
    pub words: Vec<WordLayout>,
    /// The word at each offset.
    word_at: Vec<u16>,
    /// Words with plain accesses that several tasks use, in the order in which they were
    /// found: each has a column of `HappensBefore`.
    pub columns: Vec<u16>,
    column_of: Vec<u16>,
    uses: Vec<Uses>,
    /// By kind: whether something was found not to order the accesses to such words.
    contended: Vec<bool>,
    /// By kind of word: whether an atomic access of it was no step.
    local: Vec<bool>,
    /// Words that released something: each has a row of `HappensBefore`.
    pub rows: Vec<u16>,
    row_of: Vec<u16>,
    /// Whether a task has executed a fence: tasks then have rows for them.
    pub has_fences: bool,
    /// Whether a task has relied on an address dependency.
    pub has_dependencies: bool,
    /// Words that hold CPU numbers.
    pub naming: Vec<u16>,
    /// By role of the word that held a CPU number: which words of that CPU were then accessed.
    pub leads_to: Vec<OwnWords>,
    /// Whether it was found to matter that loads pass buffered stores.
    pub loads_pass: bool,
    /// By word: the tasks that read it, and those that write it, as bits, where executions are kept.
    pub users: Vec<[u16; 2]>,
    /// Stores that may run ahead of loads, as far as they were found.
    pub ahead: Vec<Ahead>,
    /// Whether tasks name their reads by number, for dependencies.
    pub names_reads: bool,
    /// Whether there are sequentially consistent events, under RC11.
    pub has_order: bool,
    /// The first word of the cell of each word: accesses to several words join them.
    pub cell_of: Vec<u16>,
    /// By word: its column in `Views`.
    pub view_of: Vec<u16>,
    /// Words with a column in `Views`.
    pub viewed: Vec<u16>,
    /// Eight bytes each: their offset, and the words that begin in them.
    chunks: Vec<(u32, Range<u16>)>,
    /// Members of several words, and fields of bits.
    members: Vec<MemberLayout>,
}

/// A member that is no word of its own.
#[derive(Clone, Debug)]
struct MemberLayout {
    name: String,
    offset: u32,
    size: u8,
    /// Its first bit and its number of bits, if it is not whole bytes.
    bits: Option<(u8, u8)>,
}

#[derive(Clone, Debug)]
pub struct WordLayout {
    pub name: String,
    pub offset: u32,
    pub size: u8,
    /// The CPU whose element of a per-CPU array it is in.
    pub cpu: Option<u8>,
    /// A number shared by the same word of all elements of a per-CPU array, and by no others.
    pub role: u16,
    /// Which of its CPU's words it is, as a bit; 0 outside of per-CPU arrays.
    pub own: OwnWords,
    /// Which field of which array it is: equal for all elements.
    kind: u16,
    pub cpu_shift: Option<u32>,
}

/// A part of some bytes.
struct FieldLayout<'a> {
    name: &'a str,
    /// Its first bit, and how many it has.
    first: u32,
    bits: u32,
}

impl FieldLayout<'_> {
    /// Its value in a value of all the bytes.
    fn of(&self, value: u64) -> u64 {
        value >> self.first & (u64::MAX >> (64 - self.bits))
    }
}

/// Parts in parentheses, behind a blank.
fn listed(parts: Vec<String>) -> String {
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

/// The uses of a word that were seen.
#[derive(Clone, Copy, Debug, Default)]
struct Uses {
    /// Whether some task used it plainly.
    plainly: bool,
    /// The tasks that used it, as bits.
    tasks: u16,
}

/// Words of one CPU, as bits; from the 64th on, words share the last bit.
pub type OwnWords = u64;

impl Layout {
    pub fn new(region: &Region) -> Layout {
        let (mut words, mut members) = (Vec::new(), Vec::new());
        let (mut roles, mut own_words, mut kinds) = (0, 0, 0);
        for array in region.arrays() {
            let each = array.words.len() as u16;
            for element in 0..array.length {
                let index = match (array.length, array.per_cpu) {
                    (1, false) => String::new(),
                    _ => format!("[{element}]"),
                };
                members.extend(array.members.iter().map(|member| MemberLayout {
                    name: format!("{}{index}{}", array.name, member.path),
                    offset: (array.offset + element * array.stride + member.offset) as u32,
                    size: member.size as u8,
                    bits: member.bits,
                }));
                for (i, word) in array.words.iter().enumerate() {
                    let own = if array.per_cpu { 0 } else { element as u16 * each };
                    words.push(WordLayout {
                        name: format!("{}{index}{}", array.name, word.path),
                        offset: (array.offset + element * array.stride + word.offset) as u32,
                        size: word.size as u8,
                        cpu: array.per_cpu.then_some(element as u8),
                        role: roles + own + i as u16,
                        kind: kinds + i as u16,
                        own: if array.per_cpu { 1 << (own_words + i).min(63) } else { 0 },
                        cpu_shift: word.cpu_shift,
                    });
                }
            }
            kinds += each;
            own_words += if array.per_cpu { array.words.len() } else { 0 };
            roles += if array.per_cpu { each } else { each * array.length as u16 };
        }
        assert!(words.len() < usize::from(NONE), "{} words are too many to search", words.len());
        let mut word_at = vec![NONE; region.used()];
        for (i, word) in words.iter().enumerate() {
            word_at[word.offset as usize..][..usize::from(word.size)].fill(i as u16);
        }
        let none = vec![NONE; words.len()];
        let chunks = chunks(&words);
        let naming = (0..words.len()).filter(|&word| words[word].cpu_shift.is_some());
        let naming = naming.map(|word| word as u16).collect();
        Layout {
            word_at,
            columns: vec![],
            column_of: none.clone(),
            uses: vec![Uses::default(); words.len()],
            contended: vec![false; usize::from(kinds)],
            local: vec![false; usize::from(kinds)],
            rows: vec![],
            has_fences: false,
            has_dependencies: false,
            row_of: none.clone(),
            loads_pass: false,
            users: vec![[0; 2]; words.len()],
            ahead: Vec::new(),
            names_reads: false,
            has_order: false,
            cell_of: (0..words.len() as u16).collect(),
            view_of: none.clone(),
            viewed: vec![],
            naming,
            leads_to: vec![0; usize::from(roles)],
            words,
            chunks,
            members,
        }
    }

    pub fn chunks(&self) -> impl Iterator<Item = (u32, Range<u16>)> {
        self.chunks.iter().cloned()
    }

    /// Whether all of these bytes are in words.
    pub fn is_in_words(&self, offset: u32, size: u8) -> bool {
        let words = self.word_at.get(offset as usize..offset as usize + usize::from(size));
        words.is_some_and(|words| words.iter().all(|word| *word != NONE))
    }

    /// The last word that begins before this offset.
    pub fn last_before(&self, offset: u32) -> Option<&WordLayout> {
        self.words.iter().filter(|word| word.offset < offset).max_by_key(|word| word.offset)
    }

    /// The words that `size` bytes at this offset touch.
    pub fn touched(&self, offset: u32, size: u8) -> RangeInclusive<usize> {
        let first = self.word_at[offset as usize];
        let last = self.word_at[offset as usize + usize::from(size) - 1];
        assert!(first != NONE && last != NONE, "offset {offset} is in no word of the region");
        usize::from(first)..=usize::from(last)
    }

    /// The name of what these bytes are: a word, a member of several, elements of an array, or words beside each other.
    pub fn name(&self, offset: u32, size: u8) -> String {
        let touched = self.touched(offset, size);
        let (first, last) = (&self.words[*touched.start()], &self.words[*touched.end()]);
        if touched.start() == touched.end() {
            return first.name.clone();
        }
        let is_it = |member: &&MemberLayout| {
            member.bits.is_none() && (member.offset, member.size) == (offset, size)
        };
        if let Some(member) = self.members.iter().find(is_it) {
            return member.name.clone();
        }
        if let (Some((array, from)), Some((same, to))) = (element(&first.name), element(&last.name))
            && array == same
        {
            return format!("{array}[{from}..{}]", to + 1);
        }
        // `lock.locked+pending`
        let prefix = first.name.rfind('.').map_or("", |dot| &first.name[..=dot]);
        let names = touched.map(|word| self.words[word].name.as_str());
        let short = names.map(|name| name.strip_prefix(prefix).unwrap_or(name));
        format!("{prefix}{}", short.collect::<Vec<_>>().join("+"))
    }

    /// Which parts of these bytes an access changed, where there are several: ` (locked 1 -> 0)`.
    pub fn changes(&self, offset: u32, size: u8, before: u64, after: u64) -> String {
        let changed = self.fields(offset, size).filter_map(|field| {
            let [before, after] = [before, after].map(|value| field.of(value));
            (before != after).then(|| format!("{} {before} -> {after}", field.name))
        });
        listed(changed.collect())
    }

    /// The parts of a value of these bytes, where there are several, that are not 0: ` (locked 1, tail 4)`.
    pub fn parts(&self, offset: u32, size: u8, value: u64) -> String {
        let set = self.fields(offset, size).filter_map(|field| {
            let value = field.of(value);
            (value != 0).then(|| format!("{} {value}", field.name))
        });
        listed(set.collect())
    }

    /// The fields of bits in these bytes, and the words, if there are several.
    fn fields(&self, offset: u32, size: u8) -> impl Iterator<Item = FieldLayout<'_>> {
        let touched = self.touched(offset, size);
        let (end, several) = (offset + u32::from(size), touched.start() != touched.end());
        let in_bits = self.members.iter().filter_map(|member| Some((member, member.bits?)));
        let bits = in_bits.filter(move |(member, _)| (offset..end).contains(&member.offset)).map(
            move |(member, (first, bits))| FieldLayout {
                name: &member.name,
                first: 8 * (member.offset - offset) + u32::from(first),
                bits: u32::from(bits),
            },
        );
        let words = touched.filter(move |_| several).map(|word| &self.words[word]);
        let words = words.filter_map(move |word| {
            let first = 8 * word.offset.checked_sub(offset)?;
            Some(FieldLayout { name: &word.name, first, bits: 8 * u32::from(word.size) })
        });
        // Elements of an array are no fields: bytes that a type keeps beside its members.
        let is_field = |field: &FieldLayout| field.first < 64 && !field.name.ends_with(']');
        bits.chain(words).filter(is_field).map(|field| {
            let name = field.name.rsplit('.').next().unwrap_or(field.name);
            FieldLayout { name, ..field }
        })
    }

    /// The word that begins at this offset; `None` if none does.
    pub fn name_at(&self, offset: u32) -> Option<&str> {
        let index = *self.word_at.get(offset as usize)?;
        let word = self.words.get(usize::from(index))?;
        (word.offset == offset).then_some(word.name.as_str())
    }

    pub fn column(&self, word: usize) -> Option<usize> {
        Some(usize::from(self.column_of[word])).filter(|&column| column != usize::from(NONE))
    }

    pub fn row(&self, word: usize) -> Option<usize> {
        Some(usize::from(self.row_of[word])).filter(|&row| row != usize::from(NONE))
    }

    /// Notes that an atomic access of a word was no step, and counted as a plain one.
    pub fn note_local(&mut self, word: usize) {
        self.local[usize::from(self.words[word].kind)] = true;
    }

    /// Whether an atomic access of a word may have counted as a plain one.
    pub fn was_local(&self, word: usize) -> bool {
        self.local[usize::from(self.words[word].kind)] && !self.is_contended(word)
    }

    pub fn is_contended(&self, word: usize) -> bool {
        self.contended[usize::from(self.words[word].kind)]
    }

    /// Marks words of this kind as contended. Their uses so far were taken for plain ones and
    /// are not, so the columns have to be found again.
    pub fn contend(&mut self, word: usize) {
        self.contended[usize::from(self.words[word].kind)] = true;
        self.columns.clear();
        self.column_of.fill(NONE);
        self.uses.fill(Uses::default());
    }

    /// Notes a use of a word. Returns whether the word, and with it the same word of all other
    /// CPUs, got a column by that: a word that only one task uses needs none.
    pub fn use_word(&mut self, word: usize, task: usize, plainly: bool) -> bool {
        let uses = &mut self.uses[word];
        uses.tasks |= 1 << task;
        uses.plainly |= plainly;
        if !uses.plainly || uses.tasks.is_power_of_two() || self.column_of[word] != NONE {
            return false;
        }
        let role = self.words[word].role;
        for same in (0..self.words.len()).filter(|&word| self.words[word].role == role) {
            self.column_of[same] = self.columns.len() as u16;
            self.columns.push(same as u16);
        }
        true
    }

    pub fn add_row(&mut self, word: usize) {
        self.row_of[word] = self.rows.len() as u16;
        self.rows.push(word as u16);
    }
}

/// The array and the index of an element: `queue[2]`.
fn element(name: &str) -> Option<(&str, usize)> {
    let (array, index) = name.strip_suffix(']')?.rsplit_once('[')?;
    Some((array, index.parse().ok()?))
}

fn chunks(words: &[WordLayout]) -> Vec<(u32, Range<u16>)> {
    let mut chunks: Vec<(u32, Range<u16>)> = Vec::new();
    for (i, word) in words.iter().enumerate() {
        let (start, index) = (word.offset & !7, i as u16);
        match chunks.last_mut() {
            Some((chunk, words)) if *chunk == start => words.end = index + 1,
            _ => chunks.push((start, index..index + 1)),
        }
    }
    chunks
}
