/**
 * The server stores the outcome of a prediction before any client can see it. So after a kill no prediction gets a
 * second, other outcome.
 */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { eventsOf } from "./helpers/events.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { hold } from "./helpers/hold.ts";
import { until } from "./helpers/running.ts";
import { storeWith } from "./helpers/server.ts";

const dir = fixture(tempDir);
const gate = fixture(hold);
const store = fixture(() => storeWith("lab"));
const server = fixture(() => store.serve("lab", { store: dir.join("predictions.db"), allowPrivateUrls: true }));

/** Ids of the ended predictions in the database file, as the next process would read them. */
function kept(): ReadonlySet<unknown> {
  using database = new Database(dir.join("predictions.db"), { readonly: true });
  return new Set(
    database
      .query<{ id: string }, []>("SELECT id FROM ended")
      .all()
      .map(({ id }) => id),
  );
}

const ways: Readonly<Record<string, (id: string, end: () => void) => Promise<unknown>>> = {
  "waits for it": (id, end) => {
    const answer = server.client.end(id);
    end();
    return answer;
  },
  "cancels it": (id) => server.client.cancel(id),
  "reads it again and again": async (id, end) => {
    end();
    await until(async () => "finished_at" in (await server.client.read(id)));
  },
  "follows its events": async (id, end) => {
    for await (const { event } of eventsOf(await server.client.watch(id))) {
      if (event === "start") end();
      if (event === "completed") return;
    }
  },
};

test.each(Object.entries(ways))(
  "a client that %s sees only outcomes that the next process has, too",
  async (name, tell) => {
    for (let i = 0; i < 20; i++) {
      const gateName = `${name.replaceAll(" ", "-")}-${i}`;
      const { prediction_id: id } = await server.client.create([{ x: i, before: gate.url(gateName) }]);
      await tell(id, () => gate.release(gateName));
      expect(kept()).toContain(id);
    }
  },
);
