/** The thread of the database, so that the server's event loop never waits for a disk, lock or checkpoint. */
import { databaseFault } from "./database-fault.ts";
import type { Answer, Argument, Call, Method, Result, Tended } from "./database-thread.ts";
import { PredictionDatabase } from "./prediction-database.ts";

declare const self: Worker;

/** Milliseconds without a call before maintenance begins. */
const IDLE_MS = 100;
/** Milliseconds between maintenance runs on an idle thread. */
const PAUSE_MS = 1000;

let database: PredictionDatabase | undefined;
let timer: ReturnType<typeof setTimeout> | undefined;

const methods: { readonly [M in Method]: (argument: Argument<M>) => Result<M> } = {
  open(options) {
    database = PredictionDatabase.open(options);
    return { ...database.totals, aside: database.aside };
  },
  write: (batch) => opened().write(batch),
  get: (id) => opened().get(id),
  sources: () => opened().sources(),
  takeOver: (selection) => opened().takeOver(selection),
  webhooks: () => opened().webhooks(),
  close() {
    opened().close();
    database = undefined;
  },
};

self.onmessage = ({ data }: MessageEvent<Call>) => {
  self.postMessage(answer(data));
  if (data.method === "write") quietly(() => database?.checkLog());
  tendIn(IDLE_MS);
};

function answer<M extends Method>({ number, method, argument }: Call<M>): Answer {
  try {
    return { number, result: methods[method](argument) };
  } catch (error) {
    if (database?.isDetached) self.postMessage({ totals: database.totals, isDetached: true } satisfies Tended);
    return { number, fault: databaseFault(error) };
  }
}

function opened(): PredictionDatabase {
  if (database === undefined) throw new Error("it is not open");
  return database;
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
    self.postMessage({ totals: database.totals, isDetached: database.isDetached } satisfies Tended);
  });
  tendIn(delayMs);
}

/** Ignores errors of maintenance: it runs again later, and the next write reports a full disk. */
function quietly(task: () => void): void {
  try {
    task();
  } catch {}
}
