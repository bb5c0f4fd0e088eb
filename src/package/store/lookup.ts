/** Finds the index entry of a model's name. Error messages list the models or tags that exist. */
import { closest } from "../../base/closest.ts";
import { SconceError } from "../../base/errors.ts";
import { programName } from "../../machine/processes/program-name.ts";
import type { IndexEntry } from "./index-file.ts";
import { formatReference, generatedTag, latestTag, type Reference } from "./reference.ts";

const maxListed = 10;

/**
 * The entry of a reference; without a reference, the entry of the newest build. Without a reference or for a digest,
 * the result has the tag made from the digest.
 * @param home the store's folder, for the message about an empty store
 * @throws SconceError `model_not_found`, listing the models or tags that exist
 */
export function findEntry(entries: readonly IndexEntry[], reference: Reference | undefined, home: string): IndexEntry {
  const latest = newest(entries);
  if (!latest) throw notFound(`the model store ${home} is empty; build a model with "${programName} build DIR"`);
  if (!reference) return withGeneratedTag(latest, entries);
  const ofRepository = entries.filter((entry) => entry.repository === reference.repository);
  if (ofRepository.length === 0) throw noRepository(entries, reference.repository);
  if ("digest" in reference) {
    const found = newest(ofRepository.filter((entry) => entry.digest === reference.digest));
    if (!found) throw notFound(`no model ${formatReference(reference)} in the store (tags: ${tagsOf(ofRepository)})`);
    return withGeneratedTag(found, ofRepository);
  }
  const found = ofRepository.findLast((entry) => entry.tag === reference.tag);
  if (!found) throw noTag(ofRepository, reference.repository, reference.tag);
  return found;
}

/** The entry with the latest build time; undefined for an empty list. The last of several with this time wins. */
export function newest(entries: readonly IndexEntry[]): IndexEntry | undefined {
  const time = (entry: IndexEntry) => entry.created?.getTime() ?? 0;
  return entries.reduce<IndexEntry | undefined>(
    (best, entry) => (best && time(best) > time(entry) ? best : entry),
    undefined,
  );
}

function withGeneratedTag(entry: IndexEntry, entries: readonly IndexEntry[]): IndexEntry {
  const tag = generatedTag(entry.digest);
  const hasTag = entries.some((other) => other.repository === entry.repository && other.tag === tag);
  return hasTag ? { ...entry, tag } : entry;
}

function noRepository(entries: readonly IndexEntry[], repository: string): SconceError {
  const known = unique(entries.map((entry) => entry.repository)).sort();
  const sameEnd = known.find((name) => name.endsWith(`/${repository}`));
  const hint = sameEnd === undefined ? didYouMean(repository, known) : `; did you mean "${sameEnd}"?`;
  return notFound(`no model ${JSON.stringify(repository)} in the store${hint} (models: ${listed(known)})`);
}

function noTag(ofRepository: readonly IndexEntry[], repository: string, tag: string): SconceError {
  const hint = didYouMean(
    tag,
    ofRepository.map((entry) => entry.tag),
  );
  return notFound(`model "${repository}" has no tag ${JSON.stringify(tag)}${hint} (tags: ${tagsOf(ofRepository)})`);
}

function tagsOf(entries: readonly IndexEntry[]): string {
  const rank = (tag: string) => (tag === latestTag ? 0 : 1);
  return listed(unique(entries.map((entry) => entry.tag)).sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1)));
}

function didYouMean(given: string, known: readonly string[]): string {
  const near = closest(given, known);
  return near === undefined ? "" : `; did you mean "${near}"?`;
}

function unique(words: readonly string[]): string[] {
  return [...new Set(words)];
}

function listed(words: readonly string[]): string {
  const more = words.length - maxListed;
  return words.slice(0, maxListed).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

function notFound(message: string): SconceError {
  return new SconceError("model_not_found", message);
}
