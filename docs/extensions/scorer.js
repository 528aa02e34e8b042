"use strict";

// What the search finds is put in order by headings: a page comes first if one of its headings has many
// words of the query, and is opened there. Without this, all pages that have every word count alike.

const WORDS_OF_HEADINGS = 15;
const GUIDES = /^(?:guides\/|start$)/;
const CHANGE = new Set(["another", "other", "different"]); // as in "another number of ranks"
const DENIAL = /\b(?:cannot|never|not)\b/i;

function wordsOf(text) {
  const stemmer = new Stemmer();
  const words = splitQuery(text.toLowerCase()).filter((word) => !stopwords.has(word));
  return new Set(words.map((word) => stemmer.stemWord(CHANGE.has(word) ? "change" : word)));
}

// For each page, its headings: text, anchor and words. Made once, at the first search.
let headings = null;

function headingsOf(page) {
  if (headings === null) {
    headings = new Map(Search._index.docnames.map((name) => [name, []]));
    for (const [title, places] of Object.entries(Search._index.alltitles))
      for (const [file, id] of places)
        headings.get(Search._index.docnames[file]).push({ title, id, words: wordsOf(title) });
  }
  return headings.get(page) || [];
}

var Scorer = {
  score: (result) => {
    const [page, title, anchor, , score, , kind] = result;
    if (kind !== SearchResultKind.text) return score;
    const query = wordsOf(new URLSearchParams(window.location.search).get("q") || "");
    let best = { share: 0 };
    for (const heading of headingsOf(page)) {
      const found = [...query].filter((word) => heading.words.has(word)).length;
      // Of headings with as many words of the query, the shorter one is more about it, and one that says
      // how something is done is more about it than one that says when it cannot be done.
      const length = heading.words.size + (DENIAL.test(heading.title) ? 10 : 0);
      const share = found / query.size - length / 1000;
      if (found && share > best.share) best = { share, found, ...heading };
    }
    if (best.found > 1 && best.id !== null && !anchor) {
      result[1] = `${title} > ${best.title}`;
      result[2] = `#${best.id}`;
    }
    return score + WORDS_OF_HEADINGS * best.share + (GUIDES.test(page) ? 4 : 0);
  },

  // As in Sphinx.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 5, // rather than 15: headings are counted above
  partialTitle: 3,
  term: 5,
  partialTerm: 2,
};
