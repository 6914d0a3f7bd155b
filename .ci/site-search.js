// Ranks the sections of the site as `knee help --search` does, by crates/knee/src/guides/search.rs, which has the reasons. mdBook's own
// ranking had the answer among the first three for 16 of 30 questions. .ci/site puts the words of guides/words.txt in front.
/* global elasticlunr, vocabulary */
"use strict";

(() => {
  const PER_PAGE = 2;
  const NAMED_WEIGHS = 1.6;
  const PAIR_WEIGHS = 0.5;
  const INSTEAD_WEIGHS = 0.5;
  const HEADING_WEIGHS = 3;
  const SATURATION = 1.2;
  const LENGTH_WEIGHS = 0.75;
  // What the binary's guides do not hold is for who works on knee.
  const OF_PROJECT_WEIGHS = 0.5;
  const LEFT_MIN = 3;

  const words = (text) => (text.match(/[\p{L}\p{N}]+/gu) ?? []).map((word) => word.toLowerCase());

  const lines = vocabulary.split("\n").filter((line) => line && !line.startsWith("#"));
  const list = (name) => {
    const listed = lines.filter((line) => !line.includes(":") && line.startsWith(name));
    return listed.flatMap((line) => line.slice(name.length).trim().split(/\s+/));
  };
  const empty = new Set(list("empty "));
  const endings = list("ending ");

  const stem = (word) => {
    const ending = endings.find((one) => word.length >= LEFT_MIN + one.length && word.endsWith(one)) ?? "";
    const left = word.slice(0, word.length - ending.length);
    const isDoubled = left.length > LEFT_MIN && left.at(-1) === left.at(-2);
    return isDoubled ? left.slice(0, -1) : left;
  };
  const stems = (text) => words(text).map(stem);
  const pairs = (one) => one.slice(1).map((word, at) => `${one[at]} ${word}`);
  const withPairs = (text) => {
    const single = stems(text);
    return [...single, ...pairs(single)];
  };

  const instead = new Map();
  for (const [asked, said] of lines.filter((line) => line.includes(":")).map((line) => line.split(":"))) {
    for (const word of stems(asked)) instead.set(word, said.split(",").map((one) => stems(one).join(" ")));
  }

  /** What a question asks for: word or pair, and its weight. */
  function wantedBy(question) {
    const asked = words(question).filter((word) => !empty.has(word)).map(stem);
    const wanted = new Map();
    const add = (weight) => (word) => wanted.has(word) || wanted.set(word, weight);
    asked.forEach(add(1));
    pairs(asked).forEach(add(PAIR_WEIGHS));
    asked.flatMap((word) => instead.get(word) ?? []).forEach(add(INSTEAD_WEIGHS));
    return wanted;
  }

  /** A text as how often it has each word. */
  function counted(all) {
    const times = new Map();
    for (const word of all) times.set(word, (times.get(word) ?? 0) + 1);
    return { times, length: all.length };
  }

  /** How much each text is about the wanted words, by BM25. */
  function ranks(texts, wanted) {
    const mean = texts.reduce((sum, text) => sum + text.length, 0) / texts.length;
    const rare = [...wanted].map(([word, weight]) => {
      const having = texts.filter((text) => text.times.has(word)).length;
      return [word, weight * Math.log((texts.length - having + 0.5) / (having + 0.5) + 1)];
    });
    return texts.map((text) => {
      const long = SATURATION * (1 - LENGTH_WEIGHS + (LENGTH_WEIGHS * text.length) / mean);
      const of = ([word, rarity]) => {
        const times = text.times.get(word) ?? 0;
        return (rarity * times * (SATURATION + 1)) / (times + long);
      };
      return rare.reduce((sum, one) => sum + of(one), 0);
    });
  }

  /** The name of a page at an address: of a folder's own page, the folder. */
  const nameOf = (page) => page.replace(/\/?(README|index)\.html$/, "").replace(/\.html$/, "").split("/").at(-1);

  class Sections {
    /** `documents` are mdBook's, by the numbers of `addresses`. */
    constructor(documents, addresses) {
      this.sections = addresses.map((address, ref) => {
        const doc = documents[ref];
        const page = address.split("#")[0];
        const heading = withPairs(`${doc.title} ${nameOf(page)}`);
        const all = [...Array(HEADING_WEIGHS).fill(heading).flat(), ...withPairs(doc.body)];
        return { ref: String(ref), doc, page, all, text: counted(all) };
      });
      this.pages = [...new Set(this.sections.map((section) => section.page))];
      const ofPage = (page) => this.sections.filter((section) => section.page === page);
      this.texts = this.pages.map((page) => counted(ofPage(page).flatMap((section) => section.all)));
    }

    search(question) {
      const wanted = wantedBy(question);
      const ofPages = ranks(this.texts, wanted);
      const weight = (page) => {
        const isNamed = stems(nameOf(page)).some((word) => wanted.get(word) === 1);
        return isNamed ? NAMED_WEIGHS : 1;
      };
      const ofPage = new Map(this.pages.map((page, at) => [page, ofPages[at] * weight(page)]));
      const parts = ranks(this.sections.map((section) => section.text), wanted);
      const ranked = this.sections.map((section, at) => {
        const isGuide = section.page.startsWith("docs/") || section.page === "start.html";
        const both = parts[at] > 0 ? parts[at] + ofPage.get(section.page) : 0;
        return { ref: section.ref, doc: section.doc, page: section.page, score: both * (isGuide ? 1 : OF_PROJECT_WEIGHS) };
      });
      const seen = new Map();
      const isFirst = ({ page }) => seen.set(page, (seen.get(page) ?? 0) + 1).get(page) <= PER_PAGE;
      return ranked.filter(({ score }) => score > 0).sort((a, b) => b.score - a.score).filter(isFirst);
    }
  }

  elasticlunr.Index.load = (index) => new Sections(index.documentStore.docs, window.search.doc_urls);
})();
