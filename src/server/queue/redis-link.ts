/** One connection to the queue, and what goes wrong on it as one error with a reason. */
import { createHash } from "node:crypto";
import { Cluster, Command, ReplyError } from "ioredis";
import { messageOf, SconceError } from "../../base/errors.ts";
import type { QueueFault } from "../../base/labels.ts";
import { type ConnectionSettings, type RedisAddress, type RedisClient, redisClient } from "./redis-address.ts";

/** Clients are told within two seconds that the queue is away. */
const COMMAND_MS = 1500;
/** Slower transfers are given up. */
const MIN_BYTES_PER_MS = 2000;
/** Longest that a blocking read may wait for something. */
export const BLOCK_MS = 2000;
const MARGIN_MS = 2000;

/** A script, sent by its digest once the server knows it. */
export class LuaScript {
  readonly text: string;
  readonly sha: string;

  constructor(text: string) {
    this.text = text;
    this.sha = createHash("sha1").update(text).digest("hex");
  }
}

export type Argument = string | number | Buffer;

/** What a connection is for: commands; reads that block, which nothing else may wait behind; or large commands, as LargeLink has them. */
export type LinkUse = "commands" | "blocking" | "large";

export interface RedisLinkOptions {
  readonly address: RedisAddress;
  readonly use?: LinkUse;
  readonly onFault: (fault: QueueFault, message: string) => void;
  readonly onReady?: () => void;
}

/** Cause of a command that was not sent, as there is no connection. */
class NotSent extends Error {
  /** Of the last try to connect; undefined while the first one goes on. */
  readonly reason: string | undefined;

  constructor(reason: string | undefined) {
    super(reason === undefined ? "there is no connection to it" : `there is no connection to it: ${reason}`);
    this.reason = reason;
  }
}

export class RedisLink implements Disposable {
  readonly #client: RedisClient;
  readonly #isBlocking: boolean;
  readonly #onFault: RedisLinkOptions["onFault"];
  /** While it first connects, and when it is closed, nothing is wrong with the queue. */
  #isInUse = false;
  /** Why there is no connection. */
  #reason: string | undefined;

  constructor({ address, use = "commands", onFault, onReady }: RedisLinkOptions) {
    const options: ConnectionSettings = {
      // Whoever waits is told at once, and nothing is sent twice.
      enableOfflineQueue: false,
      maxRetriesPerRequest: 0,
      autoResendUnfulfilledCommands: false,
      retryStrategy: (times) => Math.min(500, 50 * times),
      // After a failover the old master takes no writes any more.
      reconnectOnError: ({ message }) => message.includes("READONLY"),
      connectTimeout: COMMAND_MS,
      sentinelCommandTimeout: COMMAND_MS,
      ...silenceOf(use),
      protocol: 2,
      // Of those that the client sends by itself as it connects; others come with a time of their own.
      ...(use === "blocking" ? {} : { commandTimeout: COMMAND_MS }),
    };
    this.#isBlocking = use === "blocking";
    this.#onFault = onFault;
    this.#client = redisClient(address, options);
    // Each command is told as well; who sends none need not know.
    this.#client.on("error", (error) => {
      this.#isInUse = true;
      this.#reason = messageOf(error);
    });
    this.#client.on("ready", () => {
      this.#isInUse = true;
      this.#reason = "it was closed";
    });
    if (onReady !== undefined) this.#client.on("ready", onReady);
  }

  /** @throws SconceError `queue_unavailable` */
  call(name: string, ...args: readonly Argument[]): Promise<unknown> {
    return this.fetch(0, name, ...args);
  }

  /** Calls what may answer with so many bytes. @throws SconceError `queue_unavailable` */
  async fetch(answerBytes: number, name: string, ...args: readonly Argument[]): Promise<unknown> {
    try {
      return await this.#send(answerBytes, name, args);
    } catch (error) {
      throw this.#fault(error);
    }
  }

  /** @param key decides in a Cluster whose turn it is; @throws SconceError `queue_unavailable` */
  async run({ text, sha }: LuaScript, key: string, args: readonly Argument[], answerBytes = 0): Promise<unknown> {
    try {
      return await this.#send(answerBytes, "evalsha", [sha, 1, key, ...args]);
    } catch (error) {
      if (!messageOf(error).includes("NOSCRIPT")) throw this.#fault(error);
    }
    return this.fetch(answerBytes, "eval", text, 1, key, ...args);
  }

  /** Ends its connections, with what is still to be sent on them; others are made at once. */
  cut(): void {
    const nodes = this.#client instanceof Cluster ? this.#client.nodes() : [this.#client];
    for (const { stream } of nodes) stream?.destroy();
  }

  [Symbol.dispose](): void {
    this.#isInUse = false;
    this.#client.disconnect();
  }

  #send(answerBytes: number, name: string, args: readonly Argument[]): Promise<unknown> {
    const command = new Command(name, [...args], { replyEncoding: null });
    if (!this.#isBlocking) command.setTimeout(COMMAND_MS + (sizeOf(args) + answerBytes) / MIN_BYTES_PER_MS);
    this.#client.sendCommand(command);
    return command.promise;
  }

  #fault(error: unknown): SconceError {
    const message = messageOf(error);
    // The client names an option of its own where there is no connection.
    const cause = message.includes("enableOfflineQueue") ? new NotSent(this.#reason) : error;
    // A new queue has no group yet.
    if (this.#isInUse && !message.startsWith("NOGROUP")) this.#onFault(faultOf(message), messageOf(cause));
    return new SconceError("queue_unavailable", "the queue of the replicas cannot be used now; try again later", {
      cause,
    });
  }
}

/** About the bytes that a command is sent as. */
export function sizeOf(args: readonly Argument[]): number {
  return args.reduce<number>((sum, each) => sum + (typeof each === "number" ? 0 : each.length), 0);
}

/** Whether a command was not answered in its time. */
export function isTimeUp(error: unknown): boolean {
  return error instanceof SconceError && faultOf(messageOf(error.cause)) === "timeout";
}

/** Whether the group of the workers is not there: the queue is new, or was emptied. */
export function isGroupMissing(error: unknown): boolean {
  return error instanceof SconceError && messageOf(error.cause).includes("NOGROUP");
}

/**
 * What another program wrote in a key, by the error of a command: a value of another type, or a text that a script cannot read.
 * @returns the id of the prediction that the script names; undefined for another error
 */
export function foreignIn(error: unknown): { readonly id: string | undefined } | undefined {
  if (!(error instanceof SconceError) || !(error.cause instanceof ReplyError)) return undefined;
  const message = messageOf(error.cause);
  if (!/WRONGTYPE|FOREIGN|user_script:\d+: attempt to /.test(message)) return undefined;
  return { id: /FOREIGN (\S+) /.exec(message)?.[1] };
}

/** Whether a command may have been carried out although it failed: it was sent, and nothing is known of what came of it. */
export function isAnswerLost(error: unknown): boolean {
  if (!(error instanceof SconceError) || error.code !== "queue_unavailable") return false;
  return !(error.cause instanceof ReplyError || error.cause instanceof NotSent);
}

/** Whether a command failed as the first try to connect goes on: nothing is known to be wrong with the queue. */
export function isConnecting(error: unknown): boolean {
  return error instanceof SconceError && error.cause instanceof NotSent && error.cause.reason === undefined;
}

/**
 * A connection that is silent for longer than an answer may take is a dead one, and made anew. On one for large commands nothing comes for as long as
 * something is sent.
 */
function silenceOf(use: LinkUse): Pick<ConnectionSettings, "socketTimeout"> {
  if (use === "large") return {};
  return { socketTimeout: (use === "blocking" ? BLOCK_MS : COMMAND_MS) + MARGIN_MS };
}

function faultOf(message: string): QueueFault {
  if (/READONLY/.test(message)) return "readonly";
  if (/OOM|MISCONF/.test(message)) return "full";
  if (/timed? ?out/i.test(message)) return "timeout";
  if (/clos|writ|connect|ECONN|EPIPE|max retries|CLUSTERDOWN|LOADING|MASTERDOWN/i.test(message)) return "away";
  return "other";
}
