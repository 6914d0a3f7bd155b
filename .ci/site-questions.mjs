// Asks the site's search what people ask, as a browser would: site-questions.mjs FOLDER LIST. Each answer of the list must be among the
// first three.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import vm from "node:vm";

const [folder, list] = process.argv.slice(2);
const FIRST = 3;

const page = vm.createContext({ search: {} });
page.window = page;
const files = readdirSync(folder);
for (const name of ["elasticlunr", "site-search", "searchindex"]) {
  const file = files.find((one) => one.startsWith(name) && one.endsWith(".js"));
  vm.runInContext(readFileSync(join(folder, file), "utf8"), page, { filename: file });
}
const index = page.elasticlunr.Index.load(page.search.index);

/** A section as PAGE#HEADING, as lists name it. */
const named = ({ ref, doc }) => {
  const address = page.search.doc_urls[ref].split("#")[0];
  const path = address.replace(/^docs\//, "").replace(/index\.html$/, "README").replace(/\.html$/, "");
  return `${path}#${doc.title.replaceAll("`", "")}`;
};
const isAnswer = (section, answer) =>
  answer.includes("#") ? section === answer.replaceAll("`", "") : section.startsWith(`${answer}#`);

const questions = readFileSync(list, "utf8").split("\n").filter((line) => line.includes(" = "));
const missed = questions.filter((line) => {
  const [question, answers] = line.split(" = ");
  const found = index.search(question).slice(0, FIRST).map(named);
  const isFound = answers.split(" | ").some((answer) => found.some((section) => isAnswer(section, answer)));
  if (!isFound) console.log(`site: "${question}" finds ${found.join(", ")}`);
  return !isFound;
});
console.log(`site: search answers ${questions.length - missed.length} of ${questions.length} questions among its first ${FIRST}`);
process.exitCode = missed.length > 0 ? 1 : 0;
