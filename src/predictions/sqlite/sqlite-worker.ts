/** The thread of the database, so that the server's event loop never waits for a disk, lock or checkpoint. */
import { databaseFault } from "./database-fault.ts";
import { type DatabaseOptions, PredictionDatabase } from "./prediction-database.ts";
import type { Totals } from "./statements.ts";

declare const self: Worker;

export type Methods = Pick<
  PredictionDatabase,
  "write" | "get" | "unfinished" | "request" | "webhooks" | "tend" | "close"
> & { open(options: DatabaseOptions): Totals };
export type Method = keyof Methods;
export type Argument<M extends Method> = Parameters<Methods[M]>[0];
export type Result<M extends Method> = ReturnType<Methods[M]>;

type Call<M extends Method = Method> = {
  [K in M]: { readonly method: K; readonly argument: Argument<K> };
}[M];

/** The answer to the oldest call without an answer. */
export type Answer<R = unknown> =
  | { readonly result: R; readonly fault?: undefined }
  | { readonly result?: undefined; readonly fault: string };

let database: PredictionDatabase | undefined;

const methods: { readonly [M in Method]: (argument: Argument<M>) => Result<M> } = {
  open(options) {
    database = new PredictionDatabase(options);
    return database.totals;
  },
  write: (batch) => opened().write(batch),
  get: (id) => opened().get(id),
  unfinished: () => opened().unfinished(),
  request: (row) => opened().request(row),
  webhooks: () => opened().webhooks(),
  tend: () => opened().tend(),
  close() {
    opened().close();
    database = undefined;
  },
};

self.onmessage = ({ data }: MessageEvent<Call>) => self.postMessage(answer(data));

function answer<M extends Method>({ method, argument }: Call<M>): Answer<Result<M>> {
  try {
    return { result: methods[method](argument) };
  } catch (error) {
    return { fault: databaseFault(error) };
  }
}

function opened(): PredictionDatabase {
  if (database === undefined) throw new Error("it is not open");
  return database;
}
