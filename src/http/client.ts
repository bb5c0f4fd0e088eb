/** The client of a request: its address, its API key, and whether it is still connected. */
import type { Sender } from "../pipeline/client.ts";
import type { Client } from "../predictions/request.ts";
import type { Peer } from "./listener.ts";
import type { RequestContext } from "./request.ts";

/**
 * Called with true when a request begins to wait, for example for a prediction, and with false when the wait ends. Meanwhile the idle timeout does
 * not apply.
 */
export type OnHold = (request: Request, isHeld: boolean) => void;

export type PeerOf = (request: Request) => Peer | undefined;

export interface ClientOptions {
  readonly onHold: OnHold;
  readonly peerOf: PeerOf;
}

/** Number of characters at the end of `X-Forwarded-For` that identify a client. */
const MAX_FORWARDED = 200;

export class RequestClient implements Client {
  readonly #request: Request;
  readonly #options: ClientOptions;
  readonly #context: RequestContext;

  constructor(request: Request, options: ClientOptions, context: RequestContext) {
    this.#request = request;
    this.#options = options;
    this.#context = context;
  }

  get idSuffix(): string {
    return this.#context.key?.idSuffix ?? "";
  }

  // A getter: Bun creates the signal of a request on its first use, and most requests never need it.
  get signal(): AbortSignal {
    return this.#request.signal;
  }

  get share(): number {
    return this.#context.key?.share ?? 1;
  }

  get sender(): Sender | undefined {
    const peer = this.#options.peerOf(this.#request);
    // Proxies append to the header, so its end is trustworthy. A client can choose only the beginning.
    const forwarded = this.#request.headers.get("x-forwarded-for")?.slice(-MAX_FORWARDED);
    const name = forwarded ?? String(peer?.port);
    const { key } = this.#context;
    if (key !== undefined) return { address: `key ${key.name}`, name, share: key.share };
    return peer && { address: peer.address, name };
  }

  reserve(): void {
    this.#context.reserve();
  }

  release(): void {
    this.#context.release();
  }

  held(isHeld: boolean): void {
    this.#options.onHold(this.#request, isHeld);
  }
}
