/** A server on loopback that receives webhooks. It verifies every message with the library of Standard Webhooks. */
import { Webhook } from "standardwebhooks";
import { until } from "./running.ts";

export const secret = `whsec_${Buffer.from("a secret of thirty-two bytes, ok").toString("base64")}`;

export interface Received {
  /** Id of the message; repeated attempts have the same id. */
  readonly id: string;
  readonly path: string;
  readonly type: string;
  readonly timestamp: string;
  readonly data: Readonly<Record<string, unknown>>;
}

export interface Receiver extends AsyncDisposable {
  readonly received: readonly Received[];
  /** Number of requests that the receiver has not answered. */
  readonly open: number;
  url(path?: string): string;
  /** Resolves with all messages so far once there are `count`. */
  until(count: number): Promise<readonly Received[]>;
}

type Answer = (message: Received, index: number) => Response | Promise<Response>;

/** Starts the server. @param answer makes the response to each message; default: status 200 */
export function receiver(answer: Answer = () => new Response(), port = 0): Receiver {
  const received: Received[] = [];
  let open = 0;
  const server = Bun.serve({
    port,
    hostname: "127.0.0.1",
    idleTimeout: 0,
    async fetch(request) {
      const body = await request.text();
      const verified = new Webhook(secret).verify(body, Object.fromEntries(request.headers));
      const message = {
        ...(verified as Pick<Received, "type" | "timestamp" | "data">),
        id: request.headers.get("webhook-id") ?? "",
        path: new URL(request.url).pathname,
      };
      const index = received.push(message) - 1;
      open += 1;
      try {
        return await answer(message, index);
      } finally {
        open -= 1;
      }
    },
  });
  return {
    received,
    get open() {
      return open;
    },
    url: (path = "/") => new URL(path, server.url).href,
    async until(count) {
      await until(() => received.length >= count);
      return received;
    },
    async [Symbol.asyncDispose]() {
      await server.stop(true);
    },
  };
}
