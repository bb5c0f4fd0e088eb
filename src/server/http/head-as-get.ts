/** A HEAD request as routes are asked it: for what GET is answered. */
import { urlOf } from "./path.ts";

/** Hono would take the answer's body away, and its length with it; Bun sends the length, and cancels what is a stream. */
export class HeadAsGet extends Request {
  readonly head: Request;

  constructor(head: Request) {
    super(urlOf(head), { method: "GET", headers: head.headers, signal: head.signal });
    this.head = head;
  }
}

/** The request as Bun made it, by which Bun finds its connection. */
export function asItCame(request: Request): Request {
  return request instanceof HeadAsGet ? request.head : request;
}
