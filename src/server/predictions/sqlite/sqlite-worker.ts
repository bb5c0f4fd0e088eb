/** The thread that has the database of predictions: nobody who answers clients waits for a disk, a lock or a checkpoint. */
import { messageOf, SconceError } from "../../../base/errors.ts";
import { databaseFault } from "./database-fault.ts";
import { PredictionDatabase } from "./prediction-database.ts";
import { decodeBatch } from "./sqlite-batch.ts";
import type { Answer, Numbered, TakeMessage, Tended } from "./sqlite-messages.ts";

declare const self: Worker;

/** Without a message for as long, the thread does what can wait. */
const IDLE_MS = 100;
/** Interval between looks for expired predictions and at the file. */
const PAUSE_MS = 1000;

let database: PredictionDatabase | undefined;
let timer: ReturnType<typeof setTimeout> | undefined;

self.onmessage = ({ data }: MessageEvent<Numbered>) => {
  self.postMessage(answer(data));
  if (data.type === "write") quietly(() => database?.checkLog());
  tendIn(IDLE_MS);
};

function answer(message: Numbered): Answer {
  const { number } = message;
  try {
    if (message.type === "open") {
      database = PredictionDatabase.open(message);
      const { totals, isGone, isLogDamaged } = database;
      if (isLogDamaged) self.postMessage({ totals, isGone, isLogDamaged } satisfies Tended);
      return { number, totals };
    }
    if (database === undefined) return { number, fault: "it is not open" };
    switch (message.type) {
      case "write":
        return { number, written: database.write(decodeBatch(message), message, message.wallMs) };
      case "get":
        return { number, record: database.get(message.id) };
      case "owners":
        return { number, owners: database.owners() };
      case "take":
        return taken(number, database, message);
      case "keepWebhooks":
        database.keepWebhooks(message);
        return { number };
      case "webhooks":
        return { number, webhooks: database.webhooks() };
      case "close":
        database.close();
        database = undefined;
        return { number };
    }
  } catch (error) {
    if (database?.isGone) self.postMessage({ totals: database.totals, isGone: true } satisfies Tended);
    return { number, fault: error instanceof SconceError ? messageOf(error) : databaseFault(error) };
  }
}

/** A full disk is no fault of a take: the request stays, and is taken when there is room. */
function taken(number: number, from: PredictionDatabase, message: TakeMessage): Answer {
  try {
    return { number, taken: from.take(message) };
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "SQLITE_FULL") return { number, isFull: true };
    throw error;
  }
}

function tendIn(delayMs: number): void {
  clearTimeout(timer);
  if (database === undefined) return;
  timer = setTimeout(tend, delayMs);
}

function tend(): void {
  if (database === undefined) return;
  let delayMs = PAUSE_MS;
  quietly(() => {
    if (database === undefined) return;
    const hasMore = database.tend();
    delayMs = hasMore ? 0 : PAUSE_MS;
    self.postMessage({ totals: database.totals, isGone: database.isGone } satisfies Tended);
  });
  tendIn(delayMs);
}

/** What can wait is tried again later; that a disk is full is told by the next write. */
function quietly(task: () => void): void {
  try {
    task();
  } catch {}
}
