/** References to models in registries: `HOST[:PORT]/repository[:tag]` or `HOST[:PORT]/repository@sha256:…`. */
import { hostPattern, misspelled, parseReference, type Reference } from "../store/reference.ts";

export interface RemoteReference {
  /** Host name, with `:PORT` if the user gave one. */
  readonly host: string;
  readonly repository: string;
  readonly tag: string | undefined;
  readonly digest: string | undefined;
}

const form = "a model in a registry (HOST[:PORT]/name[:tag], for example registry.example.com/team/digits:v1)";

/**
 * Whether the text before the first slash is a host: `localhost`, or a name with a dot or a port. `team/digits` has no
 * host.
 */
export function isRemote(text: string): boolean {
  const [host = "", rest] = text.split("/", 2);
  return rest !== undefined && ((/[.:]/.test(host) && !/^\.\.?$/.test(host)) || host === "localhost");
}

/**
 * Parses the name of a model in a registry.
 * @throws SconceError `usage` naming the misspelled part and the allowed syntax
 */
export function parseRemoteReference(text: string): RemoteReference {
  if (/^[a-z]+:\/\//i.test(text)) throw misspelled(text, "leave out the scheme before the host", form);
  const slash = text.indexOf("/");
  const host = text.slice(0, Math.max(slash, 0));
  if (!isRemote(text)) throw misspelled(text, "it does not begin with a registry's host", form);
  const port = hostPattern.exec(host);
  const isHost = port !== null && Number(port[1] ?? 1) <= 65535 && URL.canParse(`https://${host}/`);
  if (!isHost) throw misspelled(text, `${JSON.stringify(host)} is not a host`, form);
  const rest = text.slice(slash + 1);
  const reference: Reference = parseReference(rest);
  const canonical = canonicalHost(host);
  return {
    host: canonical,
    repository: apiRepository(canonical, reference.repository),
    tag: "tag" in reference && rest !== reference.repository ? reference.tag : undefined,
    digest: "digest" in reference ? reference.digest : undefined,
  };
}

export function formatRemote({ host, repository, tag, digest }: RemoteReference): string {
  const end = digest === undefined ? (tag === undefined ? "" : `:${tag}`) : `@${digest}`;
  return `${host}/${repository}${end}`;
}

// Docker Hub differs from other registries in the host of the API, the keys of logins and names without an owner.
const HUB = "docker.io";
const API_HOST = "registry-1.docker.io";
/** Other host names of Docker Hub, for which references use `docker.io`. */
const otherNames = /^(?:index|registry-1|registry\.hub|www)\.docker\.(?:io|com)$/;

/** The host in lower case, with `docker.io` for every name of Docker Hub. */
function canonicalHost(host: string): string {
  const lower = host.toLowerCase();
  return otherNames.test(lower) ? HUB : lower;
}

/** Host that serves the API of a registry. */
export function apiHostOf(host: string): string {
  return host === HUB ? API_HOST : host;
}

/** The repository's name in the API: on Docker Hub, `digits` is `library/digits`. */
function apiRepository(host: string, repository: string): string {
  return host === HUB && !repository.includes("/") ? `library/${repository}` : repository;
}

/** Keys under which `docker login` stores credentials. Credential helpers get the first key. */
export function loginKeys(host: string): readonly string[] {
  return host === HUB ? ["https://index.docker.io/v1/", HUB, API_HOST] : [host];
}
