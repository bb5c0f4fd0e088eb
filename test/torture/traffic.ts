/** Clients that send predictions and demos, record the acknowledged ids, and check the results at the end. */
import { z } from "zod";
import { until } from "./bounded.ts";
import type { Tally } from "./tally.ts";

const ended = z.looseObject({ y: z.number() });
const recordSchema = z.looseObject({
  prediction_id: z.string().optional(),
  demo_id: z.string().optional(),
  status: z.enum(["pending", "running", "success", "failed"]),
  outputs: z.array(ended).optional(),
  demo_outputs: z.array(ended).optional(),
  error_message: z.string().optional(),
  partial_outputs: z.array(ended.nullable()).optional(),
  errors: z.array(z.object({ index: z.int(), message: z.string() })).optional(),
});
export type ReadRecord = z.infer<typeof recordSchema>;

/** A prediction whose id the server has acknowledged. */
interface Acknowledged {
  /** Path of the prediction. */
  readonly at: string;
  readonly xs: readonly number[];
  /** Final status in the answer to the POST; undefined if the prediction had not ended by then. */
  readonly status?: string;
  /** Time of the acknowledgement, by `performance.now()`. */
  readonly acknowledgedMs: number;
}

export interface TrafficOptions {
  /** Base URL, read anew for each request: tests with several replicas give another each time. */
  readonly url: URL;
  readonly tally: Tally;
  readonly random: () => number;
  /** Number of concurrent clients. */
  readonly clients?: number;
  /**
   * Whether a message belongs to a prediction that the server may give up, because two processes died while they ran
   * it.
   */
  readonly isGivenUp?: (message: string) => boolean;
  /** Whether to read predictions again that had ended in the answer to the POST: their status must be the same. */
  readonly isReadAgain?: boolean;
  /** Largest number of unread predictions; then clients pause. It must fit into the number that the server retains. */
  readonly maxUnread?: number;
  /** The last lines of the server's log, for reports of problems. */
  readonly lastLines: () => string;
}

const MAX_INPUTS = 4;
const LARGE_LENGTH = 100_000;
/** Milliseconds after which a request counts as stuck. */
const STUCK_MS = 90_000;

export class Traffic {
  /** Number of predictions that have ended or whose id was acknowledged. */
  done = 0;
  /** Number of requests that were sent again, because they got no answer or the status 429 or 503. */
  retried = 0;
  readonly #options: TrafficOptions;
  readonly #acknowledged: Acknowledged[] = [];
  /** Predictions that are being checked, each with the last answer about it. */
  readonly #looking = new Map<Acknowledged, string>();
  /** Number of the next input. A repeated request gets new numbers, so that all outputs differ. */
  #inputs = 0;
  #isStopped = false;

  constructor(options: TrafficOptions) {
    this.#options = options;
  }

  /** Sends `total` predictions. Requests that a fault of the server interrupts are sent again. */
  async run(total: number): Promise<void> {
    const { clients = 12, maxUnread = Number.POSITIVE_INFINITY } = this.#options;
    let left = total;
    const client = async () => {
      while (left > 0 && !this.#isStopped) {
        if (this.#acknowledged.length >= maxUnread) {
          await Bun.sleep(20);
          continue;
        }
        left -= 1;
        await this.#one();
      }
    };
    await Promise.all(Array.from({ length: clients }, client));
  }

  /** Sends no more requests. Requests in progress end. */
  stop(): void {
    this.#isStopped = true;
  }

  /** Checks that every acknowledged prediction ends with its own outputs. */
  async verify(): Promise<void> {
    await this.verifySome();
    if (this.retried > 0) this.#options.tally.note(`${this.retried} requests got no answer and were sent again`);
  }

  /** Checks the predictions that were acknowledged so far, while clients send more. */
  async verifySome(): Promise<void> {
    const { clients = 12 } = this.#options;
    let left = this.#acknowledged.length;
    const client = async () => {
      for (; left > 0; left--) {
        const acknowledged = this.#acknowledged.shift();
        if (acknowledged !== undefined) await this.#verifyOne(acknowledged);
      }
    };
    await Promise.all(Array.from({ length: clients }, client));
  }

  /** Sends a prediction or a demo. Half of the requests wait for its end, the others only for its id. */
  async #one(): Promise<void> {
    const { random, tally, lastLines, isReadAgain = false } = this.#options;
    const path = random() < 0.3 ? "/demo" : "/predictions";
    const isWaiting = random() < 0.5;
    const count = 1 + Math.floor(random() * MAX_INPUTS);
    const sleepMs = random() < 0.1 ? 20 : 0;
    // Some bodies and outcomes are too large for a row of the database.
    const large = random() < 0.05 ? { note: "n".repeat(LARGE_LENGTH), echo: true } : {};
    const untilMs = performance.now() + STUCK_MS;
    for (;;) {
      const xs = Array.from({ length: count }, () => this.#inputs++);
      const body = JSON.stringify(xs.map((x, i) => ({ x, sleepMs, ...(i === 0 ? large : {}) })));
      const acknowledged = await this.#post(path, body, isWaiting);
      if (acknowledged !== undefined) {
        this.done += 1;
        const isOver = acknowledged.record?.status === "success" || acknowledged.record?.status === "failed";
        // If the client did not wait for the end, `verifySome` reads the prediction later.
        const acknowledgedMs = performance.now();
        if (acknowledged.record === undefined || !isOver || !isWaiting)
          this.#acknowledged.push({ at: acknowledged.at, xs, acknowledgedMs });
        else {
          this.#check(acknowledged.at, xs, acknowledged.record);
          if (isReadAgain)
            this.#acknowledged.push({ at: acknowledged.at, xs, status: acknowledged.record.status, acknowledgedMs });
        }
        return;
      }
      this.retried += 1;
      if (performance.now() > untilMs) {
        tally.found("stuck", `the server accepted no POST ${path} for ${STUCK_MS / 1000} s\n${lastLines()}`);
        this.stop();
        return;
      }
      await Bun.sleep(100);
    }
  }

  /**
   * Sends a POST. @returns the prediction's path, and its record unless the body is missing or invalid; undefined
   * without an answer, and for the statuses 429 and 503
   */
  async #post(
    path: string,
    body: string,
    isWaiting: boolean,
  ): Promise<{ at: string; record?: ReadRecord } | undefined> {
    const { url, tally } = this.#options;
    let at: string | null = null;
    try {
      const response = await fetch(new URL(path, url), {
        method: "POST",
        headers: { "Content-Type": "application/json", ...(isWaiting ? { Prefer: "wait=60" } : {}) },
        body,
        signal: AbortSignal.timeout(STUCK_MS),
      });
      at = response.headers.get("location");
      const text = await response.text();
      if (response.status === 503 || response.status === 429) return undefined;
      if (response.status !== 200 || at === null) {
        tally.found("wrong", `POST ${path} was answered with ${response.status}: ${text.slice(0, 500)}`);
        return { at: path };
      }
      return { at, record: recordSchema.parse(JSON.parse(text)) };
    } catch (error) {
      if (error instanceof SyntaxError || error instanceof z.ZodError) tally.found("wrong", `POST ${path}: ${error}`);
      // Without `wait`, the head of the answer has the id, so the prediction counts as acknowledged although the body is missing.
      return at === null || isWaiting ? undefined : { at };
    }
  }

  /** The predictions that are being checked, with the last answer about each, for a report at a timeout. */
  get underWay(): string {
    const looked = [...this.#looking].map(([{ at, acknowledgedMs }, last]) => {
      return `${at}, acknowledged ${((performance.now() - acknowledgedMs) / 1000).toFixed(0)} s ago: ${last}`;
    });
    return `${this.#acknowledged.length} acknowledged and not read; ${looked.join("\n") || "none is being read"}`;
  }

  async #verifyOne(acknowledged: Acknowledged): Promise<void> {
    this.#looking.set(acknowledged, "not answered yet");
    await this.#look(acknowledged);
    this.#looking.delete(acknowledged);
  }

  async #look(acknowledged: Acknowledged): Promise<void> {
    const { at, xs, status, acknowledgedMs } = acknowledged;
    const { url, tally, lastLines } = this.#options;
    let last = "no answer";
    let record: ReadRecord | undefined;
    const isOver = async () => {
      try {
        const response = await fetch(new URL(at, url), {
          headers: { Prefer: "wait=10" },
          signal: AbortSignal.timeout(STUCK_MS),
        });
        const text = await response.text();
        last = `${response.status} ${text.slice(0, 300)}`;
        this.#looking.set(acknowledged, last);
        if (response.status === 503) return false;
        if (response.status === 200) record = recordSchema.parse(JSON.parse(text));
        return record === undefined || record.status === "success" || record.status === "failed";
      } catch (error) {
        last = String(error);
        return false;
      }
    };
    try {
      await until(isOver, `the end of ${at}`, STUCK_MS);
    } catch (error) {
      tally.found("stuck", `${error}; last: ${last}\n${lastLines()}`);
      return;
    }
    const ageS = ((performance.now() - acknowledgedMs) / 1000).toFixed(0);
    if (record === undefined)
      tally.found("lost", `${at} was acknowledged ${ageS} s ago, and now gets the answer ${last}\n${lastLines()}`);
    else if (status === undefined) this.#check(at, xs, record);
    else if (record.status !== status)
      tally.found("wrong", `${at} had the status ${status}, and now has ${record.status}`);
  }

  /** Checks the outputs of an ended prediction. */
  #check(at: string, xs: readonly number[], record: ReadRecord): void {
    const { tally, isGivenUp = () => false } = this.#options;
    tally.counts.checked += 1;
    const message = record.error_message ?? "";
    if (record.status === "failed" && isGivenUp(message)) {
      tally.counts.givenUp += 1;
      return;
    }
    const outputs = record.outputs ?? record.demo_outputs;
    const isOwn = outputs?.length === xs.length && outputs.every(({ y }, i) => y === 3 * (xs[i] ?? Number.NaN));
    if (record.status !== "success" || !isOwn) {
      tally.found("wrong", `${at} for x ${xs.join(", ")}: ${JSON.stringify(record).slice(0, 500)}`);
    }
  }
}

/** Sends a POST that waits for the end. @returns the record @throws Error for any other answer than a success */
export async function predict(url: URL, inputs: readonly object[], path = "/predictions"): Promise<ReadRecord> {
  const response = await fetch(new URL(path, url), {
    method: "POST",
    headers: { "Content-Type": "application/json", Prefer: "wait=120" },
    body: JSON.stringify(inputs),
    signal: AbortSignal.timeout(150_000),
  });
  const text = await response.text();
  if (response.status !== 200)
    throw new Error(`POST ${path} was answered with ${response.status}: ${text.slice(0, 500)}`);
  return recordSchema.parse(JSON.parse(text));
}

/** Sends a POST that does not wait for the end. @returns the path of the prediction */
export async function create(url: URL, inputs: readonly object[], path = "/predictions"): Promise<string> {
  const response = await fetch(new URL(path, url), {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(inputs),
    signal: AbortSignal.timeout(60_000),
  });
  const text = await response.text();
  const at = response.headers.get("location");
  if (response.status !== 200 || at === null) {
    throw new Error(`POST ${path} was answered with ${response.status}: ${text.slice(0, 500)}`);
  }
  return at;
}

/** Status of the prediction at a path; undefined if there is none. */
export async function statusOf(url: URL, at: string): Promise<unknown> {
  const record: unknown = await (await fetch(new URL(at, url))).json();
  return typeof record === "object" && record !== null && "status" in record ? record.status : undefined;
}
