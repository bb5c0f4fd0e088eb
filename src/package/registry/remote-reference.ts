/** References to models in registries, as other registry tools spell them: `HOST[:PORT]/repository[:tag]` or `…@sha256:…`. */
import { SconceError } from "../../base/errors.ts";
import { parseReference, type Reference } from "../store/reference.ts";
import { mannersOf, usualHost } from "./manners.ts";

export interface RemoteReference {
  /** With its port, where one was given. */
  readonly host: string;
  readonly repository: string;
  /** The tag, or the digest of a manifest; undefined where neither was given. */
  readonly tag: string | undefined;
  readonly digest: string | undefined;
}

const hostPattern = /^(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?$/;
const example = "registry.example.com/team/digits:v1";

/** Whether a reference begins with a registry's host. */
export function isRemote(text: string): boolean {
  const [host = "", rest] = text.split("/", 2);
  return rest !== undefined && ((/[.:]/.test(host) && !/^\.\.?$/.test(host)) || host === "localhost");
}

/**
 * Reads a reference whose first part is a host: one with a dot or a port, or `localhost`, so that `team/digits` is not taken for one.
 *
 * @throws SconceError `usage` naming the part that is misspelled and what is allowed
 */
export function parseRemoteReference(text: string): RemoteReference {
  if (/^[a-z]+:\/\//i.test(text)) throw misspelled(text, "leave out what stands before the host");
  const slash = text.indexOf("/");
  const host = text.slice(0, Math.max(slash, 0));
  if (!isRemote(text)) throw misspelled(text, "it does not begin with a registry's host");
  const port = hostPattern.exec(host);
  const isHost = port !== null && Number(port[1] ?? 1) <= 65535 && URL.canParse(`https://${host}/`);
  if (!isHost) throw misspelled(text, `${JSON.stringify(host)} is not a host`);
  const rest = text.slice(slash + 1);
  const reference: Reference = parseReference(rest);
  const usual = usualHost(host);
  const { officialOwner } = mannersOf(usual);
  const isOfficial = officialOwner !== undefined && !reference.repository.includes("/");
  return {
    host: usual,
    repository: isOfficial ? `${officialOwner}/${reference.repository}` : reference.repository,
    tag: "tag" in reference && rest !== reference.repository ? reference.tag : undefined,
    digest: "digest" in reference ? reference.digest : undefined,
  };
}

/** The reference as it is typed. */
export function formatRemote({ host, repository, tag, digest }: RemoteReference): string {
  const end = digest === undefined ? (tag === undefined ? "" : `:${tag}`) : `@${digest}`;
  return `${host}/${repository}${end}`;
}

function misspelled(given: string, why: string): SconceError {
  const shown = given.length > 100 ? `${given.slice(0, 100)}…` : given;
  return new SconceError(
    "usage",
    `${JSON.stringify(shown)} is not a model in a registry (HOST[:PORT]/name[:tag], for example ${example}): ${why}`,
  );
}
