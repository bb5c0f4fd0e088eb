/**
 * Makes the `Authorization` header for one repository of a registry: a name and password, or a token from the
 * registry's token server.
 */
import { z } from "zod";
import { oneLine, SconceError } from "../../base/errors.ts";
import { boundedJson, chunksOf } from "../../machine/network/bounded-body.ts";
import { type Credentials, findCredentials } from "./credentials.ts";

export interface AuthorizationOptions {
  readonly host: string;
  readonly repository: string;
  /** Actions for which a token is requested: `pull`, or `pull,push`. */
  readonly actions: string;
  /** Environment variables with the paths of credential files, such as DOCKER_CONFIG. Default: `process.env`. */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
  /** Whether the registry uses http. Only then may its token server use http. */
  readonly isPlain: boolean;
  /**
   * Sends a request to the token server, as `fetch` does. Failed connections throw a SconceError
   * `registry_unavailable`.
   */
  send(url: URL, init: BunFetchRequestInit): Promise<Response>;
}

interface Challenge {
  /** Authentication scheme in lower case, such as `bearer`. */
  readonly scheme: string;
  readonly parameters: Readonly<Record<string, string>>;
}

/** A token server's answer has `token`, `access_token`, or both. */
const tokenSchema = z.looseObject({ token: z.string().optional(), access_token: z.string().optional() });

const maxTokenBytes = 256 * 1024;

export class Authorization {
  readonly #options: AuthorizationOptions;
  #header: string | undefined;
  #renewal: Promise<void> | undefined;
  /** The user name in error messages; undefined if no credentials were found. */
  #user: string | undefined;
  #credentialFiles: readonly string[] = [];

  constructor(options: AuthorizationOptions) {
    this.#options = options;
  }

  /** The header for the next request; undefined until the registry answers 401 for the first time. */
  get header(): string | undefined {
    return this.#header;
  }

  /**
   * Logs in after the status 401. Concurrent requests that were refused with the same header share one login.
   * @param challenge the `WWW-Authenticate` header of the answer
   * @param refused the `Authorization` header of the refused request
   * @throws SconceError `registry_denied` when no credentials fit the challenge, or the token server refuses them;
   * `registry_refused` when the token server gives no token
   */
  async renew(challenge: string | null, refused: string | undefined): Promise<void> {
    if (this.#header !== refused) return;
    this.#renewal ??= this.#login(challenge ?? "").finally(() => {
      this.#renewal = undefined;
    });
    await this.#renewal;
  }

  /** Whether the header has a token. A registry may refuse a new token for a moment, until all its hosts know it. */
  get hasToken(): boolean {
    return this.#header?.startsWith("Bearer ") === true;
  }

  /** The error for a request that the registry refused. Its message suggests a fix, such as `docker login`. */
  denied(why: string): SconceError {
    const { host, repository, actions } = this.#options;
    const verb = actions.includes("push") ? "push to" : "pull";
    if (this.#user !== undefined) {
      const message = `${host} does not let ${this.#user} ${verb} ${repository} (${why}); check the name and that the repository exists, or log in as another user: docker login ${host}`;
      return new SconceError("registry_denied", message);
    }
    const files = this.#credentialFiles;
    const where = files.length === 0 ? "" : `; none was found in ${files.join(", ")}`;
    const message = `${host} asks for a login to ${verb} ${repository} (${why})${where}: check the name and that the repository exists, or log in: docker login ${host}`;
    return new SconceError("registry_denied", message);
  }

  async #login(text: string): Promise<void> {
    const challenges = parseChallenges(text);
    const { host, env } = this.#options;
    const { found, files } = await findCredentials(host, env);
    this.#credentialFiles = files;
    this.#user = found?.username;
    const bearer = challenges.find(({ scheme }) => scheme === "bearer");
    const basic = challenges.find(({ scheme }) => scheme === "basic");
    if (bearer) this.#header = `Bearer ${await this.#fetchToken(bearer, found)}`;
    else if (basic && found) this.#header = basicHeader(found);
    else throw this.denied(basic ? "401" : "401 without a challenge that sconce knows: Basic or Bearer");
  }

  async #fetchToken({ parameters }: Challenge, found: Credentials | undefined): Promise<string> {
    const { host, repository, actions, send } = this.#options;
    const url = this.#tokenServer(parameters.realm);
    if (parameters.service !== undefined) url.searchParams.set("service", parameters.service);
    for (const scope of scopesOf(`repository:${repository}:${actions}`, parameters.scope ?? "")) {
      url.searchParams.append("scope", scope);
    }
    const answer = await send(url, { headers: found ? { Authorization: basicHeader(found) } : {} });
    if (answer.status === 401 || answer.status === 403) {
      await answer.body?.cancel();
      throw this.denied(`${answer.status} from its token server`);
    }
    const content = await boundedJson(chunksOf(answer), maxTokenBytes).catch(() => undefined);
    const token = answer.ok ? tokenSchema.safeParse(content).data : undefined;
    const text = token?.token ?? token?.access_token;
    if (text !== undefined && /^[\x21-\x7e]+$/.test(text)) return text;
    throw new SconceError("registry_refused", `the token server of ${host} answered ${answer.status} without a token`);
  }

  /**
   * The URL of the token server, which the registry names in `realm`. The token server gets the password, so it must
   * use https unless the registry itself uses http.
   */
  #tokenServer(realm: string | undefined): URL {
    const { host, isPlain } = this.#options;
    const url = realm !== undefined && URL.canParse(realm) ? new URL(realm) : undefined;
    if (url?.protocol === "https:" || (url?.protocol === "http:" && isPlain)) return url;
    throw new SconceError(
      "registry_refused",
      `${host} names ${oneLine(JSON.stringify(realm ?? ""))} as its token server; expected an https URL`,
    );
  }
}

/**
 * The scopes of a token: the own one, and those that the registry's challenge names. Registries in front of another one
 * name its repository. Actions for the same resource are joined.
 */
function scopesOf(own: string, challenge: string): string[] {
  const actions = new Map<string, Set<string>>();
  for (const scope of [own, ...challenge.split(/\s+/).filter((each) => each !== "")]) {
    const end = scope.lastIndexOf(":");
    const [resource, given] = end < 0 ? [scope, []] : [scope.slice(0, end), scope.slice(end + 1).split(",")];
    actions.set(resource, new Set([...(actions.get(resource) ?? []), ...given]));
  }
  return Array.from(actions, ([resource, all]) => (all.size === 0 ? resource : `${resource}:${[...all].join(",")}`));
}

function basicHeader({ username, password }: Credentials): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}`;
}

/**
 * Parses a `WWW-Authenticate` header such as `Bearer realm="…",service="…", Basic realm="…"` (RFC 9110). The
 * lookbehinds keep the time linear in the header's length.
 */
function parseChallenges(text: string): Challenge[] {
  const challenges: { scheme: string; parameters: Record<string, string> }[] = [];
  for (const [, scheme, name, quoted, plain] of text.matchAll(
    /(?<![\w-])([A-Za-z][\w-]*)\s+(?=[A-Za-z_]+\s*=)|(?<![A-Za-z_])([A-Za-z_]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))/g,
  )) {
    if (scheme !== undefined) challenges.push({ scheme: scheme.toLowerCase(), parameters: {} });
    const current = challenges.at(-1);
    if (name !== undefined && current)
      current.parameters[name.toLowerCase()] = quoted?.replaceAll(/\\(.)/g, "$1") ?? plain ?? "";
  }
  return challenges;
}
