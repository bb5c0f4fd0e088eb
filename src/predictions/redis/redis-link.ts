/** A connection to Redis. Every failure becomes a SconceError `queue_unavailable`. */
import { Command, Redis } from "ioredis";
import { messageOf, SconceError } from "../../base/errors.ts";
import type { QueueFault } from "../../base/labels.ts";
import type { RedisAddress } from "./redis-address.ts";

/** Time limit of a small command in milliseconds, so that clients soon get an error when Redis is unavailable. */
const COMMAND_MS = 1500;
/** Transfers that are slower than this fail. A command waits for the transfers that were sent before it. */
const MIN_BYTES_PER_MS = 2000;
/** Maximum milliseconds that a blocking read waits. */
export const BLOCK_MS = 2000;
const MARGIN_MS = 2000;
const RETRY_MS = 200;

export type Argument = string | number | Buffer;

export interface RedisLinkOptions {
  readonly address: RedisAddress;
  /** Set for blocking commands, which have a separate connection, so that other commands do not wait for them. */
  readonly isBlocking?: boolean;
  readonly onFault: (fault: QueueFault) => void;
  readonly onReady?: (() => void) | undefined;
}

export class RedisLink implements Disposable {
  readonly #client: Redis;
  readonly #isBlocking: boolean;
  readonly #onFault: RedisLinkOptions["onFault"];
  /** Bytes of the commands without an answer, and of the expected answers. */
  #pendingBytes = 0;
  /** False until the first attempt to connect has ended, and after disposal. Failures are not reported then. */
  isInUse = false;
  #disconnectReason = "it is being opened";

  constructor({ address, isBlocking = false, onFault, onReady }: RedisLinkOptions) {
    this.#isBlocking = isBlocking;
    this.#onFault = onFault;
    this.#client = new Redis({
      ...address,
      // A failed command throws at once, and is not sent again.
      enableOfflineQueue: false,
      maxRetriesPerRequest: 0,
      autoResendUnfulfilledCommands: false,
      autoResubscribe: false,
      retryStrategy: (times) => Math.min(500, 50 * times),
      // A replica accepts no writes: after a failover, the address leads to the new master.
      reconnectOnError: ({ message }) => message.includes("READONLY"),
      connectTimeout: COMMAND_MS,
      // A connection is replaced when it is silent for longer than an answer may take. Other commands have a time limit.
      socketTimeout: isBlocking ? MARGIN_MS + BLOCK_MS : undefined,
      protocol: 2,
      // Only for commands that ioredis sends while it connects. `#send` sets the limit of other commands.
      commandTimeout: isBlocking ? undefined : COMMAND_MS,
    });
    // Keeps the reason for commands that fail later. Without a listener, ioredis prints the error.
    this.#client.on("error", (error) => {
      this.isInUse = true;
      this.#disconnectReason = messageOf(error);
    });
    this.#client.on("ready", () => {
      this.isInUse = true;
      this.#disconnectReason = "it was closed";
    });
    if (onReady !== undefined) this.#client.on("ready", onReady);
  }

  /** Sends a command. @throws SconceError `queue_unavailable` */
  call(name: string, ...args: readonly Argument[]): Promise<unknown> {
    return this.fetch(0, name, ...args);
  }

  /** Sends a command. @param answerBytes expected size of the answer, which extends the time limit @throws SconceError `queue_unavailable` */
  async fetch(answerBytes: number, name: string, ...args: readonly Argument[]): Promise<unknown> {
    try {
      return await this.#send(answerBytes, name, args);
    } catch (error) {
      throw this.#fault(error);
    }
  }

  /** Runs a Lua script. @param keys all keys that the script uses @throws SconceError `queue_unavailable` */
  run(script: string, keys: readonly string[], args: readonly Argument[]): Promise<unknown> {
    return this.call("eval", script, keys.length, ...keys, ...args);
  }

  /** Receives the messages of a channel. The link then sends no other command than PING. */
  subscribe(channel: string, received: (message: string) => void): void {
    this.#client.on("message", (_, message) => received(message));
    this.#client.on("ready", () => void this.call("subscribe", channel).catch(() => {}));
  }

  [Symbol.dispose](): void {
    this.isInUse = false;
    this.#client.disconnect();
  }

  async #send(answerBytes: number, name: string, args: readonly Argument[]): Promise<unknown> {
    const command = new Command(name, [...args], { replyEncoding: null });
    const bytes = sizeOf(args) + answerBytes;
    this.#pendingBytes += bytes;
    if (!this.#isBlocking) command.setTimeout(COMMAND_MS + this.#pendingBytes / MIN_BYTES_PER_MS);
    this.#client.sendCommand(command);
    try {
      return await command.promise;
    } finally {
      this.#pendingBytes -= bytes;
    }
  }

  #fault(error: unknown): SconceError {
    const message = messageOf(error);
    // For a missing connection, ioredis names this option in its error.
    const cause = message.includes("enableOfflineQueue")
      ? new Error(`there is no connection to it: ${this.#disconnectReason}`)
      : error;
    // NOGROUP means that a new queue has no consumer group yet, so nothing has failed.
    if (this.isInUse && !message.startsWith("NOGROUP")) this.#onFault(faultOf(message));
    // Closes the connection, which may be dead or have much unsent data. ioredis connects again at once.
    if (!this.#isBlocking && faultOf(message) === "timeout") this.#client.stream?.destroy();
    return new SconceError("queue_unavailable", "the queue of the replicas cannot be used now; try again later", {
      cause,
    });
  }
}

/** Approximate size of a command in bytes. */
function sizeOf(args: readonly Argument[]): number {
  return args.reduce<number>((sum, each) => sum + (typeof each === "number" ? 0 : each.length), 0);
}

function faultOf(message: string): QueueFault {
  if (/READONLY/.test(message)) return "readonly";
  if (/OOM|MISCONF/.test(message)) return "full";
  if (/timed? ?out/i.test(message)) return "timeout";
  if (/clos|writ|connect|ECONN|EPIPE|max retries|LOADING|MASTERDOWN/i.test(message)) return "away";
  return "other";
}

/** Repeats a call until it succeeds, or until a time in milliseconds of `performance.now()`. Never throws. */
export async function retry(call: () => Promise<unknown>, untilMs: number): Promise<void> {
  do {
    try {
      await call();
      return;
    } catch {
      await Bun.sleep(RETRY_MS);
    }
  } while (performance.now() < untilMs);
}
