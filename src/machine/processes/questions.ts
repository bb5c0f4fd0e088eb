/** Questions between a supervisor and its child process. Each question has a number, and its answer has the same number. */
import { z } from "zod";
import { log } from "../../base/log.ts";

/** Without a message, the question of the watchdog: how many milliseconds the oldest batch has been running. */
const question = z.object({ kind: z.literal("question"), number: z.int(), message: z.unknown().optional() });
export type Question = z.infer<typeof question>;

const answer = z.object({ kind: z.literal("answer"), number: z.int(), answer: z.unknown().optional() });
export type Answer = z.infer<typeof answer>;

/** Messages that both processes may send. */
export const questionMessages = [question, answer] as const;

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
