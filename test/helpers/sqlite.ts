/** Opens stores of predictions (SQLite) in the folder of a test. */
import { join } from "node:path";
import type { EndedRecord } from "../../src/predictions/record.ts";
import { type PredictionRequest, storedBody } from "../../src/predictions/request.ts";
import { checkDatabase, lockDatabase } from "../../src/predictions/sqlite/server-database.ts";
import { type SqliteOptions, SqliteStore } from "../../src/predictions/sqlite/sqlite-store.ts";
import type { Claimed, Claimer } from "../../src/predictions/store.ts";
import { keepAll, requestOf } from "./predictions.ts";

interface OpenOptions extends Partial<SqliteOptions> {
  /** `main`: the only front of a server, which locks the file and checks it for damage. `member`: another front. */
  readonly role?: "main" | "member";
}

/** Opens a store. The end of the scope closes it, unless the test has. */
export async function open(
  folder: { readonly path: string },
  { role = "main", ...options }: OpenOptions = {},
): Promise<SqliteStore & AsyncDisposable> {
  const path = join(folder.path, "predictions.db");
  using locked = new DisposableStack();
  if (role === "main") {
    locked.use(await lockDatabase(path));
    checkDatabase(path, true);
  }
  const store = await SqliteStore.open({ path, retention: keepAll, ...options });
  const lock = locked.move();
  const closed = store.close.bind(store);
  const close = () => closed().finally(() => lock.dispose());
  return Object.assign(store, { close, [Symbol.asyncDispose]: close });
}

/** Claims the unfinished requests of earlier processes. @param isOwn chooses the owners; default: all */
export function claim(store: SqliteStore, isOwn = (_owner: string) => true): AsyncIterable<Claimed> {
  const claimer: Claimer = {
    signal: new AbortController().signal,
    isActive: true,
    isTaken: ({ owner }) => isOwn(owner),
    room: () => Promise.resolve(0),
    lost() {},
    wanted() {},
  };
  return store.claim(claimer);
}

export type LeftRequest = Omit<PredictionRequest, "body"> &
  Pick<Claimed, "deaths" | "deadlineMs"> & { readonly body: ReturnType<typeof storedBody> };

/** Like `claim`, and loads the requests. */
export async function leftOf(store: SqliteStore, isOwn?: (owner: string) => boolean): Promise<LeftRequest[]> {
  const left: LeftRequest[] = [];
  for await (const { deaths, deadlineMs, load } of claim(store, isOwn)) {
    const request = await load();
    if (request !== undefined) left.push({ ...request, deaths, deadlineMs, body: storedBody(request) });
  }
  return left;
}

/** Stores the requests of predictions and then their outcomes, in order. Resolves before the outcomes are written. */
export async function endIn(store: SqliteStore, ...records: readonly EndedRecord[]): Promise<void> {
  await Promise.all(records.map(({ id }) => store.accept(requestOf(id))));
  for (const record of records) store.finish(record, true);
}
