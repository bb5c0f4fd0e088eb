/** The thread of the database, so that the server's event loop never waits for a disk, lock or checkpoint. */
import { databaseFault } from "./database-fault.ts";
import type { Answer, Argument, Call, Method, Piece, Result, Tended } from "./database-thread.ts";
import { PredictionDatabase } from "./prediction-database.ts";
import type { StoredText } from "./rows.ts";

declare const self: Worker;

/** Milliseconds without a call before maintenance begins. */
const IDLE_MS = 100;
/** Milliseconds between maintenance runs on an idle thread. */
const PAUSE_MS = 1000;

let database: PredictionDatabase | undefined;
let timer: ReturnType<typeof setTimeout> | undefined;
/** Pieces for the next call of `write`. */
let pieces: Uint8Array[] = [];

const methods: { readonly [M in Method]: (argument: Argument<M>) => Result<M> } = {
  open(options) {
    database = PredictionDatabase.open(options);
    return { totals: database.totals, aside: database.aside };
  },
  write(batch) {
    const received = pieces;
    pieces = [];
    return opened().write(batch, received);
  },
  get: (id) => opened().get(id),
  sources: () => opened().sources(),
  takeOver: (selection) => opened().takeOver(selection),
  webhooks: () => opened().webhooks(),
  close() {
    opened().close();
    database = undefined;
  },
};

self.onmessage = ({ data }: MessageEvent<Call | Piece>) => {
  if (data.method === "piece") {
    pieces.push(data.piece);
    return;
  }
  const answered = answer(data);
  self.postMessage(answered, ownedBy(answered));
  if (data.method === "write") quietly(() => database?.checkLog());
  tendIn(IDLE_MS);
};

function answer<M extends Method>({ number, method, argument }: Call<M>): Answer<Result<M>> {
  try {
    return { number, result: methods[method](argument) };
  } catch (error) {
    if (database?.isDetached) self.postMessage({ totals: database.totals, isDetached: true } satisfies Tended);
    return { number, fault: databaseFault(error) };
  }
}

/** The buffer of a large value, whose ownership the answer passes on without a copy. */
function ownedBy({ result }: Answer): ArrayBuffer[] {
  const { members, body }: { members?: StoredText; body?: StoredText } = Object(result);
  const large = members ?? body;
  return large instanceof Uint8Array ? [large.buffer] : [];
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
  let delayMs = PAUSE_MS;
  quietly(() => {
    if (database === undefined) return;
    delayMs = database.tend() ? 0 : PAUSE_MS;
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
