// Weighs results of the search: pages that were written for readers above hundreds of generated ones, and above all the page
// that names the words of the query in `SEARCHED` of `conf.py`.
const asked = (new URLSearchParams(location.search).get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);

function weigh(page, score) {
  const words = (globalThis.SEARCHED?.[page] ?? "").toLowerCase().split(" ");
  const share = asked.filter((one) => words.includes(one)).length / Math.max(asked.length, 1);
  const isGenerated = /^(rules|findings|reference|internals)\/|^contributing$/.test(page);
  return (isGenerated ? score : 8 * score + 40) + 1000 * share;
}

/* exported Scorer */
var Scorer = {
  score: ([page, , , , score]) => weigh(page, score),
  // The others are Sphinx's own.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
