/** The `Authorization` header for one repository of a registry: name and password, or a token for which those are exchanged. */
import { z } from "zod";
import { oneLine, SconceError } from "../../base/errors.ts";
import { boundedJson, chunksOf } from "../../machine/network/bounded-body.ts";
import { type Credentials, findCredentials } from "./credentials.ts";
import { type Manners, mannersOfService } from "./manners.ts";

export interface AuthorizationOptions {
  readonly host: string;
  readonly repository: string;
  /** What will be asked of the repository: `pull`, or `pull,push`. */
  readonly actions: string;
  /** Other repositories to read from. */
  readonly alsoPull?: readonly string[] | undefined;
  /** Where credentials are looked for. */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
  readonly manners: Manners;
  /** Whether the registry speaks http, so that its token server may, too. */
  readonly isPlain: boolean;
  /** As `fetch`, telling failures of the connection alike. */
  send(url: URL, init: BunFetchRequestInit): Promise<Response>;
}

interface Challenge {
  /** In lower case. */
  readonly scheme: string;
  readonly parameters: Readonly<Record<string, string>>;
}

/** Token servers say `token`, `access_token`, or both. */
const tokenSchema = z.looseObject({ token: z.string().optional(), access_token: z.string().optional() });

const maxTokenBytes = 256 * 1024;

export class Authorization {
  readonly #options: AuthorizationOptions;
  #header: string | undefined;
  #renewing: Promise<void> | undefined;
  /** The name that was used, for messages; never a secret. */
  #user: string | undefined;
  #lookedIn: readonly string[] = [];
  #manners: Manners;

  constructor(options: AuthorizationOptions) {
    this.#options = options;
    this.#manners = options.manners;
  }

  /** To be sent with every request to the registry itself; undefined until it asks. */
  get header(): string | undefined {
    return this.#header;
  }

  /**
   * Does what a 401 asks for, once for all requests that were sent with the same header.
   *
   * @param challenge the answer's `WWW-Authenticate`
   * @param sent the header that was refused
   * @throws SconceError `registry_denied` when there is nothing else to try
   */
  async answer(challenge: string | null, sent: string | undefined): Promise<void> {
    if (this.#header !== sent) return;
    this.#renewing ??= this.#renew(challenge ?? "").finally(() => {
      this.#renewing = undefined;
    });
    await this.#renewing;
  }

  /** What is to be said when access is refused, with the fix. */
  denied(why: string): SconceError {
    const { host, repository, actions } = this.#options;
    const verb = actions.includes("push") ? "push to" : "pull";
    const { product, hidesMissing, createFirst = "the name" } = this.#manners;
    const hint = hidesMissing ? `${product} answers so, too, where ${repository} does not exist: ` : "";
    const name = hidesMissing && actions.includes("push") ? createFirst.replace(/:.*/, "") : "the name";
    if (this.#user !== undefined) {
      const message = `${host} does not let ${this.#user} ${verb} ${repository} (${why}); ${hint}check ${name}, or log in as another user: docker login ${host}`;
      return new SconceError("registry_denied", message);
    }
    const where = this.#lookedIn.length === 0 ? "" : `; none was found in ${this.#lookedIn.join(", ")}`;
    const message = `${host} asks for a login to ${verb} ${repository} (${why})${where}: ${hint}check ${name}, or log in: docker login ${host}`;
    return new SconceError("registry_denied", message);
  }

  async #renew(text: string): Promise<void> {
    const challenges = parseChallenges(text);
    const { host, repository, env } = this.#options;
    const { found, files } = await findCredentials({ host, repository }, env);
    this.#lookedIn = files;
    this.#user = found && (found.kind === "password" ? found.username : "the user of the saved token");
    const bearer = challenges.find(({ scheme }) => scheme === "bearer");
    this.#manners = mannersOfService(bearer?.parameters.service) ?? this.#manners;
    const basic = challenges.find(({ scheme }) => scheme === "basic");
    if (bearer) this.#header = `Bearer ${await this.#fetchToken(bearer, found)}`;
    else if (basic && found?.kind === "password") this.#header = basicHeader(found);
    else throw this.denied(basic ? "401" : "401 without a challenge that sconce knows: Basic or Bearer");
  }

  async #fetchToken({ parameters }: Challenge, found: Credentials | undefined): Promise<string> {
    const { host, repository, actions, alsoPull = [], send } = this.#options;
    const url = this.#realm(parameters.realm);
    const scopes = [`repository:${repository}:${actions}`, ...alsoPull.map((other) => `repository:${other}:pull`)];
    const service = parameters.service === undefined ? {} : { service: parameters.service };
    let answer: Response;
    if (found?.kind === "identity") {
      const form = { grant_type: "refresh_token", client_id: "sconce", refresh_token: found.token };
      answer = await send(url, {
        method: "POST",
        body: new URLSearchParams({ ...form, ...service, scope: scopes.join(" ") }),
      });
    } else {
      for (const [name, value] of Object.entries(service)) url.searchParams.set(name, value);
      for (const scope of scopes) url.searchParams.append("scope", scope);
      answer = await send(url, { headers: found ? { Authorization: basicHeader(found) } : {} });
    }
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

  /** Where tokens come from is the registry's choice, but credentials are not sent in the clear where it speaks TLS. */
  #realm(text: string | undefined): URL {
    const { host, isPlain } = this.#options;
    const url = text !== undefined && URL.canParse(text) ? new URL(text) : undefined;
    if (url?.protocol === "https:" || (url?.protocol === "http:" && isPlain)) return url;
    throw new SconceError(
      "registry_refused",
      `${host} names ${oneLine(JSON.stringify(text ?? ""))} as its token server; expected an https URL`,
    );
  }
}

function basicHeader({ username, password }: { readonly username: string; readonly password: string }): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}`;
}

/** `Bearer realm="…",service="…", Basic realm="…"` (RFC 9110). Words are looked at from their beginnings alone: a header may be one long word. */
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
