/** JSON messages between a supervisor and its child process. Each question has a number, and its answer has the same number. */
import { z } from "zod";
import { messageWithLine } from "../../base/author-line.ts";
import { codedError, errorCodes, messageOf, SconceError } from "../../base/errors.ts";
import { log, logFormats, logLevels } from "../../base/log.ts";

/** Without a message, the question of the watchdog: how many milliseconds the oldest batch has been running. */
const question = z.object({ kind: z.literal("question"), number: z.int(), message: z.unknown().optional() });
export type Question = z.infer<typeof question>;

const answer = z.object({ kind: z.literal("answer"), number: z.int(), answer: z.unknown().optional() });
export type Answer = z.infer<typeof answer>;

/** Messages that both processes may send. */
const questionMessages = [question, answer] as const;

/** Messages from the supervisor. The first one is `start`. */
export const toChild = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("start"),
    /** JSON value that the role gets. */
    start: z.unknown().optional(),
    supervisorPid: z.int(),
    log: z.object({ level: z.enum(logLevels), format: z.enum(logFormats), hasTimes: z.boolean().optional() }),
  }),
  ...questionMessages,
  z.object({ kind: z.literal("stop") }),
]);
export type ToChild = z.infer<typeof toChild>;

/** An error in a child process. A SconceError has a code, and its message names the line of the author's code. */
const errorReport = z.object({
  code: z.enum(errorCodes).optional(),
  message: z.string(),
  /** The message for clients; undefined if they may read `message`. */
  clientMessage: z.string().optional(),
});

export function reportOf(error: unknown): z.infer<typeof errorReport> {
  const coded = codedError(error);
  const clientMessage = coded.clientMessage === coded.message ? undefined : coded.clientMessage;
  return error instanceof SconceError
    ? { code: error.code, message: messageWithLine(error), clientMessage }
    : { message: messageOf(error), clientMessage };
}

export const fromChild = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("ready"), info: z.unknown().optional() }),
  /** The child answers the watchdog from now on. */
  z.object({ kind: z.literal("set-up") }),
  z.object({ kind: z.literal("failed"), error: errorReport }),
  ...questionMessages,
]);
export type FromChild = z.infer<typeof fromChild>;

/** Questions that one process has sent, and that have no answer yet. */
export class Questions {
  readonly #open = new Map<number, (answer: unknown) => void>();
  #count = 0;

  /** Sends a question. @returns its answer; undefined after `end` */
  ask(message: unknown, send: (question: Question) => void): Promise<unknown> {
    const { promise, resolve } = Promise.withResolvers<unknown>();
    const number = this.#count++;
    this.#open.set(number, resolve);
    send({ kind: "question", number, message });
    return promise;
  }

  answered({ number, answer }: Answer): void {
    this.#open.get(number)?.(answer);
    this.#open.delete(number);
  }

  /** Answers all open questions with undefined. */
  end(): void {
    for (const resolve of this.#open.values()) resolve(undefined);
    this.#open.clear();
  }
}

/** Returns the answer to a question: the result of the handler, or undefined if the handler throws. */
export async function answerOf(
  { number, message }: Question,
  handle: ((message: unknown) => unknown) | undefined,
): Promise<Answer> {
  try {
    return { kind: "answer", number, answer: await handle?.(message) };
  } catch (error) {
    log.error(error);
    return { kind: "answer", number };
  }
}
