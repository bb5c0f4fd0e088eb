/**
 * Names of models: `repository[:tag]` or `repository@sha256:…`, in the grammar of the OCI distribution spec. The
 * repository of a model from a registry begins with the registry's host.
 */

import { maxRepositoryLength, repositoryPattern } from "../../author/name.ts";
import { SconceError } from "../../base/errors.ts";

/** The default tag, which moves to each new build. */
export const latestTag = "latest";

export type Reference = TagReference | DigestReference;

export interface TagReference {
  readonly repository: string;
  readonly tag: string;
}

export interface DigestReference {
  readonly repository: string;
  /** Digest of a manifest: `sha256:` and 64 hex digits. */
  readonly digest: string;
}

const tagPattern = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$/;
const digestPattern = /^sha256:[a-f0-9]{64}$/;

/**
 * Parses `repository`, `repository:tag` or `repository@sha256:…`. The default tag is `latest`.
 * @throws SconceError `usage` naming the misspelled part and the allowed characters
 */
export function parseReference(text: string): Reference {
  const host = hostOf(text);
  if (host === undefined) return parsePath(text);
  const reference = parsePath(text.slice(host.length + 1), text);
  return { ...reference, repository: checkRepository(`${host}/${reference.repository}`, text) };
}

/** A registry's host with an optional port. The pattern's first group is the port. */
export const hostPattern = /^(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?$/;

/**
 * The registry's host at the start of a model's name: `localhost`, or a name with a dot or a port before the first
 * slash. Undefined if the name has no host.
 */
export function hostOf(text: string): string | undefined {
  const [host = "", rest] = text.split("/", 2);
  const isNamed = host === "localhost" || (/[.:]/.test(host) && hostPattern.test(host));
  return rest !== undefined && isNamed ? host : undefined;
}

function parsePath(text: string, given = text): Reference {
  const at = text.indexOf("@");
  if (at >= 0) {
    const digest = text.slice(at + 1);
    const named = text.slice(0, at);
    if (named.includes(":")) throw misspelled(given, "give a tag or a digest, not both");
    if (!isDigest(digest)) throw misspelled(given, 'a digest is "sha256:" and 64 hex digits in lower case');
    return { repository: checkRepository(named, given), digest };
  }
  // The text after the first colon is the tag, even with a slash: a repository cannot contain a colon.
  const colon = text.indexOf(":");
  if (colon < 0) return { repository: checkRepository(text, given), tag: latestTag };
  return { repository: checkRepository(text.slice(0, colon), given), tag: checkTag(text.slice(colon + 1), given) };
}

/** Formats a reference as `repository:tag` or `repository@sha256:…`. */
export function formatReference(reference: Reference): string {
  return "tag" in reference
    ? `${reference.repository}:${reference.tag}`
    : `${reference.repository}@${reference.digest}`;
}

/** The tag made from a manifest's digest: its first 12 hex digits. Equal models have equal tags. */
export function generatedTag(digest: string): string {
  return digest.slice("sha256:".length, "sha256:".length + 12);
}

/** Whether `text` is `sha256:` and 64 lower-case hex digits. Then it is safe as a file name. */
export function isDigest(text: string): boolean {
  return digestPattern.test(text);
}

/**
 * Returns the repository if it is valid.
 * @param given the user's full input, for the message. Default: the repository
 * @throws SconceError `usage`
 */
export function checkRepository(repository: string, given: string = repository): string {
  if (repository === "") throw misspelled(given, "the name is empty");
  if (repository.length > maxRepositoryLength) {
    throw misspelled(given, `the name has ${repository.length} characters; at most ${maxRepositoryLength} are allowed`);
  }
  const host = hostOf(repository);
  const path = host === undefined ? repository : repository.slice(host.length + 1);
  if (repositoryPattern.test(path)) return repository;
  const lower = repository.toLowerCase();
  if (lower !== repository && repositoryPattern.test(lower)) {
    throw misspelled(given, `names are in lower case; did you mean "${given.replace(repository, lower)}"?`);
  }
  throw misspelled(
    given,
    "a name is made of a-z and 0-9, with single '.', '_', '__' or dashes between them, and '/' between parts",
  );
}

/**
 * Returns the tag if it is valid.
 * @param given the user's full input, for the message. Default: the tag
 * @throws SconceError `usage`
 */
export function checkTag(tag: string, given: string = tag): string {
  if (tagPattern.test(tag)) return tag;
  if (tag === "") throw misspelled(given, "the tag is empty; leave the colon out for the latest build");
  throw misspelled(given, "a tag is 1 to 128 of A-Z, a-z, 0-9, '_', '.' and '-', and does not start with '.' or '-'");
}

/**
 * The error for a misspelled name of a model.
 * @param expected text after "is not", with the expected form
 */
export function misspelled(given: string, why: string, expected = "a model reference (name[:tag])"): SconceError {
  const shown = given.length > 100 ? `${given.slice(0, 100)}…` : given;
  return new SconceError("usage", `${JSON.stringify(shown)} is not ${expected}: ${why}`);
}
