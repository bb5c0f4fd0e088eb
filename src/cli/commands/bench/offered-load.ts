/**
 * Sends load to a server. `offer` sends at times that do not depend on the answers (an open loop); `saturate` waits for
 * each answer.
 */

/**
 * Sends one request and returns its outcome: the status of the prediction, such as `success`, or an HTTP status, such
 * as `503`. A rejection counts as `no answer`.
 */
export type Ask = (signal: AbortSignal) => Promise<string>;

export interface Offer {
  /** Requests per second. */
  readonly rate: number;
  readonly seconds: number;
  /** Maximum number of requests without an answer. While it is reached, due requests are not sent. */
  readonly maxOpen: number;
  /** Milliseconds to wait for the last answers. */
  readonly graceMs: number;
}

export interface Load {
  /** The planned rate in requests per second. For `saturate` it equals `sent`. */
  readonly offered: number;
  /** Requests per second that came due. The times are random, so this rate differs from the planned one. */
  readonly sent: number;
  /** Successful answers per second. */
  readonly answered: number;
  readonly outcomes: Readonly<Record<string, number>>;
  /**
   * Median latency of successful answers in milliseconds, from the time at which the request was due. NaN without
   * answers.
   */
  readonly p50Ms: number;
  readonly p90Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  /**
   * 99th percentile of the client's delays between the due time of a request and its sending, in milliseconds. The
   * latencies contain these delays.
   */
  readonly lateMs: number;
}

export const NO_ANSWER = "no answer";
/** Outcome of a request that was due while `maxOpen` requests had no answer. */
const NOT_SENT = "not sent";

/**
 * Sends requests at random times (a Poisson process), as many independent clients do. Latency counts from the time at
 * which a request was due. Otherwise a slow server would delay the requests that measure it, and look faster.
 */
export async function offer(ask: Ask, { rate, seconds, maxOpen, graceMs }: Offer): Promise<Load> {
  const count = new Counter();
  const abort = new AbortController();
  const beganMs = performance.now();
  const endMs = beganMs + 1000 * seconds;
  const open = new Set<Promise<void>>();
  let dueMs = beganMs;
  let sent = 0;
  for (;;) {
    dueMs += (-1000 * Math.log(1 - Math.random())) / rate;
    if (dueMs >= endMs) break;
    const waitMs = dueMs - performance.now();
    if (waitMs >= 1) await Bun.sleep(waitMs);
    sent += 1;
    count.late.push(Math.max(0, performance.now() - dueMs));
    if (open.size >= maxOpen) {
      count.ended(NOT_SENT, 0);
      continue;
    }
    const request = timed(ask, dueMs, abort.signal, count).finally(() => open.delete(request));
    open.add(request);
  }
  const timeout = setTimeout(() => abort.abort(), graceMs);
  await Promise.all(open);
  clearTimeout(timeout);
  const took = (performance.now() - beganMs) / 1000;
  return { ...count.load(took, seconds), offered: rate, sent: sent / seconds };
}

/** Keeps the server busy: each connection sends a request, waits for the answer and sends the next. */
export async function saturate(
  ask: Ask,
  { connections, seconds, graceMs }: { connections: number; seconds: number; graceMs: number },
): Promise<Load> {
  const count = new Counter();
  const abort = new AbortController();
  const beganMs = performance.now();
  const endMs = beganMs + 1000 * seconds;
  const timeout = setTimeout(() => abort.abort(), 1000 * seconds + graceMs);
  const connection = async () => {
    while (performance.now() < endMs) await timed(ask, performance.now(), abort.signal, count);
  };
  await Promise.all(Array.from({ length: connections }, connection));
  clearTimeout(timeout);
  const took = (performance.now() - beganMs) / 1000;
  return { ...count.load(took, took), offered: count.total / took, sent: count.total / took };
}

async function timed(ask: Ask, dueMs: number, signal: AbortSignal, count: Counter): Promise<void> {
  const outcome = await ask(signal).catch(() => NO_ANSWER);
  count.ended(outcome, performance.now() - dueMs);
}

class Counter {
  readonly outcomes: Record<string, number> = {};
  readonly late: number[] = [];
  readonly #latencies: number[] = [];
  total = 0;

  ended(outcome: string, latencyMs: number): void {
    this.total += 1;
    this.outcomes[outcome] = (this.outcomes[outcome] ?? 0) + 1;
    if (outcome === "success") this.#latencies.push(latencyMs);
  }

  /**
   * Summarizes all requests.
   * @param took seconds until the last answer
   * @param seconds seconds in which requests were sent
   */
  load(took: number, seconds: number): Omit<Load, "offered" | "sent"> {
    const sorted = this.#latencies.sort((a, b) => a - b);
    const late = this.late.sort((a, b) => a - b);
    return {
      // Answers may come after the last request was sent, so the rate covers the time until the last answer.
      answered: sorted.length / Math.max(took, seconds),
      outcomes: this.outcomes,
      p50Ms: quantile(sorted, 0.5),
      p90Ms: quantile(sorted, 0.9),
      p99Ms: quantile(sorted, 0.99),
      maxMs: sorted.at(-1) ?? Number.NaN,
      lateMs: quantile(late, 0.99) || 0,
    };
  }
}

function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}
