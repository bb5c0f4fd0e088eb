/**
 * `bun prediction-child.ts PATH ROLE OWNER` stores predictions until a test kills it. It prints a line for each
 * stored and each ended prediction, so that the test can kill it at any point.
 */
import { lockDatabase } from "../../src/predictions/sqlite/server-database.ts";
import { SqliteStore } from "../../src/predictions/sqlite/sqlite-store.ts";
import { endOf, keepAll, largeEndOf, requestOf } from "./predictions.ts";

const [path = "", role = "", owner = ""] = process.argv.slice(2);
if (role === "main") await lockDatabase(path);
const store = await SqliteStore.open({ path, retention: keepAll });
process.stdout.write("open\n");

/**
 * Stores predictions one after another. Some have a large body or a large outcome.
 */
async function work(lane: number): Promise<void> {
  for (let index = 0; ; index++) {
    const id = `${owner}${lane}-${index}`;
    const body = index % 7 === 3 ? JSON.stringify([id, "y".repeat(100_000)]) : JSON.stringify([id]);
    await store.accept(requestOf(id, { body }));
    process.stdout.write(`created ${id}\n`);
    if (index % 5 === 4) continue;
    store.processing(id);
    if (index % 3 === 2) continue;
    store.finish(index % 11 === 6 ? largeEndOf(id, 100_000) : endOf(id), true);
    process.stdout.write(`ended ${id}\n`);
  }
}

await Promise.all(Array.from({ length: 8 }, (_, lane) => work(lane)));
