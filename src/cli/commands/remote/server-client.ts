/** Sends requests to a running server, for the commands `bench` and `top`. */
import { z } from "zod";
import { messageOf, SconceError } from "../../../base/errors.ts";
import { openOption } from "../../../base/option.ts";
import { usage } from "../../command-line/command.ts";

export const DEFAULT_URL = "http://localhost:3000";

export const serverOptions = {
  key: openOption<string>({
    description: "API key of the server",
    valueHint: "key",
    described: "none",
    isSecret: true,
    variable: "SCONCE_API_KEY",
    parse: z.string().min(1, "must be a key"),
  }),
} as const;

export class ServerClient {
  readonly #base: URL;
  readonly #headers: Readonly<Record<string, string>>;

  /**
   * @param url address of the server; `http://` is added to a URL without a scheme @throws SconceError `usage` for a
   * malformed URL
   */
  constructor(url: string, key: string | undefined) {
    const base = URL.parse(url.includes("://") ? url : `http://${url}`);
    if (base === null || !/^https?:$/.test(base.protocol)) {
      throw usage(`${JSON.stringify(url)} is not the URL of a server, e.g. ${DEFAULT_URL}`);
    }
    if (!base.pathname.endsWith("/")) base.pathname += "/";
    this.#base = base;
    this.#headers = key === undefined ? {} : { Authorization: `Bearer ${key}` };
  }

  get url(): string {
    return this.#base.href.replace(/\/$/, "");
  }

  /** Sends a request. @param path below the path of the server, without a slash at its beginning */
  fetch(
    path: string,
    { headers, ...init }: RequestInit & { headers?: Record<string, string> } = {},
  ): Promise<Response> {
    return fetch(new URL(path, this.#base), { ...init, headers: { ...this.#headers, ...headers } });
  }

  /**
   * Requests a path and returns the body of the answer.
   * @throws SconceError `not_ready` for an error status, or without an answer
   */
  async text(path: string, accept = "*/*"): Promise<string> {
    let response: Response;
    try {
      response = await this.fetch(path, { headers: { Accept: accept } });
    } catch (error) {
      throw new SconceError("not_ready", `${this.url} does not answer: ${messageOf(error)}`);
    }
    const text = await response.text();
    if (response.ok) return text;
    const hint = response.status === 401 ? ": give a key with --key" : "";
    throw new SconceError("not_ready", `GET ${this.url}/${path} was answered with ${response.status}${hint}`);
  }

  async json<T>(path: string, schema: z.ZodType<T>): Promise<T> {
    const parsed = parsedJson(await this.text(path, "application/json"), schema);
    if (parsed !== undefined) return parsed;
    throw new SconceError(
      "not_ready",
      `${this.url}/${path} did not answer as a sconce server: is this the address of another server?`,
    );
  }
}

/** Parses and validates JSON. @returns undefined for text that is not JSON, or does not fit the schema */
export function parsedJson<T>(text: string, schema: z.ZodType<T>): T | undefined {
  try {
    return schema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}
