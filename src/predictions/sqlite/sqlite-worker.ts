/** The thread of the database. */
import { answerCalls } from "../../machine/processes/called-thread.ts";
import { databaseFault } from "./database-fault.ts";
import { type DatabaseOptions, PredictionDatabase } from "./prediction-database.ts";
import type { Totals } from "./statements.ts";

export type DatabaseCalls = Pick<
  PredictionDatabase,
  "write" | "get" | "unfinished" | "request" | "webhooks" | "tend" | "close"
> & { open(options: DatabaseOptions): Totals };

let database: PredictionDatabase | undefined;

function opened(): PredictionDatabase {
  if (database === undefined) throw new Error("it is not open");
  return database;
}

answerCalls<DatabaseCalls>(
  {
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
  },
  databaseFault,
);
