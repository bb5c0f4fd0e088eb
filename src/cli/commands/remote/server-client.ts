/** Sends requests to a running server, for the commands `bench` and `top`. */
import { readFileSync } from "node:fs";
import { z } from "zod";
import { codeOf, messageOf, oneLine, SconceError } from "../../../base/errors.ts";
import { parsedJson } from "../../../base/json.ts";
import { filePath, type OptionValues, openOption } from "../../../base/option.ts";
import { usage } from "../../command-line/command.ts";

export const DEFAULT_URL = "http://localhost:3000";

const UNKNOWN_AUTHORITY =
  "its certificate is not of a known authority; the variable NODE_EXTRA_CA_CERTS names the file of another authority";

export const serverOptions = {
  key: openOption<string>({
    description: "API key of the server",
    valueHint: "key",
    described: "none",
    isSecret: true,
    variable: "SCONCE_API_KEY",
    parse: z.string().min(1, "must be a key"),
  }),
  clientCert: openOption<string>({
    description: "File of the client's certificate (PEM), for a server with --tls-client-ca",
    described: "none",
    ...filePath,
  }),
  clientKey: openOption<string>({
    description: "File of the private key of --client-cert (PEM)",
    described: "none",
    ...filePath,
  }),
} as const;

export class ServerClient {
  readonly #base: URL;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #tls: { readonly cert: string; readonly key: string } | undefined;

  /**
   * @param url address of the server; `http://` is added to a URL without a scheme
   * @throws SconceError `usage` for a malformed URL, or a file that cannot be read
   */
  constructor(url: string, { key, clientCert, clientKey }: OptionValues<typeof serverOptions>) {
    const base = URL.parse(url.includes("://") ? url : `http://${url}`);
    if (base === null || !/^https?:$/.test(base.protocol)) {
      throw usage(`${JSON.stringify(url)} is not the URL of a server, e.g. ${DEFAULT_URL}`);
    }
    if (!base.pathname.endsWith("/")) base.pathname += "/";
    this.#base = base;
    this.#headers = key === undefined ? {} : { Authorization: `Bearer ${key}` };
    if ((clientCert === undefined) !== (clientKey === undefined))
      throw usage("a client's certificate needs both --client-cert and --client-key");
    if (clientCert !== undefined && clientKey !== undefined)
      this.#tls = { cert: contentOf("--client-cert", clientCert), key: contentOf("--client-key", clientKey) };
  }

  get url(): string {
    return this.#base.href.replace(/\/$/, "");
  }

  /**
   * Sends a request.
   * @param path below the path of the server, without a slash at its beginning
   * @throws SconceError `not_ready` without an answer
   */
  fetch(
    path: string,
    { headers, ...init }: RequestInit & { headers?: Record<string, string> } = {},
  ): Promise<Response> {
    return fetch(new URL(path, this.#base), {
      ...init,
      ...(this.#tls && { tls: this.#tls }),
      headers: { ...this.#headers, ...headers },
    }).catch((error: unknown) => {
      throw new SconceError("not_ready", `${this.url} does not answer: ${this.#reasonOf(error)}`, { cause: error });
    });
  }

  /**
   * Requests a path and returns the body of the answer.
   * @throws SconceError `not_ready` for an error status, or without an answer
   */
  async text(path: string, accept = "*/*"): Promise<string> {
    const response = await this.fetch(path, { headers: { Accept: accept } });
    const text = await response.text();
    if (response.ok) return text;
    throw this.refusal(`GET ${this.url}/${path}`, response.status, text);
  }

  /** The error for a request that the server refused, with the reason in the problem details of the answer. */
  refusal(request: string, status: number, text: string): SconceError {
    const hint = status === 401 && this.#headers.Authorization === undefined ? "; give a key with --key" : "";
    const reason = z.object({ detail: z.string() }).safeParse(parsedJson(text)).data?.detail;
    return new SconceError(
      "not_ready",
      `${request} was answered with ${status}${reason === undefined ? "" : `: ${oneLine(reason)}`}${hint}`,
    );
  }

  /** Why a request has no answer. Messages of Bun name no cause that an operator knows, so known codes are replaced. */
  #reasonOf(error: unknown): string {
    const reasons: Readonly<Record<string, string>> = {
      ECONNREFUSED: "nothing listens on this port (ECONNREFUSED)",
      ECONNRESET: `the server closed the connection (ECONNRESET)${this.#base.protocol === "http:" ? "; if it has TLS, begin the address with https://" : ""}`,
      EPROTO: "the TLS handshake failed (EPROTO); the server has no TLS on this port, or requires client certificates",
      UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNKNOWN_AUTHORITY,
      DEPTH_ZERO_SELF_SIGNED_CERT: UNKNOWN_AUTHORITY,
      SELF_SIGNED_CERT_IN_CHAIN: UNKNOWN_AUTHORITY,
    };
    return reasons[codeOf(error)] ?? messageOf(error);
  }

  async json<T>(path: string, schema: z.ZodType<T>): Promise<T> {
    const parsed = schema.safeParse(parsedJson(await this.text(path, "application/json"))).data;
    if (parsed !== undefined) return parsed;
    throw new SconceError(
      "not_ready",
      `${this.url}/${path} did not answer as a sconce server: is this the address of another server?`,
    );
  }
}

function contentOf(option: string, path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw usage(`${option} ${path} cannot be read: ${messageOf(error)}`);
  }
}
