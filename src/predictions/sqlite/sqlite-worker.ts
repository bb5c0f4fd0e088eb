/** The thread of the database, so that the server's event loop never waits for a disk, lock or checkpoint. */
import { databaseFault } from "./database-fault.ts";
import { type Aside, type DatabaseOptions, PredictionDatabase } from "./prediction-database.ts";
import type { StoredText, Totals } from "./statements.ts";

declare const self: Worker;

export type Methods = Pick<PredictionDatabase, "write" | "get" | "unfinished" | "request" | "webhooks" | "close"> & {
  open(options: DatabaseOptions): { readonly totals: Totals; readonly aside: Aside | undefined };
};
export type Method = keyof Methods;
export type Argument<M extends Method> = Parameters<Methods[M]>[0];
export type Result<M extends Method> = ReturnType<Methods[M]>;

type Call<M extends Method = Method> = {
  [K in M]: { readonly method: K; readonly argument: Argument<K> };
}[M];

/** Message of the thread after maintenance. */
export interface Tended {
  readonly totals: Totals;
  /** Whether the file of the database was deleted or replaced. */
  readonly isDetached: boolean;
}

/** A message of the thread: the answer to the oldest call without an answer, or a report. */
export type Message<R = unknown> =
  | { readonly result: R; readonly fault?: undefined; readonly tended?: undefined }
  | { readonly result?: undefined; readonly fault: string; readonly tended?: undefined }
  | { readonly tended: Tended };

/** Milliseconds between runs of maintenance. */
const TEND_MS = 1000;

let database: PredictionDatabase | undefined;

const methods: { readonly [M in Method]: (argument: Argument<M>) => Result<M> } = {
  open(options) {
    database = PredictionDatabase.open(options);
    return { totals: database.totals, aside: database.aside };
  },
  write: (batch) => opened().write(batch),
  get: (id) => opened().get(id),
  unfinished: () => opened().unfinished(),
  request: (row) => opened().request(row),
  webhooks: () => opened().webhooks(),
  close() {
    opened().close();
    database = undefined;
  },
};

self.onmessage = ({ data }: MessageEvent<Call>) => {
  const answered = answer(data);
  self.postMessage(answered, ownedBy(answered));
};

setInterval(() => {
  if (database === undefined) return;
  try {
    database.tend();
  } catch {
    // Maintenance runs again later, and the next write reports a full disk.
  }
  report(database);
}, TEND_MS);

function answer<M extends Method>({ method, argument }: Call<M>): Message<Result<M>> {
  try {
    return { result: methods[method](argument) };
  } catch (error) {
    if (database?.isDetached) report(database);
    return { fault: databaseFault(error) };
  }
}

function report({ totals, isDetached }: PredictionDatabase): void {
  self.postMessage({ tended: { totals, isDetached } } satisfies Message);
}

/** The buffer of a large value, whose ownership the answer passes on without a copy. */
function ownedBy(message: object): ArrayBuffer[] {
  const { result }: { result?: unknown } = message;
  const { members, body }: { members?: StoredText; body?: StoredText } = Object(result);
  const large = members ?? body;
  return large instanceof Uint8Array ? [large.buffer] : [];
}

function opened(): PredictionDatabase {
  if (database === undefined) throw new Error("it is not open");
  return database;
}
