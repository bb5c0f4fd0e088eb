/** Reads and writes keys in a folder of an S3-compatible bucket, with a time limit for each request. */

import { Gate } from "../../base/collections/gate.ts";
import { codeOf, messageOf, SconceError } from "../../base/errors.ts";
import { raced } from "../../base/raced.ts";
import type { MemoryAccount } from "../memory/memory-account.ts";

const SMALL_MS = 3000;
/** Transfers that are slower than this fail. */
const MIN_BYTES_PER_MS = 2000;
const MAX_REQUESTS = 16;
/** Maximum attempts of a request that gets the status 500 or more. */
const TRIES = 4;
const RETRY_MS = 50;
/** Maximum characters that are read of an error answer. */
const MAX_FAULT_CHARACTERS = 4000;
/** Maximum seconds that S3 allows a link to be valid. */
const MAX_LINK_S = 604_800;

export interface BucketOptions {
  /** `s3://bucket/folder` */
  readonly address: string;
  readonly memory: MemoryAccount;
  /** Environment variables with the endpoint, region and keys; by default the variables of the process. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Time limit of a small request in milliseconds. The wait for a free connection counts too. */
  readonly limitMs?: number;
}

interface Sent {
  readonly method: "GET" | "PUT" | "DELETE";
  readonly key: string;
  readonly body?: Uint8Array<ArrayBuffer> | string;
  readonly type?: string;
}

export class Bucket {
  readonly #client: Bun.S3Client;
  readonly #folder: string;
  readonly #memory: MemoryAccount;
  readonly #limitMs: number;
  readonly #gate = new Gate(MAX_REQUESTS);

  constructor({ address, memory, env = process.env, limitMs = SMALL_MS }: BucketOptions) {
    const [, bucket = "", folder = ""] = /^s3:\/\/([^/]+)\/?(.*?)\/*$/.exec(address) ?? [];
    this.#client = new Bun.S3Client({ ...settingsIn(env), bucket });
    this.#folder = folder === "" ? "" : `${folder}/`;
    this.#memory = memory;
    this.#limitMs = limitMs;
  }

  /** Writes a key. @throws SconceError `queue_unavailable` */
  async put(key: string, body: Uint8Array<ArrayBuffer> | string, type = "application/octet-stream"): Promise<void> {
    await this.#send({ method: "PUT", key, body, type }, async () => {});
  }

  /** Reads a key; undefined if the bucket has no such key. @throws SconceError `queue_unavailable` */
  get(key: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
    return this.#send({ method: "GET", key }, async (response) => new Uint8Array(await response.arrayBuffer()));
  }

  /** Deletes a key, if it exists. @throws SconceError `queue_unavailable` */
  async delete(key: string): Promise<void> {
    await this.#send({ method: "DELETE", key }, async () => {});
  }

  /** A signed URL that downloads a key for `seconds`, at most a week. The key may be written later. */
  link(key: string, seconds: number): string {
    const expiresIn = Math.min(MAX_LINK_S, Math.max(1, Math.ceil(seconds)));
    return this.#client.presign(this.#folder + key, { method: "GET", expiresIn });
  }

  /** Sends a request with `fetch` to a URL that Bun's S3 client has signed, because requests of that client cannot be aborted. */
  async #send<T>(sent: Sent, read: (response: Response) => Promise<T>): Promise<T | undefined> {
    const { method, key, body, type } = sent;
    const bytes = body === undefined ? 0 : Buffer.byteLength(body);
    using charge = this.#memory.add("outputs", bytes);
    const controller = new AbortController();
    const { signal } = controller;
    const limited = (transferred: number) =>
      setTimeout(
        () => controller.abort(new DOMException("The time is up", "TimeoutError")),
        this.#limitMs + transferred / MIN_BYTES_PER_MS,
      );
    // The time limit includes the wait for a free connection.
    let timer = limited(bytes);
    const request = async (tries = TRIES): Promise<T | undefined> => {
      signal.throwIfAborted();
      const url = this.#client.presign(this.#folder + key, { method, expiresIn: 3600 });
      const headers = type === undefined ? {} : { "Content-Type": type };
      // A bucket in another region answers with a redirect, which must fail.
      const response = await fetch(url, { method, headers, body, signal, redirect: "manual" });
      if (!response.ok) {
        const code = /<Code>(\w+)<\/Code>/.exec((await response.text()).slice(0, MAX_FAULT_CHARACTERS))?.[1];
        if (response.status === 404 && code !== "NoSuchBucket") return undefined;
        if (response.status >= 500 && tries > 1) {
          await Bun.sleep(RETRY_MS * 2 ** (TRIES - tries));
          return request(tries - 1);
        }
        throw new Refused(response.status, code);
      }
      const length = Number(response.headers.get("content-length") ?? 0);
      clearTimeout(timer);
      timer = limited(length);
      if (method === "GET") charge.grow(length);
      return await read(response);
    };
    try {
      return await raced(
        this.#gate.run(this, () => request()),
        signal,
      );
    } catch (error) {
      const message = `the bucket for large values cannot be used now: ${reasonOf(error)}; try again later`;
      throw new SconceError("queue_unavailable", message, { cause: error });
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Environment variables for each setting. The server uses the first variable that is set. */
const variables = {
  endpoint: ["S3_ENDPOINT", "AWS_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"],
  region: ["S3_REGION", "AWS_REGION"],
  accessKeyId: ["S3_ACCESS_KEY_ID", "AWS_ACCESS_KEY_ID"],
  secretAccessKey: ["S3_SECRET_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY"],
  sessionToken: ["S3_SESSION_TOKEN", "AWS_SESSION_TOKEN"],
};

function settingsIn(env: NonNullable<BucketOptions["env"]>): Bun.S3Options {
  const given = Object.entries(variables).map(([name, names]) => [name, names.map((each) => env[each]).find(Boolean)]);
  return Object.fromEntries(given.filter(([, value]) => value !== undefined));
}

class Refused extends Error {
  readonly status: number;
  readonly code: string | undefined;

  constructor(status: number, code: string | undefined) {
    super(`${status} ${code ?? "without a code"}`);
    this.status = status;
    this.code = code;
  }
}

/** The reason of a failure, without address and keys, for clients and the log. */
function reasonOf(error: unknown): string {
  if (error instanceof Refused) {
    const { status, code } = error;
    if (code === "NoSuchBucket") return "there is no such bucket";
    return `it ${status === 401 || status === 403 ? "denies access" : "refused a request"} (${error.message})`;
  }
  if (error instanceof DOMException) return "it does not answer in time";
  const code = codeOf(error);
  if (code === "ERR_S3_MISSING_CREDENTIALS") return "there are no credentials";
  return `it cannot be reached (${code || messageOf(error)})`;
}
