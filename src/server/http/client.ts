/** The client of a request, as the predictions see it. */
import type { ApiKey } from "../access/api-key.ts";
import type { Sender } from "../flow/quarantine.ts";
import type { Client } from "../predictions/predictions.ts";
import type { Peer } from "./listener.ts";

/** Called when an answer starts to wait for a prediction, and when the wait ends. The idle timeout does not apply during the wait. */
export type OnHold = (request: Request, isHeld: boolean) => void;

export type PeerOf = (request: Request) => Peer | undefined;

export interface ClientOptions {
  readonly onHold: OnHold;
  readonly peerOf: PeerOf;
}

/** Characters of `X-Forwarded-For` that identify a client. */
const MAX_FORWARDED = 200;

/** A class, so that Bun makes the signal of a request only if it is used. */
export class RequestClient implements Client {
  readonly #request: Request;
  readonly #options: ClientOptions;
  readonly #key: ApiKey | undefined;

  constructor(request: Request, options: ClientOptions, key: ApiKey | undefined) {
    this.#request = request;
    this.#options = options;
    this.#key = key;
  }

  get idSuffix(): string {
    return this.#key?.idSuffix ?? "";
  }

  get signal(): AbortSignal {
    return this.#request.signal;
  }

  get sender(): Sender | undefined {
    const peer = this.#options.peerOf(this.#request);
    // The nearest proxies append to the header. A client can only write its beginning.
    const forwarded = this.#request.headers.get("x-forwarded-for")?.slice(-MAX_FORWARDED);
    const name = forwarded ?? String(peer?.port);
    const key = this.#key;
    if (key !== undefined) return { address: `key ${key.name}`, name, share: key.share };
    return peer && { address: peer.address, name };
  }

  held(isHeld: boolean): void {
    this.#options.onHold(this.#request, isHeld);
  }
}
